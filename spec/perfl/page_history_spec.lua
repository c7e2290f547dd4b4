-- What the live page keeps: slots of bounded number and size, the sums of which stay exact.

local frames = require "perfl.http.page.frames"
local histories = require "perfl.http.page.history"
local json = require "spec.support.json"
local perfev = require "perfev"
local pieces = require "perfl.http.page.pieces"
local values = require "perfl.http.page.values"

local function slot(kept, begin, stacks, heat)
  local list, sums = kept:stacks_of("p", stacks)
  return { begin = begin, finish = begin + 1000, heat = { h = heat }, stacks = { p = list }, sums = { p = sums } }
end

-- The text of a body in pieces, and the number of its pieces.
local function whole(f, ...)
  local args, parts, nr = table.pack(...), {}, 0
  local body = pieces.body(function() f(table.unpack(args, 1, args.n)) end)
  for text in body do
    parts[#parts + 1], nr = text, nr + 1
  end
  return table.concat(parts), nr
end

describe("the history of the live page", function()
  it("keeps 300 slots of a second and 360 of ten, one for all before, and every sum", function()
    assert.same({ 300, 360, 10, 1000 }, { histories.FINE, histories.COARSE, histories.MERGED, histories.SLOT_MS })
    histories.FINE, histories.COARSE = 30, 36 -- the same with a tenth
    finally(function() histories.FINE, histories.COARSE = 300, 360 end)
    local kept, merged = histories.new(), 0
    for i = 1, 700 do
      local p = perfev.profile()
      p:add({ "leaf" .. i % 50, "main" }, i)
      local list = kept:add(slot(kept, (i - 1) * 1000, p, { i % 8, i % 8 + 1, 2 }))
      for _, range in ipairs(list) do
        assert.is_true(range[1] < range[2])
        merged = merged + 1
      end
      assert.is_true(#kept.slots <= 30 + 36 + 1 + 10)
    end
    assert.is_true(merged > 60)
    local sum, cells, last = 0, 0, 0
    for i, one in ipairs(kept.slots) do
      sum = sum + one.sums.p[1]
      assert.equal(last, one.begin)
      last = one.finish
      for k = 3, #one.heat.h, 3 do cells = cells + one.heat.h[k] end
      if i > 1 and i <= kept.nr_coarse then assert.equal(10000, one.finish - one.begin) end
      if i > kept.nr_coarse then assert.equal(1000, one.finish - one.begin) end
    end
    assert.same({ 700 * 701 // 2, 1400, 700000 }, { sum, cells, last })
    local own = histories.summed(kept.slots, "p")[1]
    local of = 0
    for _, value in pairs(own) do of = of + value end
    assert.equal(sum, of)
    assert.equal(51, #kept.trees.p.parent)
  end)

  it("merges the oldest slots when they have too many stacks, and counts stacks beyond the tree as [other]", function()
    local nodes, stacks = histories.MOST_NODES, histories.MOST_STACKS
    histories.MOST_NODES, histories.MOST_STACKS = 100, 50
    finally(function() histories.MOST_NODES, histories.MOST_STACKS = nodes, stacks end)
    local kept = histories.new()
    for i = 1, 30 do
      local p = perfev.profile()
      for k = 1, 10 do p:add({ "leaf" .. i * 10 + k, "main" }, 1) end
      kept:add(slot(kept, i * 1000, p))
      assert.is_true(kept.nr_stacks <= 50 or #kept.slots == 2)
    end
    local text = whole(frames.yield_flame, kept, "p", perfev.profile(), kept.slots)
    local flame, sum = json.decode(text), 0
    for i, value in ipairs(flame.own[1]) do
      sum = sum + value
      if flame.functions[flame.func[i]][1] == "[other]" then assert.is_true(value >= 200) end
    end
    assert.equal(300, sum)
    assert.is_true(#kept.trees.p.parent <= 101)
  end)

  it("compares what came after a mark with what came before, and rounds a range outwards", function()
    local kept = histories.new()
    for i = 0, 9 do
      local p = perfev.profile()
      p:add({ i < 5 and "early" or "late", "main" }, 10 + i)
      kept:add(slot(kept, i * 1000, p))
    end
    local before, after = kept:split(5000)
    local flame = json.decode((whole(frames.yield_flame, kept, "p", perfev.profile(), after, before)))
    assert.same({ { 0, 0, 85 }, { 0, 60, 0 }, 5000, 10000 }, { flame.own[1], flame.base[1], flame.from, flame.to })
    local chosen = kept:between(2500, 4100)
    assert.same({ 2000, 5000, 3 }, { chosen[1].begin, chosen[3].finish, #chosen })
  end)
end)

describe("the values of the live page", function()
  it("are the largest keys and the exact sum of the others", function()
    local sum = perfev.stats { by = { "a", "b" }, value = "v" }
    local count = perfev.count { by = "a", max_keys = 250 }
    for i = 1, 300 do
      sum:add(i, "k" .. i, 1)
      sum:add(i, "k" .. i, 1)
      count:add(i, i)
    end
    for _ = 1, 5 do sum:add(1000, "k7", 1) end
    local state = json.decode(values.read(sum))
    assert.same({ 300, 100, "k7", 1, 7 }, { state.keys, #state.rows, state.rows[1][1], state.rows[1][2],
      state.rows[1][3] })
    local all, others = 0, state.other[3]
    for _, row in ipairs(state.rows) do all = all + row[4] end
    assert.equal(300 * 301 + 5000, all + state.other[4])
    assert.equal(400, others)
    assert.equal("(other): 200 keys", state.other[1])
    state = json.decode(values.read(count))
    assert.same({ "(other)", 300 * 301 // 2 - (151 + 250) * 50 }, { state.other[1], state.other[2] })
    assert.equal(300 * 301 // 2, state.all)
    assert.equal(0, #require "perfev.aggregate.aggregator".unread() - #require "perfev.aggregate.aggregator".all())
  end)

  it("of 100,000 keys are read in pieces, while other keys come", function()
    local count = perfev.count { by = "k", max_keys = 200000 }
    for i = 1, 100000 do count:add(1, i) end
    local work = coroutine.create(function() return values.read(count) end)
    local nr = 0
    while pieces.run(work) do
      nr = nr + 1
      count:add(1000, 200000 + nr)
    end
    assert.is_true(nr > 3, nr)
    local text, rows = whole(values.yield_rows, count)
    assert.is_true(rows > 100)
    assert.equal(100000 + nr, #json.decode("[" .. text .. "]"))
  end)
end)

describe("the passes of the live page", function()
  local function new_page()
    local count = perfev.count { by = "k" }
    for i = 1, 5 do count:add(i, i) end
    local follower = { total = function() return count end }
    local totals = { delivered = 7, lost = 0, late = 0 }
    return require("perfl.http.page").new({ { name = "c", kind = "count", source = count, follower = follower } }, {
      script = "s", command = "c", host = "h", version = "v", totals = function() return totals end,
      cpu_time = function() return 0 end, losses = function() return {} end }), count
  end
  local function new_stream(said, is_gone)
    return function(response)
      function response.send(_, text)
        said[#said + 1] = text
        return not is_gone()
      end
      function response:finish() self.finished = true end
    end
  end
  -- Works until nothing is urgent -> the delay
  local function work(page)
    local delay
    repeat delay = page:work() until delay ~= 0
    return delay
  end

  it("are made while a page is open or a client waits, and not for one that went away", function()
    local page, said, is_gone = new_page(), {}, false
    assert.is_nil(page:work())
    local response = page.routes["/data.json"] {}
    assert.equal("", response.next())
    assert.is_true(work(page) > 0)
    assert.equal(1, page.passes)
    assert.is_true(work(page) > 0)
    assert.equal(1, page.passes)
    response = page.routes["/events"] {}
    new_stream(said, function() return is_gone end)(response)
    work(page)
    assert.equal(2, page.passes)
    assert.is_truthy(said[1]:find '^event: hello\ndata: {"run":{')
    assert.is_truthy(said[2]:find '"rows":%[%[5,5%],')
    is_gone = true
    page.next_pass = 0
    work(page)
    assert.is_nil(next(page.streams))
    page.wanted_until = 0
    assert.is_nil(page:work())
  end)

  it("end with the last values and the event end", function()
    local page, count = new_page()
    local said, response = {}, page.routes["/events"] {}
    new_stream(said, function() return false end)(response)
    work(page)
    count:add(95, 5)
    page:finish()
    assert.is_truthy(said[#said - 1]:find '"rows":%[%[5,100%],')
    assert.equal("event: end\ndata: {}\n\n", said[#said])
    assert.is_true(response.finished)
  end)

  it("refuse a profile or a time that is not one", function()
    local page = new_page()
    assert.equal(400, page.routes["/flame.json"]({ query = { profile = "c" } }).status)
    assert.equal(400, page.routes["/flame.json"]({ query = {} }).status)
  end)
end)
