-- sched: shows what the scheduler did: turns of tasks, their delays, a map of the CPUs.
-- perfl -a -d 1s sched timehist
-- perfl sched latency --per comm -- make
-- perfl -a -d 1s sched map

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show what the scheduler did: turns, delays, a map of the CPUs",
  { "mode", choices = { "timehist", "latency", "map" }, metavar = "MODE", help = "timehist, latency or map" },
  { "--per", choices = { "comm", "tid" }, metavar = "FIELD",
    help = "latency: print a row for each comm or tid (default: tid)" },
  epilog = [[
timehist prints a line when a task leaves a CPU. WAIT is the time before its
turn, DELAY the part of it after the wakeup, RUN the turn.

latency prints the time on the CPU, the number of turns, and the delay before
them: from a wakeup or preemption until the task runs. FROM and TO: the longest.

map prints a line for each switch: the task of each CPU, * where it is new. The
idle task is ".", and a task that is not chosen is "-".

The script watches the machine. With -p, -t, --uid, --comm or a command it shows
only those tasks and their children. It reads recordings of perf sched record.]],
}

if opt.per and opt.mode ~= "latency" then
  tool.refuse("sched", "--per is an option of latency\n  try: perfl sched latency --per " .. opt.per)
end

tool.print_scheduling(opt.mode, {
  is_chosen = tool.choose_tasks("sched", "the waker of a task is another task, on any CPU"), per = opt.per,
})
