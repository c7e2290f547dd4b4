--- What a recording by perfl says to a replay of it alone: which records its session did not deliver.
-- Lines of "key value" in the section of the recorder's version, behind that: a section of our own would not be
-- passed over by perf. Its report ends at one in a stream, and its inject looks for what writes it, beyond the
-- table of those it knows (tools/perf/util/header.c, perf_event__process_feature() and do_write_feat()).

local Bytes = require "perfev.perfdata.byte_reader"

local M = {}

--- The section that it is in.
M.SECTION = "version"

-- What stands behind the version.
local function behind_version(bytes, big)
  local at = Bytes.new(bytes, big)
  return pcall(at.string, at) and bytes:sub(at.pos) or ""
end

--- What the section says; keys that are not known are another version's.
-- @tparam ?string bytes
-- @tparam boolean big    the recorder's byte order
-- @treturn table  `exclude_pid` (or nil); `lost_own` (0: not said); `keep_own` and `hidden`: lists of events by their
--   number, from 1
function M.read(bytes, big)
  local out = { lost_own = 0, keep_own = {}, hidden = {} }
  for key, value in behind_version(bytes or "", big):gmatch("([%w_]+) (%d+)\n") do
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
