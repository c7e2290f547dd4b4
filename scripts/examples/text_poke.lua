-- text_poke: prints changes of the kernel to its own code, as for static keys and ftrace.
-- perfl -a -d 60s scripts/examples/text_poke.lua   (and switch a tracepoint on meanwhile)
-- Requires Linux 5.9; old_bytes and new_bytes hold the code before and after.

local perfev = require "perfev"

local function hex(bytes)
  return (bytes:gsub(".", function(c) return ("%02x "):format(c:byte()) end))
end

perfev.event { text_poke = function(r)
  print(("%016x %s-> %s"):format(r.addr, hex(r.old_bytes), hex(r.new_bytes)))
end }
