-- every: a line a second while it runs.
-- perfl -a -d 10s scripts/examples/every.lua       (needs root)

local perfev = require "perfev"

local switches = 0

perfev.event { switch = function(r)
  if r.out then switches = switches + 1 end
end }

perfev.every("1s", function()
  print(("%8d context switches, %d records lost"):format(switches, perfev.stats().lost))
  switches = 0
end)
