--- The recording that a session writes.

local M = {}

--- True if the records only go to the recording.
function M.is_recorded_only(session)
  if not session.recorder then return false end
  for _, ev in ipairs(session.events) do
    if next(ev.decl.callbacks) then return false end
  end
  return true
end

--- Starts the recording, if the session has the option `record`.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.start(session)
  if not session.opts.record then return true end
  local recorder, why, errno = require("perfev.perfdata.writer").start(session)
  session.recorder, session.record_errno = recorder, errno
  if not recorder then return nil, why, errno end
  if session.opts.count and M.is_recorded_only(session) then
    session:_log(0, "the count (-n) is of records that callbacks get, and no event has one: the recording goes on\n"
      .. "  try: a duration (-d)")
  end
  return true
end

--- Stops the session if the recording cannot be written.
function M.check_write(session, last)
  if not session.recorder or session.finished then return end
  local ok, why, code = session.recorder:check(last)
  if not ok then session.failure, session.record_errno, session.cut = session.failure or why, code, true end
end

--- Finishes the recording, or removes it if the session never counted.
function M.finish(session)
  if not session.recorder then return end
  if not session.begun then return session.recorder:abandon() end
  session.core:record_kept()
  local ok, why, code = session.recorder:finish()
  if not ok then session.failure, session.record_errno = session.failure or why, code end
  session.recorded = session.recorder:summary()
end

return M
