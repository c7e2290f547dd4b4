--- The build ids of what a recording's tasks had mapped, so that a reader elsewhere finds the very files.
-- A record may tell it (attr.build_id). Else it is in a note of the file, of which the program headers say where:
-- a few hundred bytes of each file are read, not the file. Source: tools/perf/util/build-id.c, symbol-elf.c; elf(5).

local build_id = require "perfev.build_id"
local core = require "perfev.core"
local hex = require "perfev.hex"

local M = {}

local KERNEL = 1 -- PERF_RECORD_MISC_CPUMODE_KERNEL
local HOST = -1 -- HOST_KERNEL_ID: whose they are, pid or guest
local PT_NOTE = 4
-- More than any file has; who says more is damaged, or means harm.
local HEADERS_MAX, NOTES_MAX = 512, 64 << 10
local REGULAR, KIND = 0x8000, 0xf000 -- S_IFREG, S_IFMT

-- Where the program headers are, by the class of the file: offset of e_phoff, its format, of e_phentsize and
-- e_phnum; and the size of a header with where p_type, p_offset, p_filesz and p_align are in it.
local classes = {
  [1] = { phoff = 28, word = "I4", entries = 42, size = 32, offset = 4, filesz = 16, align = 28 },
  [2] = { phoff = 32, word = "I8", entries = 54, size = 56, offset = 8, filesz = 32, align = 48 },
}

local function read(path, offset, len)
  if offset < 0 or len < 0 or len > NOTES_MAX then return nil end -- beyond what a file can have
  local bytes = core.part(path, offset, len)
  return bytes and #bytes == len and bytes or nil
end

--- The build id of an ELF file, in hexadecimal, or nil.
-- @tparam string path
-- @tparam ?integer base  where it begins in the file, 0 unless it is said
function M.of_file(path, base)
  base = base or 0
  local head = read(path, base, 64)
  local class = head and head:sub(1, 4) == "\x7fELF" and classes[head:byte(5)]
  if not class then return nil end
  local order = head:byte(6) == 2 and ">" or "<"
  local function at(bytes, format, offset) return (string.unpack(order .. format, bytes, offset + 1)) end
  local nr, size = at(head, "I2", class.entries + 2), at(head, "I2", class.entries)
  if nr > HEADERS_MAX or size < class.size then return nil end
  local headers = read(path, base + at(head, class.word, class.phoff), nr * size)
  for i = 0, headers and nr - 1 or -1 do
    local here = i * size
    local len = at(headers, class.word, here + class.filesz)
    if at(headers, "I4", here) == PT_NOTE then
      local notes = read(path, base + at(headers, class.word, here + class.offset), len)
      local id = notes and build_id.of_notes(notes, order, at(headers, class.word, here + class.align))
      if id then return id end
    end
  end
end

-- ---- whose ----

-- The kernel's own library is no file; ours is that of all.
local function of_vdso()
  local start = ("\n" .. (core.slurp("/proc/self/maps") or "")):match("\n(%x+)%-[^\n]* %[vdso%]\n")
  return start and M.of_file("/proc/self/mem", tonumber(start, 16))
end

-- "[ext4]", "/lib/modules/6.1/kernel/fs/ext4/ext4.ko.xz"; a module's name has '_' where its file may have '-'.
local function of_module(name)
  local module = name:match("^%[(.+)%]$") or name:match("([^/]+)%.ko[%.%w]*$")
  if not module or module:find("/", 1, true) or module:find("^%.") then return nil end
  local dir = "/sys/module/" .. module:gsub("-", "_") .. "/notes"
  for _, file in ipairs(core.list(dir) or {}) do
    local id = build_id.of_notes(core.slurp(dir .. "/" .. file) or "")
    if id then return id end
  end
end

-- The file that was mapped, and no other of its name: its inode is the one that the record has.
local function is_it(path, ino)
  local stat = core.stat(path)
  return stat and stat.mode & KIND == REGULAR and (ino == nil or stat.ino == ino)
end

-- As its process sees it, which may have another root; once that is gone, as we do.
local function of_program(map)
  if map.filename:sub(1, 1) ~= "/" or map.filename:find(" %(deleted%)$") then return nil end
  for _, path in ipairs { ("/proc/%d/root%s"):format(map.pid, map.filename), map.filename } do
    if is_it(path, map.ino) then return M.of_file(path) end
  end
end

local function id_of(map)
  if map.build_id then return hex.of(map.build_id), map.filename end
  if map.filename == "[vdso]" then return of_vdso(), map.filename end
  if map.misc ~= KERNEL then return of_program(map), map.filename end
  if map.filename:find("^%[kernel%.kallsyms%]") then return build_id.of_kernel(), "[kernel.kallsyms]" end
  return of_module(map.filename), map.filename
end

--- The build ids of files that were mapped, as f.header.build_ids has them. What has none, or is not there any more,
-- is left out.
-- @tparam {table,...} maps  `filename`, `misc` (1 kernel, 2 user), `pid`, `ino` (nil: not known), `build_id` (bytes, or
--   nil): each file once
-- @treturn {table,...}  `pid` (-1: the host's), `misc`, `build_id` (hexadecimal), `filename`
function M.of(maps)
  local list = {}
  for _, map in ipairs(maps) do
    local id, name = id_of(map)
    if id then list[#list + 1] = { pid = HOST, misc = map.misc, build_id = id, filename = name } end
  end
  return list
end

return M
