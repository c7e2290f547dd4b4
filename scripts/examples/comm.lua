-- comm: prints new task names, from exec, prctl(PR_SET_NAME) or /proc/PID/comm.
-- perfl scripts/examples/comm.lua -- sh -c 'env true'

local perfev = require "perfev"

perfev.event { comm = function(r)
  print(("%d is %s now (%s)"):format(r.tid, perfev.escape(r.comm), r.exec and "exec" or "renamed"))
end }
