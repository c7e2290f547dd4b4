-- Functions that were made in memory, by perf-PID.map: whoever may write to /tmp writes it.

local core = require "perfev.core"
local run = require "spec.support.run"

-- What is at each address, "name+offset" or false.
local function found(text, ...)
  local map, list = core.jitmap(text), {}
  for i, address in ipairs { ... } do
    local name, start = map:find(address)
    list[i] = name and ("%s+%x"):format(name, address - start) or false
  end
  return list
end

describe("a perf map", function()
  it("has a function on each line, in any order; its name is the rest of the line", function()
    assert.same({ "b c;d+0", "b c;d+f", false, "a+1" },
      found("1000 2 a\n200 10 b c;d\n", 0x200, 0x20f, 0x210, 0x1001))
  end)

  it("ends with a line or without its end, has upper and lower case, and 0x or not", function()
    assert.same({ "a+0", "b+1" }, found("0xAbC 0x1 a\nDEF 2 b", 0xabc, 0xdf0))
  end)

  it("has the newest of those that lie over one another, and an older one where that ends", function()
    local text = "1000 1000 old\n1100 100 newer\n1000 10 newest\n1000 0 none\n"
    assert.same({ "newest+f", "old+10", "newer+0", "old+200" }, found(text, 0x100f, 0x1010, 0x1100, 0x1200))
  end)

  it("has what is longer than those that lay in its place before it", function()
    assert.same({ "new+0", "new+280" }, found("1000 200 one\n1200 200 two\n1000 400 new\n", 0x1000, 0x1280))
  end)

  it("is looked through no further back than 64 functions", function()
    local lines = { "1000 1000 under" }
    for i = 1, 100 do lines[#lines + 1] = ("%x 1 f%d"):format(0x1000 + 2 * i, i) end
    local text = table.concat(lines, "\n")
    assert.same({ "under+5", "f100+0", false }, found(text, 0x1005, 0x10c8, 0x10c9))
  end)

  it("may hold anything: what is no line of it is passed over", function()
    for _, line in ipairs { "", " ", "x", "1000", "1000 ", "1000 10", "1000 10 ", " 1000 10 a", "1000  10 a", "0x 10 a",
      "1000 0x a", "1000 -10 a", "1000\t10\ta", "g000 10 a", "10000000000001000 10 a", "1000 10000000000000010 a",
      "\0001000 10 a", ("\255\0\127"):rep(1000), ("f"):rep(100000), (" 1000"):rep(100000) } do
      assert.same({ false, "after+0" }, found(line .. "\n3000 1 after\n", 0x1000, 0x3000), line:sub(1, 40))
      assert.same({ false }, found(line, 0x1000), line:sub(1, 40))
    end
    assert.same({ "a\0b\r+0" }, found("1000 1 a\0b\r\n", 0x1000))
    assert.same({ ("x"):rep(4096) .. "+0" }, found("1000 1 " .. ("x"):rep(100000), 0x1000))
  end)

  it("may have functions that reach beyond the last address, and at it", function()
    assert.same({ "a+1", "b+1000", false }, found("fffffffffffffff0 ffff a\n8000000000000000 2000 b\n",
      -15, math.mininteger + 0x1000, 0x1000))
    assert.same({}, found("ffffffffffffffff ffffffffffffffff a\n"))
  end)

  it("may be empty, and may be large", function()
    assert.same({ false, false }, found("", 0, -1))
    local lines = {}
    for i = 1, 100000 do
      lines[i] = ("%x 10 function number %d"):format(0x7f0000000000 + 16 * (i * 7919 % 100000), i)
    end
    assert.same({ "function number 1+3" }, found(table.concat(lines, "\n"), 0x7f0000000000 + 16 * 7919 + 3))
  end)

  it("that is a pipe which nobody writes to is empty, and nobody waits for it", function()
    local dir = run.tempdir()
    assert(os.execute("mkfifo " .. dir .. "/perf-1.map"))
    local text = core.slurp(dir .. "/perf-1.map")
    run.remove(dir)
    assert.equal("", text)
  end)
end)
