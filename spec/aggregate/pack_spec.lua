-- Aggregators as bytes: unpack() returns the packed values, and refuses any other bytes.

local core = require "perfev.core"
local sim = require "perfev.sim"
local perfev = require "perfev"
local run = require "spec.support.run"

local kinds = { "count", "top", "sum", "avg", "min", "max", "stats", "hist", "linear", "quantile" }
local EDGES = { 0, 1, -1, 127, 128, math.maxinteger, math.mininteger }

local function new(kind, more)
  local spec = { by = { "a", "b" }, unit = "us" }
  if kind == "linear" then spec.low, spec.high, spec.step = -50, 1000, 7 end
  for name, value in pairs(more or {}) do spec[name] = value end
  return perfev[kind == "linear" and "hist" or kind](spec)
end

local function feed(a, n)
  for i = 1, n do
    local value = math.random(5) == 1 and EDGES[math.random(#EDGES)] or math.random(-100, 1 << math.random(8, 62))
    if a:spec().kind == "top" then value = value >> 20 end
    local second = math.random(4)
    a:add(value, "task" .. math.random(9) .. ("\0x"):rep(i % 3),
      second == 1 and math.random(-3, 3) or second == 2 and tostring(math.random(3)) or second == 3)
  end
  return a
end

local function cells(a)
  local list = {}
  for x, y, value in a:pairs() do list[#list + 1] = { x, y, value } end
  return { list, { a:other() }, a:uncounted(), a:refused(), a:spec() }
end

-- The same bytes with a sum that fits.
local function resummed(bytes)
  return bytes:sub(1, -9) .. string.pack("<i8", core.pack_sum(bytes, #bytes - 8))
end

describe("a packed aggregator", function()
  for _, kind in ipairs(kinds) do
    it("unpacks to the same values, and merges like the original: " .. kind, function()
      math.randomseed(11)
      local a, b, few = feed(new(kind), 300), feed(new(kind), 300), feed(new(kind, { max_keys = 5 }), 100)
      for _, one in ipairs { a, b, few, new(kind) } do
        local bytes = one:pack()
        local back = assert(perfev.unpack(bytes))
        assert.same(cells(one), cells(back))
        assert.equal(bytes, back:pack())
      end
      local apart = perfev.unpack(a:pack()):merge(perfev.unpack(b:pack()))
      assert.same(cells(a:merge(b)), cells(apart))
    end)
  end

  it("keeps the number of records that it could not count", function()
    local k = sim.new { cpus = "0" }
    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false }
      local a = perfev.sum { by = "addr", value = "period", where = { "period", ">", 0 } }
      s:event { type = 1, config = 0, sample_period = 1, sample = a }
      assert(s:start())
      k:emit(k.events[1], "sample", { pid = 7, tid = 7, cpu = 0, period = 3 })
      s:dispatch()
      local back = assert(perfev.unpack(a:pack()))
      assert.same({ addr = 1 }, back:uncounted())
      assert.same({ "period", ">", 0 }, back:spec().where)
    end)
  end)

  it("has stacks as folded text, one key for each text", function()
    local k = sim.new { cpus = "0" }
    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false }
      local a = perfev.count { by = { "tid", "stack" } }
      s:event { type = 1, config = 0, sample_period = 1, callchain = true, sample = a }
      assert(s:start())
      for i = 1, 3 do
        k:emit(k.events[1], "sample", { pid = 7, tid = 7, cpu = 0, callchain = { -512, 0x1000 + i // 2, 0x2000 } })
      end
      s:dispatch()
      assert.equal(2, #a)
      assert.same({ { 7, "[unknown];[unknown]", 3 } }, cells(assert(perfev.unpack(a:pack())))[1])
    end)
  end)

  it("is refused when it is cut off, changed, of another format or other data", function()
    local bytes = feed(new "quantile", 20):pack()
    for _, case in ipairs {
      { "", "they are not from a:pack()", "EBADMSG" }, { "perfevAG", "cut off", "EBADMSG" },
      { ("x"):rep(100), "they are not from a:pack", "EBADMSG" }, { bytes .. "x", "its sum is another", "EBADMSG" },
      { bytes:gsub("^perfevAG\2", "perfevAG\3"), "its form is number 3, and 1 to 2 are known", "EPROTO" },
      { resummed(bytes .. "12345678"), "does not end after its last value", "EBADMSG" },
      { resummed((bytes:gsub("quantile", "quontile"))), "its content is invalid", "EBADMSG" },
    } do
      local one, why, code = perfev.unpack(case[1])
      assert.is_nil(one)
      assert.is_truthy(why:find("unpack: ", 1, true) == 1 and why:find(case[2], 1, true), why)
      assert.equal(perfev.errno[case[3]], code)
    end
    for n = 0, #bytes - 1 do assert.is_nil((perfev.unpack(bytes:sub(1, n)))) end
    assert.error_matches(function() perfev.unpack(7) end, "unpack: a string expected, not a number")
    assert.error_matches(function() perfev.unpack(bytes, { max_bytes = -1 }) end, "max_bytes must be an integer")
  end)

  it("takes no more memory than max_bytes, even if its header promises more keys", function()
    local bytes = feed(new "quantile", 200):pack()
    local one, why, code = perfev.unpack(bytes, { max_bytes = 200000 })
    assert.is_nil(one)
    assert.matches("^unpack: the keys take more than 200000 bytes of memory\n  try: max_bytes$", why)
    assert.equal(perfev.errno.E2BIG, code)
    -- A head that promises 2^40 keys, without keys.
    local empty = perfev.count { by = "k" }:pack()
    local at = #empty - 8 - 6 -- of the number of keys: then other, two fields, memory, undecided, unfit
    local many = empty:sub(1, at - 1) .. "\x80\x80\x80\x80\x80\x80\x01" .. empty:sub(at + 1)
    why = select(2, perfev.unpack(resummed(many)))
    assert.matches("value %d of 4398046511104 is invalid", why)
  end)

  it("with any one byte changed unpacks to an aggregator or is refused", function()
    math.randomseed(12)
    local taken, refused = 0, 0
    for _, kind in ipairs(kinds) do
      local bytes = feed(new(kind, { max_keys = 4 }), 12):pack()
      for at = 1, #bytes - 8, run.sanitized and 3 or 1 do
        local value = string.char(math.random(0, 255))
        local one, why = perfev.unpack(resummed(bytes:sub(1, at - 1) .. value .. bytes:sub(at + 1)),
          { max_bytes = 1 << 20 })
        if one then
          taken = taken + 1
          assert.equal("string", type(one:pack()))
          assert.is_true(#one:rows() == #one)
        else
          refused = refused + 1
          assert.matches("^unpack: .", why)
        end
      end
    end
    assert.is_true(taken > 50 and refused > 50)
  end)
end)
