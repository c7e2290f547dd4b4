-- perfev.base.check: options against a table of types. Which options a class has: arguments_spec, docs_spec.

local check = require "perfev.base.check"
local tables = require "perfev.option_tables"
require "perfev.event.declaration" -- this module, its dependencies and recordings define types
require "perfev.perfdata.reader"
require "perfev.aggregate.span"

-- Raises on any access that is not raw.
local function trap(t)
  local function fail() error "metamethod" end
  return setmetatable(t or {}, { __index = fail, __pairs = fail, __len = fail, __tostring = fail, __name = "trap" })
end

describe("a type", function()
  local taken = {
    { "string", "", "" }, { "path", "a/b", "a/b" }, { "boolean", false, false }, { "number", 0.5, 0.5 },
    { "integer", 3.0, 3 }, { "integer > 0", 1, 1 }, { "integer >= 0", 0, 0 }, { "integer 1..22", 22, 22 },
    { "integer 1..2^28", 1 << 28, 1 << 28 }, { "number >= 0", 0, 0 }, { "number 0..1", 0.25, 0.25 },
    { "duration", "1ms", 1000000 }, { "size", "1K", 1024 }, { "buffer", "5000", 8192 },
    { "one of a, b", "b", "b" }, { "true | string", true, true }, { "true | string", "x", "x" },
    { "list of integer > 0", trap { 1, 2.0 }, { 1, 2 } }, { "*", "x", "x" },
    { "list of string", table.pack("a"), { "a", n = 1 } },
  }
  for _, case in ipairs(taken) do
    it(("%s accepts %s"):format(case[1], tostring(rawequal(case[2], case[3]) and case[2] or case[1])), function()
      local value, why = check.value("x", case[1], case[2])
      assert.same({ case[3] }, { value })
      assert.is_nil(why)
    end)
  end

  it("of an integer converts a float with an integer value", function()
    assert.equal("integer", math.type((check.value("x", "integer", 7.0))))
  end)

  local refused = {
    { "string", 3, "x must be a string, not 3" },
    { "boolean", "true", "x must be true or false, not 'true'" },
    { "integer", 1.5, "x must be an integer, not 1.5" },
    { "integer", 0 / 0, "x must be an integer, not " .. tostring(0 / 0) },
    { "integer", 2.0 ^ 64, "x must be an integer, not 1.844674407371e+19" },
    { "integer > 0", 0, "x must be an integer above 0, not 0" },
    { "integer >= 0", -1, "x must be an integer of 0 or more, not -1" },
    { "integer 1..22", 23, "x must be an integer from 1 to 22, not 23" },
    { "integer 1..2^28", (1 << 28) + 1, "x must be an integer from 1 to 2^28, not 268435457" },
    { "function", trap(), "x must be a function, not a table" },
    { "path", "", "x must be a path, not ''" },
    { "path", "a\0b", "x: a path with a NUL byte in it" },
    { "duration", {}, "x must be a duration such as \"500ms\", not a table" },
    { "duration", "1d", "x: duration '1d': expected a number with ns, us, ms, s, m or h, as in 500ms" },
    { "one of a, b", "c", "x must be one of a, b, not 'c'" },
    { "one of a, b", trap(), "x must be one of a, b, not a table" },
    { "true | integer > 0", 0, "x must be true or an integer above 0, not 0" },
    { { "true | integer > 0", "a level" }, 0, "x must be a level, not 0" },
    { "list of string", "a", "x must be a list, each a string, not 'a'" },
    { "list of string", {}, "x: the list is empty" },
    { "list of string", { "a", 2 }, "x: element 2 must be a string, not 2" },
    { "list of string", { "a", x = "b" }, "x: 'x' is not allowed in a list" },
    { "list of string", { "a", nil, "c" }, "x: element 2 must be a string, not nil" },
    { "string", nil, "x must be a string, not nil" },
  }
  for _, case in ipairs(refused) do
    it(("that refuses a value reports: %s"):format(case[3]), function()
      local value, why = check.value("x", case[1], case[2])
      assert.is_nil(value)
      assert.equal(case[3], why)
    end)
  end

  it("of a list returns a copy", function()
    local list = { "a" }
    local copy = check.value("x", "list of string", list)
    list[1] = "b"
    assert.same({ "a" }, copy)
  end)
end)

describe("a table of options", function()
  local options = { [1] = "string", by = "string", value = "string", max_keys = "integer > 0" }

  it("is converted as a whole, without calling its metatable", function()
    assert.same({ "e", by = "x", max_keys = 2 }, check.options(trap { "e", by = "x", max_keys = 2.0 }, options))
  end)

  it("is refused for an unknown name, with the nearest option", function()
    assert.same({ nil, "unknown option 'max_kyes' (did you mean 'max_keys'?)" },
      { check.options({ max_kyes = 1 }, options) })
  end)

  it("is refused for a name without a near one, with all options if they are few", function()
    assert.equal("unknown option 'colour'; the options are by, max_keys, value",
      select(2, check.options({ colour = 1 }, options)))
    assert.equal("unknown option 'colour'", select(2, check.options({ colour = 1 }, tables.session)))
  end)

  it("is refused for elements of the wrong type, or outside of the list", function()
    assert.equal("element 1 must be a string, not 3", select(2, check.options({ 3 }, options)))
    assert.matches("^element 3 is not allowed in a list of 1$", select(2, check.options({ "a", [3] = "b" }, options)))
    assert.matches("^unknown option '1'", select(2, check.options({ "a" }, { by = "string" })))
  end)

  it("is refused if it is not a table", function()
    assert.equal("a table expected, not a function", select(2, check.options(print, options)))
  end)

  it("is refused at the caller's line, with the name of the class", function()
    local function caller() check.take("hist", { by = 1 }, options, 2) end
    local ok, why = pcall(caller)
    assert.is_false(ok)
    assert.matches("^spec/base/check_spec.lua:%d+: hist: by must be a string, not 1$", why)
  end)
end)

describe("the tables of the classes", function()
  for class, options in pairs(tables) do
    for _, name in ipairs(check.names(options)) do
      -- A value of "*" is checked by the class.
      local test = options[name] == "*" and function() end or it
      test(("%s.%s refuses values of another type, by name"):format(class, name), function()
        local value, why = check.value(name, options[name], coroutine.create(print))
        assert.is_nil(value)
        assert.matches("^" .. name .. " must be .*, not a thread$", why)
      end)
    end
  end
end)
