--- The build-id of a file or of the kernel: the hash that the linker writes into an ELF note, in hexadecimal.

local core = require "perfev.core"
local hex = require "perfev.base.hex"
local native = require "perfev.base.native_module"

local M = {}

local SIZE_MAX = 20 -- bytes; recordings have no room for more
local PART_MAX = 64 << 10

local function shown(id) return id and hex.of(id:sub(1, SIZE_MAX)) end

--- The build-id among notes, or nil.
-- @tparam string notes  the bytes of /sys/kernel/notes, or of a module's
function M.of_notes(notes) return shown(core.build_id(notes)) end

--- The build-id of an ELF file, or nil, also if libelf is not installed. Reads its first page, and the notes if they
-- are elsewhere.
-- @tparam userdata file  from core.file
-- @tparam ?integer base  offset of the ELF header, default 0
function M.of_file(file, base)
  local elf = native "perfev.elf"
  local function read(offset, len)
    offset = offset + (base or 0)
    return offset >= 0 and len <= PART_MAX and file:part(offset, len) or nil
  end
  return elf and shown(elf.build_id(read))
end

--- The build-id of the running kernel, or nil.
function M.of_kernel() return M.of_notes(core.slurp "/sys/kernel/notes" or "") end

return M
