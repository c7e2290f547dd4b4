--- The start of a session: opens its events and counters, enables them, and lets the command run.

local callback = require "perfev.live.callback"
local close_session = require "perfev.live.close_session"
local command = require "perfev.live.command"
local core = require "perfev.core"
local event_loop = require "perfev.live.event_loop"
local lazy = require "perfev.base.lazy_module"
local opened = require "perfev.event.open_event"
local options = require "perfev.base.options"
local processes = lazy "perfev.event.processes"
local recording = require "perfev.live.recording"
local ring_memory = require "perfev.live.ring_memory"
local targets = require "perfev.event.target"
local track_tasks = require "perfev.live.track_tasks"

local explain = lazy "perfev.event.explain_refusal"
local pidns = lazy "perfev.event.pid_namespace"

local M = {}

local E = core.errno

-- Logs what the core dropped, shrank or skipped. A ring smaller than the option `buffer` is always reported.
local function log_core_text(session, text, failed)
  local is_ring = failed and failed.operation == "map ring"
  session:_log(is_ring and session.opts.buffer and 0 or 1, is_ring and explain.smaller_ring(text, failed) or text)
end

-- The functions that the core calls while it delivers.
local function core_handlers(session)
  return {
    max_bytes = (session.opts.max_bytes or options.MAX_BYTES) // 2,
    note = function(text, failed) log_core_text(session, text, failed) end,
    on_error = function(object, what, ev)
      return callback.report_error(session, object, ("%s of %s"):format(what, ev.name), ("%p %s"):format(ev, what))
    end,
  }
end

-- True if no function, recording or snapshot takes records.
local function keeps_up(session)
  local opts = session.opts
  return not (opts.record or opts.overwrite or session.pulled or opened.has_function(session))
end

-- Returns the size of the session's rings, and of the records that may wait in memory.
local function buffer_sizes(session)
  local opts, memory = session.opts, ring_memory.memory()
  local bytes, waiting = opts.buffer, opts.max_bytes and opts.max_bytes // 2 or options.WAITING_BYTES
  if not bytes and session.events[1] then
    local online, why = core.cpus() or {}
    local rings = #(opts.cpus or online)
    bytes, why = ring_memory.default_ring(rings, #online, memory, keeps_up(session), session.ring_most)
    if why then session:_log(1, ("rings of %s on %d CPUs: %s"):format(options.size_text(bytes), rings, why)) end
  end
  return bytes, waiting or ring_memory.default_waiting(memory)
end

local function open_core(session)
  local opts = session.opts
  if opts.input then
    local recorded, why, errno = require("perfev.perfdata.recorded_events").open(session, core_handlers(session))
    if not recorded then return nil, why, errno end
    session.replay, session.core = recorded, recorded.core
    return true
  end
  local handlers, bytes, waiting = core_handlers(session), buffer_sizes(session)
  session.exclude_pid = opts.exclude_self and options.is_cpu_wide(opts) and core.pid() or nil
  local live, what, code = core.session {
    ring_bytes = bytes, max_lifted = waiting, clockid = opts.clock, unordered = opts.ordered == false,
    exclude_pid = session.exclude_pid, max_bytes = handlers.max_bytes, note = handlers.note,
    on_error = handlers.on_error,
    wanted = { comms = options.selects_comm(opts) and processes.patterns(opts.comm) or nil },
  }
  if not live then return nil, explain.refusal(what, code), code end
  live:know("wall_offsets", options.wall_offsets())
  session.core = live
  return true
end

local function open_events(session)
  if session.counters[1] and options.selects_comm(session.opts) then
    return nil, "counters of whole CPUs count every process, and cannot be limited to names\n"
      .. "  try: without all_cpus (perfl: -a), for the processes that run now, and their children", E.EINVAL
  end
  for _, ev in ipairs(session.events) do
    local ok, why, code = opened.open(ev)
    if not ok then return nil, why, code end
  end
  for _, c in ipairs(session.counters) do
    local ok, why, code = c:_open()
    if not ok then return nil, why, code end
  end
  if session.replay then return session.replay:check() end
  return track_tasks.open_event(session)
end

-- Begins a new file of the recording at each interval or signal, if the option switch_output says so.
local function start_switching(session)
  local when = session.recorder and session.opts.switch_output or {}
  local function switch() session.recorder:switch() end
  if when.ns then
    session.timers[#session.timers + 1] = { ns = when.ns, what = "switch_output", f = switch }
  elseif when.by_signal then
    if session.signals[core.signals.USR2] then
      return nil, "switch_output \"signal\" and signal(\"USR2\") at once\n  both need the signal\n"
        .. "  try: a size or a time for switch_output", E.EINVAL
    end
    session:signal("USR2", switch)
  end
  return true
end

local function begin_counting(session)
  local scanned, wrong, failed = track_tasks.scan_tasks(session)
  if not scanned then return nil, wrong, failed end
  for _, f in ipairs(session.on_begin) do
    callback.call(session, "begin", f)
    if session.failure then return nil, session.failure end
    if session.closed then return nil, "session: closed while it was starting", E.ECANCELED end
  end
  local started, reason, errno = recording.start(session)
  if not started then return nil, reason, errno end
  started, reason, errno = start_switching(session)
  if not started then return nil, reason, errno end
  if session.child or session.recorder then close_session.watch_exit(session) end
  local ok, what, code = session.core:enable()
  if not ok then return nil, explain.refusal(what, code), code end
  for _, c in ipairs(session.counters) do
    ok, what, code = c:_start_counting()
    if not ok then return nil, what, code end
  end
  session.running = true -- timers that are declared from here on start at once
  track_tasks.scan_new_tasks(session)
  ok, what, code = event_loop.start_timers(session)
  if not ok then return nil, what, code end
  if session.child then return command.release_command(session) end
  return true
end

-- Reports targets that have ended, and a pid namespace: there, tasks outside the namespace have the number of the idle
-- task.
local function report_target(session)
  for _, pid in ipairs(session.target.ended or {}) do
    session:_log(0, ("process %d does not exist (any more): the others are watched"):format(pid))
  end
  local is_logged = session.opts.log and not session.opts.cgroup and options.is_cpu_wide(session.opts)
  if not is_logged or pidns.is_initial() ~= false then return end
  session:_log(0, "in a pid namespace, as in a container, tasks outside it have pid 0, which is the idle task; "
    .. "pids in tracepoints' fields are the machine's\n  try: the machine's namespace (docker run --pid=host)")
end

--- Opens the session and starts to count.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.open(session)
  session.process = core.process()
  core.raise_nofile()
  local ok, why, code = open_core(session)
  if not ok then return nil, why, code end
  if not session.opts.input then
    session.target, why, code = targets.find(session, session.opts, "watch")
    if not session.target then return nil, why, code end
    report_target(session)
  end
  for _, step in ipairs { open_events, event_loop.start_watches, begin_counting, event_loop.start_duration } do
    ok, why, code = step(session)
    if not ok then return nil, why, code end
  end
  session.begun = true
  if session.opts.on_open then session.opts.on_open(session.maps ~= nil) end
  return true
end

return M
