-- offwaketime: what tasks wait for, and who ends it: both stacks, one above the other.
-- perfl -a -d 5s offwaketime --least 1ms -f html -o waits.html
-- perfl -a offwaketime --filter 'comm == "make"' -- make

local perfev = require "perfev"
local common = require "perfev.profile.options"
local show = require "perfev.profile.show"

local opt = perfev.args {
  summary = "time off the CPU until a wakeup, by the stack that waited and the one that woke it",
  common.format,
  { "--filter", type = "string", metavar = "CONDITION",
    help = "on who is woken, as in 'pid == 1234'; the kernel applies it" },
  common.least, common.user, common.kernel, common.call_graph, common.title,
  epilog = [[
From who waits to where; behind -- from where the waker was to who it is. The
time is that from leaving the CPU to being back on one. Of a command, -p and the
like those waits only that such a task ends: -a has all.]],
}

common.check_sides(opt, "offwaketime")

local waiting, first, last = {}, nil, nil -- tid -> who, where and since when; the waker, once there is one
local sums = {} -- who waits, its stack, who wakes, its stack -> both and what they come to
local function id_of(stack) return stack and stack.id or 0 end -- a recording may have none

local function add(wait, time)
  local key = table.concat({ wait.comm, id_of(wait.stack), wait.waker, id_of(wait.woken_by) }, "\0")
  local sum = sums[key] or { wait = wait, time = 0, waits = 0 }
  sums[key], sum.time, sum.waits = sum, sum.time + time, sum.waits + 1
end

perfev.event {
  "context-switches", period = 1, callchain = common.stacks(opt, "offwaketime"),
  exclude_kernel = false, -- it is the kernel that switches: without its side there would be none
  exclude_callchain_kernel = opt.user or nil, exclude_callchain_user = opt.kernel or nil,
  sample = function(r)
    first = first or r.time
    if r.tid ~= 0 then waiting[r.tid] = { comm = r.comm or ":" .. r.tid, stack = r.stack, since = r.time } end
  end,
  switch = function(r)
    local wait = waiting[r.tid]
    if r.out and not r.preempt or not wait then return end -- preempted: it waits for nobody
    waiting[r.tid], last = nil, r.time
    if wait.waker and r.time - wait.since >= opt.least then add(wait, r.time - wait.since) end
  end,
  exit = function(r) waiting[r.tid] = nil end,
}

-- By the waker; sched_wakeup may be on the other CPU.
perfev.event {
  "sched:sched_waking", filter = opt.filter, callchain = common.stacks(opt, "offwaketime"),
  exclude_callchain_kernel = opt.user or nil, exclude_callchain_user = opt.kernel or nil,
  sample = function(r, args)
    local wait = waiting[args.pid]
    if not wait or wait.waker then return end
    wait.waker, wait.woken_by = r.tid == 0 and "idle" or r.comm or ":" .. r.tid, r.stack
  end,
}

-- The innermost first, which is the waker itself.
local function joined(wait)
  local frames, below = { wait.waker }, wait.woken_by or {}
  for i = #below, 1, -1 do frames[#frames + 1] = below[i] end
  frames[#frames + 1] = "--"
  for i = 1, #(wait.stack or {}) do frames[#frames + 1] = wait.stack[i] end
  return frames
end

perfev.done(function()
  local profile = perfev.profile { title = opt.title or "off CPU", values = { { "time", unit = "ns" }, "waits" } }
  for _, sum in pairs(sums) do profile:add_under(sum.wait.comm, joined(sum.wait), sum.time, sum.waits) end
  profile.duration = last and last - first
  show(profile, opt.format, "offwaketime")
end)
