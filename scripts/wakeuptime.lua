-- wakeuptime: who ends the waits of others: the time that tasks slept, by the stack that woke them.
-- perfl -a -d 5s wakeuptime --least 1ms -f html -o wakers.html
-- perfl -a wakeuptime --filter 'comm == "make"' -- make

local perfev = require "perfev"
local common = require "perfev.profile.options"
local show = require "perfev.profile.show"

local opt = perfev.args {
  summary = "time asleep, by who was woken and the stack that woke it",
  common.format,
  { "--filter", type = "string", metavar = "CONDITION",
    help = "on who is woken, as in 'pid == 1234'; the kernel applies it" },
  common.least, common.user, common.kernel, common.call_graph, common.title,
  epilog = [[
First who slept, then who woke it, and where that was. An interrupt wakes in the
name of the task that it hit. Waits that have begun and ended during the run
count; those for a CPU do not, nobody ends them. Of a command, -p and the like
those only that such a task ends: -a has all.]],
}

common.check_sides(opt, "wakeuptime")

local profile = perfev.profile { title = opt.title or "asleep", values = { { "time", unit = "ns" }, "waits" } }
local asleep, first, last = {}, nil, nil -- tid -> since when

-- By the waker; sched_wakeup may be on the other CPU.
perfev.event {
  "sched:sched_waking", filter = opt.filter, callchain = common.stacks(opt, "wakeuptime"),
  exclude_callchain_kernel = opt.user or nil, exclude_callchain_user = opt.kernel or nil,
  sample = function(r, args)
    local since = asleep[args.pid]
    if not since then return end
    asleep[args.pid], last = nil, r.time
    if r.time - since < opt.least then return end
    profile:add_under({ args.comm, ("[woken by] %s"):format(r.tid == 0 and "idle" or r.comm or ":" .. r.tid) }, r.stack,
      r.time - since, 1)
  end,
  switch = function(r)
    first = first or r.time
    if r.tid ~= 0 then asleep[r.tid] = r.out and not r.preempt and r.time or nil end
  end,
  exit = function(r) asleep[r.tid] = nil end,
}

perfev.done(function()
  profile.duration = last and last - first
  show(profile, opt.format, "wakeuptime")
end)
