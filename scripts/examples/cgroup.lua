-- cgroup: a control group (v2) is made; its id is what PERF_SAMPLE_CGROUP gives.
-- perfl -a -d 60s scripts/examples/cgroup.lua      (and mkdir below /sys/fs/cgroup meanwhile)

local perfev = require "perfev"

perfev.event { cgroup = function(r)
  print(("%d %s, by %s"):format(r.id, perfev.escape(r.path), perfev.escape(r.comm or "?")))
end }
