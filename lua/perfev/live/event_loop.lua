--- The loop of a session: waits, delivers records, and calls the handlers of timers, signals and other descriptors.

local callback = require "perfev.live.callback"
local command = require "perfev.live.command"
local explain = require "perfev.base.lazy_module" "perfev.event.explain_refusal"
local opened = require "perfev.event.open_event"
local recording = require "perfev.live.recording"
local symbol = require "perfev.base.lazy_module" "perfev.symbol"

local M = {}

--- Set by a runner: f(session), called when the events of a session are open, and before each delivery: a script that
-- yields within s:start() goes on without the end of it.
M.confine = nil

local POLL_MS = 100 -- between two looks at a command that has no pidfd

-- ---- timers, signals, other descriptors ----

--- Starts a timer: { ns =, f =, what = "every" or "after", is_once = }.
function M.start_timer(session, timer)
  local fd, what, code = session.core:timer(timer.ns, timer.is_once and 0 or timer.ns)
  if not fd then return nil, explain.refusal(what, code), code end
  session.handlers[fd] = function()
    if session.core:read(fd, 8) then callback.call(session, timer.what, timer.f) end
  end
  return true
end

-- struct signalfd_siginfo is 128 bytes (signalfd(2)): signo, errno, code, pid, uid, fd, ...
local SIGINFO = "=I4i4i4I4I4i4"

--- Starts to receive a signal.
function M.start_signal(session, number)
  local fd, what, code = session.core:signals(1 << (number - 1))
  if not fd then return nil, explain.refusal(what, code), code end
  session.handlers[fd] = function()
    local info = session.core:read(fd, 128)
    while info and #info == 128 do
      local _, _, reason, pid, _, from = string.unpack(SIGINFO, info)
      local fields = { number = number, code = reason, pid = pid, fd = from }
      callback.call(session, "signal", session.signals[number], fields)
      info = session.core and session.core:read(fd, 128)
    end
  end
  return true
end

--- Timers start when all events are enabled, and before the command runs: opening may take much of an interval.
function M.start_timers(session)
  for _, timer in ipairs(session.timers) do
    local ok, why, code = M.start_timer(session, timer)
    if not ok then return nil, why, code end
  end
  return true
end

--- The duration is counted from the enabling: opening may take longer than the duration.
function M.start_duration(session)
  if not session.opts.duration then return true end
  local fd, what, code = session.core:timer(session.opts.duration, 0)
  if not fd then return nil, explain.refusal(what, code), code end
  session.handlers[fd] = function() session.stopping = true end
  return true
end

--- Calls a handler when a descriptor is readable.
function M.watch_descriptor(session, fd, handler)
  local ok, what, code, failed = session.core:watch(fd)
  if not ok then return nil, explain.refusal(what, code, failed), code end
  session.handlers[fd] = handler
  return true
end

--- Starts the signals, the descriptor of the option `watch`, and the wait for the command.
function M.start_watches(session)
  local steps = {}
  for number in pairs(session.signals) do
    steps[#steps + 1] = function() return M.start_signal(session, number) end
  end
  local watch, pidfd = session.opts.watch, session.child and session.child:pidfd()
  if watch then
    steps[#steps + 1] = function()
      return M.watch_descriptor(session, watch[1], function() callback.call(session, "watch", watch[2]) end)
    end
  end
  if pidfd then
    steps[#steps + 1] = function()
      return M.watch_descriptor(session, pidfd, function() command.poll_status(session) end)
    end
  end
  for _, step in ipairs(steps) do
    local ok, why, code = step()
    if not ok then return nil, why, code end
  end
  session.watching = true -- signals that are declared from here on start at once
  return true
end

--- Calls the handlers of descriptors that are ready, after the records that came before them.
function M.call_handlers(session, ...)
  for i = 1, select("#", ...) do
    local f = session.handlers[(select(i, ...))]
    if f and session.core then f() end
  end
end

-- ---- delivery ----

local function count_records_left(session, max)
  local left = session.opts.count and session.opts.count - session.delivered
  if max and left then return math.min(max, left) end
  return max or left or 0
end

--- Opens the files of newly sampled code, before their processes end.
function M.keep_sampled_files(session)
  if session.opts.input or not session.core then return end
  if not session.keep then
    local core_session, list = session.core, {}
    local function parent_of(pid)
      local task = not session.closed and core_session:task(pid)
      return task and task.ppid
    end
    session.keep, session.kept = function(raw) return symbol._here():keep(raw, list, parent_of) end, list
  end
  session.core:sampled(session.keep, session.kept)
end

local function take_counts(session)
  local n, why = opened.take_counts(session)
  if not n then session.failure, session.cut = why, true end
end

-- Returns the number of threads that feed aggregators from the rings, or nil and why the order of time is needed.
local function start_unordered(session, max)
  if max > 0 then return nil, "the number of records is limited" end
  return session.core:unordered(session.opts.readers or 0)
end

-- Decides whether samples go to the aggregators in the order of time or as they are read from the rings.
local function choose_order(session, max)
  local threads, why = start_unordered(session, max)
  local wanted = session.opts.readers or 0
  local is_refused = wanted > 1 and (threads or 0) == 0
  local text = "the rings are read without order of time"
  if is_refused then
    text = ("readers %d: no other thread reads the rings: %s"):format(wanted, why or "hooks answer the system calls")
  elseif not threads then
    text = "the rings are read in the order of time: " .. why
  elseif threads > 0 then
    text = ("%s, on %d thread%s"):format(text, threads, threads == 1 and "" or "s")
  end
  if text ~= session.order_text then session:_log(is_refused and 0 or 1, text) end
  session.is_ordered, session.order_text = not threads, text
end

local function dispatch(session, drain, max)
  if session.replay then return session.replay:dispatch(drain, max) end
  if not session.is_ordered and session.events[1] and not session.core:feeds() then choose_order(session, max) end
  return session.core:dispatch(drain, max)
end

--- Delivers the records in the rings and returns their number. Sets session.cut if a callback stopped the session.
-- @tparam session session
-- @tparam string drain      "round", or "rest" at the end
-- @tparam[opt] integer max  the most records to deliver
function M.deliver(session, drain, max)
  if M.confine then M.confine(session) end
  local n, stopped, code
  if recording.is_recorded_only(session) then
    if (session.opts.readers or 0) > 1 and session.is_ordered == nil then choose_order(session, 0) end
    n, stopped, code = session.core:copy()
    n = n and 0
  else
    n, stopped, code = dispatch(session, drain, count_records_left(session, max))
    M.keep_sampled_files(session)
  end
  recording.check_write(session, drain == "rest")
  if drain == "rest" then take_counts(session) end
  if not n then
    session.failure, session.cut = explain.refusal(stopped, code), true
    return 0
  end
  session.delivered = session.delivered + n
  if session.wants_snapshot and not session.closed then
    session.wants_snapshot = false
    session:snapshot()
  end
  if stopped or (session.opts.count and session.delivered >= session.opts.count) then session.cut = true end
  return n
end

--- Waits, calls take_records if given, then calls the handlers of timers and other descriptors. Returns false if the
-- wait fails.
function M.wait_and_handle(session, timeout_ms, take_records)
  if M.confine then M.confine(session) end
  local polled = session.child and not session.child:pidfd() -- before Linux 5.3
  local ready = table.pack(session.core:wait(polled and timeout_ms < 0 and POLL_MS or timeout_ms))
  if ready.n == 3 and ready[1] == nil then
    session.failure = explain.refusal(ready[2], ready[3])
    return false
  end
  if take_records then take_records() end
  if (ready.n > 0 or timeout_ms == 0) and not session.closed and not session:_is_forked() then take_counts(session) end
  if session.closed or session:_is_forked() then return true end
  M.call_handlers(session, table.unpack(ready, 1, ready.n))
  if polled then command.poll_status(session) end
  return true
end

--- Waits and delivers once. Returns true while the session goes on.
function M.deliver_once(session, timeout_ms, max)
  if not M.wait_and_handle(session, timeout_ms, function() M.deliver(session, "round", max) end) then return false end
  if session.closed or session:_is_forked() then return false end
  if command.have_targets_ended(session) then session.stopping = true end
  local interrupted = session:_is_interrupted()
  return not (session.stopping or session.cut or interrupted)
end

return M
