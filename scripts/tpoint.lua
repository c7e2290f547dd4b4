-- tpoint: prints tracepoints as ftrace does, a line for each.
-- perfl -a -d 2s tpoint sched:sched_switch
-- perfl tpoint --filter 'prio < 100' sched:sched_wakeup sched:sched_waking -- make

local perfev = require "perfev"

local opt = perfev.args {
  summary = "print tracepoints as ftrace does",
  { "events", args = "+", metavar = "EVENT", help = "system:name, as in sched:sched_switch" },
  { "--filter", type = "string", metavar = "CONDITION",
    help = "a condition on the fields, as in 'prev_pid > 0' (a filter in the kernel)" },
  output = "Prints a line for each record: task-tid [cpu] flags time: event: text",
  epilog = [[
Flags, a dot if unset: d interrupts off, b softirqs off, D both; n p N (l L B b)
a reschedule is pending; h hard, s soft interrupt, H both, z NMI; the depth of
disabled preemption; the depth of disabled migration.]],
}

local line = perfev.line "{task:16}-{tid:-7} [{cpu:03}] {latency} {time:12.6}: {tracepoint}: {text}"

for _, name in ipairs(opt.events) do
  perfev.event { name, filter = opt.filter, sample = line }
end
