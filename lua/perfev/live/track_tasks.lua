--- The event of a session's own that follows tasks and their maps, and the tasks that exist at the start.

local event = require "perfev.event.declaration"
local explain = require "perfev.base.lazy_module" "perfev.event.explain_refusal"
local opened = require "perfev.event.open_event"
local options = require "perfev.base.options"

local M = {}

local CALLCHAIN, STACK_USER, DATA_SRC = 1 << 5, 1 << 13, 1 << 15 -- PERF_SAMPLE_*

-- Returns the declaration of an event with the names, starts and ends of tasks, and with more record types.
local function declare_tracker(fields)
  local spec = { comm = true, comm_exec = true, task = true }
  for _, field in ipairs(fields) do spec[field] = true end
  return { name = "dummy", spec = spec, callbacks = {}, asked = {} }
end

-- Used if no event of the user has records of the names of tasks.
local COMM_TRACKER = declare_tracker {}
-- Used if addresses get names: the maps of processes too.
local MAP_TRACKER = declare_tracker { "mmap", "mmap2", "build_id", "ksymbol" }
-- Used for a recording, also of a snapshot: its maps identify files by inode, as those of perf record.
local RECORDING_TRACKER = declare_tracker { "mmap", "mmap2", "ksymbol" }
-- Used for a recording that is unwound, for which perf needs a file's start, and for one of data addresses: also the
-- maps that are not executable.
local DATA_TRACKER = declare_tracker { "mmap", "mmap2", "mmap_data", "ksymbol" }

-- True if a snapshot may be recorded: the kernel overwrites an event's records.
local function keeps_last_records(session)
  if session.opts.overwrite then return true end
  for _, ev in ipairs(session.events) do
    if ev.decl.spec.write_backward then return true end
  end
  for ev in opened.each(session.events) do
    if ev.attr.write_backward then return true end -- an event string can set it
  end
  return false
end

--- True if an event takes call chains or has `symbols`, or its records are overwritten. Events that are opened at exec
-- have no attr yet.
function M.wants_maps(session)
  if keeps_last_records(session) then return true end
  for _, ev in ipairs(session.events) do
    if ev.decl.spec.symbols or ev.decl.spec.callchain then return true end
  end
  for ev in opened.each(session.events) do
    if ev.attr.sample_type & CALLCHAIN ~= 0 then return true end
  end
  return false
end

-- The declaration of the event that follows tasks and their maps for a recording.
local function tracker_of_recording(session)
  for ev in opened.each(session.events) do
    if ev.attr.sample_type & (STACK_USER | DATA_SRC) ~= 0 then return DATA_TRACKER end
  end
  return RECORDING_TRACKER
end

--- True if a callback, a loop or the selection of tasks may read names of tasks.
function M.wants_names(session)
  if session.takes_views or options.selects_comm(session.opts) then return true end
  for _, ev in ipairs(session.events) do
    if event.needs_names(ev.decl) then return true end
  end
  return false
end

-- Tasks that end are known by the end of their rings.
local function needs_ring(session)
  return not options.is_cpu_wide(session.opts) and session.core:totals().rings == 0
end

--- From here on, keeps what the recordings of snapshots need to name tasks, if there may be snapshots.
function M.keep_history(session)
  if not session.maps or session.keeps_history or not keeps_last_records(session) then return true end
  local held = not session.running and session.child and session.child:pid() or nil
  local ok, why, code = session.core:keep_tasks(session.maps.slot, session.maps.ids[1], held)
  if not ok then return nil, explain.refusal(why, code), code end
  session.keeps_history = true
  return true
end

--- Opens the event that follows tasks if something needs it, unless one of the user's has COMM, FORK and EXIT records.
-- Maps and recordings need an event of their own: it is enabled before /proc is read, so that no new task or map is
-- missed.
function M.open_event(session)
  local recorded = session.opts.record ~= nil or keeps_last_records(session)
  session.follows_tasks = recorded or M.wants_maps(session) or M.wants_names(session)
  if not (session.follows_tasks or needs_ring(session)) then return true end
  if recorded or M.wants_maps(session) then
    session.maps = opened.new(session, recorded and tracker_of_recording(session) or MAP_TRACKER, true)
    return opened.open(session.maps)
  end
  for ev in opened.each(session.events) do
    if ev.attr.comm and ev.attr.task then return true end
  end
  return opened.open(opened.new(session, COMM_TRACKER, true))
end

--- Reads the names of existing tasks from /proc. A recording has its own.
function M.scan_tasks(session)
  if session.opts.input or not session.follows_tasks then return true end
  if session.maps and not session.maps.attr.enable_on_exec then
    local on, why, code = session.maps:enable()
    if not on then return nil, explain.refusal(why, code), code end
  end
  if options.is_cpu_wide(session.opts) then
    session.core:scan(-1, session.maps ~= nil)
  else
    for _, pid in ipairs(session.target.pids) do session.core:scan(pid, session.maps ~= nil) end
  end
  return M.keep_history(session)
end

--- Reads the names of tasks that started between the reading of /proc and the enabling of the events.
function M.scan_new_tasks(session)
  if session.opts.input or session.maps or not session.follows_tasks then return end
  if options.is_cpu_wide(session.opts) then
    session.core:scan_new(-1)
  else
    for _, pid in ipairs(session.target.pids) do session.core:scan_new(pid) end
  end
end

--- Follows tasks from here on, if the session is open and does not.
function M.follow_tasks(session)
  if session.follows_tasks ~= false then return true end
  session.follows_tasks = true
  local tracker = opened.new(session, COMM_TRACKER, true)
  local ok, why, code = opened.open(tracker)
  if ok and not tracker.attr.enable_on_exec then ok, why, code = tracker:enable() end
  if not ok then return nil, why, code end
  return M.scan_tasks(session)
end

return M
