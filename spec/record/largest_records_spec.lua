-- The largest of everything that a record or a reading can hold a variable number of: the Lua stack has room for it.

local perfev = require "perfev"
local sim = require "perfev.sim"
local wire = require "spec.support.wire"

local MOST = 65528 -- the largest multiple of 8 that header.size holds

local function words(nr)
  local list = {}
  for i = 1, nr do list[i] = string.pack("=I8", i) end
  return table.concat(list)
end

describe("at its limits, a record", function()
  it("has a call chain of 8189 entries", function()
    local nr = (MOST - 16) // 8
    local bytes = wire.frame(9, 2, string.pack("=I8", nr) .. words(nr))
    assert.equal(MOST, #bytes)
    local r = assert(assert(perfev.decoder { sample_type = { "callchain" } }):decode(bytes))
    assert.equal(8189, #r.callchain.raw)
    assert.equal(8189, r.callchain.raw[8189])
  end)

  it("has a group of 2729 values with ids and losses", function()
    local nr = (MOST - 16) // 24
    local bytes = wire.frame(9, 2, string.pack("=I8", nr) .. words(3 * nr))
    local r = assert(assert(perfev.decoder { sample_type = { "read" }, read_format = 4 | 8 | 16 }):decode(bytes))
    assert.equal(2729, #r.read.values)
    assert.same({ value = 3 * nr - 2, id = 3 * nr - 1, lost = 3 * nr }, r.read.values[nr])
  end)

  it("has a branch stack of 2729 entries", function()
    local nr = (MOST - 16) // 24
    local bytes = wire.frame(9, 2, string.pack("=I8", nr) .. words(3 * nr))
    local r = assert(assert(perfev.decoder { sample_type = { "branch_stack" }, branch_sample_type = { "any" } })
      :decode(bytes))
    assert.equal(2729, #r.branch_stack)
  end)

  it("can be copied deep in a recursion of the callback", function()
    local k = sim.new { world = "vm", cpus = "0" }
    local copied
    local function deep(r, n)
      if n == 0 then return r:copy() end
      return (deep(r, n - 1))
    end
    k:after("5ms", function() k:ring(0):push { type = "comm", pid = 42, comm = "cat" } end)
    k:with(function()
      local s = perfev.session { duration = "100ms" }
      s:event { comm = function(r) copied = deep(r, 10000) end }
      assert(s:run())
    end)
    assert.equal("cat", copied.comm)
  end)
end)

it("a group of 500 members is read in one call", function()
  local k = sim.new { world = "vm", tasks = { [11] = "eleven" } }
  k:with(function()
    local spec = { pid = 11 }
    for i = 1, 500 do spec[i] = { "task-clock", name = "clock " .. i } end
    local g <close> = assert(perfev.group(spec))
    for _, event in ipairs(k.events) do event.value = event.id end
    local r = assert(g:read())
    assert.equal(k.events[500].id, r.raw["clock 500"])
    assert.equal(500, #g:names())
  end)
  assert.same({}, k:leaks())
end)
