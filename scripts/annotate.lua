-- annotate: shows which lines and instructions of a function use the CPU.
-- perfl annotate work -- ./server
-- perfl record -q -- ./server
-- perfl -i perf.data annotate work --asm

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show which lines and instructions of a function use the CPU",
  { "function", metavar = "FUNCTION", help = "the name of the function, as profile prints it" },
  { "-e --event", default = "cpu-clock", metavar = "EVENT", help = "sample this event" },
  { "-F --frequency", type = "integer", default = 999, metavar = "HZ", help = "samples a second; 0: every event" },
  { "-f --format", choices = { "text", "html" }, default = "text", metavar = "FORMAT", help = "text or html" },
  { "--asm", help = "print instructions only, by address, each with its line" },
  output = [[
Prints the shares of the function's source lines, each followed by the lines and
its instructions, with their shares. --asm prints the instructions alone.]],
  epilog = [[
A sample counts for the instruction at its own address, not for the callers. The
shares are of the sum of the periods, as in perf annotate.]],
}

if opt.frequency < 0 then tool.refuse("annotate", "-F: 0 or more") end

local by = { by = "symbol", addresses = true, max_keys = 1 << 20 }
local count = perfev.count(by)
by.value = "period"
local periods = perfev.sum(by)

local event = perfev.event {
  tool.sampled_event(opt.event),
  freq = opt.frequency > 0 and opt.frequency or nil, period = opt.frequency == 0 and 1 or nil,
  sample = { count, periods },
}

perfev.done(function()
  local name = opt.event == "cpu-clock" and tool.replaced_clock("annotate", event) or opt.event
  tool.print_function("annotate", opt["function"], count, periods, { event = name, format = opt.format, asm = opt.asm })
end)
