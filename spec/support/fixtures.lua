-- fixtures.lua - recordings made by other tools, in a directory beside the tree, with their expected content.
--
--   for _, fixture in ipairs(fixtures) do
--     it("reads " .. fixture.file, function()
--       if fixtures.missing then pending(fixtures.missing) end
--       local rec = perfev.open(fixtures.path(fixture.file))
--
-- Where they are not had the list is one that tells nothing, so that such a loop makes a spec that is pending.

local json = require "spec.support.json"
local run = require "spec.support.run"

local DIRECTORY = "../shared/fixtures/"
local told = run.slurp(DIRECTORY .. "expected.json")

local fixtures = told and json.decode(told) or { { file = "any" } }
fixtures.missing = not told and "no " .. DIRECTORY .. " beside the tree" or nil

function fixtures.path(name) return DIRECTORY .. name end

--- What is told of the one of that name.
function fixtures.named(name)
  for _, fixture in ipairs(fixtures) do
    if fixture.file == name then return fixture end
  end
end

return fixtures
