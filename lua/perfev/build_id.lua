--- Which build a file or a kernel is: the id that its linker put among its ELF notes. Source: elf(5), "Notes (Nhdr)".

local core = require "perfev.core"
local hex = require "perfev.hex"

local M = {}

local NT_GNU_BUILD_ID, PT_NOTE = 3, 4
local SIZE_MAX = 20 -- that recordings have room for
-- No valid file has more.
local HEADERS_MAX, NOTES_MAX = 512, 64 << 10

-- By ELF class: offsets of e_phoff and of e_phentsize, the format of a word, the size of a program header, and the
-- offsets of p_offset, p_filesz and p_align in it.
local classes = {
  [1] = { phoff = 28, word = "I4", entries = 42, size = 32, offset = 4, filesz = 16, align = 28 },
  [2] = { phoff = 32, word = "I8", entries = 54, size = 56, offset = 8, filesz = 32, align = 48 },
}

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

local function read(file, offset, len)
  if offset < 0 or len < 0 or len > NOTES_MAX then return nil end
  local bytes = file:part(offset, len)
  return bytes and #bytes == len and bytes or nil
end

--- The build id of an ELF file, or nil. Reads its program headers and its notes, a few hundred bytes.
-- @tparam userdata file  from core.file
-- @tparam ?integer base  offset of the ELF header, default 0
function M.of_file(file, base)
  base = base or 0
  local head = read(file, base, 64)
  local class = head and head:sub(1, 4) == "\x7fELF" and classes[head:byte(5)]
  if not class then return nil end
  local order = head:byte(6) == 2 and ">" or "<"
  local function at(bytes, format, offset) return (string.unpack(order .. format, bytes, offset + 1)) end
  local nr, size = at(head, "I2", class.entries + 2), at(head, "I2", class.entries)
  if nr > HEADERS_MAX or size < class.size then return nil end
  local headers = read(file, base + at(head, class.word, class.phoff), nr * size)
  for i = 0, headers and nr - 1 or -1 do
    local here = i * size
    local len = at(headers, class.word, here + class.filesz)
    if at(headers, "I4", here) == PT_NOTE then
      local notes = read(file, base + at(headers, class.word, here + class.offset), len)
      local id = notes and M.of_notes(notes, order, at(headers, class.word, here + class.align))
      if id then return id end
    end
  end
end

--- The running kernel's, or nil where it does not tell.
function M.of_kernel() return M.of_notes(core.slurp("/sys/kernel/notes") or "") end

return M
