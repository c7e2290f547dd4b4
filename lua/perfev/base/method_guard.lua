--- Methods that say so when they are called with a dot: s.run() in the place of s:run().

--- Guard methods; the guard's frame is gone when a method runs, so that its errors are at the caller's line.
-- @tparam table methods  by name
-- @tparam table class    the metatable of what they are called on
-- @tparam string what    that is, for the message: "session"
-- @tparam string name    which a variable of it usually has: "s"
-- @tparam string verbs   those to be guarded; not what is called for each sample
return function(methods, class, what, name, verbs)
  for verb in verbs:gmatch "[%w_]+" do
    local method = methods[verb]
    methods[verb] = function(self, ...)
      if getmetatable(self) ~= class then
        error(("%s: %s() is a method: %s:%s(), with a colon"):format(what, verb, name, verb), 2)
      end
      return method(self, ...)
    end
  end
end
