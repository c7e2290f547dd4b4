-- itrace_start: a hardware trace begins, and whose it is.
-- perfl -a -d 1s scripts/examples/itrace_start.lua
-- Needs Intel PT; where there is none, it says so.

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
