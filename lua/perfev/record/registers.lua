--- Names of the registers in regs_user and regs_intr, by the bit of the mask.
-- Source: arch/*/include/uapi/asm/perf_regs.h; the names lack the prefix PERF_REG_<ARCH>_.

local check = require "perfev.base.check"
local core = require "perfev.core"

local M = {}

-- Names the bits from first on: "a b c" has three names, "r0-r15" sixteen.
local function from(first, text, names)
  names = names or {}
  local bit = first
  for word in text:gmatch("%S+") do
    local stem, low, high = word:match("^(%a+)(%d+)%-%a+(%d+)$")
    for n = tonumber(low) or 0, tonumber(high) or 0 do
      names[bit] = stem and stem .. n or word
      bit = bit + 1
    end
  end
  return names
end

local make = {} -- family -> function that makes its names, called on first use

function make.x86()
  local names = from(0, "ax bx cx dx si di bp sp ip flags cs ss ds es fs gs r8-r15")
  for n = 0, 15 do -- 128 bits: two words, the low one first
    names[32 + 2 * n], names[33 + 2 * n] = "xmm" .. n, ("xmm%d_high"):format(n)
  end
  return names
end

function make.arm() return from(0, "r0-r10 fp ip sp lr pc") end
function make.arm64() return from(46, "vg", from(0, "x0-x29 lr sp pc")) end
function make.riscv() return from(0, "pc ra sp gp tp t0-t2 s0-s1 a0-a7 s2-s11 t3-t6") end
function make.s390x() return from(0, "r0-r15 fp0-fp15 mask pc") end

function make.powerpc()
  return from(0, [[r0-r31 nip msr orig_r3 ctr link xer ccr softe trap dar dsisr sier mmcra mmcr0 mmcr1 mmcr2
    mmcr3 sier2 sier3 pmc1-pmc6 sdar siar]])
end

setmetatable(M, { __index = function(_, family)
  if not make[family] then return nil end
  M[family] = make[family]()
  return M[family]
end })

-- Patterns for the output of uname -m -> family, true for a 32-bit kernel.
local families = {
  { "^i[3-6]86$", "x86", true }, { "^x86_64$", "x86" }, { "^amd64$", "x86" }, { "^x86$", "x86" },
  { "^aarch64", "arm64" }, { "^arm64$", "arm64" }, { "^arm", "arm", true },
  { "^riscv32", "riscv", true }, { "^riscv", "riscv" }, { "^s390", "s390x" },
  { "^ppc64", "powerpc" }, { "^powerpc64", "powerpc" }, { "^ppc$", "powerpc", true }, { "^powerpc", "powerpc" },
}

--- Returns the register names of a machine, and true if it has 32 bits; nil for an unknown machine.
function M.of(machine)
  for _, family in ipairs(families) do
    if machine:find(family[1]) then return M[family[2]], family[3] or false end
  end
end

-- Makes the mask for a list of names; raises, as core.attr_new does, for an unknown name.
local function mask_of(field, list, names, machine)
  local bits, known, mask = {}, {}, 0
  for bit, name in pairs(names) do bits[name], known[#known + 1] = 1 << bit, name end
  table.sort(known)
  for key, name in next, list do
    if math.type(key) ~= "integer" or type(name) ~= "string" then
      error(("%s: must be an integer or a list of registers' names"):format(field), 0)
    end
    local bit = bits[name]
    if not bit then
      error(("%s: %s has no register '%s'%s"):format(field, machine, name,
        check.hint(name, known)), 0)
    end
    mask = mask | bit | (bits[name .. "_high"] or 0) -- both words of a 128-bit register
  end
  return mask
end

--- Makes an attr of fields whose registers may be lists of names.
-- Raises as core.attr_new does.
-- @tparam table fields
-- @tparam[opt] string machine  default: this machine
function M.attr(fields, machine)
  machine = machine or core.machine
  local copy
  for _, field in ipairs { "sample_regs_user", "sample_regs_intr" } do
    if type(fields[field]) == "table" then
      local names = M.of(machine)
      if not names then error(("%s: the registers of %s have no names here: use a mask"):format(field, machine), 0) end
      if not copy then
        copy = {}
        for name, value in next, fields do copy[name] = value end
      end
      copy[field] = mask_of(field, fields[field], names, machine)
    end
  end
  local ok, attr = pcall(core.attr_new, copy or fields) -- pcall keeps the position out of the message
  if not ok then error(attr, 0) end
  return attr
end

core.record_registers(function() return M.of(core.machine) end)

return M
