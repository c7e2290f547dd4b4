-- doc/coverage.md against the specs: every row exists once, and so does the spec that it names as proof.

local docs = require "spec.support.docs"

local STATES = { works = true, simulated = true }

-- The rows of all tables: { number =, feature =, state =, proof =, line = }.
local function rows()
  local list = {}
  for _, line in ipairs(docs.read("doc/coverage.md").lines) do
    local number, feature, state, proof = line.text:match "^| (%d+) | (.-) | (.-) | (.-) |$"
    if number then
      list[#list + 1] = { number = tonumber(number), feature = feature, state = state, proof = proof, line = line.line }
    end
  end
  return list
end

-- The specs named as proof: { file =, sentence =, open = it goes on }.
local function proofs(row)
  local list, rest = {}, row.proof
  rest = rest:gsub('([%w_/]+_spec): "(.-)"', function(file, sentence)
    local shorter = sentence:match "^(.-)…$"
    list[#list + 1] = { file = file, sentence = shorter or sentence, open = shorter ~= nil }
    return ""
  end)
  assert(not rest:find "[^; ]", ("row %d: not understood: %s"):format(row.number, rest))
  return list
end

-- Is there a spec with that sentence? If it is built from parts, the source has the first part.
local function has_spec(source, proof)
  local from = 1
  while true do
    local first, last = source:find(proof.sentence, from, true)
    if not first then return false end
    local before, after = source:sub(first - 12, first - 1), source:sub(last + 1, last + 1)
    local begins = before:find 'it%(%(?"$' or before:find 'on_x86%("$'
    if begins and (proof.open or after == '"') then return true end
    from = last + 1
  end
end

describe("doc/coverage.md", function()
  it("has each feature once, in order", function()
    local expected, found = {}, {}
    for number = 26, 213 do
      if number <= 190 or number == 199 or number >= 201 then expected[#expected + 1] = number end
    end
    for i, row in ipairs(rows()) do found[i] = row.number end
    assert.same(expected, found)
  end)

  it("has a state for each: works, simulated or refused with a cause", function()
    for _, row in ipairs(rows()) do
      assert(STATES[row.state] or row.state:find "^refused: .+", ("row %d: %s"):format(row.number, row.state))
      assert(#row.feature > 0)
    end
  end)

  it("names an existing spec for each", function()
    local missing = {}
    for _, row in ipairs(rows()) do
      local list = proofs(row)
      assert(#list > 0, ("row %d names no spec"):format(row.number))
      for _, proof in ipairs(list) do
        local ok, source = pcall(docs.slurp, "spec/" .. proof.file .. ".lua")
        if not ok then
          missing[#missing + 1] = ("row %d: no file spec/%s.lua"):format(row.number, proof.file)
        elseif not has_spec(source, proof) then
          missing[#missing + 1] = ("row %d: %s has no '%s'"):format(row.number, proof.file, proof.sentence)
        end
      end
    end
    assert.same({}, missing)
  end)
end)
