-- ARCHITECTURE.md against the tree: every source file is listed once, and the functions that it names exist.

local run = require "spec.support.run"

local text = run.slurp "ARCHITECTURE.md"

local function lines_of(command)
  local list = {}
  for line in run.capture(command):gmatch "[^\n]+" do list[#list + 1] = line end
  return list
end

-- path -> how often the tables list it; a .c includes its .h.
local function listed_files()
  local count, folder = {}, nil
  for line in text:gmatch "[^\n]+" do
    if line:find "^##" then folder = line:match "^### `([%w_/]+)/`" end
    local name = folder and line:match "^| `([%w_.]+)` |"
    if name then
      local path = folder .. "/" .. name
      count[path] = (count[path] or 0) + 1
    end
  end
  return count
end

local function source_files()
  local files, is_there = {}, {}
  local list = lines_of "find src lua -type f | sort"
  for _, path in ipairs(list) do is_there[path] = true end
  for _, path in ipairs(list) do
    if not (path:find "%.h$" and is_there[path:gsub("%.h$", ".c")]) then files[#files + 1] = path end
  end
  return files
end

describe("ARCHITECTURE.md", function()
  it("lists every file of src and lua once, and no other", function()
    local count, wrong = listed_files(), {}
    for _, path in ipairs(source_files()) do
      if count[path] ~= 1 then wrong[#wrong + 1] = ("%s: listed %d times"):format(path, count[path] or 0) end
      count[path] = nil
    end
    for path in pairs(count) do wrong[#wrong + 1] = path .. ": not in the tree" end
    table.sort(wrong)
    assert.same({}, wrong)
  end)

  it("names files that exist", function()
    for path in text:gmatch "`([%w_]+/[%w_/.]+%.%l+)`" do
      if path:find "^%l+/" and not path:find "NAME" then
        local there = io.open(path) or io.open("lua/perfev/" .. path)
        assert.truthy(there, path)
        there:close()
      end
    end
  end)

  it("names functions that exist in the files beside them", function()
    local walks = text:match "\n## How data flows\n(.-)\n## The folders\n"
    local checked = 0
    for name, path in walks:gmatch "`([%w_:.]+)%(%)`%s+%(?i?n?%s*`([%w_/]+%.%l+)`" do
      local source = run.slurp(path)
      assert.truthy(source and source:find(name .. "(", 1, true), ("%s() is not in %s"):format(name, path))
      checked = checked + 1
    end
    assert.is_true(checked >= 15, "only " .. checked .. " functions were found")
    local core = run.capture "cat src/*/*.[ch]"
    for name in text:gmatch "`(pev_[%l_]+)%(%)`" do assert.truthy(core:find(name .. "(", 1, true), name) end
  end)

  it("has at most fifty terms in its glossary", function()
    local _, terms = text:match("\n## Glossary\n(.*)$"):gsub("\n| [%l]", "")
    assert.is_true(terms - 1 <= 50, tostring(terms))
  end)
end)
