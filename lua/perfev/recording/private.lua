--- What a recording by perfl says to a replay of it alone: which records its session did not deliver.
-- A feature section of our own, far from perf's, in lines of "key value".

local M = {}

--- Its number among the features.
M.SECTION = 254

--- What the section says; keys that are not known are another version's.
-- @tparam ?string bytes
-- @treturn table  `exclude_pid` (or nil); `keep_own` and `hidden`: lists of events by their number, from 1
function M.read(bytes)
  local out = { keep_own = {}, hidden = {} }
  for key, value in (bytes or ""):gmatch("([%w_]+) (%d+)\n") do
    value = math.tointeger(tonumber(value))
    if key == "exclude_pid" and value and value < 1 << 31 then
      out.exclude_pid = value
    elseif out[key] and key ~= "exclude_pid" and value then
      table.insert(out[key], value + 1)
    end
  end
  return out
end

return M
