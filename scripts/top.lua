-- top: shows where the time goes, live, by function, thread, process or cgroup, with callers and a flame graph.
-- perfl -a top
-- perfl -p 1234 -d 10s top --event page-faults -F 0 --interval 2s > faults

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show the busiest functions, live", all_cpus = true,
  { "-e --event", default = "cpu-clock", metavar = "EVENT", help = "sample this event" },
  { "-F --frequency", type = "integer", default = 999, metavar = "HZ", help = "samples a second; 0: every event" },
  { "-I --interval", type = "duration", default = "1s", metavar = "TIME", help = "update the picture this often" },
  { "--idle", help = "include idle CPUs" },
  output = [[
Shows a table for each interval, the busiest first: the share of the samples and
the function, thread, process or cgroup.]],
  epilog = [[
Each picture has the samples since the last one. On a terminal, ? lists the keys:
sort, filter, threads, processes, cgroups, callers, flame graph, freeze, save.
The tables are plain lines if the output is not a terminal, with a command (which
uses the terminal), and with -i.]],
}

if opt.frequency < 0 or opt.interval == 0 then
  tool.refuse("top", opt.frequency < 0 and "-F: 0 or more" or "-I: more than 0")
end

tool.show_top("top", opt, {
  tool.sampled_event(opt.event), where = not opt.idle and { "tid", "!=", 0 } or nil,
  freq = opt.frequency > 0 and opt.frequency or nil, period = opt.frequency == 0 and 1 or nil,
})
