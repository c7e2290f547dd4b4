-- The bounded sample of calls, against all calls.

local kept_calls = require "perfev.calls.kept_calls"

-- Calls with durations 1 to n in a mixed order.
local function fill(kept, n, pieces)
  for i = 1, n do kept:add { took = i * 7919 % n + 1, start = i, pieces = pieces or {} } end
end

local function mean(calls)
  local sum = 0
  for _, call in ipairs(calls) do sum = sum + call.took end
  return sum / #calls
end

describe("kept calls", function()
  it("are all calls, as long as they fit", function()
    local kept = kept_calls.new(1000)
    fill(kept, 200)
    local slow, rest, nr = kept:divide { slowest = 0.05 }
    assert.same({ 10, 190, 10 }, { #slow, #rest, nr })
    assert.same({ 200, 191, 190 }, { slow[1].took, slow[10].took, rest[1].took })
    slow, rest, nr = kept:divide { over = 150 }
    assert.same({ 51, 149, 51 }, { #slow, #rest, nr })
    assert.same({ 0, 200, 0 }, { #kept:divide { over = 201 }, #select(2, kept:divide { over = 201 }),
      (select(3, kept:divide { over = 201 })) })
  end)

  it("are exactly the slowest, and a uniform sample of the others", function()
    local kept = kept_calls.new(1000)
    fill(kept, 20000)
    assert.same({ 1000, 250 }, { #kept.sample, #kept.slowest })
    local slow, rest, nr = kept:divide { slowest = 0.005 }
    assert.same({ 100, 100, 20000, 19901 }, { #slow, nr, slow[1].took, slow[100].took })
    for _, call in ipairs(rest) do assert.is_true(call.took <= 19900) end
    assert.is_true(math.abs(mean(rest) - 9950) < 4 * 5774 / math.sqrt(#rest)) -- 4 standard errors
  end)

  it("are a sample of both groups if the slow ones are too many", function()
    local kept = kept_calls.new(1000)
    fill(kept, 20000)
    local slow, rest, nr = kept:divide { slowest = 0.2 }
    assert.same({ 200, 800, 4000 }, { #slow, #rest, nr })
    assert.is_true(math.abs(mean(slow) - 18000) < 600)
    slow, rest, nr = kept:divide { over = 10001 }
    assert.is_true(math.abs(nr - 10000) < 1300 and #slow + #rest == 1000)
  end)

  it("are the same for the same calls", function()
    local one, other = kept_calls.new(100), kept_calls.new(100)
    fill(one, 5000)
    fill(other, 5000)
    for i, call in ipairs(one.sample) do assert.equal(call.start, other.sample[i].start) end
  end)

  it("have a bounded number of pieces", function()
    local kept, pieces = kept_calls.new(4000), {}
    for i = 1, 300 do pieces[i] = i end
    fill(kept, 3100, pieces)
    local nr = 0
    for _, call in ipairs(kept.sample) do nr = nr + (call.pieces and 1 or 0) end
    assert.equal(3000, nr)
  end)
end)
