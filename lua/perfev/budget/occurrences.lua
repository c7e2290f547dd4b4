--- The occurrences that a budget counts: system calls by name and other events, each with its stack.
--
-- A record of raw_syscalls:sys_enter is a call. A call that a signal interrupted and that is made again is one call:
-- raw_syscalls:sys_exit, filtered by the kernel, has its result.

require "perfev.symbol.stack"
local bpf_programs = require "perfev.budget.bpf_programs"
local system_calls = require "perfev.tracepoint.syscalls"

local M = {}

local MAP_ANONYMOUS = 0x20 -- on all machines but alpha, mips, parisc and xtensa
-- -EINTR, and -ERESTARTSYS to -ERESTART_RESTARTBLOCK, which the kernel hides from programs (include/linux/errno.h).
local INTERRUPTED = "ret == -4 || (ret <= -512 && ret >= -516)"
-- prev_state of a task that waits. A preempted one has 0 or TASK_REPORT_MAX, which is above (TASK_REPORT, sched.h).
local WAITS = "prev_state & 127"

local USER_ONLY = "%s: this user may count only the user side, where it does not happen\n"
  .. "  try: as root, or with CAP_PERFMON"

local Occurrences = {}
Occurrences.__index = Occurrences

--- Returns an object without events.
-- @tparam function take  take(time, f, ...): calls f(...), now or later, in the order of time
-- @tparam table opts     fields of each declaration; `callchain` of those with stacks
function M.new(take, opts)
  local self = setmetatable({ take = take, opts = opts, events = {}, failures = {}, sides = {}, watched = {} },
    Occurrences)
  self:clear()
  return self
end

--- Starts new tables; those of before stay with their users.
function Occurrences:clear()
  self.counts, self.stacks = {}, {} -- by the name of a call or an event; by name and stack
  self.calls = {} -- the names that are calls
  self.placed = {} -- `place`: the line of Lua that runs now
  self.latest, self.interrupted = {}, {} -- by thread
end

-- A stack below a line of Lua is one value for each pair of them.
local function with_place(self, stack)
  local of_place = self.placed[self.place]
  if not of_place then
    of_place = {}
    self.placed[self.place] = of_place
  end
  of_place[stack] = of_place[stack] or { stack = stack, place = self.place }
  return of_place[stack]
end

local function add(self, name, stack, n)
  self.counts[name] = (self.counts[name] or 0) + n
  if stack == nil then return nil end
  if self.place and type(stack) == "userdata" then stack = with_place(self, stack) end
  local of_name = self.stacks[name]
  if not of_name then
    of_name = {}
    self.stacks[name] = of_name
  end
  of_name[stack] = (of_name[stack] or 0) + n
  return stack
end

-- The name of the part of an event that happens on one side.
local function side_name(event, side) return side and ("%s on the %s side"):format(event, side) or event end

local function add_event(self, event, side, stack)
  add(self, event, stack, 1)
  local name = side_name(event, side)
  if self.sides[name] then add(self, name, stack, 1) end
end

local function is_anonymous(name, args)
  return name == "mmap" and args and args[4] & MAP_ANONYMOUS ~= 0
end

--- Counts a system call.
-- @tparam integer tid
-- @tparam integer id    the call's number
-- @tparam ?table args   its arguments
-- @param stack
function Occurrences:enter(tid, id, args, stack)
  local name = system_calls.name(id)
  if name == "restart_syscall" then
    local one = self.interrupted[tid]
    self.interrupted[tid] = nil
    if one then
      name, stack = one.name, one.stack
    end
  elseif is_anonymous(name, args) then
    name = "mmap of memory"
  end
  self.calls[name] = true
  local latest = self.latest[tid]
  if not latest then
    latest = {}
    self.latest[tid] = latest
  end
  latest.name, latest.stack = name, add(self, name, stack, 1)
end

--- Takes a call back that a signal interrupted.
function Occurrences:interrupt(tid)
  local latest = self.latest[tid]
  if not latest then return end
  add(self, latest.name, latest.stack, -1)
  self.interrupted[tid], self.latest[tid] = latest, nil
end

-- ---- the events ----

-- Each returns a list of declarations.
local specs = {}

function specs.syscalls(self)
  local keeps_stack = self.opts.callchain ~= nil
  return {
    { "raw_syscalls:sys_enter", callchain = self.opts.callchain, sample = function(r, args)
      self.take(r.time, self.enter, self, r.tid, args.id, args.args, keeps_stack and r.stack or nil)
    end },
    { "raw_syscalls:sys_exit", filter = INTERRUPTED, sample = function(r)
      self.take(r.time, self.interrupt, self, r.tid)
    end },
  }
end

local function sampled(self, name, event, filter)
  local keeps_stack = self.opts.callchain ~= nil
  return { { event, period = 1, filter = filter, callchain = self.opts.callchain, sample = function(r)
    self.take(r.time, add_event, self, name, r.cpumode, keeps_stack and r.stack or nil)
  end } }
end

specs["context-switches"] = function(self)
  return sampled(self, "context-switches", "sched:sched_switch", WAITS)
end

--- The name under which the occurrences of a row are: of a call or an event.
function M.name_of(row)
  if row.how == "call" then return row.call end
  if row.how == "switches" then return "context-switches" end
  return row.event and side_name(row.event, row.side)
end

--- The name of what counts a row: "syscalls", "context-switches" or an event; nil for a counter.
function M.source(row)
  if row.how == "calls" or row.how == "call" then return "syscalls" end
  if row.how == "switches" then return "context-switches" end
  return row.how == "samples" and row.event or nil
end

--- Declares the events of a row's source in a session, unless it has them.
-- @tparam session s
-- @tparam table row
-- @tparam ?boolean only_user  no row wants the kernel's side
function Occurrences:declare(s, row, only_user)
  local source = M.source(row)
  if row.side then self.sides[M.name_of(row)] = true end
  if self.events[source] then return end
  local list = {}
  self.events[source] = list
  for _, spec in ipairs((specs[source] or sampled)(self, source, source)) do
    for name, value in pairs(self.opts) do
      if name ~= "callchain" then spec[name] = value end
    end
    spec.optional, spec.exclude_kernel = true, only_user or nil
    local ev, why = s:event(spec)
    if not ev then
      self.failures[source] = why
      return
    end
    list[#list + 1] = ev
  end
  self:watch_programs(source, list)
end

-- Only tracepoints have a colon in their names, and page-faults:u.
function Occurrences:watch_programs(source, list)
  local watched = {}
  self.watched[source] = watched
  for _, ev in ipairs(list) do
    watched[#watched + 1] = ev.name:find ":" and bpf_programs.watch(ev.name) or nil
  end
end

--- Why the counts of a source, which were just taken, may be too low; or nil.
function Occurrences:hidden(source)
  for _, watched in ipairs(self.watched[source] or {}) do
    local why = bpf_programs.find(watched)
    if why then return why end
  end
end

--- Closes what the session does not.
function Occurrences:close()
  for _, list in pairs(self.watched) do
    for _, watched in ipairs(list) do bpf_programs.close(watched) end
  end
  self.watched = {}
end

--- True if only the user's side of a source's event is counted, for want of a right.
function Occurrences:is_user_only(source)
  local ev = self.events[source] and self.events[source][1]
  return ev ~= nil and ev.attr ~= nil and ev.attr.exclude_kernel
end

--- Why a source has no counts, or nil; once its events are open. A user without rights gets the user's side alone,
-- where a tracepoint of the kernel counts nothing.
function Occurrences:failure(source, row)
  for _, ev in ipairs(self.failures[source] and {} or self.events[source]) do
    local why = ev.error
    if not why and specs[source] and ev.attr and ev.attr.exclude_kernel then why = USER_ONLY:format(ev.name) end
    self.failures[source] = self.failures[source] or why
  end
  if row and row.side == "kernel" and not self.failures[source] and self:is_user_only(source) then
    return USER_ONLY:format(row.event)
  end
  return self.failures[source]
end

return M
