-- Followers of an aggregator: their deltas, the script's own deltas and clear() do not take values from each other, and
-- what is followed counts as what is not.

local core = require "perfev.core"
local perfev = require "perfev"
local sim = require "perfev.sim"

local kinds = { "count", "top", "sum", "avg", "min", "max", "stats", "hist", "linear", "quantile" }

local function new(kind, more)
  local spec = { by = "k" }
  if kind == "linear" then spec.low, spec.high, spec.step = -50, 1000, 7 end
  for name, value in pairs(more or {}) do spec[name] = value end
  return perfev[kind == "linear" and "hist" or kind](spec)
end

-- Adds n values with keys up to most to all of these.
local function feed(n, most, ...)
  for _ = 1, n do
    local value, key = math.random(0, 1 << math.random(40)), math.random(most)
    if key % 3 == 0 then key = ("key %d"):format(key) end
    for _, a in ipairs { ... } do a:add(value, key) end
  end
end

local function rows_of(a) return { a:rows(), { a:other() }, a:uncounted(), a:refused() } end

describe("a followed aggregator", function()
  for _, kind in ipairs(kinds) do
    it("has the values of one that is not followed, and so have the merges of all deltas: " .. kind, function()
      math.randomseed(31)
      local a, plain = new(kind), new(kind)
      local f, g, ours, fs, gs = core.aggregator_follow(a), core.aggregator_follow(a), new(kind), new(kind), new(kind)
      for i = 1, 60 do
        feed(math.random(0, 60), 80, a, plain)
        if i % 2 == 0 then fs:merge(f:delta()) end
        if i % 7 == 0 then gs:merge(g:delta()) end
        if i % 3 == 0 then ours:merge(a:delta()) end
        if i % 10 == 0 then assert.same(rows_of(plain), rows_of(a)) end
      end
      assert.equal(tostring(a), tostring(f:total()))
      for _, merged in ipairs { fs:merge(f:delta()), gs:merge(g:delta()), ours:merge(a:delta()), f:total() } do
        assert.same(rows_of(plain), rows_of(merged))
      end
      assert.equal(0, #f:delta())
      assert.equal(0, #a:delta())
    end)

    it("keeps for its followers what the script clears: " .. kind, function()
      math.randomseed(32)
      local a, all = new(kind), new(kind)
      local f, g, fs, gs = core.aggregator_follow(a), core.aggregator_follow(a), new(kind), new(kind)
      for i = 1, 40 do
        local since = new(kind)
        feed(math.random(0, 60), 80, a, all, since)
        if i % 3 == 0 then fs:merge(f:delta()) end
        if i % 4 == 0 then
          a:clear()
          assert.equal(0, #a)
          assert.equal(0, #a:delta())
        end
        if i % 9 == 0 then gs:merge(g:delta()) end
        assert.same(rows_of(all), rows_of(f:total()))
      end
      local late = core.aggregator_follow(a)
      feed(20, 100, a, all)
      for _, merged in ipairs { fs:merge(f:delta()), gs:merge(g:delta()), f:total(), g:total(), late:total(),
        new(kind):merge(late:delta()) } do
        assert.same(rows_of(all), rows_of(merged))
      end
    end)
  end

  it("gives keys their cells in the order of their first values, up to max_keys", function()
    math.randomseed(33)
    for _, most in ipairs { 1, 50, 20000 } do
      local a, plain = new("sum", { max_keys = most }), new("sum", { max_keys = most })
      local f = core.aggregator_follow(a)
      feed(30000, 25000, a, plain) -- more keys than are collected apart
      assert.same(rows_of(plain), rows_of(a))
      assert.same(rows_of(plain), rows_of(f:delta()))
    end
  end)

  it("is bounded as others are if it is a top", function()
    math.randomseed(34)
    local exact, a = new "count", new("top", { max_keys = 20 })
    local f, merged = core.aggregator_follow(a), new("top", { max_keys = 20 })
    for i = 1, 40 do
      for _ = 1, 100 do
        local key = math.random(math.random(200))
        exact:inc(key)
        a:inc(key)
      end
      if i % 2 == 0 then merged:merge(f:delta()) end
    end
    for _, one in ipairs { a, merged } do
      assert.is_true(one:floor() <= 4000 // 20)
      local seen = {}
      for _, row in ipairs(one:rows()) do
        local true_count = exact:get(row.k)
        seen[row.k] = true
        assert.is_true(true_count <= row.value.count and true_count >= row.value.count - row.value.error)
      end
      for _, row in ipairs(exact:rows()) do assert.is_true(seen[row.k] or row.value <= one:floor()) end
    end
  end)

  it("passes on the records that it could not count", function()
    local k = sim.new { cpus = "0" }
    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false }
      local a = perfev.sum { by = "addr", value = "period" }
      local f, merged = core.aggregator_follow(a), perfev.sum { by = "addr", value = "period" }
      s:event { type = 1, config = 0, sample_period = 1, sample = a }
      assert(s:start())
      for i = 1, 6 do
        k:emit(k.events[1], "sample", { pid = 7, tid = 7, cpu = 0, period = 3 })
        s:dispatch()
        if i % 2 == 0 then merged:merge(f:delta()) end
        if i % 3 == 0 then a:clear() end
      end
      assert.same({}, a:uncounted())
      assert.same({ addr = 6 }, merged:uncounted())
      assert.same({ addr = 6 }, f:total():uncounted())
    end)
  end)

  it("takes a merge for its followers, too", function()
    local a, b = perfev.hist { by = "k" }, perfev.hist { by = "k" }
    local f = core.aggregator_follow(a)
    b:add(5, "x")
    a:merge(b):merge(a)
    assert.equal(2, f:delta():get("x").count)
    assert.equal(2, a:get("x").count)
  end)

  it("names functions in deltas and totals as in its own rows", function()
    local k = sim.new { cpus = "0" }
    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false }
      local a = perfev.count { by = "symbol" }
      local f = core.aggregator_follow(a)
      s:event { type = 1, config = 0, sample_period = 1, callchain = true, sample = a }
      assert(s:start())
      local function emit(nr)
        for i = 1, nr do
          local ip = 0x1000 + i
          k:emit(k.events[1], "sample", { pid = 7, tid = 7, cpu = 0, ip = ip, callchain = { -512, ip } })
        end
        s:dispatch()
      end
      emit(3)
      local names = a:rows()
      assert.equal(3, names[1].value)
      a:clear()
      emit(2)
      local delta = f:delta()
      assert.same({ { symbol = names[1].symbol, value = 5 } }, delta:rows())
      assert.same(delta:rows(), f:total():rows())
      assert.same({ { symbol = names[1].symbol, value = 2 } }, a:rows())
    end)
  end)

  it("stays in the session's budget with its followers, and loses no value", function()
    local k = sim.new { cpus = "0" }
    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false, max_bytes = "1M" }
      local a, plain = perfev.count { by = "time", max_keys = 1 << 20 }, perfev.count {}
      local f = core.aggregator_follow(a)
      s:event { type = 1, config = 0, sample_period = 1, sample = { a, plain } }
      assert(s:start())
      local n = 0
      for _ = 1, 30 do
        for _ = 1, 1000 do
          n = n + 1
          k:emit(k.events[1], "sample", { pid = 7, tid = 7, cpu = 0, time = n })
        end
        s:dispatch()
      end
      assert.equal(30000, plain:get())
      for _, one in ipairs { a, f:delta() } do
        local sum = one:other() or 0
        for _, row in ipairs(one:rows()) do sum = sum + row.value end
        assert.equal(30000, sum)
        local _, others, unfit = one:other()
        assert.same({ 30000 - #one, others }, { others, unfit })
        assert.is_true(#one > 100 and #one < 30000)
      end
      -- Each value counts once; those that a follower refuses are the same.
      local late = core.aggregator_follow(a)
      assert.equal(select(3, a:other()), s:totals().beyond_memory)
      assert.is_true(#late:delta() <= #a)
    end)
  end)

  it("has a total that is complete, also if nothing followed when the script cleared again", function()
    local a = perfev.sum { by = "k" }
    local f = core.aggregator_follow(a, true)
    for i = 1, 5 do
      a:add(i, "x")
      a:clear()
      assert.equal(i > 1, f == nil)
      f = nil
      collectgarbage()
      collectgarbage()
    end
    assert.equal(15, core.aggregator_follow(a, true):total():get "x")
    assert.equal(15, core.aggregator_follow(a):delta():get "x")
  end)

  it("keeps its values when a follower is dropped", function()
    local a = perfev.count { by = "k" }
    for i = 1, 3 do
      local f = core.aggregator_follow(a)
      a:inc "x"
      assert.equal(i, f:delta():get "x")
      f = nil -- luacheck: ignore
      collectgarbage()
    end
    a:inc "x"
    assert.equal(4, a:get "x")
  end)
end)
