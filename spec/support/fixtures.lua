-- fixtures.lua - recordings of other tools, stored beside the tree, and their documented contents.
--
--   for _, fixture in ipairs(fixtures) do
--     it("reads " .. fixture.file, function()
--       if fixtures.missing then pending(fixtures.missing) end
--       local rec = perfev.open(fixtures.path(fixture.file))
--
-- Without the recordings the list has one entry without contents, so that such a loop makes one pending spec.

local json = require "spec.support.json"
local run = require "spec.support.run"

local DIRECTORY = "../shared/fixtures/"
local told = run.slurp(DIRECTORY .. "expected.json")

local fixtures = told and json.decode(told) or { { file = "any" } }
fixtures.missing = not told and "no " .. DIRECTORY .. " beside the tree" or nil

function fixtures.path(name) return DIRECTORY .. name end

--- Returns the entry of that name.
function fixtures.named(name)
  for _, fixture in ipairs(fixtures) do
    if fixture.file == name then return fixture end
  end
end

return fixtures
