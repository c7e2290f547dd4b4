--- A session: its targets, events and counters, and its methods.
-- C (perfev.core) takes a record from the ring to its callback. The files of this folder run once per session or once
-- per wakeup: open_session, event_loop, command, recording, close_session.

local as_callback = require "perfev.aggregate.as_callback"
local check = require "perfev.base.check"
local close_session = require "perfev.live.close_session"
local core = require "perfev.core"
local event = require "perfev.event.declaration"
local event_loop = require "perfev.live.event_loop"
local exported = require "perfev.aggregate.exported"
local guard_methods = require "perfev.base.method_guard"
local lazy = require "perfev.base.lazy_module"
local open_session = require "perfev.live.open_session"
local opened = require "perfev.event.open_event"
local option_tables = require "perfev.option_tables.snapshot"
local options = require "perfev.base.options"
local shown = require "perfev.base.show_value"
local track_tasks = require "perfev.live.track_tasks"
local units = require "perfev.base.parse_units"

local counter = lazy "perfev.counter.counter"
local explain = lazy "perfev.event.explain_refusal"
local pull_records = lazy "perfev.live.pull_records"
local session_plan = lazy "perfev.live.session_plan"
local writer = lazy "perfev.perfdata.writer"

local M = {}

local Session = {}
Session.__index = Session

--- Returns a new session.
-- @tparam[opt] table opts  `pid`, `tid` (integer, list or "self"), `command` (list), `cpus` ("0-3,7", list
--   or "all"), `all_cpus` (watch the machine even with a command), `buffer` (bytes per CPU, "2M"; default: up to "8M"),
--   `duration` ("10s"), `count` (records), `ordered` (default true), `clock` (default "monotonic"),
--   `strict` (default true: an error in a callback ends the run), `input` (path of a recording to read, "-" for
--   standard input), `record` (path of a recording to write, "-" for standard output), `compress` (the recording:
--   true or a zstd level), `switch_output` ("100M", "5m" or "signal": when a new file begins), `switch_max_files` (the
--   newest files to keep), `names` (true: the recording keeps those of the sampled functions), `lines` (true: also
--   their source lines), `max_size` ("1G": the size at which the recording and the session end), `max_bytes` ("256M":
--   memory for stacks, keys and their names, other keys are counted as (other), and for records that wait). Without
--   pid, tid, command and input the session watches the whole machine.
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

--- Set by a runner: f(session), called before the default session starts.
M.before_default_start = nil

--- Set by a runner: f(session), called before another session opens events.
M.before_other_start = nil

--- Set by a runner: scripts print lines, not a picture on the terminal.
M.prints_lines = false

--- Set by a runner: f(session), takes the place of run() for the default session: no event is opened.
M.run_default = nil

--- Set by a runner: f(session, path), sets the options of a session that reads a recording for a script.
M.configure_reader = function(s, path) s:configure { input = path } end

-- Under a runner a counter without targets of its own belongs to the default session.
function counter.default_session() return M.before_default_start and M.default() end

--- Set by a runner: function() -> the tasks that its command line names (`pid`, `tid`, `uid`, `comm`, `command`), and
-- `all_cpus`, `input`. A session with `watches_machine` ignores them: its script selects tasks (tool/chosen_tasks.lua).
M.named_targets = nil

--- Set by a runner: function() -> ns of CPU time of ended children, in user space and in the kernel.
M.children_time = nil

--- Sets options of a session that has not started; as for `perfev.session`.
function Session:configure(opts)
  if self.started or self.finished then error("session: already started; call configure() before", 2) end
  -- A copy: a refused table changes no option.
  self.opts = options.take(opts, options.copy(self.opts), 3)
end

-- ---- messages and refusals ----

-- level: 0, always shown; 1, with -v
function Session:_log(level, text)
  if self.opts.log then self.opts.log(level, text) end
end

-- `_keep_going` is set by a runner: f() -> true, or the reason to stop. Called once per wakeup.
function Session:_is_interrupted()
  return self._keep_going ~= nil and self._keep_going() ~= true
end

-- True in a child process of the one that started the session.
function Session:_is_forked()
  return self.process ~= nil and self.process ~= core.process()
end

-- The session's loop must not be entered from a callback.
local function refuse_recursion(self, verb)
  if self:_is_forked() and not self.finished then error(close_session.FORKED, 3) end
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

-- The loop over fields takes the records; no callback runs.
local function refuse_pulled(self, verb)
  if self.pulled and not self.finished then
    error(("session: %s() within a loop over its records' fields, which are the loop's"):format(verb), 3)
  end
end

-- ---- events ----

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
  if ok and as_callback.has_function(decl.callbacks) then ok, why, code = opened.take_records(self) end
  local waits = decl.spec.disabled or not self.running
  if ok and (ev.slot or ev.members) and not waits then ok, why, code = ev:enable() end
  if not ok then return nil, why, code end
  -- The first event with call chains: maps are followed from here on.
  if self.running and not self.opts.input and not self.maps and track_tasks.wants_maps(self) then
    ok, why, code = track_tasks.open_event(self)
    if not ok then return nil, why, code end
    ok, why, code = track_tasks.scan_tasks(self)
  elseif event.needs_names(decl) then
    ok, why, code = track_tasks.follow_tasks(self)
  end
  if ok and self.running then ok, why, code = track_tasks.keep_history(self) end
  if not ok then return nil, why, code end
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

--- Returns the name of the first event if no event has a callback and there is no counter. Such a run ends with
-- "0 records", although events happen.
function M.event_without_callback(s)
  for _, ev in ipairs(s.events) do
    if next(ev.decl.callbacks) then return nil end
  end
  return #s.counters == 0 and s.events[1] and s.events[1].name or nil
end

--- Counts events of the session's targets, from its start to its end; as `perfev.counter`.
function Session:counter(spec) return counter.new(spec, false, 2, self) end
--- The same for a group; as `perfev.group`.
function Session:group(spec) return counter.new(spec, true, 2, self) end

-- ---- timers, signals ----

-- is_once: the timer expires once.
local function add_timer(self, what, t, f, is_once)
  refuse_ended(self, 3)
  local ns, why = units.duration(t)
  if not ns or ns == 0 then error(("%s: %s"):format(what, why or "a time above 0 is needed"), 3) end
  if type(f) ~= "function" then error(("%s: a function expected, not a %s"):format(what, type(f)), 3) end
  local timer = { ns = ns, f = f, what = what, is_once = is_once }
  self.timers[#self.timers + 1] = timer
  if self.running then assert(event_loop.start_timer(self, timer)) end
end

--- Calls f at this interval while the session runs.
-- @tparam string|number t  "500ms", "2s"; a number is seconds
-- @tparam function f       a return value of false stops the session
function Session:every(t, f) add_timer(self, "every", t, f, false) end

--- Calls f once, this time after the events are enabled; while the session runs: this time from now on.
-- @tparam string|number t  as for every
-- @tparam function f       a return value of false stops the session
function Session:after(t, f) add_timer(self, "after", t, f, true) end

local function register(self, list, what, f)
  if type(f) ~= "function" then error(what .. ": a function expected, not a " .. type(f), 3) end
  refuse_ended(self, 3)
  table.insert(self[list], f)
end

--- Calls f once, when all events are open and before they are enabled.
function Session:begin(f)
  if self.begun then error("session: already started; add functions before s:start() or s:run()", 2) end
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
    error(("signal: %s cannot be caught\n  try: TERM, or another"):format(name), 2)
  end
  if type(f) ~= "function" then error("signal: a function expected, not a " .. type(f), 2) end
  refuse_ended(self, 2)
  local is_new = not self.signals[number]
  self.signals[number] = f
  if is_new and self.watching then assert(event_loop.start_signal(self, number)) end
end

-- ---- the life of a session ----

--- Opens and enables everything, and lets the command run.
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string  in three parts; nothing stays open
-- @treturn[2] integer errno
function Session:start()
  refuse_ended(self, 2)
  if self.started then return true end
  if self == default then
    exported.close()
    if M.before_default_start then M.before_default_start(self) end
  elseif M.before_other_start and not self.opts.input then
    M.before_other_start(self)
  end
  self.started = true
  -- An error of the caller's functions, such as `log`, is passed on; everything that is open is closed first.
  local _ <close> = setmetatable({}, { __close = function(_, raised)
    if raised then close_session.close_all(self) end
  end })
  local ok, why, code = open_session.open(self)
  if not ok then
    close_session.close_all(self)
    return nil, why, code
  end
  if event_loop.confine then event_loop.confine(self) end
  return true
end

-- For a recording, whose timers have numbers instead of descriptors.
Session._call_handlers = event_loop.call_handlers

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
  if self == default and M.run_default then return M.run_default(self) end
  local ok, why, code = self:start()
  if not ok then return nil, why, code end
  if not self.stopping then
    while event_loop.deliver_once(self, -1) do end
  end
  return close_session.finish(self)
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
  close_session.close_all(self)
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
  if max then opened.take_records(self) end -- a count has no limit
  local before = self.delivered
  if event_loop.deliver_once(self, 0, max) then
    local n = self.delivered - before
    -- The kernel does not signal records again that were left in a ring, and a recording has no descriptor.
    if self.opts.input or max and max > 0 and n >= max then self.core:again() end
    return n, true
  end
  local ok, why = close_session.finish(self)
  if not ok then return nil, why end
  return self.delivered - before, false
end

--- Returns an iterator over the records of all declared events, instead of callbacks.
-- `for r in s:records() do` starts the session, and closes it at the end of the loop.
-- A record is valid until the next one.
-- Raises the errors that `run` returns.
-- @tparam ?table opts  `fields`: the names of the fields of samples that the loop gets, as a sample callback with
--   `fields` does; no other record is delivered. The first value is false instead of nil
function Session:records(opts)
  refuse_recursion(self, "records")
  refuse_ended(self, 2)
  return pull_records.records(self, opts)
end

local function has_backward(self)
  for ev in opened.each(self.events) do
    if ev.attr and ev.attr.write_backward then return true end -- a recording's side-band records have none
  end
  return false
end

local function check_snapshot_options(opts)
  if opts.record == "-" then error('snapshot: record "-": each snapshot is a file\n  try: record = FILE', 3) end
  if opts.names and not opts.record then
    error("snapshot: names without record\n  it requires a recording\n  try: record = FILE", 3)
  end
end

--- Delivers the records of backward rings to the callbacks, oldest first: of events with `write_backward`, which the
-- option `overwrite` sets for all. The kernel's output is paused meanwhile. The records stay in the rings: a later
-- snapshot delivers them again if they are not overwritten by then. A call from a record's callback takes effect after
-- the round.
-- With `record`, writes them to a new perf.data file, at once and also from a callback, and delivers none.
-- @tparam ?table opts  `record` (path of the file), `names` (true: it keeps the names of the sampled functions)
-- @treturn[1] integer  records delivered; from a record's callback 0
-- @treturn[2] true     with `record`
-- @treturn[3] nil
-- @treturn[3] string
-- @treturn[3] integer errno
function Session:snapshot(opts)
  opts = check.take("snapshot", opts == nil and {} or opts, option_tables.snapshot, 3)
  check_snapshot_options(opts)
  if not opts.record then refuse_pulled(self, "snapshot") end
  refuse_closed(self)
  if not has_backward(self) then
    error("session: snapshot() needs an event with write_backward, or the session's option overwrite", 2)
  end
  if self.replay then
    return nil, "snapshot: the events of a recording are as they were recorded", core.errno.EOPNOTSUPP
  end
  if opts.record then return writer.snapshot(self, opts.record, opts.names) end
  if self.core:dispatching() then
    self.wants_snapshot = true
    return 0
  end
  local n, what, code = self.core:dispatch("snapshot")
  if not n then return nil, explain.refusal(what, code), code end
  event_loop.keep_sampled_files(self)
  self.delivered = self.delivered + n
  return n
end

--- Totals so far: `records` read, `delivered`, `lost`, `lost_own`, `lost_samples`, `late`, `malformed`, `corrupt`,
-- `unknown_id`, `throttled`, `unjoined`, `excluded`, `undecided` (left out because a field of an event's `where`
-- was missing), `aux_bytes`, `aux_skipped`, `aux_truncated`, `callback_errors`, `wakeups`, `rings`, `ring_bytes`,
-- `ring_peak` (most unread bytes in a ring), `moved_peak` (most bytes that waited in memory, moved there from full
-- rings), `lost_waiting` (the part of `lost` since that memory was full), `beyond_memory` (stacks and keys that did not
-- fit in `max_bytes` and are counted as (other)), `no_memory` (stacks and keys for which malloc() failed),
-- `unknown_tasks` (records of new tasks that did not fit in `max_bytes`).
function Session:totals()
  local totals = self.core and self.core:totals() or self.last_totals
    or { records = 0, delivered = 0, lost = 0, lost_own = 0, lost_samples = 0, late = 0, malformed = 0, corrupt = 0,
         unknown_id = 0, throttled = 0, unjoined = 0, excluded = 0, undecided = 0, aux_bytes = 0, aux_skipped = 0,
         aux_truncated = 0, wakeups = 0, rings = 0, ring_bytes = 0, ring_peak = 0, moved_peak = 0, lost_waiting = 0,
         beyond_memory = 0, no_memory = 0, unknown_tasks = 0 }
  totals.callback_errors = self.errors or 0
  return totals
end

--- Returns a task, as it was at the last delivered record. If no callback reads a name, pid or tid, the session
-- follows tasks from the first call on: tasks that ended before are unknown.
-- @tparam integer tid  a process's first thread has its pid
-- @treturn[1] table    `tid pid ppid comm exe start`: see doc/api/tasks.md
-- @treturn[2] nil      the task is unknown, or the session does not run
function Session:task(tid)
  if math.type(tid) ~= "integer" then error("task: the number of a thread", 2) end
  if not self.core then return nil end
  local ok, why = track_tasks.follow_tasks(self)
  if not ok then self:_log(1, why) end
  return self.core:task(tid)
end

-- For a recording: the bytes read, the file's size (0: a pipe), the records read. Else nil.
function Session:_progress()
  if self.replay then return self.replay:how_far() end
end

--- Returns the events that start() would open, as lines of text, and true if all required ones exist. Opens nothing.
-- @tparam ?string how  "json": each line is a JSON object
function Session:plan(how)
  return session_plan.describe(self, how)
end

guard_methods(Session, Session, "session", "s", [[event span counter group clone every after begin done signal start run
  stop close fd dispatch records snapshot totals task configure declared plan]])

return M
