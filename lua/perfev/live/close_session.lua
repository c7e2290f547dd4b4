--- The end of a session: disables its events, delivers the rest, calls the `done` callbacks, closes everything.

local callback = require "perfev.live.callback"
local command = require "perfev.live.command"
local core = require "perfev.core"
local event_loop = require "perfev.live.event_loop"
local opened = require "perfev.event.open_event"
local options = require "perfev.base.options"
local recording = require "perfev.live.recording"
local targets = require "perfev.event.target"

local M = {}

--- After fork() the descriptors belong to the parent: the child can only close its copies.
M.FORKED = "session: it was started before fork(), and is the parent process's"

--- Makes os.exit() end the command and finish the recording with the records read so far.
-- The rings are not read again, because a callback may be running.
function M.watch_exit(session)
  local weak = setmetatable({ session }, { __mode = "v" })
  session.at_exit = core.at_exit(function()
    local s = weak[1]
    if not s or not s.core or s.finished or s:_is_forked() then return end
    s.core:disable()
    local ended, why = pcall(command.end_command, s)
    recording.finish(s)
    if not ended then error(why, 0) end
  end)
end

local SHOWN_RINGS = 8

-- Logs how full the rings were, the fullest first.
local function log_ring_peaks(session)
  local totals, shown = session.last_totals, {}
  local peaks = session.replay and {} or session.core:ring_peaks()
  table.sort(peaks, function(a, b) return a[2] > b[2] end)
  if #peaks == 0 or peaks[1][2] == 0 then return end -- nothing was written
  for i = 1, math.min(#peaks, SHOWN_RINGS) do
    local cpu, bytes = table.unpack(peaks[i])
    shown[i] = ("%s %d %%"):format(cpu >= 0 and "cpu " .. cpu or "thread", bytes * 100 // totals.ring_bytes)
  end
  if #peaks > SHOWN_RINGS then shown[SHOWN_RINGS + 1] = "the others less" end
  local moved = totals.moved_peak == 0 and ""
    or (";\n  up to %s of records waited in memory"):format(options.size_text(totals.moved_peak))
  session:_log(1, ("rings of %s at their fullest: %s%s"):format(options.size_text(totals.ring_bytes),
    table.concat(shown, ", "), moved))
end

--- Closes everything in reverse order.
function M.close_all(session)
  session.running, session.watching = false, false
  if session.at_exit then session.at_exit:cancel() end
  for _, c in ipairs(session.counters) do c:_finish() end
  if session.core then
    if not session:_is_forked() then
      command.end_command(session)
      session.last_totals = session.core:totals()
      log_ring_peaks(session)
      recording.finish(session)
    end
    session.core:close()
    if session.replay then session.replay.rec:close() end
    session.core, session.replay = nil, nil
    opened.undo(session.events)
  end
  session.finished = true
end

--- Disables all events. Before that, notes which CPUs went offline and came back without their events.
function M.disable_events(session)
  if session.target and not session.opts.cpus and options.is_cpu_wide(session.opts) then
    session.stalled = session.stalled or targets.stalled(session.target, session.core)
  end
  session.core:disable()
end

-- The rings are those of the CPUs that were online at the start.
local function report_cpu_changes(session)
  local changes = session.stalled and targets.changes(session.target, session.stalled) or {}
  for _, text in ipairs(changes) do session:_log(0, text) end
end

--- Disables the events, delivers the rest, calls the `done` callbacks, closes everything.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string|any  the failure of the run
function M.finish(session)
  if session.finished then return not session.failure, session.failure end
  if session.core and not session.closed and not session:_is_forked() then
    M.disable_events(session)
    if not session.cut then event_loop.deliver(session, "rest") end
    if not session.closed and not session:_is_forked() then session.core:dispatch("discard") end
  end
  if session:_is_forked() then
    M.close_all(session)
    return nil, M.FORKED
  end
  if session.core and not session.closed then
    report_cpu_changes(session)
    command.await_status(session)
  end
  local errors = session.errors
  for _, f in ipairs(session.closed and {} or session.on_done) do callback.call(session, "done", f) end
  session.unfinished = session.errors ~= errors -- the output of the run is missing or not complete
  M.close_all(session)
  if session.failure then return nil, session.failure end
  return true
end

return M
