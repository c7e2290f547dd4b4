-- breakpoint: counts the writes to a variable by code address: the line number of a bash.
-- perfl scripts/examples/breakpoint.lua -- bash -c 'x=1; y=2; z=3'

local perfev = require "perfev"

local writers = perfev.count { by = "ip" }

perfev.event { "mem:bash:line_number:w", optional = true, sample = writers }

perfev.done(function()
  local rows = writers:rows()
  table.sort(rows, function(a, b) return a.ip < b.ip end)
  for _, row in ipairs(rows) do print(("%d writes by the code at %#x"):format(row.value, row.ip)) end
end)
