-- explore: writes a page that shows the stacks of any range of time: select it on a heat map.
-- perfl -a -d 10s explore -F 999 -o time.html
-- perfl explore --off-cpu -o time.html -- make

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "write a page with samples over time: select a range to see its stacks",
  { "events", args = "*", metavar = "EVENT",
    help = "sample these events (default: cpu-clock; of a recording: all)" },
  { "-F --frequency", type = "integer", default = 99, metavar = "HZ",
    help = "samples a second of clocks and hardware events; 0: every event" },
  { "--off-cpu", help = "add the time that tasks wait, with the stacks that gave up the CPU" },
  { "--idle", help = "include idle CPUs" },
  { "--max-samples", type = "integer", default = 2000000, metavar = "N",
    help = "keep the first N samples; the page says how many are left out" },
  tool.options.user, tool.options.kernel, tool.options.call_graph, tool.options.title,
  epilog = [[
The page is one file that needs no network. It is written at the end of the run.
A selected range is that of --from and --to: the page shows the command that
prints the same stacks from the recording (of -i, or of --record).]],
}

if opt.frequency < 0 then tool.refuse("explore", "-F: 0 or more") end
if opt.max_samples < 1 then tool.refuse("explore", "--max-samples: 1 or more") end
tool.explore("explore", opt)
