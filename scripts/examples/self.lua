-- self: counts the page faults of the program itself, for a table of a million numbers.
-- lua5.4 scripts/examples/self.lua                 (perfev must be installed; no root needed)

local perfev = require "perfev"

local faults = perfev.count {}
local session = perfev.session { pid = "self" }
session:event { "page-faults:u", period = 1, sample = faults }

assert(session:start())
local list = {}
for i = 1, 1000000 do list[i] = i end
session:stop()
assert(session:run()) -- delivers the remaining records and ends

print(("%d numbers, %d page faults"):format(#list, faults:get() or 0))
