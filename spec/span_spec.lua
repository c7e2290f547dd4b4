-- Spans: pairs of events joined in C, against the same joined by callbacks.

local kernel = require "spec.support.kernel"
local perfev = require "perfev"

local names = { "start", "stop" }

-- Records of two events, as { which, tid, time, cpu }, through a span into what make() gives; and through callbacks.
local function both(records, make, opts)
  local k = kernel.new { cpus = "0" }
  return perfev.hooks.with(k.hooks, function()
    local s <close> = perfev.session { ordered = false }
    local native, twin, began = make(), make(), {}
    local function event(name) return { type = 1, config = 0, sample_period = 1, name = name } end
    local spec = { start = event "start", stop = event "stop", by = "tid", into = native }
    for key, value in pairs(opts or {}) do spec[key] = value end
    local span = s:span(spec)
    local start, stop = event "start", event "stop"
    function start.sample(r) began[r.tid] = r.time end
    function stop.sample(r)
      if began[r.tid] then twin:add((r.time - began[r.tid]) // 1000, r.cpu) end
      began[r.tid] = nil
    end
    s:event(start)
    s:event(stop)
    assert(s:start())
    for _, r in ipairs(records) do
      local which = r[1] == names[1] and 1 or 2
      for _, ev in ipairs { which, which + 2 } do
        k:emit(k.events[ev], "sample", { pid = r[2], tid = r[2], time = r[3], cpu = r[4] or 0, ip = 1, period = 1 })
      end
    end
    s:dispatch()
    return native, twin, span
  end)
end

local function hist() return perfev.hist { by = "cpu", unit = "us" } end

describe("a span", function()
  it("is how long it took from start to stop, as callbacks have it", function()
    local records, seed = {}, 12345
    for i = 1, 400 do
      seed = (seed * 1103515245 + 12345) & 0x7fffffff
      records[i] = { names[1 + (seed >> 16) % 2], 7 + (seed >> 20) % 5, i * 10000 + seed % 1000, (seed >> 24) % 3 }
    end
    local native, twin, span = both(records, hist)
    assert.is_true(#native == 3 and native:rows()[1].value.count > 10)
    assert.same(twin:rows(), native:rows())
    local counts, pairs_seen = span:unmatched(), 0
    for _, row in ipairs(native:rows()) do pairs_seen = pairs_seen + row.value.count end
    assert.equal(400, 2 * pairs_seen + counts.waiting + counts.unstarted + counts.restarted)
  end)

  it("counts what has no partner, and says so with the aggregator", function()
    local native, _, span = both({ { "stop", 1, 5 }, { "start", 2, 10 }, { "start", 2, 20 }, { "start", 3, 30 },
      { "stop", 2, 1000020 } }, hist)
    assert.same({ waiting = 1, unstarted = 1, restarted = 1, dropped = 0 }, span:unmatched())
    assert.equal(1000, native:get(0).sum)
    assert.same({ "1 stop without a start: not counted", "1 start without a stop: not counted",
      "1 start with another before the stop: not counted" }, native:remarks())
  end)

  it("lets no more wait than it may: the oldest makes room", function()
    local records = {}
    for tid = 1, 300 do records[tid] = { "start", tid, tid } end
    for tid = 1, 300 do records[300 + tid] = { "stop", tid, 5000 } end
    local native, _, span = both(records, hist, { max_waiting = 200 })
    assert.equal(200, native:get(0).count)
    assert.same({ waiting = 0, unstarted = 100, restarted = 0, dropped = 100 }, span:unmatched())
    assert.same({ "100 stops without a start: not counted",
      "100 starts dropped for newer ones: not counted (max_waiting is 200)" }, span:remarks())
  end)

  it("takes no stop that is before its start", function()
    local native, _, span = both({ { "start", 1, 500 }, { "stop", 1, 400 }, { "stop", 1, 2500 } }, hist)
    assert.equal(2, native:get(0).sum)
    assert.equal(1, span:unmatched().unstarted)
  end)

  it("has keys of other names at its ends, which may be several", function()
    local native, _, span = both({ { "start", 1, 0, 2 }, { "stop", 1, 3000, 2 } }, function()
      return perfev.stats { by = "cpu", unit = "ns" }
    end, { start_by = { "cpu", "tid" }, stop_by = { "cpu", "pid" } })
    assert.equal(3000, native:get(2).sum)
    assert.equal(0, span:unmatched().waiting)
  end)

  it("refuses what cannot be joined", function()
    local s <close> = perfev.session {}
    local into = perfev.hist {}
    for _, case in ipairs {
      { { start = "a", stop = "b", into = into }, "nothing says which stop belongs" },
      { { start = "a", stop = "b", by = "tid" }, "into is an aggregator" },
      { { start = "a", stop = "b", by = "tid", into = perfev.count {} }, "count has no values" },
      { { start = "a", stop = "b", by = "tid", into = perfev.sum { value = "ip" } }, "its value is how long" },
      { { start = "a", stop = "b", by = "tid", into = perfev.sum { unit = "m" } }, "not 'm'" },
      { { start = 7, stop = "b", by = "tid", into = into }, "start is an event string" },
      { { start = "a", stop = { "b", sample = print }, by = "tid", into = into }, "sample callback is the span's" },
      { { start = "a", stop = "b", by = "tid", start_by = { "x", "y" }, into = into }, "start_by has 2 names" },
      { { start = "a", stop = "b", by = "tid", into = into, max = 1 }, "no option is called 'max'" },
      { { start = "cpu-clock", stop = "cpu-clock", by = "tip", into = into }, "no record has a field 'tip'" },
    } do
      assert.error_matches(function() s:span(case[1]) end, case[2])
    end
  end)
end)
