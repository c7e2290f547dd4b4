-- self: a program watches itself: what does a table of a million numbers cost in page faults?
-- lua5.4 scripts/examples/self.lua                 (perfev must be installed; no root needed)

local perfev = require "perfev"

local faults = perfev.count {}
local session = perfev.session { pid = "self" }
session:event { "page-faults:u", period = 1, sample = faults }

assert(session:start())
local list = {}
for i = 1, 1000000 do list[i] = i end
session:stop()
assert(session:run()) -- delivers what is there, and ends at once

print(("%d numbers, %d page faults"):format(#list, faults:get() or 0))
