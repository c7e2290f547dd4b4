--- Names of functions that were compiled in memory, from the perf-PID.map that a JIT compiler writes into /tmp
-- (tools/perf/Documentation/jit-interface.txt).

local core = require "perfev.core"
local files = require "perfev.symbol.files"
local jit_file = require "perfev.symbol.jit_file"

local M = {}

local RULE = { max = 128 << 20 } -- bytes of one map
local ALL_MAX = 256 << 20 -- bytes of all maps together

local function entry_of(jits, pid)
  local jit = jits.of[pid]
  if not jit then
    jit = { misses = 0, again = 1, size = 0 }
    jits.of[pid] = jit
  end
  return jit
end

local function shown(pid) return ("/tmp/perf-%d.map"):format(pid) end

-- -> file, true if its path is also ours | nil
local function open_map(jits, jit, pid, note)
  local inside, uid
  if not jits.recorded then inside, uid = jit_file.status_of(pid) end
  jit.uid = uid or jit.uid
  local root = inside and files.root_of(pid)
  local own = inside and ("%s/tmp/perf-%s.map"):format(root or "", inside)
  local file = own and own ~= shown(pid) and jit_file.open(own, jit.uid, RULE, note)
  if file then return file, not root end
  return jit_file.open(shown(pid), jit.uid, RULE, note), true
end

-- If it cannot be read, the functions read before are kept.
local function read(jits, jit, pid, file, note)
  local text = file:bytes()
  if not text or #text == jit.size then return end
  if jits.bytes - jit.size + #text > ALL_MAX then
    note(("%s is not used: the maps of all processes are larger than %d MiB"):format(shown(pid), ALL_MAX >> 20))
    return
  end
  local map, why = core.perf_map(text)
  if not map then
    note(("%s is not used: %s"):format(shown(pid), why))
    return
  end
  jits.bytes = jits.bytes - jit.size + #text
  jit.map, jit.size, jit.path = map, #text, shown(pid)
end

local function read_again(jits, jit, pid, note, kept)
  local file <close> = open_map(jits, jit, pid, note)
  if file then
    if file:stat().size ~= jit.size then read(jits, jit, pid, file, note) end
  elseif kept and kept.file:is_open() then
    read(jits, jit, pid, kept.file, note)
  end
end

--- The maps of all processes, of this machine or of a recording.
function M.new(recorded) return { recorded = recorded, bytes = 0, of = {} } end

--- The key of a process's open map among the kept files.
function M.key(pid) return "jit " .. pid end

--- Open the map of a running process, to keep it: later its mount namespace may be gone, and the user of the process
-- unknown.
-- @treturn ?table  `file`, `replaceable` (its path is valid in our mount namespace)
function M.open(jits, pid, note)
  local file, is_ours = open_map(jits, entry_of(jits, pid), pid, note)
  return file and { file = file, replaceable = is_ours }
end

--- The function at an address of a process. If the map does not have it, the file is read again, at the 1st, 2nd, 4th,
-- 8th ... time, because the compiler adds functions.
-- @tparam ?table kept  a result of `open`
-- @treturn[1] string   its name
-- @treturn[1] integer  where it begins
-- @treturn[1] string   the map's path
-- @treturn[2] nil
-- @treturn[2] nil
-- @treturn[2] ?string  the map's path, if there is one
function M.find(jits, pid, address, note, kept)
  local jit = entry_of(jits, pid)
  local name, start
  if jit.map then name, start = jit.map:find(address) end
  if name then return name, start, jit.path end
  jit.misses = jit.misses + 1
  if jit.misses >= jit.again then
    jit.again = jit.again * 2
    read_again(jits, jit, pid, note, kept)
    if jit.map then name, start = jit.map:find(address) end
  end
  return name, start, jit.path
end

return M
