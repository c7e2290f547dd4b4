--- Refuses a method called with a dot instead of a colon: s.run() instead of s:run().

--- Wraps methods with a check of self. The method is a tail call, so that its errors name the caller's line.
-- @tparam table methods  by name
-- @tparam table class    the metatable of self
-- @tparam string what    the class's name in the message: "session"
-- @tparam string name    a usual variable name, for the message: "s"
-- @tparam string verbs   the names of the methods to wrap; not those called once per sample
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
