-- usdt: a static probe that a library's makers have put in: C++ exceptions, as they are thrown.
-- perfl scripts/examples/usdt.lua -- ls      readelf -n FILE lists what a file has; needs root

local perfev = require "perfev"

local thrown = 0

perfev.event { "usdt:libstdc++:libstdcxx:throw", optional = true, sample = function(r, args)
  thrown = thrown + 1
  print(("%s throws the object at %#x"):format(perfev.escape(r.comm or "?"), args.arg1)) -- as the note has them
end }

perfev.done(function() print(thrown .. " exceptions") end)
