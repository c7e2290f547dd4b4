-- A count without keys: the kernel counts the event and writes no records, and a script sees no difference.

local perfev = require "perfev"
local sim = require "perfev.sim"

local MS = 1000000

-- Runs a story on a simulated machine and returns what it returns, and whether the first event has a ring.
-- spec: options of the event besides the count; opts: of the session; tell(k, s, a, ev, happen): the story
local function run(spec, opts, tell)
  local k = sim.new { cpus = "0-1", tasks = { [7] = "seven" } }
  return perfev.hooks.with(k.hooks, function()
    local given, said = { tid = 7 }, {}
    given.log = function(_, text) said[#said + 1] = text end
    for name, value in pairs(opts or {}) do given[name] = value end
    local s <close> = perfev.session(given)
    local a = perfev.count {}
    local declared = { "page-faults", period = 1, sample = a }
    for name, value in pairs(spec) do declared[name] = value end
    local ev = s:event(declared)
    local function happen(times)
      for i = 1, times do
        k:ring(i % 2):push { type = "sample", event = { type = 1, config = 2 }, pid = 7, tid = 7 }
      end
      k.now = k.now + 100 * MS
    end
    local told = tell(k, s, a, ev, happen)
    local all = table.concat(said, "\n")
    return told, all:find("page-faults: the kernel counts it; no records are written", 1, true) ~= nil, k
  end)
end

local WITH_RECORDS = { wakeup_events = 1 } -- is about records, so that they are written

-- Runs the story with and without records; returns what both return.
local function same(tell, opts)
  local told, is_counted, k = run({}, opts, tell)
  assert.is_true(is_counted)
  assert.equal(0, k.events[1].attr.sample_period)
  assert.is_nil(k.events[1].ring)
  local recorded, was_counted = run(WITH_RECORDS, opts, tell)
  assert.is_false(was_counted)
  assert.same(recorded, told)
  return told
end

-- Delivers to the end.
local function finish(s)
  s:stop()
  while select(2, s:dispatch()) do end -- luacheck: ignore 542
end

describe("a count without keys", function()
  it("has the same values as from records, in a timer, between two rounds and at the end", function()
    local told = same(function(_, s, a, _, happen)
      local seen = {}
      local function note() seen[#seen + 1] = a:get() or "none" end
      s:every("250ms", note)
      s:done(note)
      assert(s:start())
      for n = 1, 5 do
        happen(n)
        note()
        s:dispatch()
        note()
      end
      happen(10)
      finish(s)
      local totals = s:totals()
      for _, name in ipairs { "records", "delivered", "lost", "late", "unknown_id" } do
        seen[#seen + 1] = totals[name]
      end
      return seen
    end)
    assert.same({ "none", 1, 1, 3, 3, 6, 6, 6, 10, 10, 15, 15, 25, 25, 25, 0, 0, 0 }, told)
  end)

  it("starts again after clear(), and is packed and merged", function()
    local told = same(function(_, s, a, _, happen)
      assert(s:start())
      happen(3)
      s:dispatch()
      local first = perfev.unpack(a:pack())
      a:clear()
      local cleared = a:get() or 0
      happen(4)
      finish(s)
      local second = a:get()
      return { first:get(), cleared, second, a:merge(first) and a:get() }
    end)
    assert.same({ 3, 0, 4, 7 }, told)
  end)

  it("leaves out what happens while its event is switched off, and after its end", function()
    local told = same(function(_, s, a, ev, happen)
      assert(s:start())
      happen(1)
      s:dispatch()
      assert(ev:disable())
      happen(2)
      assert(ev:enable())
      happen(4)
      s:dispatch()
      local seen = { a:get() }
      ev:close()
      happen(8)
      finish(s)
      seen[2] = a:get()
      return seen
    end)
    assert.same({ 5, 5 }, told)
  end)

  it("of two events is their sum, and the events of a pattern are, too", function()
    local told = same(function(_, s, a, _, happen)
      s:event { type = 1, config = 2, period = 1, sample = a }
      assert(s:start())
      happen(3)
      finish(s)
      return { a:get(), s:totals().delivered }
    end)
    assert.same({ 6, 6 }, told)
  end)

  it("has records from then on if its event gets another period", function()
    local told = run({}, {}, function(k, s, a, ev, happen)
      assert(s:start())
      happen(3)
      assert(ev:period(2))
      assert.equal(2, k.events[#k.events].period)
      happen(4)
      finish(s)
      return a:get()
    end)
    assert.equal(7, told)
  end)

  it("stays switched off if it gets records while it is", function()
    run({}, {}, function(k, s, _, ev)
      assert(s:start())
      assert(ev:disable())
      assert(ev:period(2))
      assert.is_false(k.events[#k.events].enabled)
    end)
  end)

  it("has records from then on if a function is declared that could see a count ahead of its record", function()
    local told = run({}, {}, function(_, s, a, _, happen)
      local seen = {}
      assert(s:start())
      happen(2)
      s:event { type = 1, config = 2, period = 1, sample = function() seen[#seen + 1] = a:get() end }
      happen(2)
      finish(s)
      return seen
    end)
    assert.same({ 2, 3 }, told) -- its records are the first of each time
  end)

  it("has records from then on if a loop reads them, or a number of them is delivered", function()
    local told = run({}, {}, function(_, s, a, _, happen)
      assert(s:start())
      happen(3)
      s:dispatch(2)
      happen(3)
      local seen = { a:get() }
      s:dispatch(2)
      seen[2] = a:get()
      finish(s)
      seen[3] = a:get()
      return seen
    end)
    assert.same({ 3, 5, 6 }, told)
    local n = run({}, { duration = "500ms" }, function(k, s, a, _, happen)
      assert(s:start())
      happen(2)
      k:after("50ms", function() happen(3) end)
      local n = 0
      for r in s:records() do n = n + (r.type == "sample" and 1 or 0) end
      return { n, a:get() }
    end)
    assert.same({ 3, 2 }, n)
  end)

  for why, case in pairs {
    ["a period"] = { { period = 2 } },
    ["a frequency"] = { { period = false, freq = 99 } },
    ["a condition"] = { { where = { "tid", "==", 7 } } },
    ["a key"] = { { sample = perfev.count { by = "tid" } } },
    ["a condition of the aggregator"] = { { sample = perfev.count { where = { "tid", "==", 7 } } } },
    ["another aggregator of the same samples"] = { { sample = { perfev.count {}, perfev.count { by = "cpu" } } } },
    ["a list of fields"] = { { sample = function() end, fields = { "cpu" } } },
    ["another callback"] = { { exit = function() end } },
    ["a call chain"] = { { callchain = true } },
    ["a limit of records"] = { {}, { count = 3 } },
    ["rings that are overwritten"] = { {}, { overwrite = true } },
    ["a name of the tasks"] = { {}, { tid = false, comm = "x", all_cpus = true } },
    ["a whole CPU, where perfev's own records are left out"] = { {}, { tid = false, exclude_self = true } },
    ["a timer of the CPU"] = { { "cpu-clock" } },
    ["samples of a group"] = { { "{page-faults,faults}" } },
    ["a callback of another event"] = { {}, {}, function(s) s:event { exit = function() end } end },
  } do
    it("has records if the event or session has " .. why, function()
      local opts = { tid = 7 }
      for name, value in pairs(case[2] or {}) do opts[name] = value or nil end
      local k = sim.new { cpus = "0-1", tasks = { [7] = "seven" } }
      perfev.hooks.with(k.hooks, function()
        local s <close> = perfev.session(opts)
        local declared = { "page-faults", sample = perfev.count {}, period = 1 }
        for name, value in pairs(case[1]) do declared[name] = value or nil end
        s:event(declared)
        if case[3] then case[3](s) end
        assert(s:start())
        assert.is_truthy(k.events[1].ring)
      end)
    end)
  end

  it("has records if the kernel refuses the filter that leaves out perfev's own events", function()
    for nth, errno in pairs { [0] = false, perfev.errno.EINVAL } do
      local k = sim.new { cpus = "0", tracepoints = { ["net:netif_rx"] = { 77, "int len" } } }
      perfev.hooks.with(k.hooks, function()
        local s <close> = perfev.session { exclude_self = true }
        local a = perfev.count {}
        s:event { "net:netif_rx", sample = a }
        if errno then k:fail("ioctl", nth + 1, errno) end -- the first asks for the id
        assert(s:start())
        assert.is_nil(k.events[1].ring)
        assert.equal(errno ~= false, k.events[1].closed == true)
        k:ring(0):push { type = "sample", event = "net:netif_rx", pid = 9, tid = 9, args = { len = 1 } }
        k.now = k.now + 100 * MS
        finish(s)
        assert.equal(1, a:get())
      end)
    end
  end)
end)
