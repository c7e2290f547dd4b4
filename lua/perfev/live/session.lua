--- A session: what is watched, and the loop that delivers it.
-- The records' way from ring to callback is C (perfev.core); here is what happens once per
-- session or once per wakeup: targets, opening, timers, signals, the command, the end.

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
-- An event of the session's own, which tells the names of tasks, and what else is asked for.
local function tracker(asks)
  local spec = { comm = true, comm_exec = true, task = true }
  for _, field in ipairs(asks) do spec[field] = true end
  return { name = "dummy", spec = spec, callbacks = {}, asked = {} }
end

-- When no event of the user's tells them.
local DUMMY = tracker {}
-- For who asks where an address is: what processes map.
local MAPS = tracker { "mmap", "mmap2", "build_id", "ksymbol" }
-- For a recording: its maps tell of files by their inodes, as perf record's do.
local RECORDED = tracker { "mmap", "mmap2", "ksymbol" }
-- The same to unwind by: perf finds where a file begins by those of its maps that are not run, too.
local UNWOUND = tracker { "mmap", "mmap2", "mmap_data", "ksymbol" }
local CALLCHAIN, STACK_USER = 1 << 5, 1 << 13 -- PERF_SAMPLE_*

-- Who may run a program with other rights than his own is not to look into it.
local UNWATCHED = "%s goes on unwatched: what it has executed is set-uid, or this user may not read it, and "
  .. "there the kernel ends its events\n  try: as root (sudo perfl ... COMMAND, and not perfl ... sudo COMMAND)"

-- How long a command of ours may take to end when it is asked to, in steps.
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

--- A session of the same options, that has not started and has no events.
function Session:clone()
  local twin = M.new()
  for name, value in pairs(self.opts) do twin.opts[name] = value end
  twin._keep_going = self._keep_going
  return twin
end

local default

--- The session that the module's verbs act on, made when first asked for.
function M.default()
  default = default or M.new()
  return default
end

--- Called once before the default session starts; the runner's way to come in between.
M.before_default_start = nil

-- Under a runner a counter without targets of its own belongs to the default session.
function counter.default_session() return M.before_default_start and M.default() end

--- Set by a runner: function() -> the tasks that its command line names (`pid`, `tid`, `uid`, `comm`, `command`), and
-- `all_cpus`, `input`; a session that is `of_machine` watches all, and its script selects (perfev.tool.chosen_tasks).
M.default_choice = nil

--- Set options of a session that has not started; as for `perfev.session`.
function Session:configure(opts)
  if self.started or self.finished then error("session: it has started already; configure() comes before", 2) end
  -- As a whole or not at all: what is refused has changed nothing.
  self.opts = options.take(opts, options.copy(self.opts), 3)
end

function Session:_log(level, text)
  if self.opts.log then self.opts.log(level, text) end
end

-- ---- errors in callbacks ----

-- The runner's check, once per wakeup: `_keep_going`, f() -> true, or why not.
function Session:_is_interrupted()
  return self._keep_going ~= nil and self._keep_going() ~= true
end

-- object: a text with its traceback, or whatever else was raised -> true when the run is to stop
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
  -- An interrupted callback is not to be followed by another one.
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

-- In a forked process what is open is the parent's: it can be let go of, and no more.
local FORKED = "session: it was started before fork(), and is the parent process's"

local function is_forked(self)
  return self.process ~= nil and self.process ~= core.process()
end

-- A session's own loop is not entered again from what it calls.
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

-- Nobody hears anything, and neither a target's end nor anybody else's word is waited for.
local function would_wait_for_ever(self)
  local opts = self.opts
  return not self.started and M.is_idle(self) and options.is_cpu_wide(opts)
    and not (opts.command or opts.duration or opts.input or opts.watch or self._keep_going)
end

-- What would go to callbacks has none.
local function refuse_pulled(self, verb)
  if self.pulled and not self.finished then
    error(("session: %s() within a loop over its records' fields, which are the loop's"):format(verb), 3)
  end
end

-- ---- events ----

-- Addresses are given names where a call chain is taken, or somebody said so; some events are opened at exec only.
local function wants_maps(self)
  for _, ev in ipairs(self.events) do
    if ev.decl.spec.symbols or ev.decl.spec.callchain then return true end
  end
  for ev in opened.each(self.events) do
    if ev.attr.sample_type & CALLCHAIN ~= 0 then return true end
  end
  return false
end

-- What follows tasks and their maps for a recording.
local function recorded_tracking(self)
  for ev in opened.each(self.events) do
    if ev.attr.sample_type & STACK_USER ~= 0 then return UNWOUND end
  end
  return RECORDED
end

-- The names of tasks need somebody's COMM, FORK and EXIT records. Maps, and what is recorded, have an event of
-- their own, which is on before /proc is read: who begins meanwhile, and what is mapped, is told of.
local function open_tracking(self)
  local recorded = self.opts.record ~= nil
  if recorded or wants_maps(self) then
    self.maps = opened.new(self, recorded and recorded_tracking(self) or MAPS, true)
    return opened.open(self.maps)
  end
  for ev in opened.each(self.events) do
    if ev.attr.comm and ev.attr.task then return true end
  end
  return opened.open(opened.new(self, DUMMY, true))
end

-- Names of tasks that were there before; a recording tells of its own.
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

--- Declare an event; opened when the session starts, or at once when it runs.
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

--- As `Session:event`; an error is raised at that level of the call stack.
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
  -- The first that takes call chains: what is mapped is followed from here on.
  if self.running and not self.opts.input and not self.maps and wants_maps(self) then
    ok, why, code = open_tracking(self)
    if not ok then return nil, why, code end
    scan_tasks(self)
  end
  return ev
end

--- How many events and counters were declared.
function Session:declared()
  return #self.events + #self.counters
end

--- Whether there is nothing to run it for: no event, no counter, no timer, no signal, and no call at either end.
function M.is_idle(s)
  return s:declared() + #s.timers + #s.on_begin + #s.on_done == 0 and not next(s.signals)
end

--- The name of its first event, where none has a callback and nothing counts: it would end in "0 records", which is
-- not what happened.
function M.unheard(s)
  for _, ev in ipairs(s.events) do
    if next(ev.decl.callbacks) then return nil end
  end
  return #s.counters == 0 and s.events[1] and s.events[1].name or nil
end

--- Count what the session watches, from its start to its end; as `perfev.counter`.
function Session:counter(spec) return counter.new(spec, false, 2, self) end
--- The same as a group; as `perfev.group`.
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

--- Call f every so often while the session runs.
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

--- Call f once everything is armed, before anything counts.
function Session:begin(f)
  if self.begun then error("session: it has started already; what is to be called then is said before", 2) end
  register(self, "on_begin", "begin", f)
end

--- Call f when the session has ended, all records delivered.
function Session:done(f) register(self, "on_done", "done", f) end

--- Call f when the signal arrives ("INT", "USR1", "RTMIN+3", ...) while the session runs.
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

-- Where all is enabled and the command is held still: what there is to do before may take much of an interval.
local function start_timers(self)
  for _, timer in ipairs(self.timers) do
    local ok, why, code = start_timer(self, timer)
    if not ok then return nil, why, code end
  end
  return true
end

-- Once all is enabled: what there is to do before may take longer than that.
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
  self.watching = true -- signals that are declared from here on begin at once
  return true
end

-- Who runs on, and is not to be seen.
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

-- A task's events end with it, and before it can be waited for: do_exit() of the kernel. But what executes a file
-- that is set-uid, or that it may not read, loses them and goes on (begin_new_exec()): a command is stayed with.
local function is_over(self)
  if not self.core:over() then return false end
  if self.child and self.command_status then return true end
  report_unwatched(self)
  return not self.child
end

-- What has ended, and is not to be waited for yet.
local function await_child(self)
  if not self.child or self.command_status or not self.core:over() then return end
  self.core:wait(GRACE_MS)
  poll_child(self)
end

-- ---- the life of a session ----

-- What the core dropped, shrank or skipped. A ring's size that was asked for is not shrunk in silence.
local function log_core_text(self, text, failed)
  local is_ring = failed and failed.operation == "map ring"
  self:_log(is_ring and self.opts.buffer and 0 or 1, is_ring and explain.smaller_ring(text, failed) or text)
end

-- What the core tells of while it delivers.
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
      .. "  try: without all_cpus (perfl: -a), for the processes that run now, and what they fork", E.EINVAL
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

-- Who began before our own records told of it, and after /proc was read.
local function scan_new_tasks(self)
  if self.opts.input or self.maps then return end
  if options.is_cpu_wide(self.opts) then
    self.core:scan_new(-1)
  else
    for _, pid in ipairs(self.target.pids) do self.core:scan_new(pid) end
  end
end

-- Whether the recording is all that the records are for.
local function is_recorded_only(self)
  if not self.recorder then return false end
  for _, ev in ipairs(self.events) do
    if next(ev.decl.callbacks) then return false end
  end
  return true
end

-- Timers and the like, which nobody sees to any more, would end each wait for the command's end at once.
local function watch_child_alone(self)
  local pidfd = self.child:pidfd()
  for fd in pairs(self.handlers) do
    if fd ~= pidfd then self.core:unwatch(fd) end
  end
end

-- Ask the command to end, in the end make it, and have its status. One that is held yet has our own handlers, which
-- would keep what is asked to themselves.
local function end_child(self)
  if not self.child then return end
  if self.exec_done and not self.command_status then
    watch_child_alone(self)
    self.child:kill(core.signals.TERM)
    self.child:kill(core.signals.CONT) -- one that is stopped hears of it
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

-- A session that never began has nothing to keep.
local function end_recording(self)
  if not self.recorder then return end
  if not self.begun then return self.recorder:abandon() end
  self.core:record_kept()
  local ok, why, code = self.recorder:finish()
  if not ok then self.failure, self.record_errno = self.failure or why, code end
  self.recorded = self.recorder:summary()
end

-- os.exit() ends the process without the end of the session: the command is ended, and the recording has what was
-- read by then. A callback may be running, so that the rings are not read any more.
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

-- Everything back, in reverse.
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

-- Let the command go. What is to be found in its own memory is opened where that is laid out and
-- not an instruction of it has run.
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
  self.running = true -- timers that are declared from here on begin at once
  scan_new_tasks(self)
  ok, what, code = start_timers(self)
  if not ok then return nil, what, code end
  if self.child then return release_child(self) end
  return true
end

-- What of it is not seen, or not as it is. Of a whole machine, what happens outside of our pid namespace has the idle
-- task's number.
local function report_target(self)
  for _, pid in ipairs(self.target.ended or {}) do
    self:_log(0, ("there is no process %d (any more): the others are watched"):format(pid))
  end
  local is_told = self.opts.log and not self.opts.cgroup and options.is_cpu_wide(self.opts)
  if not is_told or pidns.is_machine() ~= false then return end
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

--- Open everything and begin to count; the command, held until now, is let go.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  in three parts; nothing stays open
-- @treturn[2] integer errno
function Session:start()
  refuse_ended(self, 2)
  if self.started then return true end
  if self == default and M.before_default_start then M.before_default_start(self) end
  self.started = true
  -- What the caller's functions raise on the way, log for one, is his; what is open by then is not.
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

-- Watched descriptors that are ready, after the records that came before them.
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

-- What has stopped the recording stops the session.
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

-- One look at the rings -> records delivered; self.cut: a callback wanted no more
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

-- Wait, let take_records (if given) take the records, then see to timers and the like -> false when
-- waiting fails
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

-- Wait and deliver once -> true while the session goes on
local function deliver_once(self, timeout_ms, max)
  if not wait_and_handle(self, timeout_ms, function() deliver(self, "round", max) end) then return false end
  if self.closed or is_forked(self) then return false end
  if is_over(self) then self.stopping = true end
  local interrupted = self:_is_interrupted()
  return not (self.stopping or self.cut or interrupted)
end

-- Nothing more is to come. Which CPUs came back without their events can be seen until then.
local function disable_all(self)
  if self.target and not self.opts.cpus and options.is_cpu_wide(self.opts) then
    self.stalled = self.stalled or targets.stalled(self.target, self.core)
  end
  self.core:disable()
end

-- CPUs come and go; the rings are those of the start.
local function report_cpu_changes(self)
  for _, text in ipairs(self.stalled and targets.changes(self.target, self.stalled) or {}) do self:_log(0, text) end
end

-- Disable, drain, tell, close -> true | nil, message
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
  self.unfinished = self.errors ~= errors -- what the run was for has not been printed, or not all of it
  close_all(self)
  if self.failure then return nil, self.failure end
  return true
end

--- Start if need be, deliver until the session ends, close.
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

--- End the session: after the callback that calls it, or at the next wakeup.
function Session:stop()
  self.stopping = true
  if self.core and self.core:dispatching() then
    self.cut = true
    self.core:halt()
  end
  return true
end

--- Close at once, or as soon as the callback that calls it returns: nothing more is
-- delivered, and `done` callbacks are not called. Safe twice.
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

--- A descriptor that is readable when dispatching is worth it, for a loop of your own.
-- @treturn integer  owned by the session
function Session:fd()
  refuse_closed(self)
  return self.core:fd()
end

--- Deliver what is there without waiting; timers and signals too.
-- @tparam[opt] integer max  records at most
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
    -- What was left is no news to the kernel, and a recording has no descriptor that tells.
    if self.opts.input or max and max > 0 and n >= max then self.core:again() end
    return n, true
  end
  local ok, why = finish(self)
  if not ok then return nil, why end
  return self.delivered - before, false
end

-- What a loop gets counts, as what callbacks get does.
local function check_pulled_count(self)
  local count = self.opts.count
  if not count or not self.core or is_forked(self) then return end
  if self.core:totals().delivered >= count then self.cut = true end
end

-- A round is over: what is there to see to, and the next one -> false at the session's end
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

-- The events that are not open yet ask the kernel for what is pulled, and for no more.
local function pull(self, names, level)
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

--- Records one by one instead of callbacks: every record of every declared event.
-- `for r in s:records() do` starts the session, and closes it at the end of the loop.
-- A record is valid until the next one.
-- Raises what would end `run` with nil.
-- @tparam ?table opts  `fields`: names of what the loop gets of samples, as a sample callback with `fields` does, and
--   of no other record; the first is false where it would be nil
function Session:records(opts)
  refuse_recursion(self, "records")
  refuse_ended(self, 2)
  opts = check.take("records", opts == nil and {} or opts, option_tables.session_records, 3)
  if opts.fields then
    pull(self, opts.fields, 2)
  else
    local ok, why = self:start()
    if not ok then error(why, 2) end
  end
  self.core:begin(self.pulled and "round" or "round_all")
  self.looped = true
  local guard = setmetatable({}, { __close = function(_, raised)
    self.looped = false
    -- What comes after a break is nobody's.
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

--- Deliver to the callbacks what backward rings hold, oldest record first: those of events with
-- `write_backward`, which the session's option `overwrite` gives to all. Output is paused meanwhile.
-- The records stay: a later snapshot gives those again that are not overwritten by then.
-- From a record's callback it is taken as soon as the round is over.
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
-- `unknown_id`, `throttled`, `unjoined`, `excluded`, `untold` (left out as a field was missing that an event's `where`
-- reads), `aux_bytes`, `aux_skipped`, `aux_truncated`, `callback_errors`, `wakeups`, `rings`, `ring_bytes`,
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

--- Who a task is, as far as records were delivered.
-- @tparam integer tid  a process's first thread has its pid
-- @treturn[1] table    `tid pid ppid comm exe start`: see doc/api/tasks.md
-- @treturn[2] nil      nothing is known of it, or the session does not run
function Session:task(tid)
  if math.type(tid) ~= "integer" then error("task: the number of a thread", 2) end
  return self.core and self.core:task(tid)
end

-- Of a recording: bytes read, the file's (0: a pipe), records; nil of a kernel.
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

--- What start() would open, in lines of text; opens nothing. And whether all that has to be there is.
function Session:plan()
  local lines, sound = { "target: " .. target_text(self.opts) }, true
  for _, ev in ipairs(self.events) do
    -- What a recording has is not what this machine has.
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
