-- elf.lua - builds ELF files byte by byte for specs: functions at given addresses, without code.
--
--   elf.file { functions = { { "main", 0x1000, 0x20 } }, build_id = ("\1"):rep(20) }
--
-- One executable segment: `offset` in the file (0x1000), `vaddr` (the same), `length` (0x10000); and a segment for
-- the build-id note.

local M = {}

local FUNC, GLOBAL = 2, 1
local PT_NOTE, PT_GNU_EH_FRAME = 4, 0x6474e550

local function pad(bytes, to) return bytes .. ("\0"):rep(-#bytes % to) end

local function note(id)
  return string.pack("<I4I4I4", 4, #id, 3) .. "GNU\0" .. pad(id, 4)
end

-- Returns the bytes of .symtab and of its string table.
local function symbols(functions)
  local table_, names = { ("\0"):rep(24) }, { "\0" }
  local at = 1
  for _, f in ipairs(functions) do
    local name, value, size, bind, kind, section = table.unpack(f)
    table_[#table_ + 1] = string.pack("<I4BBI2I8I8", at, (bind or GLOBAL) << 4 | (kind or FUNC), 0, section or 1,
      value, size)
    names[#names + 1] = name .. "\0"
    at = at + #name + 1
  end
  return table.concat(table_), table.concat(names)
end

--- Returns the bytes of a file.
-- @tparam table opts  `functions` ({ name, address, size, bind, type, section }), `dynamic` (they are in .dynsym),
--   `build_id`, `debuglink` ({ name, crc }), `minidebug` (bytes of .gnu_debugdata), `eh_frame` (its bytes),
--   `eh_frame_hdr` (its bytes, for address 0), `machine` (EM_*, x86-64), `offset`, `vaddr`, `length` of the segment
function M.file(opts)
  local sections = {} -- { name, type, flags, bytes, link, entsize }
  local table_, names = symbols(opts.functions or {})
  if opts.functions then
    sections = { { ".symtab", opts.dynamic and 11 or 2, 0, table_, 2, 24 }, { ".strtab", 3, 0, names, 0, 0 } }
    if opts.dynamic then sections[1][1], sections[2][1] = ".dynsym", ".dynstr" end
  end
  if opts.build_id then sections[#sections + 1] = { ".note.gnu.build-id", 7, 2, note(opts.build_id), 0, 0 } end
  if opts.debuglink then
    local link = pad(opts.debuglink[1] .. "\0", 4) .. string.pack("<I4", opts.debuglink[2])
    sections[#sections + 1] = { ".gnu_debuglink", 1, 0, link, 0, 0 }
  end
  if opts.minidebug then sections[#sections + 1] = { ".gnu_debugdata", 1, 0, opts.minidebug, 0, 0 } end
  if opts.eh_frame then sections[#sections + 1] = { ".eh_frame", 1, 2, opts.eh_frame, 0, 0 } end
  if opts.eh_frame_hdr then sections[#sections + 1] = { ".eh_frame_hdr", 1, 2, opts.eh_frame_hdr, 0, 0 } end
  sections[#sections + 1] = { ".shstrtab", 3, 0, "", 0, 0 }
  local shnames = "\0"
  for _, section in ipairs(sections) do
    section.name, shnames = #shnames, shnames .. section[1] .. "\0"
  end
  sections[#sections][4] = shnames
  local nr_segments = 1 + (opts.build_id and 1 or 0) + (opts.eh_frame_hdr and 1 or 0)
  local at, bodies, headers = 64 + 56 * nr_segments, {}, { ("\0"):rep(64) }
  local more = ""
  for _, section in ipairs(sections) do
    local kind = section[2] == 7 and PT_NOTE or section[1] == ".eh_frame_hdr" and PT_GNU_EH_FRAME
    if kind then
      more = more .. string.pack("<I4I4I8I8I8I8I8I8", kind, 4, at, 0, 0, #section[4], #section[4], 4)
    end
    local body = pad(section[4], 8)
    headers[#headers + 1] = string.pack("<I4I4I8I8I8I8I4I4I8I8", section.name, section[2], section[3], 0, at,
      #section[4], section[5], 0, section[2] == 7 and 4 or 8, section[6])
    bodies[#bodies + 1], at = body, at + #body
  end
  local offset = opts.offset or 0x1000
  local program = string.pack("<I4I4I8I8I8I8I8I8", 1, 5, offset, opts.vaddr or offset, 0, opts.length or 0x10000,
    opts.length or 0x10000, 0x1000)
  local header = "\127ELF\2\1\1" .. ("\0"):rep(9) .. string.pack("<I2I2I4I8I8I8I4I2I2I2I2I2I2", 3,
    opts.machine or 62, 1, 0, 64, at, 0, 64, 56, nr_segments, 64, #headers, #headers - 1)
  return header .. program .. more .. table.concat(bodies) .. table.concat(headers)
end

--- Returns the bytes of a file with only a segment of notes.
-- @tparam table opts  `bits` (32 or 64), `order` ("<" or ">"), `align` (4 or 8), `offset` in the file, `notes` (bytes)
function M.notes_file(opts)
  local is_64, order = opts.bits == 64, opts.order
  local word = is_64 and "I8" or "I4"
  local size = is_64 and 64 or 52
  local header = "\127ELF" .. string.char(is_64 and 2 or 1, order == "<" and 1 or 2, 1) .. ("\0"):rep(9)
    .. string.pack(order .. "I2I2I4" .. word:rep(3) .. "I4I2I2I2I2I2I2", 3, is_64 and 62 or 3, 1, 0, size, 0, 0, size,
      is_64 and 56 or 32, 1, 0, 0, 0)
  local len, at = #opts.notes, opts.offset
  local program = is_64 and string.pack(order .. "I4I4I8I8I8I8I8I8", 4, 4, at, 0, 0, len, len, opts.align)
    or string.pack(order .. "I4I4I4I4I4I4I4I4", 4, at, 0, 0, len, len, 4, opts.align)
  return header .. program .. ("\0"):rep(at - #header - #program) .. opts.notes
end

return M
