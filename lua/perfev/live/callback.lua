--- Calls the functions of the user that belong to a session, and counts and reports their errors.

local core = require "perfev.core"
local shortage = require "perfev.base.memory_shortage"

local M = {}

local LONG = 10 -- times the limit of CPU time: reports are printed here (perfl --sandbox)

--- Counts the error of a callback and reports its first one. Returns true if the run must stop. `object`: the
-- traceback of a raised string, or the raised object.
function M.report_error(session, object, what, key)
  local trace = core.take_traceback()
  session.errors = (session.errors or 0) + 1
  shortage.any = shortage.any or shortage.is(object)
  if not session.reported[key] then
    session.reported[key] = true
    if session.opts.on_error then session.opts.on_error(object, what, type(object) ~= "string" and trace or nil) end
  end
  if session.opts.strict ~= false then
    session.failure = session.failure or object
    return true
  end
  -- After an interrupted callback no other one is called.
  return session:_is_interrupted()
end

--- Calls a timer, a signal handler or a function of `begin` or `done`. The session stops if it returns false, or fails
-- and the session is strict.
-- @tparam session session
-- @tparam string what  for the message of an error: "every", "signal", ...
-- @tparam function f   called with the other arguments
function M.call(session, what, f, ...)
  local outer = session.in_callback
  session.in_callback = true
  local limit = core.limit_enter(LONG)
  local ok, result = core.protect(f, ...)
  core.limit_leave(limit)
  session.in_callback = outer
  if ok then
    if result == false then session:stop() end
  elseif M.report_error(session, result, what, f) then
    session:stop()
  end
end

return M
