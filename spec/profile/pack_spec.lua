-- Packed profiles, deltas and merges: nothing of a profile is lost on the way, and hostile bytes are refused.

local core = require "perfev.core"
local pack = require "perfev.aggregate.pack"
local perfev = require "perfev"
local run = require "spec.support.run"

local VALUES = { "samples", { "time", unit = "ns" } }
local HOSTILE = "\27[31mred\255"

local function frame(i)
  return { symbol = i == 4 and HOSTILE or "f" .. i, module = i % 2 == 0 and "/lib/lib" .. i .. ".so" or nil,
    file = i % 3 == 0 and "ä.c" or nil, line = i % 3 == 0 and i or nil, kernel = i % 5 == 0, inlined = i % 7 == 0 }
end

local function feed(p, n, also)
  for _ = 1, n do
    local stack = {}
    for depth = 1, math.random(6) do stack[depth] = frame(math.random(9)) end
    local time = math.random(3) == 1 and math.random(8000) / 8 or math.random(-3, 1 << 40)
    p:add(stack, 1, time)
    if also then also:add(stack, 1, time) end
  end
  return p
end

local function new(more)
  local opt = { values = VALUES }
  for name, value in pairs(more or {}) do opt[name] = value end
  return perfev.profile(opt)
end

-- All stacks with every fact of their frames.
local function content(p)
  local list = {}
  for stack, values in p:stacks() do
    local words = {}
    for i, one in ipairs(stack) do words[i] = one.key end
    list[#list + 1] = { table.concat(words, ";"), table.unpack(values) }
  end
  return { list, p.values, p.title, p.time, p.duration, { p:short_share() } }
end

local function resummed(bytes)
  return bytes:sub(1, -9) .. string.pack("<i8", core.pack_sum(bytes, #bytes - 8))
end

describe("a packed profile", function()
  it("unpacks to the same profile", function()
    math.randomseed(21)
    for _, p in ipairs { feed(new { title = "on <CPU>\n", time = 17, duration = 25 }, 400), new(),
      perfev.profile { title = "plain" } } do
      local back = assert(perfev.unpack(p:pack()))
      assert.same(content(p), content(back))
      assert.equal(p:pack(), back:pack())
      assert.equal(p:pprof(), back:pprof())
      assert.equal(#p, #back)
    end
  end)

  it("keeps the share of stacks that lack callers", function()
    local p = perfev.profile {}
    p:add({ "a", "main" }, 1)
    assert.same({ p:short_share() }, { assert(perfev.unpack(p:pack())):short_share() })
  end)

  it("can be packed in parts, whose merge has all values once", function()
    math.randomseed(22)
    local p, merged = feed(new { duration = 5 }, 500), new()
    local all = #p
    for first = 1, all, 50 do
      merged:merge(assert(perfev.unpack(pack.pack_range(p, first, math.min(first + 49, all)))))
    end
    assert.same(content(p), content(merged))
    assert.is_true(#pack.pack_range(p, 1, 1) < 300)
    assert.error_matches(function() pack.pack_range(p, 1, all + 1) end, "1 to %d+ is not a range of 1 to %d+")
  end)

  it("is refused when it is cut off, changed or larger than max_bytes", function()
    math.randomseed(23)
    local bytes = feed(new(), 100):pack()
    for n = 0, #bytes - 1, run.sanitized and 7 or 1 do assert.is_nil((perfev.unpack(bytes:sub(1, n)))) end
    local one, why, code = perfev.unpack(bytes, { max_bytes = 4096 })
    assert.is_nil(one)
    assert.equal("unpack: the stacks take more than 4096 bytes of memory\n  try: max_bytes", why)
    assert.equal(perfev.errno.E2BIG, code)
    why = select(2, perfev.unpack(resummed(bytes .. "12345678")))
    assert.equal("unpack: it does not end after its last value", why)
  end)

  it("with any one byte changed unpacks to a profile or is refused", function()
    math.randomseed(24)
    local taken, refused = 0, 0
    local bytes = feed(new { title = "t", time = 1, duration = 2 }, 30):pack()
    for at = 1, #bytes - 8, run.sanitized and 3 or 1 do
      local value = string.char(math.random(0, 255))
      local one, why = perfev.unpack(resummed(bytes:sub(1, at - 1) .. value .. bytes:sub(at + 1)),
        { max_bytes = 1 << 20 })
      if one then
        taken = taken + 1
        assert.equal("string", type(one:pack()))
        if getmetatable(one) == getmetatable(perfev.profile {}) then
          assert.is_nil(one:folded():find "[\27\255]")
        end
      else
        refused = refused + 1
        assert.matches("^unpack: .", why)
      end
    end
    assert.is_true(taken > 50 and refused > 50)
  end)

  it("cannot bring names that act on a terminal", function()
    local p = perfev.profile {}
    p:add { { symbol = "plain_name", module = "/some/module" } }
    local bytes = p:pack()
    for _, name in ipairs { "plain_nam\27", "plain_na\xc2\x9b" } do
      assert.equal("unpack: a frame or a stack is invalid", (select(2, perfev.unpack(resummed((bytes:gsub("plain_name",
        name)))))))
    end
    assert.is_table(perfev.unpack(resummed((bytes:gsub("plain_name", "plain_n\xe2\x82\xac")))))
  end)
end)

describe("a merge of profiles", function()
  it("adds values of the same name, and the merge with itself doubles them", function()
    local a = perfev.profile { values = { "samples", { "time", unit = "ns" } } }
    local b = perfev.profile { values = { { "time", unit = "ns" } } }
    a:add("main;f", 2, 5)
    b:add("main;f", 7)
    b:add("main;g", 1)
    assert.equal("main;f 12\nmain;g 1\n", a:merge(b):folded { value = "time" })
    assert.equal("main;f 24\nmain;g 2\n", a:merge(a):folded { value = "time" })
    assert.equal(4, a:total())
  end)

  it("counts stacks that do not fit in max_bytes as (other), and loses no value", function()
    math.randomseed(25)
    local few, many = new { max_bytes = "64K" }, feed(new(), 3000)
    for _ = 1, 3 do few:merge(many) end
    assert.equal(3 * 3000, few:total())
    assert.is_true(#few < #many)
    assert.matches("%(other%) %d+\n", few:folded())
  end)

  it("adds up the durations, and takes the first time", function()
    local a, b = new { time = 20, duration = 3 }, new { time = 10, duration = 4 }
    assert.same({ 10, 7 }, { a:merge(b).time, a.duration })
    assert.is_nil(new():merge(new()).duration)
  end)
end)

describe("the delta of a profile", function()
  it("has the values since the last one, and all deltas have the values of the profile", function()
    math.randomseed(26)
    local p, merged = new { title = "t" }, new { title = "t" }
    for i = 1, 20 do
      feed(p, i * 3)
      local delta = p:delta()
      assert.equal(i * 3, delta:total())
      merged:merge(delta)
    end
    assert.same(content(p), content(merged))
    assert.equal(0, p:delta():total())
    assert.equal(0, #p:delta())
  end)

  it("does not have what was cleared before, but each follower has it", function()
    math.randomseed(27)
    local p, all = new(), new()
    local one, other = perfev.profile._follow(p), perfev.profile._follow(p)
    local ones, others = new(), new()
    assert.equal(p, one:total())
    for i = 1, 12 do
      feed(p, 20, all)
      if i % 2 == 0 then ones:merge(one:delta()) end
      if i % 3 == 0 then
        p:clear()
        assert.equal(0, p:delta():total())
      end
      if i % 5 == 0 then others:merge(other:delta()) end
      assert.equal(all:total(), one:total():total())
    end
    local late = perfev.profile._follow(p)
    feed(p, 5, all)
    assert.equal(5, p:total())
    for _, merged in ipairs { ones:merge(one:delta()), others:merge(other:delta()), one:total(), other:total(),
      new():merge(late:delta()), late:total() } do
      assert.same(content(all), content(merged))
    end
  end)

  it("has totals for a follower without deltas, which keeps nothing and looks up no names for sums", function()
    math.randomseed(29)
    local p, all = new(), new()
    local f = perfev.profile._follow(p, true)
    for _ = 1, 5 do
      feed(p, 20, all)
      p:clear()
      feed(p, 5, all)
      p.resolve = function() error "names" end
      assert.same({ all:total(1), all:total(2) }, f:sums())
      p.resolve = nil
      assert.same(content(all), content(f:total()))
    end
    assert.is_false(f.unread)
    assert.error_matches(function() f:delta() end, "no delta")
    assert.same({ all:total(1), all:total(2) }, perfev.profile._follow(p):sums())
  end)

  it("has the stacks that are counted as (other) in a full profile", function()
    local p = perfev.profile { max_bytes = 4096 }
    local f = perfev.profile._follow(p)
    math.randomseed(28)
    for i = 1, 2000 do p:add("main;f" .. i) end
    assert.equal(2000, p:total())
    assert.equal(2000, f:delta():total())
    p:clear()
    p:add "main"
    assert.equal(1, f:delta():total())
    assert.equal(2001, f:total():total())
  end)
end)
