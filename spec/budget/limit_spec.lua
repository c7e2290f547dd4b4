-- Limits of a budget: the forms that users write, the counts that they accept, and their update.

local limit = require "perfev.budget.limit"

local function accepts(value, count) return limit.accepts(assert(limit.parse(value)), count) end

describe("a limit", function()
  it("that is a number accepts that count only", function()
    assert.same({ false, true, false }, { accepts(12, 11), accepts(12, 12), accepts("12", 13) })
  end)

  it("is a bound, a range or a share, with blanks or without", function()
    local cases = {
      { "<= 12", 0, 12, 13 }, { "<12", 0, 11, 12 }, { ">= 3", 3, 1 << 40, 2 }, { "> 3", 4, 5, 3 },
      { "3..12", 3, 12, 13 }, { "3 .. 12", 3, 12, 2 }, { "1e6 ± 2%", 980000, 1020000, 1020001 },
      { "1e6 +- 2 %", 980000, 1020000, 979999 }, { "1_000", 1000, 1000, 999 }, { "any", 0, 1 << 60, nil },
    }
    for _, case in ipairs(cases) do
      assert.is_true(accepts(case[1], case[2]), case[1])
      assert.is_true(accepts(case[1], case[3]), case[1])
      if case[4] then assert.is_false(accepts(case[1], case[4]), case[1]) end
    end
  end)

  it("that is invalid is refused with its own words and a form that works", function()
    for _, value in ipairs { "=< 40", "", "many", "-1", "5..2", "< 0", "12 ±", "0x10", "nan", "1e999", true, {}, -1,
                           0 / 0, math.huge } do
      local found, why = limit.parse(value)
      assert.is_nil(found, tostring(value))
      assert.matches("^limit '.*'\n  a limit is a number, .*\n  try: ", why)
      assert.truthy(why:find(type(value) == "string" and value or "limit", 1, true))
      assert.truthy(limit.parse(why:match 'try: "(.*)"$'), why)
    end
  end)

  it("is updated in its own form, and a bound that holds is kept", function()
    local function adapted(text, count) return limit.adapted(assert(limit.parse(text)), count) end
    assert.equal("7", adapted("5", 7))
    assert.equal("<= 40", adapted("<= 40", 12))
    assert.equal("<= 41", adapted("<= 40", 41))
    assert.equal("<= 40", adapted("< 40", 40))
    assert.equal("3..14", adapted("3..12", 14))
    assert.equal("2..12", adapted("3..12", 2))
    assert.equal("1100 ± 2%", adapted("1000 ± 2%", 1100))
    assert.equal("1000 ± 2%", adapted("1000 ± 2%", 1000))
    assert.equal(">= 2", adapted(">= 3", 2))
    assert.equal("any", adapted("any", 99))
  end)
end)
