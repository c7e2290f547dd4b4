-- Fifty worlds with known totals: what each interval counted is packed, the packs are shuffled and merged, and the
-- result is that of one run over all records, row by row, for every kind of aggregator and for profiles.

local core = require "perfev.core"
local perfev = require "perfev"
local pack = require "perfev.aggregate.pack"
local run = require "spec.support.run"
local sim = require "perfev.sim"

local WORLDS = run.sanitized and 10 or 50
local EDGES = { 0, 1, 127, 128, math.maxinteger, math.mininteger, -1 }

-- { name, a function that makes one }
local makers = {}
for _, kind in ipairs { "count", "sum", "avg", "min", "max", "stats", "hist", "quantile" } do
  for _, by in ipairs { {}, { "tid" }, { "tid", "time" }, { "cpu", "stack" } } do
    table.insert(makers, { ("%s by %s"):format(kind, table.concat(by, ", ")), function()
      return perfev[kind] { by = by, value = kind ~= "count" and "period" or nil,
        slot = by[2] == "time" and "20ns" or nil,
        where = by[1] == "tid" and { "cpu", "in", { 0, 2 } } or nil }
    end })
  end
end
table.insert(makers, { "linear", function()
  return perfev.hist { by = "tid", value = "period", low = -100, high = 5000, step = 37 }
end })

local function new_profile() return perfev.profile { values = { "samples", { "time", unit = "ns" } } } end

-- Sends one random sample to every listener, and counts it in the truth.
local function emit(k, truth, time)
  local tid, cpu = math.random(6), math.random(0, 3)
  local period = math.random(8) == 1 and EDGES[math.random(#EDGES)] or math.random(0, 1 << math.random(40))
  local chain = { -512 }
  for depth = 2, math.random(2, 5) do chain[depth] = 0x1000 * math.random(4) end
  k:emit(k.events[1], "sample", { pid = 7, tid = tid, cpu = cpu, period = period, time = time, ip = chain[2],
    callchain = chain })
  truth.records = truth.records + 1
  truth.periods = truth.periods + period -- modulo 2^64
  truth.of_tid[tid] = (truth.of_tid[tid] or 0) + (cpu % 2 == 0 and 1 or 0)
end

local function shuffle(list)
  for i = #list, 2, -1 do
    local k = math.random(i)
    list[i], list[k] = list[k], list[i]
  end
  return list
end

-- Rows by their keys. A pack has the texts of stacks: those that are equal are one row.
local function rows_of(a)
  local rows, by = {}, a:spec().by
  for _, row in ipairs(assert(perfev.unpack(a:pack())):rows()) do
    local words = {}
    for i, name in ipairs(by) do words[i] = tostring(row[name]) end
    rows[table.concat(words, "\1")] = row.value
  end
  return { rows, { a:other() }, a:uncounted() }
end

local function stacks_of(p)
  local list = {}
  for stack, values in p:stacks() do
    local words = {}
    for i, frame in ipairs(stack) do words[i] = frame.key end
    list[#list + 1] = { table.concat(words, ";"), table.unpack(values) }
  end
  return { list, p.duration }
end

-- One world: packs by interval, those of one run, the truth.
local function run_world(seed)
  math.randomseed(seed)
  local truth, k = { records = 0, samples = 0, periods = 0, of_tid = {} }, sim.new { cpus = "0-3" }
  local whole, followed, listeners = {}, {}, {}
  for i, maker in ipairs(makers) do
    whole[i] = { of = maker[2]() }
    followed[i] = { of = maker[2](), make = maker[2], packs = {} }
    followed[i].follower = core.aggregator_follow(followed[i].of)
    table.insert(listeners, whole[i].of)
    table.insert(listeners, followed[i].of)
  end
  local profiles = { whole = new_profile(), followed = new_profile(), packs = {} }
  profiles.follower = perfev.profile._follow(profiles.followed)
  for _, p in ipairs { profiles.whole, profiles.followed } do
    table.insert(listeners, p:sampler { under = "tid", value = "period" })
  end
  local function add_named(period)
    local stack = {}
    for depth = 1, math.random(4) do
      local i = math.random(5)
      stack[depth] = { symbol = "f" .. i, module = i > 2 and "/lib/m" .. i, file = i > 3 and "a.c" or nil,
        line = i > 3 and i or nil, kernel = i == 1, inlined = i == 4 }
    end
    profiles.whole:add(stack, 1, period)
    profiles.followed:add(stack, 1, period)
    truth.records, truth.periods = truth.records + 1, truth.periods + period
  end
  perfev.hooks.with(k.hooks, function()
    local s <close> = perfev.session { ordered = false }
    s:event { type = 1, config = 0, sample_period = 1, callchain = true, sample = listeners }
    assert(s:start())
    local time = 1
    for _ = 1, math.random(2, 6) do
      for _ = 1, math.random(0, 40) do
        time = time + math.random(9)
        emit(k, truth, time)
        truth.samples = truth.samples + 1
        if math.random(3) == 1 then add_named(math.random(1000)) end
      end
      s:dispatch()
      for _, one in ipairs(followed) do
        local delta = one.follower:delta()
        if math.random(3) == 1 and #delta > 1 then
          local half = #delta // 2
          table.insert(one.packs, pack.pack_range(delta, 1, half))
          table.insert(one.packs, pack.pack_range(delta, half + 1, #delta))
        else
          table.insert(one.packs, delta:pack())
        end
        if math.random(3) == 1 then one.of:clear() end
      end
      table.insert(profiles.packs, profiles.follower:delta():pack())
      if math.random(3) == 1 then profiles.followed:clear() end
    end
    for _, one in ipairs(followed) do one.rest = one.follower:total() end
    profiles.rest = profiles.follower:total()
    for _, one in ipairs(whole) do one.rows = rows_of(one.of) end
    for _, one in ipairs(followed) do one.total_rows = rows_of(one.rest) end
  end)
  return truth, whole, followed, profiles
end

describe("fifty worlds, packed by interval, shuffled and merged", function()
  it("have the values of one run over all", function()
    for seed = 1, WORLDS do
      local truth, whole, followed, profiles = run_world(seed)
      for i, one in ipairs(followed) do
        local merged = one.make()
        for _, bytes in ipairs(shuffle(one.packs)) do merged:merge(assert(perfev.unpack(bytes))) end
        local name = ("world %d: %s"):format(seed, makers[i][1])
        assert.same(whole[i].rows, rows_of(merged), name)
        assert.same(whole[i].rows, one.total_rows, name)
      end
      assert.equal(truth.samples, whole[1].of:get() or 0)
      for tid, nr in pairs(truth.of_tid) do assert.equal(nr > 0 and nr or nil, whole[2].of:get(tid)) end
      local merged = new_profile()
      for _, bytes in ipairs(shuffle(profiles.packs)) do merged:merge(assert(perfev.unpack(bytes))) end
      assert.same({ truth.records, truth.periods }, { merged:total(1), merged:total(2) })
      assert.same(stacks_of(profiles.whole)[1], stacks_of(merged)[1])
      assert.same(stacks_of(profiles.whole)[1], stacks_of(profiles.rest)[1])
    end
  end)

  it("have the counts of a top within its bound", function()
    for seed = 1, WORLDS do
      math.randomseed(seed)
      local exact, a = perfev.count { by = "k" }, perfev.top { by = "k", max_keys = 12 }
      local follower, packs, merged = core.aggregator_follow(a), {}, perfev.top { by = "k", max_keys = 12 }
      local nr = 0
      for _ = 1, math.random(2, 8) do
        for _ = 1, math.random(0, 200) do
          local key = math.random(math.random(60))
          exact:inc(key)
          a:inc(key)
          nr = nr + 1
        end
        table.insert(packs, follower:delta():pack())
        if math.random(3) == 1 then a:clear() end
      end
      for _, bytes in ipairs(shuffle(packs)) do merged:merge(assert(perfev.unpack(bytes))) end
      local seen = {}
      for _, row in ipairs(merged:rows()) do
        seen[row.k] = true
        assert.is_true(exact:get(row.k) <= row.value.count and exact:get(row.k) >= row.value.count - row.value.error)
      end
      for _, row in ipairs(exact:rows()) do assert.is_true(seen[row.k] or row.value <= merged:floor()) end
      assert.is_true(merged:floor() <= nr)
    end
  end)

  it("have the quantiles of the values within the bound of the sketch", function()
    for seed = 1, WORLDS do
      math.randomseed(seed)
      local values, merged = {}, perfev.quantile {}
      for _ = 1, math.random(5) do
        local part = perfev.quantile {}
        for _ = 1, math.random(300) do
          local value = math.random(0, 1 << math.random(45))
          values[#values + 1] = value
          part:add(value)
        end
        merged:merge(assert(perfev.unpack(part:pack())))
      end
      table.sort(values)
      for _, q in ipairs { 0.5, 0.9, 0.99, 0.999 } do
        local exact = values[math.max(1, math.ceil(q * #values))]
        assert.is_true(math.abs(merged:quantile(q) - exact) <= exact / 128, ("seed %d, q %g"):format(seed, q))
      end
    end
  end)
end)
