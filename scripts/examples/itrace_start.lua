-- itrace_start: prints the start of a hardware trace and its task.
-- perfl -a -d 1s scripts/examples/itrace_start.lua
-- Requires Intel PT; without it, prints a message.

local perfev = require "perfev"

local file = io.open "/sys/bus/event_source/devices/intel_pt/type"
if not file then
  print "this machine has no intel_pt"
  return
end
local kind = file:read("n")
file:close()

perfev.event { type = kind, config = 0, optional = true, itrace_start = function(r)
  print(("cpu %d: trace of %d %s"):format(r.cpu, r.tid, perfev.escape(r.comm or "?")))
end }
