-- pattern: prints every tracepoint that a pattern matches, with r.event.name.
-- perfl scripts/examples/pattern.lua -- sh -c 'true; true'

local perfev = require "perfev"

perfev.event { "sched:sched_process_*", sample = function(r)
  print(("%-16s %s"):format(perfev.escape(r.comm), r.event.name))
end }
