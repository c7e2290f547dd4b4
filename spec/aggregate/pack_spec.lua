-- Aggregators as bytes: unpack() returns the packed values, and refuses any other bytes.

local core = require "perfev.core"
local pack = require "perfev.aggregate.pack"
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

-- The packs of version 1 that perfev 0.1 wrote, by kind, and what was packed.
local function version_1()
  local packs = {}
  for line in io.lines "spec/fixtures/packs_version_1.txt" do
    local kind, hex = line:match "^(%S+)\t(%x+)$"
    packs[kind] = hex:gsub("%x%x", function(byte) return string.char(tonumber(byte, 16)) end)
  end
  return packs
end

local function packed_in_version_1(kind)
  local spec = { by = { "comm", "args.ok" }, unit = "us", title = "T " .. kind, max_keys = 4 }
  if kind == "linear" then spec.low, spec.high, spec.step = -50, 1000, 100 end
  if kind == "top" then spec.rows = 3 end
  local a = perfev[kind == "linear" and "hist" or kind](spec)
  for i = 1, 12 do
    local value = i * i * 7 - 100
    a:add(value > 0 and value or i, "task" .. (i % 3), i % 2 == 0)
  end
  return a
end

describe("a packed aggregator", function()
  it("of version 1 is still read", function()
    local packs = version_1()
    for _, kind in ipairs(kinds) do
      assert.same(cells(packed_in_version_1(kind)), cells(assert(perfev.unpack(packs[kind]))), kind)
    end
    local slots = assert(perfev.unpack(packs.slots))
    assert.equal(5, slots:get(3000000000).sum)
    assert.same({ "1s", "period" }, { slots:spec().slot, slots:spec().value })
    assert.is_nil(slots:spec().where) -- version 1 did not have it
    for n = 0, #packs.hist - 1 do assert.is_nil((perfev.unpack(packs.hist:sub(1, n)))) end
  end)

  it("keeps all options but the functions of names", function()
    local where = { "or", { "args.ret", "<", 0 }, { "not", { "comm", "in", { "a\0b", "c" } } }, { "ip", "&", -1 },
      { "out", "==", true } }
    for _, spec in ipairs {
      { by = { "caller", "time" }, slot = "100ms", skip = { "^malloc$", "x" }, title = "t", unit = "ns",
        where = where },
      { by = "symbol", addresses = true, max_keys = 7 }, { by = {}, addresses = false },
    } do
      for kind, more in pairs { hist = { value = "period", low = -5, high = 5, step = 2 }, top = { rows = 3 } } do
        for name, value in pairs(spec) do more[name] = value end
        local a = perfev[kind](more)
        local back = assert(perfev.unpack(a:pack()))
        assert.same(a:spec(), back:spec())
        assert.equal(a:pack(), back:pack())
      end
    end
    local named = perfev.count { by = "k", names = { k = tostring } }
    assert.is_nil(assert(perfev.unpack(named:pack())):spec().names)
  end)

  it("refuses to merge with one of another condition, and says how they differ", function()
    local function of(where, kind)
      return assert(perfev.unpack(perfev[kind or "count"] { by = "comm", where = where }:pack()))
    end
    local ret, all = of { "args.ret", "<", 0 }, of()
    assert.has_error(function() all:merge(ret) end,
      'merge: its records are where {"args.ret", "<", 0}, and those here all')
    assert.has_error(function() ret:merge(of { "args.ret", "<", 1 }) end,
      'merge: its records are where {"args.ret", "<", 1}, and those here where {"args.ret", "<", 0}')
    assert.has_error(function() ret:merge(all) end,
      'merge: its records are all, and those here where {"args.ret", "<", 0}')
    assert.has_error(function() all:merge(of({ "args.ret", "<", 0 }, "top")) end,
      "merge: it is a perfev.top, and this is a perfev.count")
    assert.equal(ret, ret:merge(of { "args.ret", "<", 0 }))
  end)

  for _, kind in ipairs(kinds) do
    it("can be packed in parts, whose merge has all values once: " .. kind, function()
      math.randomseed(13)
      for _, most in ipairs { 1000, 6 } do
        local a = feed(new(kind, { max_keys = most }), 300)
        local parts, merged = {}, new(kind, { max_keys = most })
        for first = 1, #a, 4 do
          parts[#parts + 1] = pack.pack_range(a, first, math.min(first + 3, #a))
        end
        for i = #parts, 1, -1 do merged:merge(assert(perfev.unpack(parts[i]))) end
        if a:floor() > 0 then
          -- The part with the floor cannot tell which keys the other parts had.
          local upper = {}
          for _, row in ipairs(merged:rows()) do upper[row.a .. tostring(row.b)] = row.value end
          for _, row in ipairs(a:rows()) do
            local value = assert(upper[row.a .. tostring(row.b)])
            assert.is_true(value.count >= row.value.count and value.count <= row.value.count + a:floor())
            assert.is_true(value.count - value.error <= row.value.count - row.value.error)
          end
        else
          assert.same(a:rows(), merged:rows())
          assert.same({ a:other() }, { merged:other() })
        end
      end
      local none = new(kind)
      assert.equal(none:pack(), pack.pack_range(none, 1, 0))
      assert.error_matches(function() pack.pack_range(none, 1, 1) end, "pack_range: 1 to 1 is not a range of 1 to 0")
      assert.error_matches(function() pack.pack_range(none, 0, 0) end, "0 to 0 is not a range")
    end)
  end

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

  it("can have any sum: a merge adds modulo 2^128", function()
    local a = perfev.sum {}
    a:add(3)
    local low = string.pack("<i8i8", 3, 0)
    local bytes = resummed((a:pack():gsub(low, string.pack("<i8i8", 3, math.maxinteger))))
    local one = assert(perfev.unpack(bytes))
    assert.equal(6, one:merge(one):get())
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
