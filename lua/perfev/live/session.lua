--- A session: the targets, the events and counters, and the loop that delivers their records.
-- C (perfev.core) takes a record from the ring to its callback. This file has what happens once per session or once
-- per wakeup: opening, timers, signals, the command, the end.

local lazy = require "perfev.base.lazy_module"
local colon = require "perfev.base.method_guard"
local check = require "perfev.base.check"
local core = require "perfev.core"
local counter = lazy "perfev.counter.counter"
local event = require "perfev.event.declaration"
local explain = lazy "perfev.event.explain_refusal"
local opened = require "perfev.event.open_event"
local option_tables = require "perfev.base.option_tables"
local options = require "perfev.base.options"
local shortage = require "perfev.base.memory_shortage"
local pidns = lazy "perfev.event.pid_namespace"
local processes = require "perfev.event.processes"
local samples = require "perfev.record.callback_fields"
local shown = require "perfev.base.show_value"
local symbol = lazy "perfev.symbol"
local targets = require "perfev.event.target"
local units = require "perfev.base.parse_units"

local M = {}

local Session = {}
Session.__index = Session

local E = core.errno
-- The declaration of an event of the session's own, for the names of tasks and for the given record types.
local function tracker(asks)
  local spec = { comm = true, comm_exec = true, task = true }
  for _, field in ipairs(asks) do spec[field] = true end
  return { name = "dummy", spec = spec, callbacks = {}, asked = {} }
end

-- Used when no event of the user has the records of tasks' names.
local COMM_TRACKER = tracker {}
-- Used when addresses get names: what processes map.
local MAP_TRACKER = tracker { "mmap", "mmap2", "build_id", "ksymbol" }
-- Used for a recording: its maps name files by their inodes, as those of perf record do.
local RECORDING_TRACKER = tracker { "mmap", "mmap2", "ksymbol" }
-- Used for a recording that is unwound: perf also needs the maps that are not executable to find a file's start.
local UNWIND_TRACKER = tracker { "mmap", "mmap2", "mmap_data", "ksymbol" }
local CALLCHAIN, STACK_USER = 1 << 5, 1 << 13 -- PERF_SAMPLE_*

-- The kernel stops tracing across a set-uid exec.
local UNWATCHED = "%s goes on unwatched: what it has executed is set-uid, or this user may not read it, and "
  .. "there the kernel ends its events\n  try: as root (sudo perfl ... COMMAND, and not perfl ... sudo COMMAND)"

-- The time that a command may take to end after SIGTERM: steps, and the length of a step.
local GRACE_STEPS, GRACE_MS = 20, 50

--- A session of its own.
-- @tparam[opt] table opts  `pid`, `tid` (integer, list or "self"), `command` (list), `cpus` ("0-3,7", list
--   or "all"), `all_cpus` (watch the machine even with a command), `buffer` (bytes per CPU, "2M"),
--   `duration` ("10s"), `count` (records), `ordered` (default true), `clock` (default "monotonic"),
--   `strict` (default true: an error in a callback ends the run), `input` (path of a recording, "-" for
--   standard input: its records instead of the kernel's), `record` (path of a recording to be, "-" for standard
--   output: what is read from the kernel), `compress` (it: true or a zstd level), `switch_output` ("100M": a new
--   file at each), `max_bytes` ("256M": of memory for stacks, keys and their names; what does not fit is counted as
--   (other)). Without pid, tid, command and input the whole machine is watched.
-- @treturn session
function M.new(opts)
  local self = setmetatable({
    opts = options.take(opts == nil and {} or opts, {}, 3),
    events = {}, counters = {}, timers = {}, on_begin = {}, on_done = {}, signals = {},
    handlers = {}, reported = {}, delivered = 0, started = false, finished = false,
  }, Session)
  return self
end

--- Returns a session with the same options, not started and without events.
function Session:clone()
  local twin = M.new()
  for name, value in pairs(self.opts) do twin.opts[name] = value end
  twin._keep_going = self._keep_going
  return twin
end

local default

--- Returns the session that the module's verbs act on; the first call makes it.
function M.default()
  default = default or M.new()
  return default
end

--- Set by a runner: called once before the default session starts.
M.before_default_start = nil

-- Under a runner a counter without targets of its own belongs to the default session.
function counter.default_session() return M.before_default_start and M.default() end

--- Set by a runner: function() -> the tasks that its command line names (`pid`, `tid`, `uid`, `comm`, `command`), and
-- `all_cpus`, `input`; a session that is `of_machine` watches all, and its script selects (perfev.tool.chosen_tasks).
M.default_choice = nil

--- Set by a runner: function() -> ns of CPU time of ended children, in user space and in the kernel.
M.children_time = nil

--- Sets options of a session that has not started; as for `perfev.session`.
function Session:configure(opts)
  if self.started or self.finished then error("session: it has started already; configure() comes before", 2) end
  -- As a whole or not at all: what is refused has changed nothing.
  self.opts = options.take(opts, options.copy(self.opts), 3)
end

function Session:_log(level, text)
  if self.opts.log then self.opts.log(level, text) end
end

-- ---- errors in callbacks ----

-- `_keep_going` is set by a runner: f() -> true, or the reason to stop. Called once per wakeup.
function Session:_is_interrupted()
  return self._keep_going ~= nil and self._keep_going() ~= true
end

-- Counts the error of a callback and reports its first one. Returns true if the run must stop. `object`: the
-- traceback of a raised string, or the raised object.
local function handle_error(self, object, where, key)
  local trace = core.take_traceback()
  self.errors = (self.errors or 0) + 1
  shortage.any = shortage.any or shortage.is(object)
  if not self.reported[key] then
    self.reported[key] = true
    if self.opts.on_error then self.opts.on_error(object, where, type(object) ~= "string" and trace or nil) end
  end
  if self.opts.strict ~= false then
    self.failure = self.failure or object
    return true
  end
  -- After an interrupted callback no other one is called.
  return self:_is_interrupted()
end

local function protected(self, where, f, ...)
  local outer = self.in_callback
  self.in_callback = true
  local ok, result = core.protect(f, ...)
  self.in_callback = outer
  if ok then
    if result == false then self:stop() end
  elseif handle_error(self, result, where, f) then
    self:stop()
  end
end

-- After fork() the descriptors belong to the parent: the child can only close its copies.
local FORKED = "session: it was started before fork(), and is the parent process's"

local function is_forked(self)
  return self.process ~= nil and self.process ~= core.process()
end

-- The session's loop must not be entered from a callback.
local function refuse_recursion(self, verb)
  if is_forked(self) and not self.finished then error(FORKED, 3) end
  if self.in_callback or (self.core and self.core:dispatching()) then
    error(("session: %s() called from one of its callbacks"):format(verb), 3)
  end
  if self.looped and not self.finished then
    error(("session: %s() within a loop over its records, which are the loop's"):format(verb), 3)
  end
end

-- A session is used once.
local function refuse_ended(self, level)
  if self.finished then error("session: it has ended; make a new one", level + 1) end
end

local function refuse_closed(self)
  if not self.core then
    refuse_ended(self, 3)
    error("session: it is not open; start() it first", 3)
  end
end

-- True if there is no callback, and nothing would end the session.
local function would_wait_for_ever(self)
  local opts = self.opts
  return not self.started and M.is_idle(self) and options.is_cpu_wide(opts)
    and not (opts.command or opts.duration or opts.input or opts.watch or self._keep_going)
end

-- A loop over fields takes the records; there are no callbacks.
local function refuse_pulled(self, verb)
  if self.pulled and not self.finished then
    error(("session: %s() within a loop over its records' fields, which are the loop's"):format(verb), 3)
  end
end

-- ---- events ----

-- True if an event takes call chains or has `symbols`. Events that are opened at exec have no attr yet.
local function wants_maps(self)
  for _, ev in ipairs(self.events) do
    if ev.decl.spec.symbols or ev.decl.spec.callchain then return true end
  end
  for ev in opened.each(self.events) do
    if ev.attr.sample_type & CALLCHAIN ~= 0 then return true end
  end
  return false
end

-- The declaration of the event that follows tasks and their maps for a recording.
local function recorded_tracking(self)
  for ev in opened.each(self.events) do
    if ev.attr.sample_type & STACK_USER ~= 0 then return UNWIND_TRACKER end
  end
  return RECORDING_TRACKER
end

-- Opens the event that follows tasks, unless one of the user's has COMM, FORK and EXIT records. Maps and recordings
-- need an event of their own: it is enabled before /proc is read, so that no new task or map is missed.
local function open_tracking(self)
  local recorded = self.opts.record ~= nil
  if recorded or wants_maps(self) then
    self.maps = opened.new(self, recorded and recorded_tracking(self) or MAP_TRACKER, true)
    return opened.open(self.maps)
  end
  for ev in opened.each(self.events) do
    if ev.attr.comm and ev.attr.task then return true end
  end
  return opened.open(opened.new(self, COMM_TRACKER, true))
end

-- Reads the names of existing tasks from /proc. A recording has its own.
local function scan_tasks(self)
  if self.opts.input then return true end
  if self.maps and not self.maps.attr.enable_on_exec then
    local on, why, code = self.maps:enable()
    if not on then return nil, why, code end
  end
  if options.is_cpu_wide(self.opts) then
    self.core:scan(-1, self.maps ~= nil)
  else
    for _, pid in ipairs(self.target.pids) do self.core:scan(pid, self.maps ~= nil) end
  end
  return true
end

--- Declares an event. It is opened when the session starts, or at once if it runs.
-- @tparam table spec  [1] the event string; attr fields by the kernel's name; `freq`, `period`,
--   `callchain`, `filter`, `name`, `optional`; callbacks by record type
-- @treturn[1] event
-- @treturn[2] nil
-- @treturn[2] string  in three parts
-- @treturn[2] integer errno
function Session:event(spec)
  return Session._declare(self, spec, 2)
end

--- Pairs of events; see perfev.aggregate.span.
function Session:span(spec)
  return require("perfev.aggregate.span").new(self, spec, 2)
end

--- As `Session:event`; errors are raised at that level of the call stack.
function Session:_declare(spec, level)
  local decl = event.declare(spec, level + 1)
  if self.pulled then event.pull(decl, self.pulled) end
  refuse_ended(self, level)
  local ev = opened.new(self, decl)
  self.events[#self.events + 1] = ev
  if not self.core then return ev end
  local ok, why, code = opened.open(ev)
  if ok and self.recorder then self.recorder:add_events() end
  local waits = decl.spec.disabled or not self.running
  if ok and (ev.slot or ev.members) and not waits then ok, why, code = ev:enable() end
  if not ok then return nil, why, code end
  -- The first event with call chains: maps are followed from here on.
  if self.running and not self.opts.input and not self.maps and wants_maps(self) then
    ok, why, code = open_tracking(self)
    if not ok then return nil, why, code end
    scan_tasks(self)
  end
  return ev
end

--- Returns the number of declared events and counters.
function Session:declared()
  return #self.events + #self.counters
end

--- True if the session has no event, counter, timer or signal, and no `begin` or `done` callback.
function M.is_idle(s)
  return s:declared() + #s.timers + #s.on_begin + #s.on_done == 0 and not next(s.signals)
end

--- Returns the name of the first event if no event has a callback and there is no counter. Such a run would end with
-- "0 records", although the events happened.
function M.unheard(s)
  for _, ev in ipairs(s.events) do
    if next(ev.decl.callbacks) then return nil end
  end
  return #s.counters == 0 and s.events[1] and s.events[1].name or nil
end

--- Counts events of the session's targets, from its start to its end; as `perfev.counter`.
function Session:counter(spec) return counter.new(spec, false, 2, self) end
--- The same for a group; as `perfev.group`.
function Session:group(spec) return counter.new(spec, true, 2, self) end

-- ---- timers, signals, other descriptors ----

local function start_timer(self, timer)
  local fd, what, code = self.core:timer(timer.ns, timer.ns)
  if not fd then return nil, explain.refusal(what, code), code end
  self.handlers[fd] = function()
    if self.core:read(fd, 8) then protected(self, "every", timer.f) end
  end
  return true
end

-- struct signalfd_siginfo is 128 bytes (signalfd(2)): signo, errno, code, pid, uid, fd, ...
local SIGINFO = "=I4i4i4I4I4i4"

local function start_signal(self, number)
  local fd, what, code = self.core:signals(1 << (number - 1))
  if not fd then return nil, explain.refusal(what, code), code end
  self.handlers[fd] = function()
    local info = self.core:read(fd, 128)
    while info and #info == 128 do
      local _, _, reason, pid, _, from = string.unpack(SIGINFO, info)
      protected(self, "signal", self.signals[number], { number = number, code = reason, pid = pid, fd = from })
      info = self.core and self.core:read(fd, 128)
    end
  end
  return true
end

--- Calls f at this interval while the session runs.
-- @tparam string|number t  "500ms", "2s"; a number is seconds
-- @tparam function f       a return value of false stops the session
function Session:every(t, f)
  refuse_ended(self, 2)
  local ns, why = units.duration(t)
  if not ns or ns == 0 then error("every: " .. (why or "a time above 0 is needed"), 2) end
  if type(f) ~= "function" then error("every: a function expected, not a " .. type(f), 2) end
  local timer = { ns = ns, f = f }
  self.timers[#self.timers + 1] = timer
  if self.running then assert(start_timer(self, timer)) end
end

local function register(self, list, what, f)
  if type(f) ~= "function" then error(what .. ": a function expected, not a " .. type(f), 3) end
  refuse_ended(self, 3)
  table.insert(self[list], f)
end

--- Calls f once, when all events are open and before they are enabled.
function Session:begin(f)
  if self.begun then error("session: it has started already; what is to be called then is said before", 2) end
  register(self, "on_begin", "begin", f)
end

--- Calls f when the session has ended and all records are delivered.
function Session:done(f) register(self, "on_done", "done", f) end

--- Calls f when the signal arrives ("INT", "USR1", "RTMIN+3", ...) while the session runs.
-- @tparam string name
-- @tparam function f  gets { number =, code =, pid =, fd = } of its siginfo
function Session:signal(name, f)
  local number = options.signal(name, "signal", 2)
  if number == core.signals.KILL or number == core.signals.STOP then
    error(("signal: nobody can hear %s, it is the kernel's\n  try: TERM, or another"):format(name), 2)
  end
  if type(f) ~= "function" then error("signal: a function expected, not a " .. type(f), 2) end
  refuse_ended(self, 2)
  local is_new = not self.signals[number]
  self.signals[number] = f
  if is_new and self.watching then assert(start_signal(self, number)) end
end

-- Timers start when all events are enabled, and before the command runs: opening may take much of an interval.
local function start_timers(self)
  for _, timer in ipairs(self.timers) do
    local ok, why, code = start_timer(self, timer)
    if not ok then return nil, why, code end
  end
  return true
end

-- The duration is counted from the enabling: opening may take longer than the duration.
local function start_duration(self)
  if not self.opts.duration then return true end
  local fd, what, code = self.core:timer(self.opts.duration, 0)
  if not fd then return nil, explain.refusal(what, code), code end
  self.handlers[fd] = function() self.stopping = true end
  return true
end

local function poll_child(self)
  if not self.child or self.command_status then return end
  self.command_status = self.child:reap(false)
  if self.command_status then self.stopping = true end
end

local function start_watches(self)
  local steps = {}
  for number in pairs(self.signals) do steps[#steps + 1] = function() return start_signal(self, number) end end
  if self.opts.watch then
    steps[#steps + 1] = function()
      local fd, f = self.opts.watch[1], self.opts.watch[2]
      local ok, what, code, failed = self.core:watch(fd)
      if not ok then return nil, explain.refusal(what, code, failed), code end
      self.handlers[fd] = function() protected(self, "watch", f) end
      return true
    end
  end
  local pidfd = self.child and self.child:pidfd()
  if pidfd then
    steps[#steps + 1] = function()
      local ok, what, code, failed = self.core:watch(pidfd)
      if not ok then return nil, explain.refusal(what, code, failed), code end
      self.handlers[pidfd] = function() poll_child(self) end
      return true
    end
  end
  for _, step in ipairs(steps) do
    local ok, why, code = step()
    if not ok then return nil, why, code end
  end
  self.watching = true -- signals that are declared from here on start at once
  return true
end

-- Reports a target that still runs but has lost its events.
local function report_unwatched(self)
  if self.told_unwatched or self.opts.input then return end
  local function look(pid, name)
    if not targets.is_running(pid) then return end
    self.told_unwatched = true
    self:_log(0, UNWATCHED:format(name))
  end
  if self.child then look(self.child:pid(), "the command") end
  for _, pid in ipairs(self.opts.pid or self.opts.tid or {}) do look(pid, "process " .. pid) end
end

-- A task's events end with the task, before it can be waited for: do_exit() of the kernel. A task that executes a file
-- that is set-uid or not readable loses its events and continues (begin_new_exec()): a command is waited for.
local function is_over(self)
  if not self.core:over() then return false end
  if self.child and self.command_status then return true end
  report_unwatched(self)
  return not self.child
end

-- Takes the status of a command whose events have ended but which could not be waited for yet.
local function await_child(self)
  if not self.child or self.command_status or not self.core:over() then return end
  self.core:wait(GRACE_MS)
  poll_child(self)
end

-- ---- the life of a session ----

-- Logs what the core dropped, shrank or skipped. A ring smaller than the option `buffer` is always reported.
local function log_core_text(self, text, failed)
  local is_ring = failed and failed.operation == "map ring"
  self:_log(is_ring and self.opts.buffer and 0 or 1, is_ring and explain.smaller_ring(text, failed) or text)
end

-- The functions that the core calls while it delivers.
local function callback_handlers(self)
  return {
    max_bytes = (self.opts.max_bytes or options.MAX_BYTES) // 2,
    note = function(text, failed) log_core_text(self, text, failed) end,
    on_error = function(object, where, ev)
      return handle_error(self, object, ("%s of %s"):format(where, ev.name), ("%p %s"):format(ev, where))
    end,
  }
end

local function open_core(self)
  local opts = self.opts
  if opts.input then
    local recorded, why, errno = require("perfev.perfdata.replay").open(self, callback_handlers(self))
    self.core = recorded
    return recorded ~= nil, why, errno
  end
  local handlers = callback_handlers(self)
  self.exclude_pid = opts.exclude_self and options.is_cpu_wide(opts) and core.pid() or nil
  local s, what, code = core.session {
    ring_bytes = opts.buffer, clockid = opts.clock, unordered = opts.ordered == false,
    exclude_pid = self.exclude_pid, max_bytes = handlers.max_bytes, note = handlers.note,
    on_error = handlers.on_error,
  }
  if not s then return nil, explain.refusal(what, code), code end
  self.core = s
  for _, pattern in ipairs(options.selects_comm(opts) and processes.patterns(opts.comm) or {}) do
    what, code = select(2, s:want_comm(pattern))
    if what then return nil, what, code end
  end
  return true
end

local function open_events(self)
  if self.counters[1] and options.selects_comm(self.opts) then
    return nil, "counters of whole CPUs count every process, and cannot be limited to names\n"
      .. "  try: without all_cpus (perfl: -a), for the processes that run now, and their children", E.EINVAL
  end
  for _, ev in ipairs(self.events) do
    local ok, why, code = opened.open(ev)
    if not ok then return nil, why, code end
  end
  for _, c in ipairs(self.counters) do
    local ok, why, code = c:_open()
    if not ok then return nil, why, code end
  end
  if self.opts.input then return self.core:check() end
  return open_tracking(self)
end

-- Reads the names of tasks that started between the reading of /proc and the enabling of the events.
local function scan_new_tasks(self)
  if self.opts.input or self.maps then return end
  if options.is_cpu_wide(self.opts) then
    self.core:scan_new(-1)
  else
    for _, pid in ipairs(self.target.pids) do self.core:scan_new(pid) end
  end
end

-- True if the records only go to the recording.
local function is_recorded_only(self)
  if not self.recorder then return false end
  for _, ev in ipairs(self.events) do
    if next(ev.decl.callbacks) then return false end
  end
  return true
end

-- Removes all descriptors but the command's from the loop: they would end each wait for the command at once.
local function watch_child_alone(self)
  local pidfd = self.child:pidfd()
  for fd in pairs(self.handlers) do
    if fd ~= pidfd then self.core:unwatch(fd) end
  end
end

-- Ends the command, with SIGTERM and then with SIGKILL, and takes its status. A command that has not executed its
-- program yet still has our signal handlers, which would catch SIGTERM: it gets SIGKILL.
local function end_child(self)
  if not self.child then return end
  if self.exec_done and not self.command_status then
    watch_child_alone(self)
    self.child:kill(core.signals.TERM)
    self.child:kill(core.signals.CONT) -- a stopped process gets SIGTERM only when it continues
    for _ = 1, GRACE_STEPS do
      self.command_status = self.child:reap(false)
      if self.command_status then break end
      self.core:wait(GRACE_MS)
    end
  end
  if not self.command_status then
    self.child:kill(core.signals.KILL)
    self.command_status = self.child:reap(true)
  end
  self.child:close()
  self.child = nil
end

-- Finishes the recording, or removes it if the session never counted.
local function end_recording(self)
  if not self.recorder then return end
  if not self.begun then return self.recorder:abandon() end
  self.core:record_kept()
  local ok, why, code = self.recorder:finish()
  if not ok then self.failure, self.record_errno = self.failure or why, code end
  self.recorded = self.recorder:summary()
end

-- os.exit() ends the process without finish(): the command is ended, and the recording keeps what was read by then.
-- The rings are not read again, because a callback may be running.
local function watch_exit(self)
  local weak = setmetatable({ self }, { __mode = "v" })
  self.at_exit = core.at_exit(function()
    local s = weak[1]
    if not s or not s.core or s.finished or is_forked(s) then return end
    s.core:disable()
    local ended, why = pcall(end_child, s)
    end_recording(s)
    if not ended then error(why, 0) end
  end)
end

-- Closes everything, in reverse order.
local function close_all(self)
  self.running, self.watching = false, false
  if self.at_exit then self.at_exit:cancel() end
  for _, c in ipairs(self.counters) do c:_finish() end
  if self.core then
    if not is_forked(self) then
      end_child(self)
      self.last_totals = self.core:totals()
      end_recording(self)
    end
    self.core:close()
    self.core = nil
    opened.undo(self.events)
  end
  self.finished = true
end

-- Lets the command run. Events at addresses in its memory are opened after exec has laid it out and before its first
-- instruction.
local function release_child(self)
  local waiting = opened.wait_for_exec(self.events)
  local ok, what, code = self.child:release(waiting)
  if not ok then
    self.command_status = { exit = code == E.ENOENT and 127 or 126 }
    local why = explain.command(what, code, self.opts.command[1])
    if waiting and code == E.EPERM then
      why = why .. "\n  for its breakpoint it is stopped by ptrace(2): it is traced already, or may not be"
        .. "\n  try: without strace or a debugger around perfl, or -p once the command runs"
    end
    return nil, why, code
  end
  self.exec_done = true
  if not waiting then return true end
  ok, what, code = opened.open_at_exec(self.events)
  if not ok then return nil, what, code end
  if self.recorder then self.recorder:add_events() end
  ok, what, code = self.child:resume()
  if not ok then return nil, explain.command(what, code, self.opts.command[1]), code end
  return true
end

local function begin_counting(self)
  local scanned, wrong, failed = scan_tasks(self)
  if not scanned then return nil, wrong, failed end
  for _, f in ipairs(self.on_begin) do
    protected(self, "begin", f)
    if self.failure then return nil, self.failure end
    if self.closed then return nil, "session: closed while it was starting", E.ECANCELED end
  end
  if self.opts.record then
    local rec, why, errno = require("perfev.perfdata.writer").start(self)
    self.recorder, self.record_errno = rec, errno
    if not rec then return nil, why, errno end
    if self.opts.count and is_recorded_only(self) then
      self:_log(0, "the count (-n) is of records that callbacks get, and no event has one: the recording goes on\n"
        .. "  try: a duration (-d)")
    end
  end
  if self.child or self.recorder then watch_exit(self) end
  local ok, what, code = self.core:enable()
  if not ok then return nil, explain.refusal(what, code), code end
  for _, c in ipairs(self.counters) do
    ok, what, code = c:_start_counting()
    if not ok then return nil, what, code end
  end
  self.running = true -- timers that are declared from here on start at once
  scan_new_tasks(self)
  ok, what, code = start_timers(self)
  if not ok then return nil, what, code end
  if self.child then return release_child(self) end
  return true
end

-- Reports targets that are not watched, or not as they are: on a whole machine, tasks outside of our pid namespace have
-- the number of the idle task.
local function report_target(self)
  for _, pid in ipairs(self.target.ended or {}) do
    self:_log(0, ("there is no process %d (any more): the others are watched"):format(pid))
  end
  local is_told = self.opts.log and not self.opts.cgroup and options.is_cpu_wide(self.opts)
  if not is_told or pidns.is_initial() ~= false then return end
  self:_log(0, "in a pid namespace, as a container's, tasks outside of it are told as pid 0, which is the idle task; "
    .. "pids in tracepoints' fields are the machine's\n  try: the machine's namespace (docker run --pid=host)")
end

local function open_all(self)
  self.process = core.process()
  core.raise_nofile()
  local ok, why, code = open_core(self)
  if not ok then return nil, why, code end
  if not self.opts.input then
    self.target, why, code = targets.find(self, self.opts, "watch")
    if not self.target then return nil, why, code end
    report_target(self)
  end
  for _, step in ipairs { open_events, start_watches, begin_counting, start_duration } do
    ok, why, code = step(self)
    if not ok then return nil, why, code end
  end
  self.begun = true
  if self.opts.on_open then self.opts.on_open(self.maps ~= nil) end
  return true
end

--- Opens and enables everything, and lets the command run.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  in three parts; nothing stays open
-- @treturn[2] integer errno
function Session:start()
  refuse_ended(self, 2)
  if self.started then return true end
  if self == default and M.before_default_start then M.before_default_start(self) end
  self.started = true
  -- An error of the caller's functions, such as `log`, is passed on; everything that is open is closed first.
  local _ <close> = setmetatable({}, { __close = function(_, raised)
    if raised then close_all(self) end
  end })
  local ok, why, code = open_all(self)
  if not ok then
    close_all(self)
    return nil, why, code
  end
  return true
end

-- Calls the handlers of descriptors that are ready, after the records that came before them.
function Session:_call_handlers(...)
  for i = 1, select("#", ...) do
    local f = self.handlers[(select(i, ...))]
    if f and self.core then f() end
  end
end

local function records_left(self, max)
  local left = self.opts.count and self.opts.count - self.delivered
  if max and left then return math.min(max, left) end
  return max or left or 0
end

-- An error of the recording stops the session.
local function check_recorder(self, last)
  if not self.recorder or self.finished then return end
  local ok, why, code = self.recorder:check(last)
  if not ok then self.failure, self.record_errno, self.cut = self.failure or why, code, true end
end

-- Opens the files of newly sampled code, before their processes end.
local function keep_sampled_files(self)
  if self.opts.input or not self.core then return end
  if not self.keep then
    local core_session, list = self.core, {}
    local function parent_of(pid)
      local task = not self.closed and core_session:task(pid)
      return task and task.ppid
    end
    self.keep, self.kept = function(raw) return symbol._here():keep(raw, list, parent_of) end, list
  end
  self.core:sampled(self.keep, self.kept)
end

-- Delivers what the rings hold. Returns the number of records. Sets self.cut if a callback stopped the session.
local function deliver(self, drain, max)
  local n, stopped, code
  if is_recorded_only(self) then
    n, stopped, code = self.core:copy()
    n = n and 0
  else
    n, stopped, code = self.core:dispatch(drain, records_left(self, max))
    keep_sampled_files(self)
  end
  check_recorder(self, drain == "rest")
  if not n then
    self.failure, self.cut = explain.refusal(stopped, code), true
    return 0
  end
  self.delivered = self.delivered + n
  if self.wants_snapshot and not self.closed then
    self.wants_snapshot = false
    self:snapshot()
  end
  if stopped or (self.opts.count and self.delivered >= self.opts.count) then self.cut = true end
  return n
end

-- Waits, calls take_records if given, then calls the handlers of timers and other descriptors. Returns false if the
-- wait fails.
local function wait_and_handle(self, timeout_ms, take_records)
  local ready = table.pack(self.core:wait(timeout_ms))
  if ready.n == 3 and ready[1] == nil then
    self.failure = explain.refusal(ready[2], ready[3])
    return false
  end
  if take_records then take_records() end
  if self.closed or is_forked(self) then return true end
  self:_call_handlers(table.unpack(ready, 1, ready.n))
  if self.child and not self.child:pidfd() then poll_child(self) end
  return true
end

-- Waits and delivers once. Returns true while the session goes on.
local function deliver_once(self, timeout_ms, max)
  if not wait_and_handle(self, timeout_ms, function() deliver(self, "round", max) end) then return false end
  if self.closed or is_forked(self) then return false end
  if is_over(self) then self.stopping = true end
  local interrupted = self:_is_interrupted()
  return not (self.stopping or self.cut or interrupted)
end

-- Disables all events. Before that, notes which CPUs went offline and came back without their events.
local function disable_all(self)
  if self.target and not self.opts.cpus and options.is_cpu_wide(self.opts) then
    self.stalled = self.stalled or targets.stalled(self.target, self.core)
  end
  self.core:disable()
end

-- CPUs may have come and gone; the rings are those of the start.
local function report_cpu_changes(self)
  for _, text in ipairs(self.stalled and targets.changes(self.target, self.stalled) or {}) do self:_log(0, text) end
end

-- Disables, drains, calls the `done` callbacks, closes -> true | nil, message
local function finish(self)
  if self.finished then return not self.failure, self.failure end
  if self.core and not self.closed and not is_forked(self) then
    disable_all(self)
    if not self.cut then deliver(self, "rest") end
    if not self.closed and not is_forked(self) then self.core:dispatch("discard") end
  end
  if is_forked(self) then
    close_all(self)
    return nil, FORKED
  end
  if self.core and not self.closed then
    report_cpu_changes(self)
    await_child(self)
  end
  local errors = self.errors
  for _, f in ipairs(self.closed and {} or self.on_done) do protected(self, "done", f) end
  self.unfinished = self.errors ~= errors -- the output of the run is missing or not complete
  close_all(self)
  if self.failure then return nil, self.failure end
  return true
end

--- Starts the session if needed, delivers until it ends, closes it.
-- It ends when the command or all targets have ended, after the duration or the count, when a
-- callback returns false or `stop` is called.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  a failure to start, or of a callback when strict: its traceback, or the object it raised
-- @treturn[2] integer errno, for a failure to start
function Session:run()
  refuse_recursion(self, "run")
  refuse_ended(self, 2)
  if would_wait_for_ever(self) then
    error("session: nothing was declared, and nothing would end it\n  try: s:event{...} before s:run()", 2)
  end
  local ok, why, code = self:start()
  if not ok then return nil, why, code end
  if not self.stopping then
    while deliver_once(self, -1) do end
  end
  return finish(self)
end

--- Ends the session: after the callback that calls it, or at the next wakeup.
function Session:stop()
  self.stopping = true
  if self.core and self.core:dispatching() then
    self.cut = true
    self.core:halt()
  end
  return true
end

--- Closes at once, or when the callback that calls it returns. Nothing more is delivered, and `done` callbacks are not
-- called. Can be called twice.
function Session:close()
  if self.finished or self.closed then return end
  self.closed, self.stopping = true, true
  if self.core and self.core:dispatching() then
    self.core:halt()
    return
  end
  close_all(self)
end
Session.__close = Session.close

--- Returns a descriptor for an event loop: it is readable when dispatch() has something to do.
-- @treturn integer  closed by the session
function Session:fd()
  refuse_closed(self)
  return self.core:fd()
end

--- Delivers the available records without waiting, and runs timers and signals that are due.
-- @tparam[opt] integer max  the most records to deliver
-- @treturn[1] integer  records delivered
-- @treturn[1] boolean  true while the session goes on; false: it has ended and is closed
-- @treturn[2] nil
-- @treturn[2] string   what ended it
function Session:dispatch(max)
  if max ~= nil and not (type(max) == "number" and max >= 1 and math.tointeger(max)) then
    error(("dispatch: at most how many records is a whole number from 1 on, not %s"):format(shown(max)), 2)
  end
  refuse_recursion(self, "dispatch")
  if self.finished then return 0, false end
  refuse_closed(self)
  local before = self.delivered
  if deliver_once(self, 0, max) then
    local n = self.delivered - before
    -- The kernel does not signal records again that were left in a ring, and a recording has no descriptor.
    if self.opts.input or max and max > 0 and n >= max then self.core:again() end
    return n, true
  end
  local ok, why = finish(self)
  if not ok then return nil, why end
  return self.delivered - before, false
end

-- The option `count` also counts the records of a loop.
local function check_pulled_count(self)
  local count = self.opts.count
  if not count or not self.core or is_forked(self) then return end
  if self.core:totals().delivered >= count then self.cut = true end
end

-- Ends a round of a loop over records and starts the next one. Returns false at the session's end.
local function start_next_round(self, round)
  if self.finished then return false end
  check_pulled_count(self)
  self.core:finish()
  keep_sampled_files(self)
  check_recorder(self, round.last)
  if round.last then
    self.looped = false
    return false
  end
  if not wait_and_handle(self, -1) then
    self.cut = true
  elseif self.finished then
    return false
  end
  if is_over(self) or self.stopping or self.cut then
    disable_all(self)
    round.last = true
  end
  local heard = self.pulled and "" or "_all"
  self.core:begin(round.last and (self.cut and "discard" or "rest" .. heard) or "round" .. heard)
  return true
end

-- Starts a session whose loop takes these fields: its events ask the kernel for nothing else.
local function start_with_fields(self, names, level)
  self.pulled = samples.read(names, "records", level + 2)
  for _, ev in ipairs(self.core and {} or self.events) do event.pull(ev.decl, self.pulled) end
  local ok, why = self:start()
  if not ok then error(why, level + 1) end
  self.core:pull(self.pulled.names)
  local events = {}
  for ev in opened.each(self.events) do events[#events + 1] = ev end
  why = samples.check_pulled(self.pulled, events)
  if not why then return end
  self:close()
  error(why, level + 1)
end

--- Returns an iterator over the records of all declared events, instead of callbacks.
-- `for r in s:records() do` starts the session, and closes it at the end of the loop.
-- A record is valid until the next one.
-- Raises what would end `run` with nil.
-- @tparam ?table opts  `fields`: the names of the fields of samples that the loop gets, as a sample callback with
--   `fields` does; no other record is delivered. The first value is false instead of nil
function Session:records(opts)
  refuse_recursion(self, "records")
  refuse_ended(self, 2)
  opts = check.take("records", opts == nil and {} or opts, option_tables.session_records, 3)
  if opts.fields then
    start_with_fields(self, opts.fields, 2)
  else
    local ok, why = self:start()
    if not ok then error(why, 2) end
  end
  self.core:begin(self.pulled and "round" or "round_all")
  self.looped = true
  local guard = setmetatable({}, { __close = function(_, raised)
    self.looped = false
    -- Records after a break are dropped.
    if self.pulled and not self.finished then self.core:pull() end
    check_pulled_count(self)
    local done, failure = finish(self)
    if not done and not raised then error(failure, 0) end
  end })
  local round, count = {}, self.opts.count
  local function next_round() return start_next_round(self, round) and not self.finished end
  return self.core:puller(next_round, self.cut and 0 or count and math.max(count - self.delivered, 0)), nil, nil, guard
end

local function has_backward(self)
  for ev in opened.each(self.events) do
    if ev.attr and ev.attr.write_backward then return true end -- a recording's side-band records have none
  end
  return false
end

--- Delivers the records of backward rings to the callbacks, oldest first: of events with `write_backward`, which the
-- option `overwrite` sets for all. The kernel's output is paused meanwhile. The records stay in the rings: a later
-- snapshot delivers them again if they are not overwritten by then. A call from a record's callback takes effect after
-- the round.
-- @treturn[1] integer  records delivered; from a record's callback 0
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function Session:snapshot()
  refuse_pulled(self, "snapshot")
  refuse_closed(self)
  if not has_backward(self) then
    error("session: snapshot() needs an event with write_backward, or the session's option overwrite", 2)
  end
  if self.core:dispatching() then
    self.wants_snapshot = true
    return 0
  end
  local n, what, code = self.core:snapshot()
  if not n then return nil, explain.refusal(what, code), code end
  keep_sampled_files(self)
  self.delivered = self.delivered + n
  return n
end

--- Totals so far: `records` read, `delivered`, `lost`, `lost_own`, `lost_samples`, `late`, `malformed`, `corrupt`,
-- `unknown_id`, `throttled`, `unjoined`, `excluded`, `untold` (left out because a field of an event's `where`
-- was missing), `aux_bytes`, `aux_skipped`, `aux_truncated`, `callback_errors`, `wakeups`, `rings`, `ring_bytes`,
-- `beyond_memory` (stacks and keys that did not fit in `max_bytes` and are counted as (other)), `no_memory` (stacks
-- and keys for which there was no memory).
function Session:totals()
  local totals = self.core and self.core:totals() or self.last_totals
    or { records = 0, delivered = 0, lost = 0, lost_own = 0, lost_samples = 0, late = 0, malformed = 0, corrupt = 0,
         unknown_id = 0, throttled = 0, unjoined = 0, excluded = 0, untold = 0, aux_bytes = 0, aux_skipped = 0,
         aux_truncated = 0, wakeups = 0, rings = 0, ring_bytes = 0, beyond_memory = 0,
         no_memory = 0 }
  totals.callback_errors = self.errors or 0
  return totals
end

--- Returns a task, as it was at the last delivered record.
-- @tparam integer tid  a process's first thread has its pid
-- @treturn[1] table    `tid pid ppid comm exe start`: see doc/api/tasks.md
-- @treturn[2] nil      the task is unknown, or the session does not run
function Session:task(tid)
  if math.type(tid) ~= "integer" then error("task: the number of a thread", 2) end
  return self.core and self.core:task(tid)
end

-- For a recording: the bytes read, the file's size (0: a pipe), the records read. Else nil.
function Session:_progress()
  if self.core and self.opts.input then return self.core:how_far() end
end

local function target_text(opts)
  if opts.input then
    local wanted = require("perfev.perfdata.record_filter").describe(opts)
    return "the recording " .. (opts.input == "-" and "on standard input" or opts.input)
      .. (wanted ~= "" and ", of it " or "") .. wanted
  end
  if opts.cgroup then
    return ("cgroup %s on cpus %s"):format(opts.cgroup, opts.cpus and table.concat(opts.cpus, ",") or "online")
  end
  if options.selects_comm(opts) then return "all tasks named " .. opts.comm end
  if opts.uid or opts.comm then return "processes " .. processes.describe(opts) end
  if options.is_cpu_wide(opts) then
    return "all tasks on cpus " .. (opts.cpus and table.concat(opts.cpus, ",") or "online")
  end
  local parts = {}
  if opts.pid then parts[#parts + 1] = "pid " .. table.concat(opts.pid, ",") end
  if opts.tid then parts[#parts + 1] = "tid " .. table.concat(opts.tid, ",") end
  if opts.command then parts[#parts + 1] = "command " .. table.concat(opts.command, " ") end
  return table.concat(parts, ", ") .. (opts.cpus and " on cpus " .. table.concat(opts.cpus, ",") or "")
end

-- A group, a pattern or one event, as start() would open it.
local function plan_unit(lines, ev, unit, alone)
  if unit.grouped then lines[#lines + 1] = "group " .. unit.name end
  for _, built in ipairs(unit) do
    lines[#lines + 1] = "event " .. (alone and ev.name or built.name)
    for line in built.attr:dump():gmatch("[^\n]+") do lines[#lines + 1] = line end
    for _, text in ipairs(built.found.shown or {}) do lines[#lines + 1] = "  " .. text end
    if built.cpus and built.found.is_uncore then
      lines[#lines + 1] = "  on cpus  " .. table.concat(built.cpus, ",")
    end
  end
end

--- Returns what start() would open, as lines of text, and whether all required events exist. Opens nothing.
function Session:plan()
  local lines, sound = { "target: " .. target_text(self.opts) }, true
  for _, ev in ipairs(self.events) do
    -- The events of a recording need not exist on this machine.
    local there, why = nil, "as it was recorded"
    if not self.opts.input then
      there, why = event.builds(ev.decl, self.opts.events)
      sound = sound and (there ~= nil or ev.decl.spec.optional == true)
    end
    if not there then
      lines[#lines + 1] = "event " .. ev.name
      for line in why:gmatch("[^\n]+") do lines[#lines + 1] = "  " .. line end
    end
    local planned = there and there[1] or {}
    for _, unit in ipairs(planned) do plan_unit(lines, ev, unit, #planned == 1 and #unit == 1) end
    if there and ev.decl.spec.filter then lines[#lines + 1] = "  filter  " .. ev.decl.spec.filter end
    local first = there and there[1][1][1]
    local condition = first and event.condition(ev.decl, first)
    if condition then lines[#lines + 1] = "  where, in the kernel  " .. condition end
    local names = {}
    for name in pairs(ev.decl.callbacks) do names[#names + 1] = name end
    table.sort(names)
    if #names > 0 then lines[#lines + 1] = "  callbacks  " .. table.concat(names, " ") end
  end
  for _, c in ipairs(self.counters) do lines[#lines + 1] = tostring(c) end
  return lines, sound
end

colon(Session, Session, "session", "s", [[event span counter group clone every begin done signal start run stop
  close fd dispatch records snapshot totals task configure declared plan]])

return M
