-- funclatency: how long a function takes, from its call to its return.
-- perfl funclatency libc:getenv -- bash -c true
-- perfl -a -d 5s funclatency libc:malloc --per comm

local perfev = require "perfev"
local agg = require "perfev.agg"
local common = require "perfev.profile.options"

local opt = perfev.args {
  summary = "how long a function takes, from its call to its return",
  { "function", metavar = "FUNCTION", help = "FILE:SYMBOL of a program or a library, or the kernel's SYMBOL" },
  { "--per", choices = { "comm", "tid", "pid" }, metavar = "FIELD", help = "a histogram for each: comm, tid or pid" },
  common.unit,
  epilog = [[
Waiting is part of it. Of calls within a call of the same function the
innermost counts.]],
}

local kind = opt["function"]:find(":", 1, true) and "u" or "k"
local took = perfev.hist { by = opt.per, unit = opt.unit, max_keys = 1 << 20, title = opt["function"] }
perfev.span { start = ("%sprobe:%s"):format(kind, opt["function"]),
  stop = ("%sretprobe:%s"):format(kind, opt["function"]), by = "tid", into = took }

perfev.done(function()
  local count, sum = 0, 0
  for _, row in ipairs(took:rows()) do count, sum = count + row.value.count, sum + row.value.sum end
  took:print()
  if agg.default_form ~= "text" or count == 0 then return end
  print(("avg = %d %s, total: %d %s, count: %d"):format(sum // count, opt.unit, sum, opt.unit, count))
end)
