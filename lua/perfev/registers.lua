--- The names of the registers in regs_user and regs_intr, by the bit of the mask.
-- Source: arch/*/include/uapi/asm/perf_regs.h, whose names these are without PERF_REG_<ARCH>_.

local M = {}

-- A word for each bit from first on: "a b c"; "r0-r15" is a run of them.
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

M.x86 = from(0, "ax bx cx dx si di bp sp ip flags cs ss ds es fs gs r8-r15")
for n = 0, 15 do -- 128 bits each: two words, the low one first
  M.x86[32 + 2 * n], M.x86[33 + 2 * n] = "xmm" .. n, ("xmm%d_high"):format(n)
end
M.arm = from(0, "r0-r10 fp ip sp lr pc")
M.arm64 = from(46, "vg", from(0, "x0-x29 lr sp pc"))
M.riscv = from(0, "pc ra sp gp tp t0-t2 s0-s1 a0-a7 s2-s11 t3-t6")
M.s390x = from(0, "r0-r15 fp0-fp15 mask pc")
M.powerpc = from(0, [[r0-r31 nip msr orig_r3 ctr link xer ccr softe trap dar dsisr sier mmcra mmcr0 mmcr1 mmcr2
  mmcr3 sier2 sier3 pmc1-pmc6 sdar siar]])

-- What uname -m says -> the table's name, and whether a record of it is of a 32-bit kernel.
local families = {
  { "^i[3-6]86$", "x86", true }, { "^x86_64$", "x86" }, { "^amd64$", "x86" }, { "^x86$", "x86" },
  { "^aarch64", "arm64" }, { "^arm64$", "arm64" }, { "^arm", "arm", true },
  { "^riscv32", "riscv", true }, { "^riscv", "riscv" }, { "^s390", "s390x" },
  { "^ppc64", "powerpc" }, { "^powerpc64", "powerpc" }, { "^ppc$", "powerpc", true }, { "^powerpc", "powerpc" },
}

--- The register names of a machine, and whether it is of 32 bits; nil when there are none.
function M.of(machine)
  for _, family in ipairs(families) do
    if machine:find(family[1]) then return M[family[2]], family[3] or false end
  end
end

return M
