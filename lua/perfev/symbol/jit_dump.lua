--- Functions of a JIT compiler by address and time, from the jit-PID.dump that it maps as a marker.
-- C finds the function at a sample's time (src/task/jit_dump.c). Here the file is opened and read: when C asks for it,
-- and again for addresses that it did not have at that time, because compilers write late.

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local files = require "perfev.symbol.files"
local jit_file = require "perfev.symbol.jit_file"
local open_files = require "perfev.symbol.open_files"

local M = {}

local MAX = 1 << 30 -- bytes of one dump
local MONOTONIC = 1 -- CLOCK_MONOTONIC
local PART = 1 << 20 -- bytes that are read at once; a function's head and name take less

--- The dumps of all processes, of this machine or of a recording.
function M.new(recorded) return { recorded = recorded, of = {}, kept = {} } end

-- -> file, true if its path leads to it in our mount namespace | nil
local function open(dumps, entry, note)
  local rule, root, uid = { max = MAX }, nil, nil
  if not dumps.recorded then
    uid, root = select(2, jit_file.status_of(entry.pid)), files.root_of(entry.pid)
    rule.ino = not core.hooked() and entry.ino or nil -- invented under hooks
  end
  entry.uid = uid or entry.uid
  return jit_file.open((root or "") .. entry.path, entry.uid, rule, note), not root
end

-- The open file of a dump, which stays open: its process may be gone later. nil: it cannot be opened.
local function file_of(dumps, entry, note)
  if entry.file and entry.file:is_open() then return entry.file end
  local is_ours
  entry.file, is_ours = open(dumps, entry, note)
  local evicted = entry.file and open_files.put(dumps.kept, { file = entry.file, replaceable = is_ours })
  if evicted then evicted.file:close() end
  return entry.file
end

-- Reads the part of a dump that was written since the last time.
local function read(dumps, entry, note)
  local dump, now = entry.dump, dumps.recorded and -1 or core.clock(MONOTONIC)
  local file = not entry.is_final and file_of(dumps, entry, note)
  local before
  while file and before ~= dump:offset() and dump:offset() < MAX do
    before = dump:offset()
    local bytes = file:part(before, PART)
    local ok, why = true, nil
    if bytes and bytes ~= "" then ok, why = dump:read(bytes) end
    if not ok then
      entry.is_final = true
      note(("%s is used up to byte %d: %s"):format(escape(entry.path), dump:offset(), why))
      break
    end
  end
  entry.is_final = entry.is_final or not file
  dump:set_known(entry.is_final and -1 or now)
end

local function add(dumps, dump)
  local pid, path, ino = dump:facts()
  local entry = { dump = dump, pid = pid, path = path, ino = ino, misses = 0, again = 1 }
  dumps.of[pid] = entry
  return entry
end

--- Reads a dump that C wants.
-- @tparam table dumps
-- @tparam userdata dump
-- @tparam function fill  fill(dump) -> true if it has the names that the recording keeps
-- @tparam function note
function M.read(dumps, dump, fill, note)
  local entry = dumps.of[(dump:facts())]
  -- Another program of the process maps another dump.
  if not entry or dump:offset() == 0 then
    entry = add(dumps, dump)
    entry.is_final = fill(dump)
  end
  read(dumps, entry, note)
end

-- The dump of a running process whose marker no record reported.
local function find_marker(dumps, pid)
  if dumps.recorded then return nil end
  local maps, ino, path = core.slurp(("/proc/%d/maps"):format(pid)) or "", nil, nil
  for number, name in maps:gmatch "%x+%-%x+ ..x. %x+ %S+ (%d+) +(/[^\n]*/jit%-%d+%.dump)\n" do
    ino, path = number, name
  end
  if not path then return false end
  local entry = add(dumps, core.jit_dump(pid, path))
  entry.ino = math.tointeger(tonumber(ino))
  return entry
end

--- The newest function at an address of a process. If the dump does not have it, its new part is read, at the 1st, 2nd,
-- 4th ... time.
-- @treturn[1] string   its name
-- @treturn[1] integer  where it begins
-- @treturn[1] string   the dump's path
-- @treturn[1] ?integer the offset of its lines
-- @treturn[2] nil
-- @treturn[2] nil
-- @treturn[2] ?string  the dump's path, if there is one
function M.find(dumps, pid, address, note)
  local entry = dumps.of[pid]
  if entry == nil then
    entry = find_marker(dumps, pid)
    dumps.of[pid] = entry
  end
  if not entry then return nil end
  local name, start, lines = entry.dump:find(address)
  if not name then
    entry.misses = entry.misses + 1
    if entry.misses >= entry.again then
      entry.again = entry.again * 2
      read(dumps, entry, note)
      name, start, lines = entry.dump:find(address)
    end
  end
  return name, start, entry.path, lines
end

--- The path of a process's dump; nil if it is unknown.
function M.path(dumps, pid) return dumps.of[pid] and dumps.of[pid].path end

local MAGIC = 0x4a695444 -- "JiTD"
local DEBUG, SAME_FILE = 2, "\255" -- JIT_CODE_DEBUG_INFO; the file's name in the entry before
local ELF_HEADER = 0x40 -- V8 adds it to the addresses, as perf inject puts the code behind one: kElfHeaderSize

-- Reads a record of lines -> list of { address, line, file }, the least address, where the function was loaded. Raises
-- if it is damaged.
local function parse_lines(bytes)
  local form = string.unpack("<I4", bytes) == DEBUG and "<" or ">"
  local _, size, _, start, nr, at = string.unpack(form .. "I4I4I8I8I8", bytes)
  local list, name, least = {}, nil, nil
  for i = 1, math.min(nr, size // 17) do -- 16 bytes, and the NUL of a name
    local address, line, _, file, after = string.unpack(form .. "I8i4i4z", bytes, at)
    at, name = after, file == SAME_FILE and name or file
    -- Node.js 20 writes names that it has freed: then entries begin anywhere.
    assert(at <= size + 1 and line >= 0 and name:find "^[^%c]+$" and utf8.len(name))
    list[i] = { address = address, line = line, file = name }
    if not least or math.ult(address, least) then least = address end
  end
  return list, least, start
end

--- The source line of an address in a function of a dump.
-- @tparam integer pid
-- @tparam integer offset  of its lines in the file
-- @tparam integer into    bytes from the function's start, which may have moved
-- @treturn ?table  `file`, `line`
function M.line(dumps, pid, offset, into, note)
  local entry = dumps.of[pid]
  local file = entry and file_of(dumps, entry, note)
  local ok, list, least, start = pcall(parse_lines, file and file:part(offset, PART) or "")
  if not ok or not least then return nil end
  local best, address = nil, start + into
  if least - start >= ELF_HEADER then address = address + ELF_HEADER end
  for _, one in ipairs(list) do
    if one.address <= address and (not best or one.address >= best.address) then best = one end
  end
  return best
end

local LOAD_BYTES = 56 -- of a JIT_CODE_LOAD, without the name and the code

-- The file's header and the head of a record -> EM_* of the machine, bytes of the record, bytes of code
local function parse_load(head, bytes)
  local form = string.unpack("<I4", head) == MAGIC and "<" or ">"
  local machine = string.unpack(form .. "I4", head, 13)
  local _, size, _, _, _, _, _, length = string.unpack(form .. "I4I4I8I4I4I8I8I8", bytes)
  assert(length >= 0 and length <= PART and length < size - LOAD_BYTES)
  return machine, size, length
end

--- The code of a function of a dump.
-- @tparam integer offset  of its JIT_CODE_LOAD in the file
-- @treturn[1] integer  EM_* of the machine
-- @treturn[1] string   its bytes
-- @treturn[2] nil
function M.code(dumps, pid, offset, note)
  local entry = dumps.of[pid]
  local file = entry and offset > 0 and file_of(dumps, entry, note)
  if not file then return nil end
  local ok, machine, size, length = pcall(parse_load, file:part(0, LOAD_BYTES) or "",
    file:part(offset, LOAD_BYTES) or "")
  local code = ok and file:part(offset + size - length, length)
  if code and #code == length then return machine, code end
end

return M
