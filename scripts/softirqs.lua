-- softirqs: shows how long soft interrupts take, by kind, sorted by total time.
-- perfl -a -d 5s softirqs
-- perfl -a softirqs --per cpu make

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show how long soft interrupts take, by kind",
  { "--per", metavar = "KEY", help = "print a row for each kind and KEY: cpu" },
  tool.options.least, tool.options.interval, tool.options.latency_format,
  output = [[
Prints a line for each SOFTIRQ: its COUNT, and the total, average, median, 99th
percentile and maximum in microseconds.]],
  epilog = [[
Times include interrupts that came in between. "perfl -a latency softirq" draws
them as a histogram.]],
}

tool.require_all_tasks("softirqs", "a soft interrupt runs in whatever task is on the CPU", true)

-- include/linux/interrupt.h, from HI_SOFTIRQ = 0
local kinds = { [0] = "HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU" }
local function kind_of(vec) return kinds[vec] or tostring(vec) end

local report = tool.latency("softirqs", opt, { title = "soft interrupts", by = { "args.vec" }, per = { cpu = "cpu" },
  names = { ["args.vec"] = kind_of }, column = "softirq", name = function(row) return kind_of(row["args.vec"]) end })
report:span { start = "irq:softirq_entry", stop = "irq:softirq_exit", by = { "cpu", "args.vec" } }
