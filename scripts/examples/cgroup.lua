-- cgroup: prints new control groups (v2); the id is that of PERF_SAMPLE_CGROUP.
-- perfl -a -d 60s scripts/examples/cgroup.lua      (and mkdir below /sys/fs/cgroup meanwhile)

local perfev = require "perfev"

perfev.event { cgroup = function(r)
  print(("%d %s, by %s"):format(r.id, perfev.escape(r.path), perfev.escape(r.comm or "?")))
end }
