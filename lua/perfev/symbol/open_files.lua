--- A bounded list of open files: names are looked up at the end, when a process and its files may be gone.
-- Its entries, the oldest first, have `file` (from core.file) and `replaceable` (true if the path led to the file when
-- it was opened). perf keeps its files open in the same way (dso__list_add() in tools/perf/util/dso.c).

local core = require "perfev.core"

local M = {}

local LEAST, MOST = 16, 512

-- Leaves descriptors for events and for the script's own files.
local function limit()
  local soft = tonumber((core.slurp "/proc/self/limits" or ""):match "Max open files%s+(%d+)")
  return math.max(LEAST, math.min((soft or 0) // 8, MOST))
end

-- The entry to evict: the oldest replaceable one, or the oldest.
local function evicted(list)
  for i, entry in ipairs(list) do
    if entry.replaceable then return i end
  end
  return 1
end

--- Add an entry.
-- @treturn ?table  the entry that was evicted for it, still open
function M.put(list, entry)
  list.limit = list.limit or limit()
  local out
  if #list >= list.limit then out = table.remove(list, evicted(list)) end
  list[#list + 1] = entry
  return out
end

return M
