-- lost: prints the number of records dropped because a ring was full. The last record has the rest (r.at_end).
-- perfl -m 4K scripts/examples/lost.lua -- dd if=/dev/zero of=/dev/null bs=1 count=20000

local perfev = require "perfev"

local came, lost = 0, 0

perfev.event { "raw_syscalls:sys_enter",
  sample = function() came = came + 1 end,
  lost = function(r) lost = lost + r.lost end,
}

perfev.done(function() print(("%d samples came, %d were lost"):format(came, lost)) end)
