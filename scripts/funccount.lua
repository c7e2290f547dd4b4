-- funccount: counts the calls of functions, system calls or tracepoints that match patterns.
-- perfl funccount 'syscalls:sys_enter_get*' -- ls
-- perfl funccount uprobe:libc:malloc uprobe:libc:free -- ls

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "count the calls of functions that match patterns",
  { "events", args = "+", metavar = "EVENT",
    help = "as for stat: 'syscalls:sys_enter_*', uprobe:FILE:FUNCTION, kprobe:FUNCTION" },
  { "-T --top", type = "integer", metavar = "N", help = "print only the N most frequent" },
  { "-I --interval", type = "duration", metavar = "TIME", help = "print the counts of each interval of this length" },
  epilog = [[
The kernel counts and writes no records. Functions that are not called are not
printed. More than 32 tracepoints need perfl --many.]],
}

if opt.interval == 0 then tool.refuse("funccount", "-I: more than 0") end

local counter = perfev.counter(opt.events)
local print_row, print_heading = tool.table_printer { { "event", -40 }, { "count", 12 } }

local function print_counts(reading, why)
  if not reading then tool.refuse("funccount", why, 1) end
  local rows = {}
  for name, count in pairs(reading.raw) do
    if count > 0 then rows[#rows + 1] = { event = name, count = count } end
  end
  table.sort(rows, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.event < b.event
  end)
  print_heading()
  for i = 1, math.min(opt.top or #rows, #rows) do print_row(rows[i]) end
end

if opt.interval then
  perfev.every(opt.interval / 1e9, function()
    print_counts(counter:delta())
    if tool.output_format() == "text" then print() end
  end)
end
perfev.done(function() print_counts((opt.interval and counter.delta or counter.read)(counter)) end)
