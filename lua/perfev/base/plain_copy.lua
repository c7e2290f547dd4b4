--- A shallow copy of the caller's table, made without running its metamethods.
-- @param value
-- @treturn table  a copy without a metatable; any other value is returned unchanged
return function(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, one in next, value do copy[key] = one end
  return copy
end
