-- fork: prints new tasks: a process (new pid) or a thread (the parent's pid).
-- perfl scripts/examples/fork.lua -- sh -c 'ls; ls'

local perfev = require "perfev"

perfev.event { fork = function(r)
  local what = r.pid == r.ppid and "thread" or "process"
  print(("%s %d, of %d %s"):format(what, r.tid, r.ptid, perfev.escape(r.comm)))
end }
