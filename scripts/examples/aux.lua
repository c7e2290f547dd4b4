-- aux: prints how much trace a PMU writes, and the first bytes of each piece.
-- perfl -a -d 1s scripts/examples/aux.lua
-- Requires Intel PT. Without it, or while another session uses it, nothing is printed.

local perfev = require "perfev"

local file = io.open "/sys/bus/event_source/devices/intel_pt/type"
if not file then
  print "this machine has no intel_pt"
  return
end
local kind = file:read("n")
file:close()

perfev.event { name = "intel_pt", type = kind, config = 0, aux_buffer = "1M", optional = true, aux = function(r, bytes)
  local head = bytes:sub(1, 8):gsub(".", function(c) return ("%02x "):format(c:byte()) end)
  print(("cpu %d: %d bytes at %d: %s%s"):format(r.cpu, #bytes, r.aux_offset, head,
    r.truncated and "... (truncated)" or ""))
end }
perfev.done(function()
  local totals = perfev.totals()
  print(("%d bytes, %d times truncated"):format(totals.aux_bytes, totals.aux_truncated))
end)
