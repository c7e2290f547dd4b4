-- breakpoint: who writes a variable: the line that bash is at, in a bash of our own.
-- perfl scripts/examples/breakpoint.lua -- bash -c 'x=1; y=2; z=3'

local perfev = require "perfev"

local writers = {}

perfev.event { "mem:bash:line_number:w", optional = true, sample = function(r)
  writers[r.ip] = (writers[r.ip] or 0) + 1
end }

perfev.done(function()
  local ips = {}
  for ip in pairs(writers) do ips[#ips + 1] = ip end
  table.sort(ips)
  for _, ip in ipairs(ips) do print(("%d writes by the code at %#x"):format(writers[ip], ip)) end
end)
