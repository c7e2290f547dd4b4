--- Follows threads through their calls: what each call did from its start to its stop.
--
-- A thread is in one of three states: on a CPU, waiting for one, or blocked. The time of each state goes to the call,
-- so the states of a call add up to its duration. Time in an unknown state, as without switch records, is
-- unaccounted. CPU samples and page faults are counts.

local kept_calls = require "perfev.calls.kept_calls"

local M = {}

local Collector = {}
Collector.__index = Collector

local WHATS_MOST = 1 << 16    -- distinct pairs of kind and stack; further stacks are left out
local SUMS_MOST = 64          -- of one call, as above
local PIECES_MOST = 257       -- of one call, for its timeline: one more than kept_calls keeps
local LOG_MOST = 1024         -- pieces of a thread, for calls with a key
local OPEN_MOST = 65536       -- calls with a key that have no stop yet
local RECENT_MOST = 1024      -- ended calls that a LOST record may still discard
local DEPTH_MOST = 63         -- further nested calls have no return event: MAX_URETPROBE_DEPTH is 64

-- The kinds of pieces. Counts have no duration.
M.is_count = { sample = true, minor = true, major = true, block = true }

-- ---- what a piece is ----

-- Returns the number of a kind with a stack or a word; equal ones have one number.
local function what_of(self, kind, stack, word)
  local key = kind .. (stack and ("\0" .. stack.id) or word and ("\1" .. word) or "")
  local what = self.what_of[key]
  if what then return what end
  if #self.whats >= WHATS_MOST and (stack or word) then return what_of(self, kind) end
  what = #self.whats + 1
  self.whats[what], self.what_of[key] = { kind = kind, stack = stack, word = word }, what
  return what
end

-- ---- calls ----

local function new_call(start, tid, comm)
  return { start = start, tid = tid, comm = comm, sums = {}, nr_sums = 0, pieces = {} }
end

local function add_sum(self, call, what, value)
  local sum = call.sums[what]
  if not sum then
    if call.nr_sums >= SUMS_MOST then
      what = what_of(self, self.whats[what].kind)
      sum = call.sums[what]
    end
    if not sum then call.nr_sums = call.nr_sums + 1 end
  end
  call.sums[what] = (sum or 0) + value
end

local function add_time(self, call, what, from, to)
  if to <= from then return end
  add_sum(self, call, what, to - from)
  local pieces = call.pieces
  local nr = #pieces
  if nr >= 3 * PIECES_MOST then return end
  if nr > 0 and pieces[nr - 2] == what and pieces[nr] == from then
    pieces[nr] = to
  else
    pieces[nr + 1], pieces[nr + 2], pieces[nr + 3] = what, from, to
  end
end

-- ---- threads ----

local function thread_of(self, tid)
  local thread = self.threads[tid]
  if not thread then
    thread = { log = {}, head = 1, tail = 0, depth = 0 }
    self.threads[tid] = thread
  end
  return thread
end

local function wants(self, tid)
  if tid == 0 then return nil end -- idle
  local thread = self.threads[tid]
  if self.key then return thread or thread_of(self, tid) end
  return thread and thread.call and thread or nil
end

-- Adds to the call of a thread or, with keys, to its log, whose pieces belong to a call once it ends.
local function note(self, thread, what, from, to, count)
  if thread.call then
    if count then return add_sum(self, thread.call, what, count) end
    return add_time(self, thread.call, what, from, to)
  end
  if not self.key then return end
  local last = thread.log[thread.tail]
  if count and last and last[1] == what and last[4] and last[3] >= (thread.touched or 0) then
    last[3], last[4] = to, last[4] + count
    return
  end
  thread.tail = thread.tail + 1
  thread.log[thread.tail] = { what, from, to, count }
  if thread.tail - thread.head >= LOG_MOST then
    thread.log[thread.head] = nil
    thread.head = thread.head + 1
  end
end

-- Ends the thread's state at `time`, and begins another.
local function change_state(self, thread, time, what)
  if thread.what and time > thread.since then note(self, thread, thread.what, thread.since, time) end
  thread.what, thread.since = what, time
end

-- Adds what a thread did from `from` to `to` to a call.
local function add_slice(self, call, thread, from, to)
  change_state(self, thread, to, thread.what)
  local first = thread.tail + 1
  while first > thread.head and thread.log[first - 1][3] > from do first = first - 1 end
  for i = first, thread.tail do
    local what, begin, finish, count = table.unpack(thread.log[i], 1, 4)
    if begin >= to then break end
    if count then
      add_sum(self, call, what, count)
    else
      add_time(self, call, what, math.max(begin, from), math.min(finish, to))
    end
  end
end

-- ---- the ends of calls ----

local function settle(self)
  local recent = self.recent
  local call = recent[self.recent_head]
  recent[self.recent_head] = nil
  self.recent_head = self.recent_head + 1
  if call and not call.is_lost then self.kept:add(call) end
end

-- What the states do not explain is unaccounted.
local function finish(self, call, time)
  call.took = time - call.start
  local known, whats = 0, self.whats
  for what, sum in pairs(call.sums) do
    if not M.is_count[whats[what].kind] then known = known + sum end
  end
  if known < call.took then add_sum(self, call, what_of(self, "unknown"), call.took - known) end
  call.stop = time
  self.recent[self.recent_tail + 1] = call
  self.recent_tail = self.recent_tail + 1
  if self.recent_tail - self.recent_head >= RECENT_MOST then settle(self) end
end

-- A thread that reaches an event is on a CPU.
local function is_running(self, thread, time)
  if thread.what ~= self.on_cpu then change_state(self, thread, time, self.has_switches and self.on_cpu or nil) end
end

--- A call begins. `key` joins threads; without one, the call is of its thread.
function Collector:start(time, tid, cpu, comm, key)
  self.last[cpu] = time
  local thread = thread_of(self, tid)
  if self.key then
    is_running(self, thread, time)
    if key == nil then self.without_key = self.without_key + 1 return end
    if self.open[key] then self.restarted = self.restarted + 1
    elseif self.nr_open >= OPEN_MOST then self.unkept = self.unkept + 1 return
    else self.nr_open = self.nr_open + 1 end
    local call = new_call(time, tid, comm)
    call.by, call.at = thread, time
    self.open[key] = call
    thread.touched = time
    return
  end
  if thread.call and self.is_function then -- it calls itself: the outermost call counts
    thread.depth = math.min(thread.depth + 1, DEPTH_MOST)
    return
  end
  if thread.call then self.restarted = self.restarted + 1 end
  thread.call, thread.depth = new_call(time, tid, comm), 0
  thread.what, thread.since = self.has_switches and self.on_cpu or nil, time
end

-- A request that changed threads waited until the second thread had finished with others; then it is what that did.
local function stop_with_key(self, time, tid, key)
  local thread = thread_of(self, tid)
  is_running(self, thread, time)
  local call = key ~= nil and self.open[key]
  if key == nil then self.without_key = self.without_key + 1
  elseif not call then self.unstarted = self.unstarted + 1
  else
    self.open[key], self.nr_open = nil, self.nr_open - 1
    local from = call.start
    if thread ~= call.by and (thread.touched or 0) > from then
      add_time(self, call, self.queued, from, thread.touched)
      from = thread.touched
    end
    add_slice(self, call, thread, from, time)
    call.by = nil
    finish(self, call, time)
  end
  thread.touched = time
end

--- A call ends.
function Collector:stop(time, tid, cpu, key)
  self.last[cpu] = time
  if self.key then return stop_with_key(self, time, tid, key) end
  local thread = self.threads[tid]
  local call = thread and thread.call
  if not call then self.unstarted = self.unstarted + 1 return end
  if thread.depth > 0 then thread.depth = thread.depth - 1 return end
  change_state(self, thread, time, nil)
  thread.call = nil
  finish(self, call, time)
end

-- ---- what threads do ----

--- A thread leaves its CPU. Of the two records of a switch, the first to say so counts.
-- @tparam boolean is_runnable  it was preempted, or yields
-- @tparam ?stack stack         nil: unknown
-- @tparam ?string taker        name of the next task
function Collector:leave(time, tid, cpu, is_runnable, stack_of, taker)
  self.last[cpu] = time
  local thread = wants(self, tid)
  if not thread or thread.is_off then return end
  thread.is_off = true
  if is_runnable then return change_state(self, thread, time, what_of(self, "preempted", nil, taker)) end
  change_state(self, thread, time, what_of(self, "blocked", stack_of and stack_of()))
  note(self, thread, self.block, time, time, 1)
end

--- A blocked thread is woken: from now on it waits for a CPU.
function Collector:wake(time, tid)
  local thread = self.threads[tid]
  local what = thread and thread.is_off and thread.what and self.whats[thread.what]
  if what and what.kind == "blocked" then change_state(self, thread, time, self.woken) end
end

--- A thread gets a CPU.
function Collector:enter(time, tid, cpu)
  self.last[cpu] = time
  local thread = self.threads[tid] or self.key and wants(self, tid)
  if not thread then return end
  thread.is_off = nil
  if thread.call or self.key then change_state(self, thread, time, self.on_cpu) end
end

--- Something happens on a thread: a CPU sample ("sample"), a page fault ("minor", "major").
function Collector:count(kind, time, tid, cpu, stack_of)
  self.last[cpu] = time
  local thread = wants(self, tid)
  if thread then note(self, thread, what_of(self, kind, stack_of and stack_of()), time, time, 1) end
end

local function drop(self, thread, counter)
  if thread.call then self[counter] = self[counter] + 1 end
  thread.call, thread.what, thread.depth = nil, nil, 0
end

--- A thread ends, or runs another program.
function Collector:forget(tid)
  local thread = self.threads[tid]
  if not thread then return end
  drop(self, thread, "ended")
  self.threads[tid] = nil
end

--- Records of a CPU are missing. The calls in progress on any CPU, and those that ended since that CPU's last record,
-- may have lost one, so they are left out.
-- @tparam ?integer cpu  nil: they are missing at an unknown time
function Collector:lost(nr, cpu)
  if not cpu then
    self.lost_at_end = self.lost_at_end + nr
    return
  end
  local since = self.last[cpu] or 0
  for i = self.recent_head, self.recent_tail do
    local call = self.recent[i]
    if call.stop > since and not call.is_lost then
      call.is_lost, self.incomplete = true, self.incomplete + 1
    end
  end
  for _, thread in pairs(self.threads) do
    drop(self, thread, "incomplete")
    thread.is_off, thread.log, thread.head, thread.tail = nil, {}, 1, 0
  end
  self.incomplete = self.incomplete + self.nr_open
  self.open, self.nr_open = {}, 0
end

--- Ends the collection: all ended calls are kept, the others counted.
-- @treturn kept_calls
function Collector:complete()
  while self.recent_head <= self.recent_tail do settle(self) end
  if not self.open_at_end then
    self.open_at_end = self.nr_open
    for _, thread in pairs(self.threads) do
      if thread.call then self.open_at_end = self.open_at_end + 1 end
    end
  end
  return self.kept
end

--- @tparam table opt  `key` (boolean), `is_function` (boolean), `kept`
function M.new(opt)
  local self = setmetatable({ key = opt.key, is_function = opt.is_function, has_switches = true,
    threads = {}, open = {}, nr_open = 0, whats = {}, what_of = {}, last = {},
    recent = {}, recent_head = 1, recent_tail = 0, kept = kept_calls.new(opt.kept),
    lost_at_end = 0, incomplete = 0, restarted = 0, unstarted = 0, ended = 0, unkept = 0, without_key = 0 }, Collector)
  self.on_cpu, self.queued = what_of(self, "cpu"), what_of(self, "queued")
  self.woken, self.block = what_of(self, "woken"), what_of(self, "block")
  return self
end

return M
