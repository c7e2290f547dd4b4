-- aux_output_hw_id: prints the number of an event's records inside the AUX area of another event.
-- perfl -a -d 1s scripts/examples/aux_output_hw_id.lua
-- Requires PEBS into Intel PT (aux_output, Linux 5.17): Atom cores since Tremont.

local perfev = require "perfev"

local PERF_TYPE_HARDWARE, CYCLES = 0, 0

local event = perfev.event { type = PERF_TYPE_HARDWARE, config = CYCLES, aux_output = true,
  precise_ip = 1, freq = 99, optional = true,
  aux_output_hw_id = function(r) print(("cpu %d: hw_id %d"):format(r.cpu, r.hw_id)) end }

perfev.begin(function()
  if event.error then print "this machine has no PEBS into PT (-v says more)" end
end)
