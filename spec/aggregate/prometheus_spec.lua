-- Aggregators in Prometheus' text format, in steps between which they change.

local exported = require "perfev.aggregate.exported"
local perfev = require "perfev"
local prometheus = require "perfev.aggregate.prometheus"

local function text_of(pieces)
  local parts = {}
  for piece in pieces do parts[#parts + 1] = piece end
  return table.concat(parts), parts
end

local function keys_in(text)
  local seen, nr = {}, 0
  for key, value in text:gmatch '\nperfev_a_total{k="(%d+)"} (%d+)' do
    assert.is_nil(seen[key], "twice")
    seen[key], nr = math.tointeger(value), nr + 1
  end
  return seen, nr
end

describe("an aggregator in Prometheus' text format", function()
  it("is taken and written in short steps", function()
    local a = perfev.count { by = "k", title = "a" }
    for i = 1, 5000 do a:inc(i) end
    local text, parts = text_of(prometheus.pieces(a:spec(), function() return a end))
    assert.equal(5000, (select(2, keys_in(text))))
    local empty = 0
    for _, part in ipairs(parts) do
      assert.is_true(#part < 20000)
      if part == "" then empty = empty + 1 end
    end
    assert.equal(20, empty) -- 256 keys each
    assert.is_true(#parts > 26, #parts)
  end)

  it("does not miss keys that come meanwhile, and has none twice", function()
    local a = perfev.count { by = "k", title = "a" }
    for i = 1, 600 do a:inc(i) end
    local pieces = prometheus.pieces(a:spec(), function() return a end)
    assert.equal("", pieces())
    for i = 300, 900 do a:inc(i) end
    local seen, nr = keys_in((text_of(pieces)))
    assert.same({ 600, 1, 2 }, { nr, seen["1"], seen["600"] })
  end)

  it("is taken anew if the script empties it meanwhile", function()
    for _, refill in ipairs { 0, 100, 900 } do
      local a = perfev.count { by = "k", title = "a" }
      local follower = exported.follow({ source = a }, true)
      for i = 1, 600 do a:inc(i) end
      local pieces = prometheus.pieces(a:spec(), function() return follower:total() end)
      pieces()
      a:clear()
      for i = 1, refill do a:inc(i) end
      assert.equal(refill, #a)
      local seen, nr = keys_in((text_of(pieces)))
      assert.same({ math.max(600, refill), refill > 0 and 2 or 1 }, { nr, seen["1"] })
    end
  end)

  it("writes values of any size, and their units", function()
    local function value_of(kind, unit, ...)
      local a = perfev[kind] { title = "v", unit = unit }
      for _, value in ipairs { ... } do a:add(value) end
      return (text_of(prometheus.pieces(a:spec(), function() return a end))):match "\n(perfev_v[^#\n]*)"
    end
    for _, case in ipairs {
      { "perfev_v_total 18446744073709551614", "sum", nil, math.maxinteger, math.maxinteger },
      { "perfev_v -9223372036854775808", "sum", nil, math.mininteger },
      { "perfev_v_seconds_total 18446744073.709551614", "sum", "ns", math.maxinteger, math.maxinteger },
      { "perfev_v_seconds -9223372036854.775808", "min", "us", math.mininteger },
      { "perfev_v_seconds 0.000000001", "max", "ns", 1 }, { "perfev_v_seconds 1", "max", "ms", 1000 },
      { "perfev_v_seconds 10", "max", "s", 10 }, { "perfev_v_bytes 10", "max", "B", 10 },
      { "perfev_v_pages 10", "max", "pages", 10 }, { "perfev_v 10", "max", "count", 10 },
      { "perfev_v_bytes 0", "max", "bytes", 0 },
    } do
      assert.equal(case[1], value_of(table.unpack(case, 2)))
    end
  end)

  it("has a name for each label, and no name twice", function()
    local function labels_of(...)
      local a = perfev.count { by = { ... }, title = "a" }
      a:inc(...)
      return (text_of(prometheus.pieces(a:spec(), function() return a end))):match "\nperfev_a_total(%b{})"
    end
    assert.equal('{by_args_a_b="args.a.b",by_args_a_b_2="args.a_b"}', labels_of("args.a.b", "args.a_b"))
    assert.equal('{by_x="args.by_x",by_args_x="args.x",by_x_2="x"}', labels_of("args.by_x", "args.x", "x"))
    assert.equal('{by_args___="args.__"}', labels_of "args.__")
  end)

  it("raises if a function of names empties the aggregator", function()
    local a
    for _, refill in ipairs { 0, 600 } do
      local nr = 0
      a = perfev.hist { by = { "comm", "kind" }, title = "a", names = { kind = function(kind)
        nr = nr + 1
        if nr == 100 then
          a:clear()
          for i = 1, refill do a:add(i, "another", i) end
        end
        return kind
      end } }
      for i = 1, 600 do a:add(i, "c" .. i, i) end
      assert.error_matches(function() text_of(prometheus.pieces(a:spec(), function() return a end)) end,
        "a function of names has changed the aggregator")
    end
  end)

  it("writes a value that is not a number as Prometheus reads it", function()
    assert.equal("v NaN\n", prometheus.sample("v", {}, math.huge - math.huge))
  end)

  it("is a counter for a sum as long as no value was below 0, also after a merge", function()
    local function type_of(a)
      return (text_of(prometheus.pieces(a:spec(), function() return a end))):match "# TYPE perfev_v[%w_]* (%a+)"
    end
    local a, b = perfev.sum { title = "v" }, perfev.sum { title = "v" }
    a:add(5)
    assert.equal("counter", type_of(a))
    b:add(10)
    b:add(-1)
    assert.equal("gauge", type_of(b))
    assert.equal("gauge", type_of(a:merge(b)))
    a:clear()
    a:add(5)
    assert.equal("counter", type_of(a))
  end)
end)
