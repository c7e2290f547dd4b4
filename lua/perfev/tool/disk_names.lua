--- Disks by the numbers that block tracepoints have of them.

local core = require "perfev.core"

local M = {}

local MINOR_BITS = 20 -- the kernel's dev_t: MINORBITS in include/linux/kdev_t.h

--- What the numbers are, as "254:0".
function M.numbers(dev)
  return ("%d:%d"):format(dev >> MINOR_BITS, dev & (1 << MINOR_BITS) - 1)
end

--- The disk's name on this machine ("vda"); its numbers where it has none.
function M.name(dev)
  local text = core.slurp(("/sys/dev/block/%s/uevent"):format(M.numbers(dev)))
  return text and text:match "DEVNAME=(%S+)" or M.numbers(dev)
end

return M
