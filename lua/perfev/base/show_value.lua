--- The text of a caller's value in a message, made without running its metamethods.
-- @param value
-- @treturn string  a string, number or boolean as text; of any other value the type: "a table"
return function(value)
  local kind = type(value)
  if kind == "string" or kind == "number" or kind == "boolean" then return tostring(value) end
  return "a " .. kind
end
