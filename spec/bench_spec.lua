-- What make bench measures with is what it says: a recording that every reader can be held to.

local perfev = require "perfev"
local run = require "spec.support.run"

local LUA_PATHS = { LUA_PATH = "lua/?.lua;lua/?/init.lua;./?.lua", LUA_CPATH = package.cpath }
local dir

setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function made(name, records)
  local path = dir .. "/" .. name
  local r = run({ "lua5.4", "bench/record.lua", path, tostring(records) }, { env = LUA_PATHS })
  assert.equal(0, r.code, r.err)
  return path
end

describe("the recording of make bench", function()
  it("has as many samples as were asked for, in rounds that a reader puts in order", function()
    local rec = assert(perfev.open(made("a.data", 20001)))
    local n, last, calls = 0, 0, 0
    for r in rec:records { user = false } do
      assert.is_true(r.time >= last)
      last = r.time
      if r.type == "sample" then
        n = n + 1
        assert.equal("task-" .. r.tid - 1000, r.comm)
        calls = calls + (r.args.id >= 0 and r.args.id <= 330 and 1 or 0)
      end
    end
    assert.same({ 20001, 20001, 0, 3 }, { n, calls, rec:stats().late, rec:stats().rounds })
    assert.is_nil(rec.error)
    rec:close()
  end)

  it("is the same whenever it is made", function()
    assert.is_true(run.slurp(made("b.data", 1000)) == assert(run.slurp(made("c.data", 1000))))
  end)
end)
