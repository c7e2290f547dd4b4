-- softirqs: shows how long soft interrupts take, by kind, sorted by total time.
-- perfl -a -d 5s softirqs
-- perfl -a softirqs --per-cpu make

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show how long soft interrupts take, by kind",
  { "--per-cpu", help = "print a row for each CPU and kind" },
  epilog = [[
Times include interrupts that came in between. "perfl -a latency softirq" draws
them as a histogram.]],
}

tool.require_all_tasks("softirqs", "a soft interrupt runs in whatever task is on the CPU", true)

-- include/linux/interrupt.h, from HI_SOFTIRQ = 0
local kinds = { [0] = "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU" }

local took = perfev.quantile { by = { "args.vec", opt.per_cpu and "cpu" or nil }, unit = "ns" }
perfev.span { start = "irq:softirq_entry", stop = "irq:softirq_exit", by = { "cpu", "args.vec" }, into = took }

perfev.done(function()
  tool.print_durations(took, "softirq", function(row)
    local kind = kinds[row["args.vec"]] or tostring(row["args.vec"])
    return opt.per_cpu and ("%s/%d"):format(kind, row.cpu) or kind
  end)
end)
