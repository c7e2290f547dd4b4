-- cswlog: logs context switches. It uses switch records alone and needs no root.
-- perfl cswlog make             the switches of a command
-- perfl -a -d 1s cswlog         every CPU, with the other task (needs root)

local perfev = require "perfev"

perfev.args {
  summary = "log context switches",
  output = [[
Prints a line for each switch: TIME(s) since the first, CPU, SWITCH (in, out, or
preempted), COMM and TID of the task; with -a also the other task.]],
}

local first
local seen = { ["in"] = 0, out = 0, preempted = 0 }

perfev.begin(function()
  print(("%12s %4s %-9s %-16s %7s"):format("TIME(s)", "CPU", "SWITCH", "COMM", "TID"))
end)

local function other(r)
  if not r.next_prev_tid then return "" end
  return (" %s %d"):format(r.out and "->" or "<-", r.next_prev_tid)
end

perfev.event { switch = function(r)
  first = first or r.time
  local how = r.preempt and "preempted" or r.out and "out" or "in"
  seen[how] = seen[how] + 1
  local comm = r.tid == 0 and "<idle>" or perfev.escape(r.comm or "?")
  print(("%12.6f %4s %-9s %-16s %7d%s"):format(
    (r.time - first) / 1e9, r.cpu or "-", how, comm, r.tid, other(r)))
end }

perfev.done(function()
  local out = seen.out + seen.preempted
  print(("%d switches: %d in, %d out (%d of them preempted)"):format(
    seen["in"] + out, seen["in"], out, seen.preempted))
end)
