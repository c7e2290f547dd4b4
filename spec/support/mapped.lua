-- mapped.lua - collects, record by record, the files that a recording's tasks mapped, for specs of build ids.

local perfev = require "perfev"

local HOST = 2 -- PERF_RECORD_MISC_CPUMODE_*: kernel 1, user 2; guests have larger values

--- @tparam string path  a recording
-- @treturn table  { filename, misc, pid, ino, build_id }, the first of each name, as `maps` in facts.features_at_end
return function(path)
  local recording <close> = assert(perfev.open(path))
  local maps, seen = {}, {}
  for r in recording:records { user = false } do
    local is_map = (r.type == "mmap" or r.type == "mmap2") and r.misc & 7 <= HOST
    if is_map and not seen[r.filename] then
      seen[r.filename] = true
      maps[#maps + 1] = { filename = r.filename, misc = r.misc & 7, pid = r.pid, ino = r.ino, build_id = r.build_id }
    end
  end
  return maps
end
