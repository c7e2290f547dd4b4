-- uretprobe: prints the result of each read() of a command: the return value of a function.
-- perfl scripts/examples/uretprobe.lua -- cat /etc/passwd   (needs root)

local perfev = require "perfev"

local calls = perfev.count {}
local bytes = perfev.sum { value = "args.retval", where = { "args.retval", ">", 0 } }

perfev.event { "uretprobe:libc:read", args = { "$retval:ssize_t" }, sample = { calls, bytes } }

perfev.done(function()
  print(("%d calls of read() gave %d bytes"):format(calls:get() or 0, bytes:get() or 0))
end)
