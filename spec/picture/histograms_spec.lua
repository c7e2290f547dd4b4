-- Drawings of aggregators: the picture shows all values; and times as key columns.

local perfev = require "perfev"
local drawn = require("spec.support.svg").titles

local function names(svg)
  local list = {}
  for name in svg:gmatch 'class="name">([^<]*)<' do list[#list + 1] = name end
  return list
end

describe("a slot", function()
  it("makes one key of all times in it", function()
    local h = perfev.hist { by = { "comm", "time" }, slot = "10ms" }
    h:add(1, "a", 20000000)
    h:add(2, "a", 29999999)
    h:add(3, "a", 30000000)
    h:add(4, "b", 5)
    assert.equal(3, #h)
    assert.equal(2, h:get("a", 25000000).count)
    assert.same({ "a", 30000000 }, { h:rows()[2].comm, h:rows()[2].time })
    assert.equal(3, h:delta():get("a", 39999999).sum)
    assert.equal("10ms", h:spec().slot)
    assert.is_nil(h:spec().slot_ns)
  end)

  it("takes its time from records of events, and from the stop of a span", function()
    local k = require "perfev.sim".new { cpus = "0" }
    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false }
      local counts = perfev.count { by = "time", slot = "1us" }
      local took = perfev.stats { by = { "time", "cpu" }, slot = 2e-6 }
      local function event(name) return { type = 1, config = 0, sample_period = 1, name = name } end
      local each = event "each"
      each.sample = counts
      s:event(each)
      s:span { start = event "start", stop = event "stop", by = "tid", into = took }
      assert(s:start())
      for i, r in ipairs { { 1, 500 }, { 1, 1500 }, { 1, 1600 }, { 2, 2100 }, { 3, 3100 }, { 2, 3900 }, { 3, 4000 } } do
        k:emit(k.events[r[1]], "sample", { pid = 1, tid = 1, time = r[2], cpu = 0, ip = i, period = 1 })
      end
      s:dispatch()
      assert.same({ { time = 1000, value = 2 }, { time = 0, value = 1 } }, counts:rows())
      assert.same({ 1000, 100 }, { took:get(2000, 0).sum, took:get(4000, 0).sum })
    end)
  end)

  it("is refused without a column 'time', or with an invalid duration", function()
    for message, spec in pairs {
      ["hist: slot needs a column 'time'"] = { slot = "1s", by = "comm" },
      ["hist: slot must be above 0"] = { slot = 0, by = "time" },
      ["hist: slot: duration 'soon'"] = { slot = "soon", by = "time" },
    } do
      assert.error_matches(function() perfev.hist(spec) end, message, 1, true)
    end
  end)
end)

describe("the drawing of a histogram", function()
  it("has a bar for each bucket, with the labels of print()", function()
    local h = perfev.hist { unit = "us", title = "how <long>" }
    for _, value in ipairs { 1, 5, 6, 7, 30 } do h:add(value) end
    local svg = h:svg()
    assert.same({ "1 us to 2 us: 1", "2 us to 4 us: 0", "4 us to 8 us: 3", "8 us to 16 us: 0", "16 us to 32 us: 1" },
      drawn(svg, "bar"))
    assert.same({}, names(svg))
    assert.truthy(svg:find("how &lt;long&gt;", 1, true))
    assert.matches("^<!DOCTYPE html>.*>another<.*", h:html { title = "another" })
  end)

  it("has open ends for buckets below and above the range", function()
    local h = perfev.hist { low = 0, high = 20, step = 10 }
    for _, value in ipairs { -5, 5, 15, 25, 1000 } do h:add(value) end
    assert.same({ "below 0: 1", "0 to 10: 1", "10 to 20: 1", "20 and above: 2" }, drawn(h:svg(), "bar"))
  end)

  it("has a panel for each key, the largest first, the rest in the last, with a note on other keys",
    function()
      local h = perfev.hist { by = { "comm", "cpu" }, max_keys = 4 }
      for i, comm in ipairs { "a", "bb\27", "ccc", "dddd", "lost" } do
        for _ = 1, i do h:add(1, comm, 7) end
      end
      local all = h:svg()
      assert.same({ "(other)", "dddd, 7", "ccc, 7", "bb\\x1b, 7", "a, 7" }, names(all))
      assert.truthy(all:find("5 values of further keys counted as (other): max_keys is 4", 1, true))
      local two = h:svg { panels = 2 }
      assert.same({ "(other)", "(4 others)" }, names(two))
      assert.same({ "1 to 2: 5", "1 to 2: 10" }, drawn(two, "bar"))
    end)
end)

describe("the drawing of a histogram with slots", function()
  it("is a heat map, with each count in its time slot", function()
    local h = perfev.hist { by = "time", slot = "1ms", unit = "ns" }
    for _, row in ipairs { { 3000, 5100000 }, { 3500, 5900000 }, { 9000, 5000000 }, { 3000, 8000000 } } do
      h:add(row[1], row[2])
    end
    local svg = h:svg()
    assert.same({ "0 ns: 2 of 2.05 us to 4.1 us", "0 ns: 1 of 8.19 us to 16.38 us", "3 ms: 1 of 2.05 us to 4.1 us" },
      drawn(svg, "h%d+"))
    assert.truthy(svg:find("time since the first", 1, true))
  end)

  it("has a panel for each of the other columns, and a note on keys beyond max_keys", function()
    local h = perfev.hist { by = { "time", "comm" }, slot = "1ms", max_keys = 2, low = 0, high = 10, step = 5 }
    h:add(11, 0, "a")
    h:add(3, 0, "b")
    h:add(3, 9000000, "b")
    local svg = h:svg()
    assert.same({ "a", "b" }, names(svg))
    assert.same({ "0 ns: 1 of 10 to 15", "0 ns: 1 of 0 to 5" }, drawn(svg, "h%d+"))
    assert.truthy(svg:find("1 value of further keys counted as (other): max_keys is 2", 1, true))
    assert.truthy(svg:find("(other) has no times, and is not drawn", 1, true))
  end)

  it("without values is an empty frame", function()
    assert.same({}, drawn(perfev.hist { by = "time", slot = "1s" }:html(), "h%d+"))
  end)
end)

describe("a drawing", function()
  it("counts as a reading, so that perfl does not print the histogram again", function()
    local unread = #require "perfev.aggregate.aggregator".unread()
    local h = perfev.hist {}
    assert.equal(unread + 1, #require "perfev.aggregate.aggregator".unread())
    h:svg()
    assert.equal(unread, #require "perfev.aggregate.aggregator".unread())
  end)

  it("is refused for other aggregators, and with unknown options", function()
    for message, f in pairs {
      ["svg: count cannot be drawn, perfev.hist can"] = function() perfev.count {}:svg() end,
      ["html: unknown option 'limit'"] = function() perfev.hist {}:html { limit = 1 } end,
      ["svg: panels must be an integer above 0"] = function() perfev.hist {}:svg { panels = 0 } end,
      ["svg: a table expected, not 'x'"] = function() perfev.hist {}:svg "x" end,
    } do
      assert.error_matches(f, message, 1, true)
    end
  end)
end)
