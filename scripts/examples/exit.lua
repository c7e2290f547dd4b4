-- exit: prints how long the tasks lived that started during the run.
-- perfl scripts/examples/exit.lua -- sh -c 'ls; ls'

local perfev = require "perfev"

local born = {}

perfev.event {
  fork = function(r) born[r.tid] = r.time end,
  exit = function(r)
    local lived = born[r.tid] and ("after %.6f s"):format((r.time - born[r.tid]) / 1e9) or ""
    print(("%7d %-16s ends %s"):format(r.tid, perfev.escape(r.comm), lived))
    born[r.tid] = nil
  end,
}
