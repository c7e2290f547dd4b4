-- hardware: whose cycles they are; without a PMU, as in most virtual machines, whose time.
-- perfl scripts/examples/hardware.lua -- ls -R /usr/share/doc

local perfev = require "perfev"

local samples, total = {}, 0
perfev.event { "cycles:u", freq = 999, sample = function(r)
  samples[r.comm] = (samples[r.comm] or 0) + 1
  total = total + 1
end }

perfev.done(function()
  local comms = {}
  for comm in pairs(samples) do comms[#comms + 1] = comm end
  table.sort(comms)
  for _, comm in ipairs(comms) do print(("%5.1f %% %s"):format(100 * samples[comm] / total, perfev.escape(comm))) end
  print(total .. " samples")
end)
