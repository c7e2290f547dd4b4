-- hardware: samples cycles by command; without a PMU, as in most virtual machines, CPU time.
-- perfl scripts/examples/hardware.lua -- ls -R /usr/share/doc

local perfev = require "perfev"

local samples = perfev.count { by = "comm" }
perfev.event { "cycles:u", freq = 999, sample = samples }

perfev.done(function()
  local rows, total = samples:rows(), 0
  for _, row in ipairs(rows) do total = total + row.value end
  table.sort(rows, function(a, b) return a.comm < b.comm end)
  for _, row in ipairs(rows) do print(("%5.1f %% %s"):format(100 * row.value / total, perfev.escape(row.comm))) end
  print(total .. " samples")
end)
