-- The arguments of a program: from its stack, from /proc, and as one line.

local exec_arguments = require "perfev.tool.exec_arguments"
local sim = require "perfev.sim"
local perfev = require "perfev"

-- A stack as create_elf_tables() lays it: argc, addresses, NULL, the environment's, and so far above the texts.
local function sample_of(words, abi, gap, kept)
  local word = abi == 1 and "<I4" or "<I8"
  local size, sp = string.packsize(word), abi == 1 and 0xffffd000 or 0x7ffd00001010
  local at, pointers, texts = sp + size * (#words + 3) + gap, {}, {}
  for i, text in ipairs(words) do
    pointers[i], texts[i] = string.pack(word, at), text .. "\0"
    at = at + #text + 1
  end
  local stack = string.pack(word, #words) .. table.concat(pointers) .. ("\0"):rep(2 * size + gap) .. table.concat(texts)
  return { stack_user = stack:sub(1, kept or #stack), regs_user = { abi = abi, sp = sp } }
end

describe("a command line", function()
  local words = { "ls", "-d", "a b", "", "x\27[1m" }

  it("is read from the stack of a 64-bit or a 32-bit program", function()
    for _, gap in ipairs { 0, 16, 5000 } do
      assert.same(words, exec_arguments.on_stack(sample_of(words, 2, gap)))
      assert.same(words, exec_arguments.on_stack(sample_of(words, 1, gap)))
    end
  end)

  it("is nil if the copy of the stack is cut before its end, at any length", function()
    local whole = #sample_of(words, 2, 40).stack_user
    for kept = 0, whole - 1 do assert.is_nil(exec_arguments.on_stack(sample_of(words, 2, 40, kept)), kept) end
    assert.is_nil(exec_arguments.on_stack { regs_user = { abi = 2, sp = 1 } })
    assert.is_nil(exec_arguments.on_stack { stack_user = ("\255"):rep(64), regs_user = { abi = 2, sp = 4096 } })
    assert.is_nil(exec_arguments.on_stack {})
  end)

  it("is read from /proc, unless the process has ended or has executed another program", function()
    local k = sim.new { cpus = "0" }
    k.files["/proc/7/cmdline"], k.files["/proc/7/comm"] = "ls\0-d\0a b\0\0", "ls\n"
    k.files["/proc/8/cmdline"], k.files["/proc/8/comm"] = "", "zombie\n"
    perfev.hooks.with(k.hooks, function()
      assert.same({ "ls", "-d", "a b", "" }, exec_arguments.of_process { pid = 7, tid = 7, comm = "ls" })
      assert.is_nil(exec_arguments.of_process { pid = 7, tid = 7, comm = "cat" })
      assert.is_nil(exec_arguments.of_process { pid = 8, tid = 8, comm = "zombie" })
      assert.is_nil(exec_arguments.of_process { pid = 9, tid = 9, comm = "gone" })
    end)
  end)

  it("is printed escaped, with words separated, and with a limited length", function()
    assert.equal('ls -d "a b" "" x\\x1b[1m', exec_arguments.text(words))
    local long = exec_arguments.text { "echo", ("x"):rep(1000), "y", ("z"):rep(1000), "never" }
    assert.equal("echo " .. ("x"):rep(1000) .. " y ...", long)
  end)
end)
