-- Stacks in messages and baselines.

local stack_text = require "perfev.budget.stack_text"

local function stack(...)
  local frames = { ... }
  return { frames = function() return frames end }
end
local kernel = { symbol = "do_syscall_64", module = "[kernel]", kernel = true }
local function c(symbol, module) return { symbol = symbol, module = module or "/lib/libc.so.6" } end
local lua = { module = "/usr/bin/lua5.4" }

describe("a stack of a budget", function()
  it("has the innermost user frames without versions and offsets, and equal ones once", function()
    assert.equal("main;rec;fopen;open", stack_text.folded(stack(kernel, c "open", c "fopen@@GLIBC_2.2.5", c "rec",
      c "rec", c "main")))
    assert.equal("[lua5.4];a:b", stack_text.folded(stack(c "a;b", lua, lua)))
    assert.equal("[unknown]", stack_text.folded(stack(kernel)))
  end)

  it("ends at the line of Lua, in place of the interpreter's frames", function()
    assert.equal("a.lua:7;fopen;open", stack_text.folded { stack = stack(kernel, c "open", c "fopen", lua, c "main"),
      place = "a.lua:7" })
  end)

  it("adds up stacks with equal texts", function()
    assert.same({ ["main;open"] = 5 }, stack_text.fold_all { [stack(c "open", c "main")] = 2,
      [stack(kernel, c "open", c "main")] = 3 })
  end)

  it("is shown leaf first in the width of a terminal, with the line of Lua at its end", function()
    assert.equal("open < fopen < main", stack_text.leaf_first "main;fopen;open")
    local long = ("f"):rep(30)
    assert.equal(long .. " < " .. long .. " < ...", stack_text.leaf_first(("main;%s;%s;%s"):format(long, long, long)))
    assert.equal(long .. " < " .. long .. " < a.lua:7",
      stack_text.leaf_first(("a.lua:7;%s;%s;%s"):format(long, long, long)))
    assert.equal("a.lua:7", stack_text.leaf_first "a.lua:7")
  end)
end)
