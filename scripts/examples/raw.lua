-- raw: samples an event by the number in the CPU's manual (0x3c: cycles on Intel), else cpu-clock.
-- perfl scripts/examples/raw.lua -- ls -R /usr/share/doc

local perfev = require "perfev"

local last
perfev.event { "r3c:u | cpu-clock:u", freq = 999, sample = function(r) last = r:copy() end }

perfev.done(function()
  if last then print(("the last sample: %s at %#x"):format(perfev.escape(last.comm), last.ip)) end
end)
