--- Reads the lines in a recording of perfl that only its replay uses: which records the session did not deliver.
-- They are lines of "key value" after the version in the section of the recorder's version. perf does not skip an
-- unknown section: in a stream perf report ends there, and perf inject reads beyond its table of known writers
-- (tools/perf/util/header.c, perf_event__process_feature() and do_write_feat()).

local Bytes = require "perfev.perfdata.byte_reader"

local M = {}

--- The name of the section.
M.SECTION = "version"

-- Returns the bytes after the version.
local function skip_version(bytes, big)
  local reader = Bytes.new(bytes, big)
  return pcall(reader.string, reader) and bytes:sub(reader.pos) or ""
end

--- Parses the section. Unknown keys, of other versions, are ignored.
-- @tparam ?string bytes
-- @tparam boolean big    the recorder's byte order
-- @treturn table  `exclude_pid` (or nil), `lost_own` (default 0), `keep_own` and `hidden` (lists of event numbers,
--   from 1)
function M.read(bytes, big)
  local out = { lost_own = 0, keep_own = {}, hidden = {} }
  for key, value in skip_version(bytes or "", big):gmatch("([%w_]+) (%d+)\n") do
    value = math.tointeger(tonumber(value))
    if key == "exclude_pid" and value and value < 1 << 31 then
      out.exclude_pid = value
    elseif key == "lost_own" then
      out.lost_own = value or 0
    elseif out[key] and key ~= "exclude_pid" and value then
      table.insert(out[key], value + 1)
    end
  end
  return out
end

return M
