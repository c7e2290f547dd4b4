-- Time order across CPUs: a session reads simulated rings with records at random times.

local perfev = require "perfev"
local sim = require "perfev.sim"

local MS = 1000000
local TICK, IDLE_TICK, GAP = 100 * MS, 500 * MS, 10 * MS -- as session.h documents them
local SEEDS = 500
local HEAD, TAIL = 1024, 1032 -- of a ring's page

-- xorshift64*: the same schedule from a seed on every machine.
local function random_of(seed)
  local state = seed * 0x9e3779b97f4a7c15 | 1
  return function(from, to)
    state = state ~ (state >> 12)
    state = state ~ (state << 25)
    state = state ~ (state >> 27)
    return from + ((state * 0x2545f4914f6cdd1d) >> 33) % (to - from + 1)
  end
end

-- Each CPU writes records with growing times; a record is visible up to `delay` ns after its time,
-- and not before those that were written before it.
local function schedule(k, random, cpus, count, span, delay)
  for cpu = 0, cpus - 1 do
    local time, visible = 0, 0
    for _ = 1, count do
      time = time + random(1, 2 * span // count)
      visible = math.max(visible, time + random(0, delay))
      local stamp = k.now + time
      k:after(visible, function()
        local event = k.events[cpu + 1]
        k:emit(event, "sample", { time = stamp, period = random(0, 1 << 30) })
      end)
    end
  end
end

local function watch(cpus, opts, sample)
  local k = sim.new { cpus = "0-" .. cpus - 1 }
  perfev.hooks.set(k.hooks)
  local s = perfev.session(opts)
  s:event { type = 1, config = 0, sample_period = 1, comm = true, task = true, sample = sample(k) }
  return s, k
end

local function session_over(random, opts)
  local cpus = random(1, 8)
  local count = 0
  local worst, out_of_order, last = 0, 0, 0
  local wake = ({ 1, 200, 2000, nil })[random(1, 4)]
  local k = sim.new { cpus = "0-" .. cpus - 1 }
  perfev.hooks.set(k.hooks)
  local s = perfev.session { buffer = opts.buffer or "64K", duration = "3s" }
  s:event { type = 1, config = 0, sample_period = 1, comm = true, task = true,
    wakeup_watermark = wake, watermark = wake and true, sample = function(r)
      count = count + 1
      if r.time < last then out_of_order = out_of_order + 1 end
      last = math.max(last, r.time)
      worst = math.max(worst, k.now - r.time)
    end }
  schedule(k, random, cpus, 30, 2000 * MS, opts.delay)
  assert(s:run())
  return { sent = 30 * cpus, count = count, worst = worst, out_of_order = out_of_order, stats = s:totals() }
end

describe("the order of records", function()
  after_each(function() perfev.hooks.clear() end)

  it(("follows their times, on 1 to 8 CPUs, for %d random schedules"):format(SEEDS), function()
    for seed = 1, SEEDS do
      local seen = session_over(random_of(seed), { delay = GAP - 1 })
      assert.equal(seen.sent, seen.count, "seed " .. seed)
      assert.equal(0, seen.out_of_order, "seed " .. seed)
      assert.equal(0, seen.stats.late, "seed " .. seed)
    end
  end)

  it("delays no record longer than an idle tick and the gap", function()
    local worst = 0
    for seed = 1, SEEDS do
      local random = random_of(seed)
      worst = math.max(worst, session_over(random, { delay = 0 }).worst)
    end
    assert.is_true(worst <= IDLE_TICK + GAP, worst / MS .. " ms")
  end)

  -- Runs a session of `duration` with a record every `step` ms from 1 ms to `last` ms. Returns how long each waited.
  local function delays_of(duration, step, last)
    local delays = {}
    local s, k = watch(2, { duration = duration }, function(k)
      return function(r) delays[#delays + 1] = k.now - r.time end
    end)
    for ms = 1, last, step do k:after(ms * MS, function() k:emit(k.events[1 + ms % 2], "sample") end) end
    assert(s:run())
    assert.equal((last - 1) // step + 1, #delays)
    return delays, s:totals(), k
  end

  it("delays a record for one tick and the gap while records arrive", function()
    local delays = delays_of("1s", 33, 700)
    assert.is_true(math.max(table.unpack(delays)) <= TICK + GAP)
    assert.is_true(math.min(table.unpack(delays)) >= GAP)
  end)

  it("costs two wakeups a second without records, and a record waits for the next one", function()
    local _, idle = delays_of("10s", 1, 0)
    assert.equal(1 + 19 + 1, idle.wakeups) -- the fast tick at first, the others, the end
    local delays, sparse = delays_of("10s", 4001, 8003) -- at 1, 4002 and 8003 ms
    assert.same({ 99 * MS, 198 * MS, 297 * MS }, delays)
    assert.equal(21 + 3, sparse.wakeups)
  end)

  it("counts records published too late for their place, and delivers them", function()
    local late, dropped = 0, 0
    for seed = 1, 50 do
      local seen = session_over(random_of(seed), { delay = 500 * MS })
      assert.equal(seen.out_of_order, seen.stats.late)
      late = late + seen.stats.late
      dropped = dropped + seen.sent - seen.count
    end
    assert.equal(0, dropped)
    assert.is_true(late > 50, late)
  end)

  it("is kept for a ring over three quarters full: its records wait in memory", function()
    local seen, n = 0, 0
    local s, k = watch(2, { buffer = "4K" }, function() return function() seen = seen + 1 end end)
    assert(s:start())
    local ring = k.events[1].ring.memory
    while ring:u64(HEAD) <= 3072 do
      k:emit(k.events[1], "sample")
      n = n + 1
    end
    s:dispatch()
    assert.same({ 0, ring:u64(HEAD) }, { seen, ring:u64(TAIL) })
    for _ = 1, 2 do
      k.now = k.now + GAP
      s:dispatch()
    end
    assert.equal(n, seen)
    s:close()
    assert.equal(0, s:totals().lost)
  end)

  it("is kept while no ring is over three quarters full", function()
    local seen = 0
    local s, k = watch(2, { buffer = "4K" }, function() return function() seen = seen + 1 end end)
    assert(s:start())
    for _ = 1, 48 do k:emit(k.events[1], "sample") end
    assert.is_true(k.events[1].ring.memory:u64(1024) <= 3072)
    s:dispatch()
    assert.equal(0, seen)
    s:close()
  end)

  it("keeps waiting records outside of their ring, so that the kernel has room", function()
    local times = {}
    local s, k = watch(2, { buffer = "4K" }, function() return function(r) times[#times + 1] = r.time end end)
    assert(s:start())
    local event = k.events[1]
    local ring = event.ring.memory
    for round = 1, 5 do -- 12,000 bytes through a ring of 4,096
      for i = 1, 48 do k:emit(event, "sample", { time = k.now + 1000 * round + i }) end
      s:dispatch()
      assert.equal(0, #times)
      assert.equal(ring:u64(HEAD), ring:u64(TAIL))
    end
    k:emit(k.events[2], "sample", { time = k.now + 1500 })
    for _ = 1, 2 do
      k.now = k.now + GAP
      s:dispatch()
    end
    assert.equal(5 * 48 + 1, #times)
    for i = 2, #times do assert.is_true(times[i - 1] < times[i]) end
    s:close()
    local stats = s:totals()
    assert.same({ 0, 0, 0 }, { stats.lost, stats.late, stats.corrupt })
    assert.same({}, k:leaks())
  end)

  -- Writes records of one CPU's ring, 24 for each round, until one is delivered. Returns their bytes.
  local function fill_memory(s, k, seen)
    local ring = k.events[1].ring.memory
    while #seen == 0 and ring:u64(HEAD) < 1 << 20 do
      for _ = 1, 24 do k:emit(k.events[1], "sample") end
      s:dispatch()
    end
    return ring:u64(HEAD)
  end

  -- Starts a session of two small rings that holds up to 512 KiB in memory, and lists the CPUs of its records.
  local function start_with_little_memory()
    local seen = {}
    local s, k = watch(2, { buffer = "4K", max_bytes = "1M" }, function()
      return function(r) seen[#seen + 1] = r.cpu end
    end)
    assert(s:start())
    return s, k, seen
  end

  it("is given up when half of max_bytes waits in memory", function()
    local s, k, seen = start_with_little_memory()
    local bytes = fill_memory(s, k, seen)
    assert.is_true(bytes > 500 << 10 and bytes <= (512 << 10) + 4096, bytes)
    s:close()
    assert.equal(0, s:totals().lost)
  end)

  it("includes older records of the other rings when one ring is too full", function()
    local s, k, seen = start_with_little_memory()
    k:emit(k.events[2], "sample", { time = k.now - 5 })
    fill_memory(s, k, seen)
    assert.same({ 1, 0 }, { seen[1], seen[2] })
    s:close()
    assert.equal(0, s:totals().late)
  end)

  it("follows the CPU's number among equal times", function()
    local cpus = {}
    local s, k = watch(4, { duration = "1s" }, function() return function(r) cpus[#cpus + 1] = r.cpu end end)
    k:after(MS, function()
      for _, n in ipairs { 3, 1, 4, 2 } do k:emit(k.events[n], "sample") end
    end)
    assert(s:run())
    assert.same({ 0, 1, 2, 3 }, cpus)
  end)

  it("is not kept with ordered = false: records come at once, ring by ring", function()
    local seen = {}
    local s, k = watch(2, { ordered = false }, function()
      return function(r) seen[#seen + 1] = { r.cpu, r.time - 1000000000000 } end
    end)
    assert(s:start())
    for _, time in ipairs { 20, 10 } do k:emit(k.events[1], "sample", { time = k.now + time }) end
    k:emit(k.events[2], "sample", { time = k.now + 15 })
    s:dispatch()
    assert.equal(3, #seen)
    assert.equal(0, s:totals().late)
    s:close()
  end)

  it("continues after a clock is set back", function()
    local n = 0
    local s, k = watch(2, { duration = "2s", clock = "realtime" }, function() return function() n = n + 1 end end)
    for ms = 1, 1500, 50 do k:after(ms * MS, function() k:emit(k.events[1], "sample") end) end
    local clock, back = k.hooks.clock, 0
    k.hooks.clock = function(id) return clock(id) - back end
    k:after(700 * MS, function() back = 3600 * 1000 * MS end)
    assert(s:run())
    assert.equal(30, n)
  end)
end)
