-- hardware: whose cycles they are; without a PMU, as in most virtual machines, whose time.
-- perfl scripts/examples/hardware.lua -- ls -R /usr/share/doc

local perfev = require "perfev"

local samples, total = {}, 0
perfev.event { "cycles:u", freq = 999, sample = function(r)
  samples[r.comm] = (samples[r.comm] or 0) + 1
  total = total + 1
end }

perfev.done(function()
  for comm, n in pairs(samples) do print(("%5.1f %% %s"):format(100 * n / total, perfev.escape(comm))) end
  print(total .. " samples")
end)
