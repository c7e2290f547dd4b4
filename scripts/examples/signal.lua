-- signal: prints the current count on a signal: kill -USR1 $(pidof perfl)
-- perfl -a scripts/examples/signal.lua             (needs root; ^C ends it)

local perfev = require "perfev"

local programs = 0

perfev.event { comm = function(r)
  if r.exec then programs = programs + 1 end
end }

local function report() print(programs .. " programs were started") end

perfev.signal("USR1", report)
perfev.done(report)
