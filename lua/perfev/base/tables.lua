--- Copies tables of callers, and lists keys.

local M = {}

--- A shallow copy of the caller's table, made without running its metamethods.
-- @param value
-- @treturn table  a copy without a metatable; any other value is returned unchanged
function M.plain_copy(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, one in next, value do copy[key] = one end
  return copy
end

--- Returns the keys of a table as a sorted list.
-- @tparam table t
-- @tparam ?function less  as of table.sort
-- @treturn table
function M.sorted_keys(t, less)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, less)
  return keys
end

return M
