-- software: prints page faults with their addresses.
-- perfl scripts/examples/software.lua -- ls        (no root needed with :u)

local perfev = require "perfev"

perfev.event { "page-faults:u", period = 1, sample = function(r)
  print(("%-16s %12x wanted %12x"):format(perfev.escape(r.comm), r.ip, r.addr))
end }
