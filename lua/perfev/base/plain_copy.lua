--- A caller's table as it is now: what its owner changes later changes nothing, and its metatable is not asked.
-- @param value
-- @treturn table  a copy without a metatable; what is no table as it is
return function(value)
  if type(value) ~= "table" then return value end
  local copy = {}
  for key, one in next, value do copy[key] = one end
  return copy
end
