--- The names of this machine's system calls.
--
-- tracefs lists system calls without their numbers.

local core = require "perfev.core"
local lists = require "perfev.tracepoint.syscall_numbers"

-- Patterns for the output of uname -m -> the list with the machine's numbers.
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
  for word in (lists[numbers_of(which)] or ""):gmatch("%S+") do
    if word:find("^%d") then
      number = math.tointeger(tonumber(word))
    else
      found[number] = word
      number = number + 1
    end
  end
  return found
end

local known = {} -- machine, or false for this one -> names by number

--- A call's name, or "syscall_N" for an unknown number.
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
