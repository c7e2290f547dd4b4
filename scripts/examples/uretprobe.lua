-- uretprobe: how much each read() of a command has given: what a function returns.
-- perfl scripts/examples/uretprobe.lua -- cat /etc/passwd   (needs root)

local perfev = require "perfev"

local calls, bytes = 0, 0

perfev.event { "uretprobe:libc:read", args = { "$retval:ssize_t" }, sample = function(_, args)
  calls = calls + 1
  bytes = bytes + math.max(args.retval, 0)
end }

perfev.done(function() print(("%d calls of read() gave %d bytes"):format(calls, bytes)) end)
