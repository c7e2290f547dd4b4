-- aux: how much trace a PMU has written into its AUX area.
-- perfl -a -d 1s scripts/examples/aux.lua
-- Needs Intel PT, and a session that maps an AUX area; without, nothing comes.

local perfev = require "perfev"

local file = io.open "/sys/bus/event_source/devices/intel_pt/type"
if not file then
  print "this machine has no intel_pt"
  return
end
local kind = file:read("n")
file:close()

perfev.event { type = kind, config = 0, optional = true, aux = function(r)
  print(("cpu %d: %d bytes at %d, flags %#x"):format(r.cpu, r.aux_size, r.aux_offset, r.flags))
end }
