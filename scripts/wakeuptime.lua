-- wakeuptime: who ends the waits of others: the time that tasks slept, by the stack that woke them.
-- perfl -a -d 5s wakeuptime --least 1ms -f html -o wakers.html
-- perfl -a wakeuptime --filter 'comm == "make"' make

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

common.needs_every_cpu "wakeuptime"
common.needs_machine_pids "wakeuptime"
local profile = perfev.profile { title = opt.title or "asleep", values = { { "time", unit = "ns" }, "waits" } }
local falls_asleep = { "and", { "out", "==", true }, { "preempt", "==", false }, { "tid", "!=", 0 } }
local sleeps = perfev.span {
  start = true, stop = true, cancel = true, by = "tid", stop_by = "args.pid", max_waiting = common.MOST_TASKS,
  start_where = falls_asleep, cancel_where = { "not", falls_asleep }, least = opt.least .. "ns",
  into = profile:sampler { value = "took", by = { "args.comm", "comm", "stack" },
    add = function(comm, waker, stack, nr, time)
      profile:add_under({ comm, "[woken by] " .. (waker == "swapper" and "idle" or waker) }, stack, time, nr)
    end },
}

-- By the waker; sched_wakeup may be on the other CPU.
perfev.event(common.with_stacks(opt, "wakeuptime", {
  "sched:sched_waking", filter = opt.filter,
  sample = sleeps.stop, switch = { sleeps.start, sleeps.cancel }, exit = sleeps.cancel,
}))

perfev.done(function() show(profile, opt.format, "wakeuptime", opt.call_graph) end)
