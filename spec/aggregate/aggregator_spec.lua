-- Aggregators: each kind against the same thing written in plain Lua, on streams of random values.

local sim = require "perfev.sim"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local run = require "spec.support.run"

-- AGG_RECORDS=1000000 busted spec/aggregate/aggregator_spec.lua: as many of each kind, which takes minutes.
local ASKED = math.tointeger(tonumber(os.getenv "AGG_RECORDS"))
local VALUES = ASKED or run.sanitized and 4000 or 25000
local WHOLE = ASKED or run.sanitized and 4000 or 125000 -- of each of eight kinds: a million in all
local EDGES = { 0, 1, -1, 63, 64, 127, 128, 129, -128, 1 << 32, math.maxinteger, math.mininteger,
                math.maxinteger - 1, math.mininteger + 1 }

-- ---- the same in plain Lua ----

-- The result of a cell of that kind for all its values.
local plain = {}

function plain.count(values)
  local n = 0
  for _, v in ipairs(values) do n = n + v end
  return n
end

function plain.sum(values)
  local sum = 0
  for _, v in ipairs(values) do sum = sum + v end
  return sum
end

-- Computed from halves of 32 bits, so that the sum neither wraps nor is rounded before the end.
function plain.avg(values)
  local high, low = 0, 0
  for _, v in ipairs(values) do high, low = high + ((v >> 32 ~ 1 << 31) - (1 << 31)), low + (v & 0xffffffff) end
  return (high * 0x1p32 + low) / #values
end

function plain.min(values)
  local least = values[1]
  for _, v in ipairs(values) do least = math.min(least, v) end
  return least
end

function plain.max(values)
  local most = values[1]
  for _, v in ipairs(values) do most = math.max(most, v) end
  return most
end

-- But for the mean, which is no whole number.
function plain.stats(values)
  return { count = #values, sum = plain.sum(values), min = plain.min(values), max = plain.max(values) }
end

function plain.hist(values)
  local counts = {}
  for _, v in ipairs(values) do
    local low = v < 0 and "below" or v == 0 and 0 or 1
    while v > 0 and v // 2 >= low do low = low * 2 end
    counts[low] = (counts[low] or 0) + 1
  end
  return counts
end

function plain.linear(values)
  local counts = {}
  for _, v in ipairs(values) do
    local low = v < -50 and "below" or v >= 1000 and 1000 or (v + 50) // 7 * 7 - 50
    counts[low] = (counts[low] or 0) + 1
  end
  return counts
end

-- A histogram's value -> the same form
local function counts_of(value)
  local counts = {}
  for _, bucket in ipairs(value.buckets) do
    if bucket.count > 0 then counts[bucket.low or "below"] = bucket.count end
  end
  return counts
end

-- ---- streams ----

local function random_value()
  local kind = math.random(8)
  if kind == 1 then return EDGES[math.random(#EDGES)] end
  if kind == 2 then return math.random(0) end
  if kind <= 5 then return math.random(-100, 1100) end
  return math.random(1 << math.random(0, 62))
end

local function random_key()
  local second = math.random(4)
  return "task" .. math.random(40) .. ("\0x"):rep(math.random(0, 2)),
    second == 1 and math.random(-3, 3) or second == 2 and tostring(math.random(3)) or second == 3
end

-- n values: { value, key... } each
local function stream(n)
  local list = {}
  for i = 1, n do list[i] = { random_value(), random_key() } end
  return list
end

local function name_of(...)
  local parts = {}
  for i = 1, 2 do
    local key = select(i, ...)
    parts[i] = type(key) .. ":" .. tostring(key)
  end
  return table.concat(parts, "|")
end

local grouped_lists = setmetatable({}, { __mode = "k" })

-- key -> its values, and keys in the order they came
local function grouped(list)
  if grouped_lists[list] then return table.unpack(grouped_lists[list]) end
  local cells, order = {}, {}
  grouped_lists[list] = { cells, order }
  for _, one in ipairs(list) do
    local name = name_of(one[2], one[3])
    if not cells[name] then cells[name], order[#order + 1] = {}, name end
    table.insert(cells[name], one[1])
  end
  return cells, order
end

local function feed(a, list)
  for _, one in ipairs(list) do a:add(table.unpack(one)) end
  return a
end

local function spec_of(kind, more)
  local spec = { by = { "a", "b" } }
  if kind == "linear" then spec.low, spec.high, spec.step = -50, 1000, 7 end
  for name, value in pairs(more or {}) do spec[name] = value end
  return spec
end

local function new(kind, more)
  return perfev[kind == "linear" and "hist" or kind](spec_of(kind, more))
end

local function shown(kind, value)
  if kind == "stats" then return { count = value.count, sum = value.sum, min = value.min, max = value.max } end
  return (kind == "hist" or kind == "linear") and counts_of(value) or value
end

-- Every cell, and their order, as plain Lua has them.
local function assert_same(kind, a, list)
  local cells, order = grouped(list)
  local at, other = 0, {}
  for x, y, value in a:pairs() do
    at = at + 1
    assert(order[at] == name_of(x, y), order[at])
    local expected, got = plain[kind](cells[order[at]]), shown(kind, value)
    if type(got) == "table" then
      assert.same(expected, got)
    elseif math.type(got) == "float" then
      assert(math.abs(got - expected) <= 1e-12 * math.abs(expected), order[at])
    else
      assert(expected == got, order[at])
    end
  end
  assert.equal(#a, at)
  for i = at + 1, #order do table.move(cells[order[i]], 1, #cells[order[i]], #other + 1, other) end
  local rest, nr = a:other()
  if #other > 0 and kind == "count" then assert.equal(plain.count(other), nr) end
  if #other > 0 and kind ~= "count" then assert.equal(#other, nr) end
  if #other == 0 then assert.is_nil(nr) return end
  if kind ~= "avg" then assert.same(plain[kind](other), shown(kind, rest)) end
end

local kinds = { "count", "sum", "avg", "min", "max", "stats", "hist", "linear" }

describe("an aggregator has the same values as a computation in plain Lua:", function()
  local list
  lazy_setup(function()
    math.randomseed(1)
    list = stream(WHOLE)
  end)
  lazy_teardown(function() list = nil end)

  for _, kind in ipairs(kinds) do
    it(kind, function() assert_same(kind, feed(new(kind), list), list) end)

    it(kind .. ", after merge(), clear() and an overflow of max_keys", function()
      math.randomseed(2)
      local first, second, both = stream(VALUES // 4), stream(VALUES // 4), {}
      table.move(first, 1, #first, 1, both)
      table.move(second, 1, #second, #both + 1, both)
      local a, b = feed(new(kind), first), feed(new(kind), second)
      assert.equal(a, a:merge(b))
      assert_same(kind, a, both)
      assert_same(kind, b, second)
      a:clear()
      assert.equal(0, #a)
      assert_same(kind, feed(a, second), second)
      local few = feed(new(kind, { max_keys = 20 }), first)
      assert_same(kind, few, first)
      assert_same(kind, new(kind, { max_keys = 20 }):merge(few), first)
    end)
  end

  for _, kind in ipairs(kinds) do
    it(kind .. ", in the parts from delta(), which merge into the whole", function()
      math.randomseed(3)
      local a, whole, all = new(kind), new(kind), {}
      for _ = 1, 8 do
        local part = stream(math.random(0, VALUES // 32))
        feed(a, part)
        local delta = a:delta()
        assert_same(kind, delta, part)
        whole:merge(delta)
        table.move(part, 1, #part, #all + 1, all)
      end
      assert_same(kind, whole, all)
      assert_same(kind, a, all)
    end)
  end

  it("the mean of stats", function()
    local cells = grouped(list)
    for x, y, value in feed(new "stats", list):pairs() do
      local mean = plain.avg(cells[name_of(x, y)])
      assert.is_true(math.abs(value.avg - mean) <= 1e-12 * math.abs(mean))
    end
  end)
end)

describe("quantile", function()
  local function assert_near(values, a, q)
    local exact = values[math.max(1, math.ceil(q * #values))]
    local off = math.abs(a:quantile(q) - exact)
    assert(off <= math.abs(exact) / 128.0, ("%g: %d, not %d"):format(q, a:quantile(q), exact))
  end

  it("is off by less than 1/128 of the value, merged as well", function()
    math.randomseed(4)
    local a, b, values = perfev.quantile {}, perfev.quantile {}, {}
    for i = 1, VALUES do
      values[i] = math.random(1 << math.random(0, 62)) * (math.random(4) == 1 and -1 or 1)
      local to = i % 3 == 0 and b or a
      to:add(values[i])
    end
    a:merge(b)
    table.sort(values)
    for q = 0, 1, 1 / 256 do assert_near(values, a, q) end
    assert.equal(values[1], a:quantile(0))
    assert.equal(values[#values], a:quantile(1))
  end)

  it("is exact below 128, and at the smallest and the largest value", function()
    local a = perfev.quantile {}
    for i = -127, 127 do a:add(i) end
    for i = 0, 254 do assert.equal(i - 127, a:quantile(i / 254)) end
    local edges = perfev.quantile {}
    edges:add(math.mininteger)
    edges:add(math.maxinteger)
    assert.equal(math.mininteger, edges:quantile(0))
    assert.equal(math.maxinteger, edges:quantile(1))
  end)

  it("returns one of the added values, by nearest rank", function()
    local a = perfev.quantile {}
    for i = 1, 9 do a:add(i) end
    a:add(100)
    local v = a:get()
    assert.same({ 5, 9, 100, 100 }, { v.p50, v.p90, v.p99, v.p999 })
    for i = 1, 9 do assert.equal(i, a:quantile(i / 10)) end
    for i = 11, 100 do a:add(2000000 + i) end
    assert.equal(9, a:quantile(0.09))
    assert.equal(100, a:quantile(0.1))
    local one = perfev.quantile {}
    one:add(7)
    assert.same({ 7, 7, 7 }, { one:quantile(0), one:quantile(0.01), one:get().p50 })
  end)

  it("has buckets that contain each value once, and add up to its quantiles", function()
    local a, values = perfev.quantile {}, {}
    for i = 1, 4000 do
      local value = (i * 7919 % 4001 - 2000) * (i % 97) ^ 5 // 1 | 0
      values[i] = value
      a:add(value)
    end
    table.sort(values)
    local buckets, at, last = a:buckets(), 1, nil
    for _, bucket in ipairs(buckets) do
      assert.is_true(not last or last <= bucket.low)
      local width, greatest = bucket.high - bucket.low, math.max(math.abs(bucket.low), math.abs(bucket.high))
      assert.is_true(width <= math.max(1, greatest / 64))
      for _ = 1, bucket.count do
        assert.is_true(bucket.low <= values[at] and values[at] < bucket.high)
        at = at + 1
      end
      last = bucket.high
    end
    assert.equal(#values + 1, at)
  end)

  it("has buckets up to the greatest and the least integer", function()
    local a = perfev.quantile { by = "k" }
    a:add(math.maxinteger, "x")
    a:add(math.mininteger, "x")
    local buckets = a:buckets "x"
    assert.equal(2, #buckets)
    assert.is_true(buckets[2].low <= math.maxinteger and not buckets[2].high)
    assert.is_nil(buckets[1].low)
    assert.is_nil((a:buckets "y"))
    local h = perfev.hist {}
    h:add(-5)
    h:add(9)
    assert.same({ { high = 0, count = 1 }, { low = 8, high = 16, count = 1 } }, h:buckets())
    assert.has_error(function() perfev.count():buckets() end)
  end)

  it("returns nil for an unknown key, and refuses a quantile outside 0 .. 1", function()
    local a = perfev.quantile { by = "k" }
    assert.is_nil(a:quantile(0.5, "k"))
    assert.error_matches(function() a:quantile(1.5, "k") end, "0 %.%. 1")
  end)
end)

describe("top", function()
  -- A stream in which few keys are many, of two halves; and how many each key was in truth.
  local function streams(max_keys, n)
    local a, b = perfev.top { by = "k", max_keys = max_keys }, perfev.top { by = "k", max_keys = max_keys }
    local truth, sum = {}, 0
    for i = 1, n do
      local k = ("k"):rep(math.random(0, 40)) .. math.random(20) * math.random(20)
      if i % 2 == 0 then k = "heavy" .. math.random(3) end
      local weight, to = math.random(4), i % 3 == 0 and b or a
      to:add(weight, k)
      truth[k], sum = (truth[k] or 0) + weight, sum + weight
    end
    return a, b, truth, sum
  end

  local function assert_within(one, truth, sum, max_keys)
    local there = {}
    for k, value in one:pairs() do
      there[k] = true
      assert(value.count >= truth[k] and value.count - value.error <= truth[k], k)
      assert(value.error <= sum // max_keys, k)
    end
    assert.is_true(one:floor() <= sum // max_keys and #one <= max_keys)
    for k, n in pairs(truth) do assert(there[k] or n <= one:floor(), k) end
    assert.is_nil(one:other())
  end

  it("keeps the largest keys in bounded memory, within the reported error, also merged", function()
    math.randomseed(5)
    for _, max_keys in ipairs { 1, 7, 20, 100 } do
      local a, b, truth, sum = streams(max_keys, VALUES // 10)
      assert_within(a:merge(b), truth, sum, max_keys)
      local fresh = perfev.top { by = "k", max_keys = max_keys }
      assert_within(fresh:merge(perfev.unpack(a:pack())), truth, sum, max_keys)
      if max_keys > 7 then
        for _, row in ipairs((a:top(3))) do assert.matches("^heavy%d$", row.k) end
      end
    end
  end)

  it("counts exactly while it has room for every key", function()
    math.randomseed(6)
    local a, b, truth = streams(65536, 2000)
    for k, value in a:merge(b):pairs() do assert.same({ count = truth[k], error = 0 }, value) end
    assert.equal(0, a:floor())
  end)

  it("prints its first rows, and how many keys it left out", function()
    local a = perfev.top { by = "k", max_keys = 3, rows = 2 }
    for i = 1, 4 do a:add(i * 10, i) end
    local lines = {}
    local old = print
    _G.print = function(text) lines[#lines + 1] = text end -- luacheck: ignore 122
    a:print()
    _G.print = old -- luacheck: ignore 122
    assert.same({ "K  COUNT  ERROR", "4     50     10", "3     30      0", "1 more key",
      "keys that are not here had at most 10 each: max_keys is 3" }, lines)
    assert.error_matches(function() a:add(-1, 4) end, "negative")
    assert.error_matches(function() perfev.top { rows = 0 } end, "rows must be an integer above 0")
    assert.error_matches(function() perfev.count { rows = 1 } end, "'rows' is an option of top")
  end)
end)

describe("an aggregator", function()
  it("keeps keys exact: the type, every byte, every bit", function()
    local a = perfev.count { by = "k" }
    local keys = { 1, "1", true, false, "", "\0", "\0\0", "a\0b", -1, math.mininteger, ("x"):rep(70000) }
    for i, key in ipairs(keys) do a:add(i, key) end
    assert.equal(#keys, #a)
    for i, key in ipairs(keys) do assert.equal(i, a:get(key)) end
    assert.equal(1, a:get(1.0))
    assert.is_nil(a:get(2))
  end)

  it("wraps sums as Lua's integers do, but not means", function()
    local sum, avg = perfev.sum {}, perfev.avg {}
    for _ = 1, 3 do
      sum:add(math.maxinteger)
      avg:add(math.maxinteger)
    end
    for value in sum:pairs() do assert.equal(math.maxinteger * 3, value) end
    for value in avg:pairs() do assert.equal(0x1p63, value) end
  end)

  it("returns rows sorted by value, equal values by key, and the first n of them", function()
    local a = perfev.count { by = { "name", "n" } }
    for _, key in ipairs { { "b", 1 }, { "a", 2 }, { "a", 1 }, { 7, 1 } } do a:inc(table.unpack(key)) end
    a:add(5, "z", 9)
    local rows, more = a:top(3)
    assert.same({ { name = "z", n = 9, value = 5 }, { name = 7, n = 1, value = 1 }, { name = "a", n = 1, value = 1 } },
      rows)
    assert.equal(2, more)
    assert.equal(5, #a:rows())
  end)

  it("returns with delta() what was added since the last call, and keeps the whole", function()
    local a = perfev.sum { by = "k" }
    a:add(1, "x")
    assert.same({ { k = "x", value = 1 } }, a:delta():rows())
    a:add(2, "x")
    a:add(3, "y")
    assert.same({ { k = "y", value = 3 }, { k = "x", value = 2 } }, a:delta():rows())
    assert.same({}, a:delta():rows())
    assert.same({ { k = "x", value = 3 }, { k = "y", value = 3 } }, a:rows())
  end)

  it("includes merged values in the next delta()", function()
    local a, b = perfev.max { by = "k" }, perfev.max { by = "k" }
    a:add(1, "x")
    a:delta()
    b:add(7, "y")
    a:add(3, "x")
    assert.same({ { k = "y", value = 7 }, { k = "x", value = 3 } }, a:merge(b):delta():rows())
  end)

  it("returns a copy of its options with spec()", function()
    local a = perfev.hist { by = "k", low = 0, high = 9, step = 3, unit = "us" }
    assert.same({ kind = "hist", by = { "k" }, low = 0, high = 9, step = 3, unit = "us" }, a:spec())
    a:spec().by[1] = nil
    assert.same({ "k" }, a:spec().by)
  end)

  it("can be merged with itself", function()
    local a = perfev.hist { by = "k" }
    a:add(5, "x")
    assert.same({ { low = 4, high = 8, count = 2 } }, a:merge(a):get("x").buckets)
  end)

  it("refuses to merge with one of another shape, and stays unchanged", function()
    local a = perfev.hist { low = 0, high = 10, step = 1 }
    a:add(1)
    assert.error_matches(function() a:merge(perfev.hist {}) end,
      "merge: it is a perfev.hist, and this is a perfev.hist with steps")
    assert.error_matches(function() a:merge(perfev.count {}) end, "merge: it is a perfev.count, and this is")
    assert.error_matches(function() a:merge(perfev.hist { by = "k", low = 0, high = 10, step = 1 }) end, "columns")
    assert.error_matches(function() a:merge(perfev.hist { low = 0, high = 10, step = 2 }) end,
      "merge: its step is 2, and here it is 1")
    assert.equal(1, a:get().count)
  end)

  it("refuses unknown options, invalid keys and invalid values", function()
    local function refused(pattern, f, ...) assert.error_matches(f, pattern, nil, nil, ...) end
    for _, case in ipairs {
      { "count", { bye = "comm" }, "unknown option 'bye' %(did you mean 'by'%?%)" },
      { "sum", { low = 1 }, "'low' is an option of hist" },
      { "count", { value = "period" }, "value: a count takes no values" },
      { "hist", { low = 1 }, "low, high and step go together" },
      { "hist", { low = 1, high = 1, step = 1 }, "low is not below high" },
      { "hist", { low = 1, high = 2, step = 0 }, "step is not above 0" },
      { "hist", { low = math.mininteger, high = math.maxinteger, step = 1 }, "more than 10000 steps" },
      { "count", { by = { "a", "a" } }, "'a' twice" }, { "count", { by = "value" }, "'value' is the name" },
      { "count", { by = 7 }, "by must be a name" }, { "count", { max_keys = 0 }, "from 1 to 2^28" },
      { "count", { max_keys = 1.5 }, "must be an integer .*, not 1.5" },
      { "avg", { unit = 1 }, "unit must be a string" },
      { "count", "comm", 'a table expected, not comm\n  try: count { by = "comm" }' },
      { "sum", { "period", by = "comm" }, 'options have names\n  try: sum { value = "period" }' },
      { "hist", { of = "period" }, "unknown option 'of'; the options are addresses, by, high, low, max_keys, " },
    } do
      refused(case[3], function() perfev[case[1]](case[2]) end)
    end
    local a = perfev.sum { by = { "x", "y" } }
    refused("a key of 2 here has 1", function() a:add(1, "x") end)
    refused("no integer representation", function() a:add(1.5, "x", "y") end)
    refused("no integer representation", function() a:add(1, "x", 1.5) end)
    refused("a key is an integer", function() a:add(1, nil, "y") end)
    assert.equal(0, #a)
  end)
end)

-- ---- printing ----

local function printed(a, how)
  local lines, old = {}, print
  _G.print = function(text) lines[#lines + 1] = text or "" end
  local ok, why = pcall(a.print, a, how)
  _G.print = old
  assert(ok, why)
  return lines
end

describe("an aggregator prints", function()
  it("a table with numbers aligned right and control characters escaped", function()
    local a = perfev.sum { by = { "comm", "args.id" }, unit = "ns", title = "sums", max_keys = 2 }
    a:add(700, "a\27b", 12)
    a:add(3, "sh", 7)
    a:add(2, "cat", 1)
    assert.same({
      "sums", "COMM     ID  SUM (ns)", "a\\x1bb   12       700", "sh        7         3", "(other)             2",
      "1 value of further keys counted as (other): max_keys is 2",
    }, printed(a))
  end)

  it("no two columns with the same heading", function()
    local a = perfev.count { by = { "comm", "args.comm", "args.count", "args.id" } }
    a:add(5, "sh", "ls", 4096, 7)
    assert.same({ "COMM  ARGS.COMM  ARGS.COUNT  ID  COUNT", "sh    ls               4096   7      5" }, printed(a))
  end)

  it("the times of slots in seconds, with enough digits for the slot", function()
    local a = perfev.count { by = { "time", "cpu" }, slot = "20ms" }
    a:add(5, 12345670000000, 1)
    a:add(4, 12345680000000, 0)
    assert.same({ "TIME (s)  CPU  COUNT", "12345.66    1      5", "12345.68    0      4" }, printed(a))
    local seconds = perfev.count { by = "time", slot = "5s" }
    seconds:add(1, 19999999999)
    assert.same({ "TIME (s)  COUNT", "      15      1" }, printed(seconds))
    local hist = perfev.hist { by = "time", slot = "500us", unit = "ns" }
    hist:add(1, 1600000)
    assert.equal("@[0.0015 s] (ns):", printed(hist)[1])
  end)

  it("a time without a slot in nanoseconds", function()
    local a = perfev.count { by = "time" }
    a:add(1, 1500000001)
    assert.same({ " TIME (ns)  COUNT", "1500000001      1" }, printed(a))
  end)

  it("in 80 columns, with two dots at the end of shortened text", function()
    local a = perfev.stats { by = { "path", "n" } }
    a:add(123456789, ("é"):rep(100), 1)
    for _, line in ipairs(printed(a)) do assert.is_true(utf8.len(line) <= 80, line) end
    assert.matches("%.%.  1 ", printed(a)[2])
  end)

  it("the unit of several columns once, in the line above them", function()
    local a = perfev.stats { unit = "ns", title = "took" }
    a:add(3)
    a:add(4)
    assert.same({ "took (ns)", "COUNT  SUM   AVG  MIN  MAX", "    2    7  3.50    3    4" }, printed(a))
  end)

  it("histograms as bpftrace does", function()
    local a = perfev.hist { by = "comm", unit = "us" }
    for _, value in ipairs { -3, 0, 1, 5, 5, 5, 5, 2000 } do a:add(value, "sh") end
    local lines = printed(a)
    assert.equal("@[sh] (us):", lines[1])
    assert.equal("(..., 0)                1 |@@@@@@@@@@@@@                                       |", lines[2])
    assert.equal("[4, 8)                  4 |" .. ("@"):rep(52) .. "|", lines[6])
    assert.matches("^%[1K, 2K%) +1 |", lines[#lines])
    local b = perfev.hist { low = 0, high = 25, step = 10 }
    for _, value in ipairs { 3, 21, 22, 25 } do b:add(value) end
    local labels = {}
    for i, line in ipairs(printed(b)) do labels[i] = line:match("^(.-)%s+%d+ |") or line end
    assert.same({ "@:", "[0, 10)", "[10, 20)", "[20, 25)", "[25, ...)" }, labels)
  end)

  it("JSON, with an object for each key, for the other keys and for each remark", function()
    local a = perfev.sum { by = { "a", "b" }, unit = "ns", max_keys = 2 }
    a:add(2, 'x"\n', true)
    a:add(3, "y", -1)
    a:add(4, "z", 0)
    assert.same({
      '{"a":"y","b":-1,"unit":"ns","value":3}', '{"a":"x\\"\\n","b":true,"unit":"ns","value":2}',
      '{"other":true,"unit":"ns","value":4}',
      '{"remark":"1 value of further keys counted as (other): max_keys is 2","unit":"ns"}',
    }, printed(a, "json"))
    local h = perfev.hist { title = "t" }
    h:add(5)
    assert.same({ '{"title":"t","value":{"avg":5,"buckets":[{"count":1,"high":8,"low":4}],"count":1,"max":5,"min":5,'
      .. '"sum":5}}' }, printed(h, "json"))
  end)

  it("CSV that quotes commas, quotes and line breaks", function()
    local a = perfev.count { by = { "a", "b" } }
    a:add(2, 'x,"y"', 1)
    a:add(1, "p\nq", 2)
    assert.same({ "a,b,value", '"x,""y""",1,2', '"p\nq",2,1' }, printed(a, "csv"))
    assert.error_matches(function() a:print "xml" end, "not an output form")
  end)
end)

-- ---- in the place of a callback ----

local BITS = { "ip", "tid", "time", "cpu", "period", "identifier" }
local MS = 1000000
local by = { "comm", "pid", "cpu", "type", "event", "cpumode" }

-- The same records by both ways: an aggregator's cells against a callback's table.
local function hear(s, name, spec)
  local expected, order, total = {}, {}, 0
  local native, sum = perfev.count { by = by }, perfev.sum { by = "tid", value = "period" }
  local function look(r)
    local words = {}
    for i, field in ipairs(by) do words[i] = field == "event" and r.event.name or r[field] end
    local key = table.concat(words, "|")
    if not expected[key] then order[#order + 1] = key end
    expected[key] = (expected[key] or 0) + 1
    total = total + r.period
  end
  local function event(sample)
    local one = { name = name, sample = sample }
    for key, value in pairs(spec) do one[key] = value end
    s:event(one)
  end
  event(look)
  event(native)
  event(sum)
  return function()
    local got, at = {}, 0
    for a, b, c, d, e, f, n in native:pairs() do
      at = at + 1
      got[table.concat({ a, b, c, d, e, f }, "|")] = n
    end
    assert.is_true(at > 1)
    assert.same(expected, got)
    local whole = 0
    for _, value in sum:pairs() do whole = whole + value end
    assert.equal(total, whole)
    return got
  end
end

describe("an aggregator in the place of a callback", function()
  local function sample(i)
    return { pid = 7 + i % 2, tid = 7 + i % 2, time = i * MS, cpu = 0, ip = i, period = i }
  end

  local function live(nr)
    local k = sim.new { cpus = "0", tasks = { [7] = "seven", [8] = "eight" } }
    return perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false }
      local compare = hear(s, "clock", { type = 1, config = 0, sample_period = 1 })
      assert(s:start())
      for i = 1, nr do
        for ev = 1, 3 do k:emit(k.events[ev], "sample", sample(i)) end
      end
      s:dispatch()
      return compare()
    end)
  end

  local function recorded(nr)
    local dir = run.tempdir()
    local path = dir .. "/a.data"
    local b = perfdata.new { events = { { ids = { 11 }, name = "cpu-clock",
      attr = { type = 1, config = 0, comm = true, task = true, sample_type = BITS, sample_id_all = true } } } }
    for tid, comm in pairs { [7] = "seven", [8] = "eight" } do
      b:add { type = "comm", pid = tid, tid = tid, comm = comm,
              sample_id = { pid = tid, tid = tid, time = 0, cpu = 0, identifier = 11 } }
    end
    for i = 1, nr do
      local t = sample(i)
      t.type, t.identifier = "sample", 11
      b:add(t)
    end
    run.write_file(path, (b:file { [12] = b:event_desc() }))
    local s <close> = perfev.session { input = path }
    local compare = hear(s, "clock", { "cpu-clock" })
    assert(s:run())
    run.remove(dir)
    return compare()
  end

  it("counts the same as a callback, live and from a recording", function()
    assert.same(live(40), recorded(40))
  end)

  it("reports how many records lacked the field", function()
    local k = sim.new { cpus = "0" }
    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false }
      local a, b = perfev.count { by = "addr" }, perfev.sum { value = "addr" }
      s:event { type = 1, config = 0, sample_period = 1, sample = a }
      s:event { type = 1, config = 0, sample_period = 1, sample = b }
      assert(s:start())
      for i = 1, 3 do k:emit(k.events[1], "sample", sample(i)) end
      k:emit(k.events[2], "sample", sample(1))
      s:dispatch()
      assert.same({ addr = 3 }, a:uncounted())
      assert.same({ "(nothing: count by addr)", "3 records without addr: not counted" }, printed(a))
      assert.same({ "1 record without addr: not counted" }, b:remarks())
      local by_hand = perfev.sum {}:merge(b)
      assert.same({ value = 1 }, by_hand:uncounted())
      assert.same({ "1 record without value: not counted" }, by_hand:remarks())
    end)
  end)

  it("takes symbols as keys, one key for each name, read early or late", function()
    local k = sim.new { cpus = "0" }
    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false }
      local a, h = perfev.count { by = { "symbol", "tid" } }, perfev.hist { by = "symbol", value = "period" }
      s:event { type = 1, config = 0, sample_period = 1, sample = a }
      s:event { type = 1, config = 0, sample_period = 1, sample = h }
      assert(s:start())
      local function happen(n)
        for i = 1, n do
          for ev = 1, 2 do k:emit(k.events[ev], "sample", sample(i)) end
        end
        s:dispatch()
      end
      happen(4)
      assert.same({ 2, 1 }, { #a, #h })
      happen(3)
      assert.same({ 2, 4, 3 }, { #a, a:get("[unknown]", 8), a:get("[unknown]", 7) })
      assert.same({ { symbol = "[unknown]", tid = 7, value = 3 } }, { a:delta():rows()[2] })
      happen(1)
      assert.same({ { symbol = "[unknown]", tid = 8, value = 1 } }, a:delta():rows())
      assert.equal(8, h:get("[unknown]").count)
      assert.equal(8, perfev.unpack(h:pack()):merge(h):get("[unknown]").count // 2)
    end)
  end)

  it("keeps the most frequent symbols, whether it is read once or after each sample", function()
    local k = sim.new { cpus = "0" }
    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false }
      local spec = { by = { "symbol", "tid" }, max_keys = 2 }
      local once, often = perfev.top(spec), perfev.top(spec)
      s:event { type = 1, config = 0, sample_period = 1, sample = { once, often } }
      assert(s:start())
      for i = 1, 30 do
        local t = sample(i)
        t.ip, t.tid = i % 5, 7 + i % 3 // 2
        k:emit(k.events[1], "sample", t)
        s:dispatch()
        assert(#often > 0 and #perfev.unpack(often:pack()) == #often)
      end
      assert.same(once:rows(), often:rows())
      assert.equal(once:floor(), often:floor())
      local sum = 0
      for _, row in ipairs(often:rows()) do sum = sum + row.value.count end
      assert.equal(30, sum)
      local loaded = perfev.unpack(often:pack())
      assert.same({ often:rows(), often:floor() }, { loaded:rows(), loaded:floor() })
      local first, rest = often:delta(), often:delta()
      assert.same({ often:rows(), 0 }, { first:rows(), #rest })
      often:clear()
      assert.equal(0, #often)
    end)
  end)

  it("receives records of one type, or of all types", function()
    local k = sim.new { cpus = "0" }
    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { ordered = false }
      local comms, all = perfev.count { by = { "comm", "exec" } }, perfev.count { by = "type" }
      s:event { comm = comms }
      s:event { type = 1, config = 0, sample_period = 1, task = true, record = all }
      assert(s:start())
      k:emit(k.events[1], "comm", { pid = 9, tid = 9, comm = "new" })
      k:emit(k.events[2], "fork", { pid = 9, ppid = 7, tid = 9, ptid = 7 })
      k:emit(k.events[2], "sample", sample(1))
      s:dispatch()
      assert.same({ { comm = "new", exec = false, value = 1 } }, comms:rows())
      assert.same({ { type = "fork", value = 1 }, { type = "sample", value = 1 } }, all:rows())
    end)
  end)

  it("is refused when the event is declared, if no record has such a field", function()
    local s = perfev.session {}
    local function declare(callback, a)
      return function() s:event { "cpu-clock", [callback] = a } end
    end
    assert.error_matches(declare("sample", perfev.count { by = "comn" }),
      "sample = perfev.count: no record has a field 'comn' %(did you mean 'comm'%?%)")
    -- names of perf, bpftrace and bcc
    assert.error_matches(declare("sample", perfev.count { by = "nsecs" }), "'nsecs' %(did you mean 'time'%?%)")
    assert.error_matches(declare("sample", perfev.hist { value = "args->ret" }),
      "'args%->ret' %(did you mean 'args.ret'%?%)")
    assert.error_matches(declare("sample", perfev.count { by = "callchain" }), "neither a number nor a string")
    assert.error_matches(declare("sample", perfev.sum { by = "comm" }), "it needs a value")
    assert.error_matches(declare("fork", perfev.count { by = "args.x" }), "only samples have a payload")
  end)

  it("takes the text of a payload field as a column, a condition and an argument", function()
    local k = sim.new { cpus = "0", world = "vm" }
    k:tracepoint("net:state", 900, "name: state\nID: 900\nformat:\n"
      .. "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"
      .. "\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"
      .. "\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"
      .. "\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
      .. "\tfield:u8 ip[4];\toffset:8;\tsize:4;\tsigned:0;\n\tfield:int old;\toffset:12;\tsize:4;\tsigned:1;\n\n"
      .. 'print fmt: "%pI4 %s", REC->ip, __print_symbolic(REC->old, { 1, "OPEN" }, { 2, "CLOSED" })\n')
    perfev.hooks.with(k.hooks, function()
      local s <close> = perfev.session { pid = "self", ordered = false }
      local states = perfev.count { by = { "args.ip:text", "args.old:text" } }
      local open = perfev.count { by = "args.old", where = { "args.old:text", "==", "OPEN" } }
      local seen = {}
      s:event { "net:state", sample = { states, open } }
      s:event { "net:state", fields = { "args.old:text", "args.old" },
                sample = function(text, old) seen[#seen + 1] = text .. old end }
      assert(s:start())
      for _, old in ipairs { 1, 2, 1, 3 } do
        k:ring(0):push { type = "sample", event = "net:state", args = { ip = { 10, 0, 0, 1 }, old = old } }
      end
      s:dispatch()
      assert.equal(2, states:get("10.0.0.1", "OPEN"))
      assert.equal(1, states:get("10.0.0.1", "CLOSED"))
      assert.equal(1, states:get("10.0.0.1", "0x3"))
      assert.equal(2, open:get(1))
      assert.equal(1, #open)
      assert.same({ "OPEN1", "CLOSED2", "OPEN1", "0x33" }, seen)
      assert.matches("^IP +OLD +COUNT$", printed(states)[1])
    end)
  end)

  it("is refused when the event is opened, if that has no such payload", function()
    local k = sim.new { cpus = "0", world = "vm" }
    perfev.hooks.with(k.hooks, function()
      local function refused(event, a)
        local s <close> = perfev.session { pid = "self" }
        s:event { event, sample = a }
        return (select(2, s:start()))
      end
      assert.matches("perfev.count: args.next_com: no such field %(did you mean 'args.next_comm'%?%)"
        .. "\n  fields: prev_comm .*\n  try: perfl list %-v sched:sched_switch",
        refused("sched:sched_switch", perfev.count { by = "args.next_com" }))
      assert.matches("a value is a number", refused("sched:sched_switch", perfev.sum { value = "args.next_comm" }))
      assert.matches("a value is a number", refused("sched:sched_switch", perfev.sum { value = "args.next_pid:text" }))
      assert.matches("args.next_com: no such field", refused("sched:sched_switch",
        perfev.count { by = "args.next_com:text" }))
      assert.matches("the event has no payload\n  try: a tracepoint", refused("cpu-clock",
        perfev.count { by = "args.next_comm" }))
    end)
  end)
end)
