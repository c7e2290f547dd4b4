-- record: prints every record that has no callback of its own, including unknown types.
-- perfl scripts/examples/record.lua -- true

local perfev = require "perfev"

perfev.event { comm = true, task = true, mmap = true, mmap2 = true, context_switch = true,
  record = function(r) print(r) end }
