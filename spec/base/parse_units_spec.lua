-- Durations, sizes and lists as people write them.

local units = require "perfev.base.parse_units"

local function refused(convert, text, ...)
  local value, why = convert(text, ...)
  assert.is_nil(value)
  assert.is_truthy(why:find("'" .. tostring(text) .. "'", 1, true), why)
  return why
end

describe("a duration", function()
  for text, ns in pairs {
    ["10s"] = 10000000000, ["500ms"] = 500000000, ["2m"] = 120000000000, ["1h"] = 3600000000000,
    ["100us"] = 100000, ["5ns"] = 5, ["3"] = 3000000000, ["0"] = 0, ["1.5s"] = 1500000000,
    [".5ms"] = 500000, ["0.1s"] = 100000000, ["1.5ns"] = 2,
  } do
    it(("of %s is %d ns"):format(text, ns), function()
      assert.equal(ns, units.duration(text))
      assert.equal("integer", math.type(units.duration(text)))
    end)
  end

  it("can be a number of seconds", function()
    assert.equal(2000000000, units.duration(2))
    assert.equal(250000000, units.duration(0.25))
  end)

  it("keeps every digit of a whole number", function()
    assert.equal(9007199254740993, units.duration("9007199254740993ns"))
    assert.equal(math.maxinteger, units.duration("9223372036854775807ns"))
  end)

  for _, text in ipairs { "", "s", ".", "10x", "10 s", "-1s", "1s2", "0x10", "inf", "nan", "1e3",
    "1..2s", "10S", "1s\n", "9223372037s", "99999999999999999999" } do
    it(("of %q is refused with an example"):format(text), function()
      assert.is_truthy(refused(units.duration, text):find("500ms", 1, true))
    end)
  end

  it("of an invalid number is refused", function()
    for _, n in ipairs { -1, 0 / 0, math.huge, -math.huge } do
      assert.is_nil(units.duration(n))
    end
    assert.is_nil(units.duration {})
  end)
end)

describe("a size", function()
  for text, bytes in pairs {
    ["2M"] = 2 << 20, ["64K"] = 64 << 10, ["1G"] = 1 << 30, ["512B"] = 512, ["4096"] = 4096,
    ["2m"] = 2 << 20, ["1.5K"] = 1536, ["0"] = 0,
  } do
    it(("of %s is %d bytes"):format(text, bytes), function()
      assert.equal(bytes, units.size(text))
    end)
  end

  for _, text in ipairs { "", "M", "2T", "2 M", "-2M", "2MB", "8589934592G", "inf" } do
    it(("of %q is refused with an example"):format(text), function()
      assert.is_truthy(refused(units.size, text):find("2M", 1, true))
    end)
  end
end)

describe("a list", function()
  it("holds numbers and ranges in the order given", function()
    assert.same({ 0, 1, 2, 3, 7 }, units.list("0-3,7"))
    assert.same({ 9, 1, 2 }, units.list("9,1-2"))
    assert.same({ 5 }, units.list("5"))
    assert.same({ 5 }, units.list("5-5"))
  end)

  it("holds each number only once", function()
    assert.same({ 1, 2, 3 }, units.list("1-3,2,1"))
  end)

  it("accepts a single number", function()
    assert.same({ 4 }, units.list(4))
  end)

  for _, text in ipairs { "", ",", "1,", ",1", "a", "1-", "-1", "1--2", "1 2", "0x1", "1.5",
    "1-2-3", "99999999999999999999" } do
    it(("%q is refused with the list's name"):format(text), function()
      local why = refused(units.list, text, "CPU list")
      assert.is_truthy(why:find("^CPU list"), why)
    end)
  end

  it("is refused with the range that runs backwards", function()
    assert.is_truthy(refused(units.list, "0,3-1"):find("3-1 runs backwards", 1, true))
  end)

  it("is refused if a range would fill the memory", function()
    refused(units.list, "0-4000000000")
    refused(units.list, "0-9223372036854775807")
    assert.equal(65536, #units.list("0-65535"))
  end)
end)
