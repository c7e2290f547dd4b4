-- funclatency: shows how long a function takes, from its call to its return.
-- perfl funclatency libc:getenv -- bash -c true
-- perfl -a -d 5s funclatency libc:malloc --per comm

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show how long a function takes, from its call to its return",
  { "function", metavar = "FUNCTION", help = "FILE:SYMBOL of a program or a library, or the kernel's SYMBOL" },
  tool.options.per, tool.options.least, tool.options.interval, tool.options.unit, tool.options.latency_format,
  output = [[
Prints a histogram for the function, or for each KEY, then the average, the
total and the count.]],
  epilog = [[
The time includes waiting. If the function calls itself, only the innermost call
counts.]],
}

local name = opt["function"]:gsub("^[uk]%l*probe:", "") -- as an event has it
local kind = name:find(":", 1, true) and "u" or "k"
local all = perfev.stats { unit = "ns" } -- in whole us, a million calls of 900 ns would add up to 0

local function print_sums()
  local row, per = all:rows()[1], perfev.units.duration("1" .. opt.unit)
  all:clear()
  if not row then return end
  local ns = row.value
  print(("avg = %d %s, total: %d %s, count: %d"):format(ns.sum // ns.count // per, opt.unit, ns.sum // per, opt.unit,
    ns.count))
end

local report = tool.latency("funclatency", opt, { title = name, footer = print_sums,
  per = { comm = "comm", pid = "pid", tid = "tid", cgroup = "cgroup" } })
perfev.done(function() all:rows() end) -- read: perfl does not print it

local calls = report:span { start = true, stop = true, cancel = true, by = "tid" }
local twins = perfev.span { start = true, stop = true, cancel = true, by = "tid", into = all,
  least = opt.least .. "ns" }
-- A task that ends inside the function does not return: a new task with its tid begins anew.
perfev.event { ("%sprobe:%s"):format(kind, name), sample = { calls.start, twins.start },
  exit = { calls.cancel, twins.cancel } }
perfev.event { ("%sretprobe:%s"):format(kind, name), sample = { calls.stop, twins.stop } }
