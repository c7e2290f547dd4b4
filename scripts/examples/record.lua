-- record: every record without a callback of its own, types that are newer than we too.
-- perfl scripts/examples/record.lua -- true

local perfev = require "perfev"

perfev.event { comm = true, task = true, mmap = true, mmap2 = true, context_switch = true,
  record = function(r) print(r) end }
