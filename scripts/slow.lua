-- slow: shows why the slow calls of a function, or between two events, are slow.
-- perfl slow ./srv:handle -- ./srv
-- perfl -a -d 10s slow syscalls:sys_enter_fsync syscalls:sys_exit_fsync
-- perfl -p 1234 -d 10s slow ./srv:handle --over 10ms -f html -o slow.html

local perfev = require "perfev"
local tool = require "perfev.tool"

local PARTS = "cpu, offcpu, wakeups, faults"

local opt = perfev.args {
  summary = "show why the slow calls of a function, or between two events, are slow",
  { "start", metavar = "FUNCTION|START", help = "FILE:SYMBOL of a program, the kernel's SYMBOL; or the first event" },
  { "stop", metavar = "STOP", required = false, help = "the second event" },
  { "--slowest", metavar = "SHARE", help = "compare the slowest of this share with the rest (default: 5%)" },
  { "--quantile", type = "number", metavar = "Q", help = "instead: those above this quantile, as in 0.99" },
  { "--over", type = "duration", metavar = "TIME", help = "instead: those of at least this duration" },
  { "--key", metavar = "FIELD", help = "join START and STOP of different threads by this field, as in args.id" },
  { "--with", metavar = "PARTS", help = "collect only these of " .. PARTS },
  { "-F --freq", type = "integer", default = 1999, metavar = "HZ", help = "CPU samples per second" },
  { "--call-graph", default = "dwarf", metavar = "HOW", help = "how to take stacks: dwarf[,BYTES], fp, defer, lbr" },
  { "-f --format", choices = { "text", "html", "json" }, default = "text", metavar = "FORMAT",
    help = "text; html: a page with a differential flame graph; json, as -j" },
  tool.options.title,
  epilog = [[
The first line names the cause. The table below it compares the slow calls with
the rest: time on the CPU, waiting for a CPU, blocked for each reason. Wakeups
by other programs and by interrupts are seen only with -a.]],
}

local function refuse(why) tool.refuse("slow", why) end
local nr_ways = (opt.slowest and 1 or 0) + (opt.quantile and 1 or 0) + (opt.over and 1 or 0)
if nr_ways > 1 then refuse "more than one of --slowest, --quantile and --over\n  try: --slowest 5%" end
local share = opt.quantile and 1 - opt.quantile
if opt.slowest then
  local number = tonumber((opt.slowest:match "^([%d.]+)%%?$"))
  share = number and (opt.slowest:find "%%$" and number / 100 or number)
end
if (opt.slowest or opt.quantile) and not (share and share > 0 and share < 1) then
  refuse(opt.quantile and ("--quantile %s: not a number between 0 and 1\n  try: --quantile 0.99"):format(opt.quantile)
    or ("--slowest %s: not a share of the calls\n  try: --slowest 5%%"):format(perfev.escape(opt.slowest)))
end
if opt.key then tool.field_list("slow", "--key", opt.key) end
if opt.key and not opt.stop then refuse("--key: joins two events\n  try: perfl slow START STOP --key " .. opt.key) end
local parts = opt["with"] and {}
for part in (opt["with"] or ""):gmatch "[^,%s]+" do
  if not (", " .. PARTS .. ","):find(", " .. part .. ",", 1, true) then
    refuse(("--with: '%s' is not one of %s\n  try: --with cpu,offcpu"):format(perfev.escape(part), PARTS))
  end
  parts[#parts + 1] = part
end

local watched = perfev.calls { func = not opt.stop and opt.start or nil, start = opt.stop and opt.start or nil,
  stop = opt.stop, key = opt.key, with = parts, callchain = tool.with_stacks("slow", opt, {}).callchain,
  freq = opt.freq > 0 and opt.freq or refuse(("-F %d: not above 0\n  try: -F 1999"):format(opt.freq)) }
perfev.done(function()
  local format = tool.output_format() == "json" and "json" or opt.format
  io.write(watched[format](watched, { slowest = not opt.over and share or nil, over = opt.over and opt.over .. "ns",
    title = opt.title }))
end)
