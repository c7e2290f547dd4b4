--- Names of disks by their device numbers, which block tracepoints have.

local core = require "perfev.core"

local M = {}

local MINOR_BITS = 20 -- the kernel's dev_t: MINORBITS in include/linux/kdev_t.h

--- Returns "254:0".
function M.numbers(dev)
  return ("%d:%d"):format(dev >> MINOR_BITS, dev & (1 << MINOR_BITS) - 1)
end

--- Returns the disk's name on this machine ("vda"), or its numbers.
function M.name(dev)
  local text = core.slurp(("/sys/dev/block/%s/uevent"):format(M.numbers(dev)))
  return text and text:match "DEVNAME=(%S+)" or M.numbers(dev)
end

return M
