-- uretprobe: how much each read() of a command has given: what a function returns.
-- perfl scripts/examples/uretprobe.lua -- cat /etc/passwd   (needs root)

local perfev = require "perfev"

local calls = perfev.count {}
local bytes = perfev.sum { value = "args.retval", where = { "args.retval", ">", 0 } }

perfev.event { "uretprobe:libc:read", args = { "$retval:ssize_t" }, sample = { calls, bytes } }

perfev.done(function()
  print(("%d calls of read() gave %d bytes"):format(calls:get() or 0, bytes:get() or 0))
end)
