-- every: prints a line every second.
-- perfl -a -d 10s scripts/examples/every.lua       (needs root)

local perfev = require "perfev"

local switches = perfev.count { where = { "out", "==", true } }

perfev.event { switch = switches }

perfev.every("1s", function()
  print(("%8d context switches, %d records lost"):format(switches:delta():get() or 0, perfev.totals().lost))
end)

perfev.done(function() switches:delta() end) -- drops the last part of a second
