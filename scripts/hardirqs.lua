-- hardirqs: shows how long interrupt handlers take, by name, sorted by total time.
-- perfl -a -d 5s hardirqs
-- perfl -a hardirqs ls -R /usr/share/doc

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show how long interrupt handlers take, by name",
  { "--per", metavar = "KEY", help = "print a row for each handler and KEY: cpu" },
  tool.options.least, tool.options.interval, tool.options.latency_format,
  output = [[
Prints a line for each HANDLER, the number and name of its interrupt: its COUNT,
and the total, average, median, 99th percentile and maximum in microseconds.]],
  epilog = [[
A handler is named by its driver, as in /proc/interrupts. Timers and other
vectors of the CPU itself have no handler. "perfl -a latency irq" draws the
times as a histogram.]],
}

tool.require_all_tasks("hardirqs", "a handler runs in whatever task is on the CPU", true)

local report = tool.latency("hardirqs", opt, { title = "interrupt handlers", by = { "args.irq", "start.args.name" },
  per = { cpu = "cpu" }, column = "handler",
  name = function(row) return ("%d:%s"):format(row["args.irq"], row["start.args.name"]) end })
report:span { start = "irq:irq_handler_entry", stop = "irq:irq_handler_exit", by = { "cpu", "args.irq" } }
