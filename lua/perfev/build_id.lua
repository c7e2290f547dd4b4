--- Which build a file or a kernel is: the id that its linker put among its ELF notes. Source: elf(5), "Notes (Nhdr)".

local core = require "perfev.core"
local hex = require "perfev.hex"

local M = {}

local NT_GNU_BUILD_ID = 3
local SIZE_MAX = 20 -- that recordings have room for

local function align(pos, to) return (pos + to - 1) // to * to end

--- The build id that is among notes, in hexadecimal, or nil.
-- @tparam string notes   as an ELF file or /sys/kernel/notes has them
-- @tparam ?string order  string.pack's, this machine's unless it is said
-- @tparam ?integer to    what they are aligned to
function M.of_notes(notes, order, to)
  local pos = 0
  to = to == 8 and 8 or 4
  while pos + 12 <= #notes do
    local name_size, size, type = string.unpack((order or "=") .. "I4I4I4", notes, pos + 1)
    local name, desc = pos + 12, align(pos + 12 + name_size, to)
    if desc + size > #notes then return nil end
    if type == NT_GNU_BUILD_ID and notes:sub(name + 1, name + name_size) == "GNU\0" and size > 0 then
      return hex.of(notes:sub(desc + 1, desc + math.min(size, SIZE_MAX)))
    end
    pos = align(desc + size, to)
  end
end

--- The running kernel's, or nil where it does not tell.
function M.of_kernel() return M.of_notes(core.slurp("/sys/kernel/notes") or "") end

return M
