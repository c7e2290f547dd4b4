-- Spans: pairs of events joined in C, against the same joined by callbacks.

local sim = require "perfev.sim"
local perfev = require "perfev"
local stories = require "spec.support.story"(setup, teardown)

local names = { "start", "stop" }

-- Records of two events, as { which, tid, time, cpu }, through a span into the aggregator of make(), and through
-- callbacks.
local function both(records, make, opts)
  local k = sim.new { cpus = "0" }
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
  it("measures the time from start to stop, as callbacks do", function()
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

  it("counts starts and stops without a partner, and the aggregator prints them", function()
    local native, _, span = both({ { "stop", 1, 5 }, { "start", 2, 10 }, { "start", 2, 20 }, { "start", 3, 30 },
      { "stop", 2, 1000020 } }, hist)
    assert.same({ waiting = 1, unstarted = 1, restarted = 1, dropped = 0 }, span:unmatched())
    assert.equal(1000, native:get(0).sum)
    assert.same({ "1 stop without a start: not counted", "1 start without a stop: not counted",
      "1 start with another before the stop: not counted" }, native:remarks())
  end)

  it("drops the oldest start beyond max_waiting", function()
    local records = {}
    for tid = 1, 300 do records[tid] = { "start", tid, tid } end
    for tid = 1, 300 do records[300 + tid] = { "stop", tid, 5000 } end
    local native, _, span = both(records, hist, { max_waiting = 200 })
    assert.equal(200, native:get(0).count)
    assert.same({ waiting = 0, unstarted = 100, restarted = 0, dropped = 100 }, span:unmatched())
    assert.same({ "100 stops without a start: not counted",
      "100 starts dropped for newer ones: not counted (max_waiting is 200)" }, span:remarks())
  end)

  it("ignores a stop before its start", function()
    local native, _, span = both({ { "start", 1, 500 }, { "stop", 1, 400 }, { "stop", 1, 2500 } }, hist)
    assert.equal(2, native:get(0).sum)
    assert.equal(1, span:unmatched().unstarted)
  end)

  it("can have keys of several columns, with other names at start and stop", function()
    local native, _, span = both({ { "start", 1, 0, 2 }, { "stop", 1, 3000, 2 } }, function()
      return perfev.stats { by = "cpu", unit = "ns" }
    end, { start_by = { "cpu", "tid" }, stop_by = { "cpu", "pid" } })
    assert.equal(3000, native:get(2).sum)
    assert.equal(0, span:unmatched().waiting)
  end)

  -- Thread 1 moves from CPU 5 to 2 in 3 us, from 1 to 4 in 2 us; thread 2 stays on CPU 3.
  local moves = { { "start", 1, 0, 5 }, { "stop", 1, 3000, 2 }, { "start", 1, 5000, 1 }, { "start", 2, 6000, 3 },
    { "stop", 1, 7000, 4 }, { "stop", 2, 7500, 3 } }

  -- The largest row of the values: { count, sum, min, max }.
  local function values_of(opts, by)
    local k, into = sim.new { cpus = "0" }, perfev.stats { by = by or {}, unit = "moves" }
    return perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false }
      local spec = { by = "tid", into = into }
      for _, name in ipairs(names) do spec[name] = { type = 1, config = 0, sample_period = 1, name = name } end
      for key, value in pairs(opts) do spec[key] = value end
      local span = s:span(spec)
      assert(s:start())
      for _, r in ipairs(moves) do
        k:emit(k.events[r[1] == "start" and 1 or 2], "sample", { pid = r[2], tid = r[2], time = r[3], cpu = r[4],
          ip = 1, period = 1 })
      end
      assert(s:dispatch())
      local row = into:rows()[1]
      return row and { row.value.count, row.value.sum, row.value.min, row.value.max }, span, into
    end)
  end

  it("takes a field of one end, or the difference of two, as its value", function()
    assert.same({ 3, 9, 2, 4 }, values_of { value = "cpu" })
    assert.same({ 3, 9, 1, 5 }, values_of { value = "start.cpu" })
    assert.same({ 3, 0, -3, 3 }, values_of { value = { "cpu", "-", "start.cpu" } })
    assert.same({ 3, 6491, 1497, 2998 }, values_of { value = { "took", "-", "cpu" } })
    assert.same({ 2, 0, -3, 3 }, values_of({ value = { "cpu", "-", "start.cpu" } }, { "start.tid", "pid" }))
    assert.same({ 1, -3, -3, -3 }, values_of { value = { "cpu", "-", "start.cpu" }, least = "2500ns" })
  end)

  it("takes a function of fields of both ends as its value; nil does not count", function()
    local seen = {}
    local value, span, into = values_of { fields = { "took", "start.cpu", "cpu", "start.comm", "tid" },
      value = function(took, before, after, comm, tid)
        seen[#seen + 1] = ("%d %d %d %s"):format(took, before, after, math.type(comm) or type(comm))
        if tid == 1 then return took + after - before end
      end }
    assert.same({ 2, 5000, 2003, 2997 }, value)
    assert.same({ "3000 5 2 string", "2000 1 4 string", "1500 3 3 string" }, seen)
    assert.same({}, into:remarks())
    assert.is_nil(span:unmatched().failed)
  end)

  it("keeps the key of a pair whose function adds to the same aggregator", function()
    local into = perfev.stats { by = "tid", unit = "moves" }
    values_of { into = into, fields = { "took" }, value = function()
      into:add(10, 99)
      return 1
    end }
    assert.same({ 2, 1, 30 }, { into:get(1).sum, into:get(2).sum, into:get(99).sum })
  end)

  it("counts pairs whose value is not an integer or raises an error", function()
    local calls = 0
    local value, span, into = values_of { fields = { "tid" }, value = function(tid)
      calls = calls + 1
      if tid == 2 then return "2" end
      if calls == 1 then error("no\27value", 0) end
      return 7
    end }
    assert.same({ 1, 7, 7, 7 }, value)
    assert.same({ 1, 1 }, { span:unmatched().valueless, span:unmatched().failed })
    assert.same({ "1 pair whose value is not an integer: not counted", "1 pair for which value failed: no\\x1bvalue" },
      into:remarks())
  end)

  it("refuses values that no pair can have", function()
    local s <close> = perfev.session {}
    local function f() end
    for _, case in ipairs {
      { { value = "comm" }, "value: comm is not a number" },
      { { value = { "cpu", "+", "start.cpu" } }, "a field, a difference of two, or a function expected" },
      { { value = {} }, "a field, a difference of two, or a function expected" },
      { { value = { 1, "-", 2 } }, "a field, a difference of two, or a function expected" },
      { { value = "via.cpu" }, "value: via.cpu, but the span has no 'via'" },
      { { value = f }, 'try: fields = { "start.args.NAME"' },
      { { fields = { "cpu" } }, "fields: they are the arguments of a function" },
      { { fields = { "a", "b", "c", "d", "e", "f", "g", "h", "i" }, value = f }, "fields: at most 8" },
      { { value = "cpo" }, "no record has a field 'cpo'" },
      { { value = 3 }, "value must be a field" },
    } do
      local spec = { start = "cpu-clock", stop = "cpu-clock", by = "tid", into = perfev.sum {} }
      for name, value in pairs(case[1]) do spec[name] = value end
      local ok, why = pcall(s.span, s, spec)
      assert.is_false(ok)
      assert.truthy(why:find(case[2], 1, true), why)
    end
  end)

  it("refuses ends that cannot be joined", function()
    local s <close> = perfev.session {}
    local into = perfev.hist {}
    for _, case in ipairs {
      { { start = "a", stop = "b", into = into }, "no field joins a stop to its start" },
      { { start = "a", stop = "b", by = "tid" }, "no aggregator takes the times" },
      { { start = "a", stop = "b", by = "tid", into = perfev.count {} }, "count has no values" },
      { { start = "a", stop = "b", by = "tid", into = perfev.sum { value = "ip" } }, "its value is how long" },
      { { start = "a", stop = "b", by = "tid", into = perfev.sum { unit = "m" } }, "not 'm'" },
      { { start = 7, stop = "b", by = "tid", into = into }, "start must be an event string" },
      { { start = "a", stop = { "b", sample = print }, by = "tid", into = into }, "sample callback is the span's" },
      { { start = "a", stop = "b", by = "tid", start_by = { "x", "y" }, into = into }, "start_by has 2 names" },
      { { start = "a", stop = "b", by = "tid", into = into, max = 1 }, "unknown option 'max'" },
      { { start = "cpu-clock", stop = "cpu-clock", by = "tip", into = into }, "no record has a field 'tip'" },
    } do
      assert.error_matches(function() s:span(case[1]) end, case[2])
    end
  end)
end)

-- ---- ends placed by the script, and the values kept of each ----

local KERNEL, USER = -128, -512 -- PERF_CONTEXT_*

local function switch(tid, out) return { type = "switch", pid = tid, tid = tid, out = out, preempt = false } end

-- A switch out comes between, one in ends it, an exit does uncounted.
local function random_story(steps)
  local story, seed = { stories.app(7), stories.comm(7, "seven"), stories.app(8), stories.comm(8, "eight"),
                        stories.app(9) }, 4711
  local function any(n)
    seed = (seed * 1103515245 + 12345) & 0x7fffffff
    return (seed >> 16) % n
  end
  for _ = 1, steps do
    local tid, what = 7 + any(3), any(20)
    if what < 9 then
      local chain = { KERNEL, 0xffffffff81000100 + any(3) * 8, USER, 0x400100 }
      story[#story + 1] = stories.sample(tid, any(4) == 0 and {} or chain)
    elseif what < 19 then
      story[#story + 1] = switch(tid, any(2) == 0)
    else
      story[#story + 1] = { type = "exit", pid = tid, tid = tid, ppid = 1, ptid = 1, time = 1 }
    end
  end
  return story
end

local BY = { "start.comm", "via.time", "type", "start.stack" } -- in no order of theirs

-- The span of these ends.
local function placed(into, more)
  local spec = { start = true, via = true, stop = true, cancel = true, by = "tid", into = into,
    via_where = { "out", "==", true }, stop_where = { "out", "==", false }, start_where = { "tid", "!=", 9 } }
  for name, value in pairs(more or {}) do spec[name] = value end
  return perfev.span(spec)
end

local function natively(way, story, into, more)
  local span = placed(into, more)
  way(story, span.start, { callbacks = { switch = { span.via, span.stop }, exit = span.cancel } })
  return span
end

-- The same by callbacks; the aggregator leaves out records without a stack.
local function by_callbacks(way, story, into)
  local begun, counts = {}, { waiting = 0, unstarted = 0, restarted = 0, dropped = 0, bypassed = 0, cancelled = 0 }
  way(story, function(r)
    if r.tid == 9 or not r.stack then return end
    if begun[r.tid] then counts.restarted = counts.restarted + 1 end
    begun[r.tid] = { time = r.time, comm = r.comm, stack = r.stack }
  end, { callbacks = { switch = function(r)
    local one = begun[r.tid]
    if r.out then
      if one then one.via = one.via or r.time end
      return
    end
    begun[r.tid] = nil
    if not one then counts.unstarted = counts.unstarted + 1
    elseif not one.via then counts.bypassed = counts.bypassed + 1
    else into:add(r.time - one.time, one.comm, one.via, r.type, one.stack) end
  end, exit = function(r)
    if begun[r.tid] then counts.cancelled = counts.cancelled + 1 end
    begun[r.tid] = nil
  end } })
  for _ in pairs(begun) do counts.waiting = counts.waiting + 1 end
  return counts
end

-- Stacks by their addresses: two sessions' are different objects.
local function plain(into)
  local list = {}
  for comm, via, kind, stack, value in into:pairs() do
    local ips = {}
    for i = 1, #stack do ips[i] = ("%x"):format(stack[i].ip) end
    list[#list + 1] = ("%s %d %s %s: %d %d"):format(comm, via, kind, table.concat(ips, ","), value.count, value.sum)
  end
  table.sort(list)
  return list
end

describe("a span with ends in several callbacks", function()
  it("fills the columns start, via and stop, as callbacks do", function()
    local story = random_story(400)
    for _, way in ipairs { stories.simulated, stories.recorded } do
      local native, twin = perfev.stats { by = BY }, perfev.stats { by = BY }
      local span = natively(way, story, native)
      local counts = by_callbacks(way, story, twin)
      assert.is_true(#native >= 6 and counts.bypassed > 3 and counts.cancelled > 3 and counts.restarted > 3)
      assert.same(plain(twin), plain(native))
      assert.same(counts, span:unmatched())
      assert.matches(("%d pairs with no via between: not counted"):format(counts.bypassed),
        table.concat(native:remarks(), "\n"), 1, true)
    end
  end)

  it("keeps max_keys keys, prints the rest as others, and can be merged", function()
    local story, all = random_story(400), perfev.stats { by = BY }
    natively(stories.simulated, story, all)
    local few, again = perfev.stats { by = BY, max_keys = 2 }, perfev.stats { by = BY }
    natively(stories.simulated, story, few)
    natively(stories.simulated, random_story(100), again)
    local total, kept = 0, few:other().count
    for _, row in ipairs(all:rows()) do total = total + row.value.count end
    for _, row in ipairs(few:rows()) do kept = kept + row.value.count end
    assert.same({ 2, total }, { #few, kept })
    assert.matches("of further keys counted as %(other%)", table.concat(few:remarks(), "\n"))
    for _, row in ipairs(again:rows()) do total = total + row.value.count end
    for _, row in ipairs(all:merge(again):rows()) do total = total - row.value.count end
    assert.equal(0, total)
  end)

  it("leaves out times shorter than its minimum", function()
    local story = { stories.app(7), stories.sample(7, {}), switch(7, true), switch(7, false), stories.sample(7, {}),
                    switch(7, true), switch(7, true), switch(7, false) } -- a millisecond each
    for least, wanted in pairs { ["2ms"] = { count = 2, sum = 5000000 }, ["2500us"] = { count = 1, sum = 3000000 } } do
      local into = perfev.stats { by = "start.comm" }
      natively(stories.simulated, story, into, { least = least })
      local value = into:get "app"
      assert.same(wanted, { count = value.count, sum = value.sum })
    end
  end)

  it("drops the oldest start together with its kept columns", function()
    local into = perfev.stats { by = { "start.tid", "start.comm" } }
    local story = { stories.comm(7, "seven"), stories.comm(8, "eight with a name"), stories.sample(7, {}),
                    stories.sample(8, {}), switch(7, false), switch(8, false) }
    local span = perfev.span { start = true, stop = true, by = "tid", into = into, max_waiting = 1 }
    stories.simulated(story, span.start, { callbacks = { switch = span.stop } })
    assert.same({ { ["start.tid"] = 8, ["start.comm"] = "eight with a na" } }, (function(rows)
      for _, row in ipairs(rows) do row.value = nil end
      return rows
    end)(into:rows()))
    assert.same({ waiting = 0, unstarted = 1, restarted = 0, dropped = 1 }, span:unmatched())
  end)

  it("refuses columns that it does not have", function()
    local function refused(why, more, by)
      assert.error_matches(function() placed(perfev.stats { by = by or "start.comm" }, more) end, why)
    end
    assert.error_matches(function()
      perfev.span { start = true, stop = true, by = "tid", into = perfev.stats { by = "via.comm" } }
    end, "via.comm, but the span has no 'via'")
    refused("via_by 2", { via_by = { "tid", "cpu" } })
    refused("span: least: duration 'soon'", { least = "soon" })
    refused("cancel must be an event string", { cancel = 7 })
    local span = placed(perfev.stats { by = "start.com" })
    assert.error_matches(function() perfev.session {}:event { "cpu-clock", sample = span.start } end,
      "no record has a field 'com' %(did you mean 'comm'%?%)")
  end)
end)

describe("a list in the place of a callback", function()
  it("passes every record to each of its elements", function()
    local tids, all, cpus = perfev.count { by = "tid" }, perfev.count {}, perfev.count { by = "cpu",
      where = { "tid", "<", 8 } }
    local story = { stories.sample(7, {}), stories.sample(8, {}), stories.sample(7, {}) }
    for _, way in ipairs { stories.simulated, stories.recorded } do way(story, { tids, all, cpus }) end
    collectgarbage()
    assert.same({ 4, 2, 6, 4 }, { tids:get(7), tids:get(8), all:get(), cpus:get(0) })
  end)

  it("is read once, so that later changes have no effect", function()
    local k, all = sim.new { cpus = "0" }, perfev.count {}
    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false }
      local list = { perfev.count { by = "tid" }, all, perfev.count { by = "cpu" } }
      s:event { type = 1, config = 0, sample_period = 1, sample = list }
      for i = 1, 3 do list[i] = nil end
      collectgarbage()
      assert(s:start())
      collectgarbage()
      for i = 1, 3 do k:emit(k.events[1], "sample", { pid = 7, tid = 7, time = i, cpu = 0, ip = 1, period = 1 }) end
      s:dispatch()
    end)
    assert.equal(3, all:get())
  end)

  it("accepts aggregators and lines only", function()
    local s <close> = perfev.session {}
    for why, list in pairs { ["sample: each of a list must be an aggregator or a line"] = { perfev.count {}, print },
                             ["args.x: only samples have a payload"] = false } do
      assert.error_matches(function()
        s:event { "cpu-clock", sample = list or nil, switch = not list and { perfev.count { by = "args.x" } } or nil }
      end, why)
    end
    assert.error_matches(function() s:event { "cpu-clock", sample = { {} } } end, "must be an aggregator")
  end)
end)
