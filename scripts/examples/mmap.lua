-- mmap: prints the code that a process maps: its program, the loader, libraries.
-- perfl scripts/examples/mmap.lua -- ls

local perfev = require "perfev"

perfev.event { mmap = function(r)
  print(("%7d %12x %8d KiB %s"):format(r.pid, r.addr, r.len // 1024, perfev.escape(r.filename)))
end }
