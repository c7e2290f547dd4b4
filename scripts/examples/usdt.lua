-- usdt: prints C++ exceptions as they are thrown: a static probe of a library.
-- perfl scripts/examples/usdt.lua -- ls      readelf -n FILE lists the probes of a file; needs root

local perfev = require "perfev"

local thrown = 0

perfev.event { "usdt:libstdc++:libstdcxx:throw", optional = true, sample = function(r, args)
  thrown = thrown + 1
  print(("%s throws the object at %#x"):format(perfev.escape(r.comm or "?"), args.arg1)) -- named as in the note
end }

perfev.done(function() print(thrown .. " exceptions") end)
