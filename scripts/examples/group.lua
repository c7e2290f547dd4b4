-- group: reads two counts at the same moment in each sample: page faults and CPU time so far.
-- perfl scripts/examples/group.lua -- ls -R /usr/share/doc

local perfev = require "perfev"

local last
perfev.event { "{cpu-clock:u,page-faults:u}:S", freq = 999, sample = function(r) last = r:copy() end }

perfev.done(function()
  if not last then return print "no sample" end
  local clock, faults = last.read.values[1].value, last.read.values[2].value
  print(("%d faults in %.3f ms"):format(faults, clock / 1e6))
end)
