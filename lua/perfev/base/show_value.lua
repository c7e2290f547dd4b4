--- A caller's value in a message: none of its metamethods runs.
-- @param value
-- @treturn string  a string, number or boolean as it is; of anything else its type: "a table"
return function(value)
  local kind = type(value)
  if kind == "string" or kind == "number" or kind == "boolean" then return tostring(value) end
  return "a " .. kind
end
