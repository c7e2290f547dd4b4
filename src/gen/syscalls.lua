-- syscalls.lua - writes the names of system calls by number, from the compiler's headers.
-- lua5.4 src/gen/syscalls.lua > lua/perfev/tracepoint/syscalls.lua
--
-- Run by hand when kernels have new ones; the output is kept, so a build needs no headers of
-- other machines. From 424 on a call has one number everywhere: what is newer than the
-- headers (linux-libc-dev 6.1 ends at 450) stands below, once.

local newer = {
  [451] = "cachestat", [452] = "fchmodat2", [453] = "map_shadow_stack", [454] = "futex_wake",
  [455] = "futex_wait", [456] = "futex_requeue", [457] = "statmount", [458] = "listmount",
  [459] = "lsm_get_self_attr", [460] = "lsm_set_self_attr", [461] = "lsm_list_modules",
  [462] = "mseal", [463] = "setxattrat", [464] = "getxattrat", [465] = "listxattrat",
  [466] = "removexattrat", [467] = "open_tree_attr", [468] = "file_getattr",
  [469] = "file_setattr",
}

-- `also`: a machine's own, newer than the headers.
local machines = {
  { "x86_64", "asm/unistd_64.h", also = { [335] = "uretprobe", [336] = "uprobe" } },
  { "i386", "asm/unistd_32.h" },
  { "generic", "asm-generic/unistd.h",
    flags = "-D__ARCH_WANT_RENAMEAT -D__ARCH_WANT_SET_GET_RLIMIT -D__ARCH_WANT_NEW_STAT "
      .. "-D__ARCH_WANT_SYS_CLONE3 -D__ARCH_WANT_MEMFD_SECRET",
    also = { [258] = "riscv_hwprobe", [259] = "riscv_flush_icache" } }, -- only riscv has any there
}

local function defines_of(header, flags)
  local pipe = assert(io.popen(("echo '#include <%s>' | cc -E -dM %s -"):format(header, flags)))
  local defined = {}
  for name, value in pipe:read("a"):gmatch("#define __(NR[%w]*_[%w_]+) +([%w_]+)") do
    defined[name] = value
  end
  assert(pipe:close(), header .. ": the compiler does not find it")
  return defined
end

local not_calls = { syscalls = true, arch_specific_syscall = true }

-- number -> name; asm-generic takes a step in between: __NR_lseek is __NR3264_lseek.
local function calls_of(header, flags)
  local defined, names = defines_of(header, flags or ""), {}
  for macro, value in pairs(defined) do
    local name = macro:match("^NR_(.+)$")
    local number = math.tointeger(tonumber(defined[value:match("^__(NR.+)$")] or value))
    if name and number and not not_calls[name] then names[number] = name end
  end
  return names
end

-- "0 read write 10 mprotect": a number is the next word's, then they count up.
local function packed(names)
  local numbers, words = {}, {}
  for number in pairs(names) do numbers[#numbers + 1] = number end
  table.sort(numbers)
  for i, number in ipairs(numbers) do
    if numbers[i - 1] ~= number - 1 then words[#words + 1] = tostring(number) end
    words[#words + 1] = names[number]
  end
  return words
end

local function write_folded(name, words)
  io.write(("\nnames.%s = [["):format(name))
  local column = 100
  for _, word in ipairs(words) do
    if column + 1 + #word > 96 then
      io.write("\n ")
      column = 1
    end
    io.write(" ", word)
    column = column + 1 + #word
  end
  io.write("\n]]\n")
end

io.write([[
--- The names of this machine's system calls. Written by src/gen/syscalls.lua.
--
-- What tracefs lists are the kernel's own functions, without their numbers, so the numbers are
-- here. A word's number is one above that of the word before, or is written before it.

local core = require "perfev.core"

local names = {}
]])
for _, machine in ipairs(machines) do
  local names = calls_of(machine[2], machine.flags)
  for number, name in pairs(machine.also or {}) do names[number] = names[number] or name end
  for number, name in pairs(newer) do names[number] = names[number] or name end
  write_folded(machine[1], packed(names))
end
io.write([[

-- A machine's name as uname -m prints it -> the list above that has its numbers.
local spellings = {
  { "^x86_64$", "x86_64" }, { "^amd64$", "x86_64" }, { "^i[3-6]86$", "i386" },
  { "^aarch64", "generic" }, { "^arm64$", "generic" }, { "^riscv", "generic" },
  { "^loongarch", "generic" },
}

local function numbers_of(which)
  which = which or core.machine
  for _, spelling in ipairs(spellings) do
    if which:find(spelling[1]) then return spelling[2] end
  end
  return which
end

local M = {}

--- The names of a machine's calls.
-- @tparam ?string which  "x86_64", "i386" or "generic" (arm64, riscv, loongarch), or the output
--   of uname -m; nil: this machine
-- @treturn table  name by number; empty for an unknown machine
function M.of(which)
  local found, number = {}, 0
  for word in (names[numbers_of(which)] or ""):gmatch("%S+") do
    if word:find("^%d") then
      number = math.tointeger(tonumber(word))
    else
      found[number] = word
      number = number + 1
    end
  end
  return found
end

local known = {} -- machine, or false for this one -> the names

--- A call's name, or "syscall_N" for a number that has none we know.
-- @tparam integer number
-- @tparam ?string which  the machine, as uname -m says it; nil: this one
-- @treturn string
function M.name(number, which)
  if math.type(number) ~= "integer" then
    error("name: a system call's number expected, not " .. tostring(number), 2)
  end
  known[which or false] = known[which or false] or M.of(which)
  return known[which or false][number] or ("syscall_%d"):format(number)
end

return M
]])
