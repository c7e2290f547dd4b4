-- wakeuptime: adds up the time that tasks sleep, by the stack that wakes them.
-- perfl -a -d 5s wakeuptime --least 1ms -f html -o wakers.html
-- perfl -a wakeuptime --filter 'comm == "make"' make

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "add up the time asleep, by the woken task and the stack that woke it",
  tool.options.format,
  { "--filter", type = "string", metavar = "CONDITION",
    help = "a condition on the woken task, as in 'pid == 1234' (a filter in the kernel)" },
  tool.options.least, tool.options.user, tool.options.kernel,
  tool.options.call_graph, tool.options.title, tool.options.baseline, tool.options.absolute,
  epilog = [[
A stack starts with the sleeping task; the waker and its frames follow. A wakeup
by an interrupt is attributed to the interrupted task. Waits that begin and end
during the run count; waits for a CPU do not, because no task ends them. With a
command, -p and similar, only waits that such a task ends count; -a has all.]],
}

tool.require_all_cpus "wakeuptime"
tool.require_machine_pids "wakeuptime"
local profile = tool.profile("wakeuptime", opt, { title = "asleep", values = { { "time", unit = "ns" }, "waits" } })
local falls_asleep = { "and", { "out", "==", true }, { "preempt", "==", false }, { "tid", "!=", 0 } }
local sleeps = perfev.span {
  start = true, stop = true, cancel = true, by = "tid", stop_by = "args.pid", max_waiting = tool.MAX_TASKS,
  start_where = falls_asleep, cancel_where = { "not", falls_asleep }, least = opt.least .. "ns",
  into = profile:sampler { value = "took", by = { "args.comm", "comm", "stack" },
    add = function(comm, waker, stack, nr, time)
      profile:add_under({ comm, "[woken by] " .. (waker == "swapper" and "idle" or waker) }, stack, time, nr)
    end },
}

-- The waker's event: sched_wakeup may run on the other CPU.
perfev.event(tool.with_stacks("wakeuptime", opt, {
  "sched:sched_waking", filter = opt.filter,
  sample = sleeps.stop, switch = { sleeps.start, sleeps.cancel }, exit = sleeps.cancel,
}))

perfev.done(function() tool.print_profile("wakeuptime", profile, opt) end)
