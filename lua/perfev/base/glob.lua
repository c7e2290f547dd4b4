--- Matches names against shell patterns (* ? [a-z] [!a-z]).

local M = {}

--- True if the text is a pattern, not a name.
function M.is_pattern(text) return text:find("[*?%[]") ~= nil end

--- Returns a function that tests whether a name matches a pattern. Raises if a bracket is not closed.
function M.matcher(pattern)
  local parts, at = { "^" }, 1
  while at <= #pattern do
    local c = pattern:sub(at, at)
    if c == "*" then
      parts[#parts + 1] = ".*"
    elseif c == "?" then
      parts[#parts + 1] = "."
    elseif c == "[" then
      local negated, set, after = pattern:match("^%[(!?)(%]?[^%]]*)%]()", at)
      if not set then error("bracket not closed", 2) end
      parts[#parts + 1] = ("[%s%s]"):format(negated == "!" and "^" or "", (set:gsub("[%%%]%^]", "%%%0")))
      at = after - 1
    else
      parts[#parts + 1] = c:gsub("%p", "%%%0")
    end
    at = at + 1
  end
  parts[#parts + 1] = "$"
  local compiled = table.concat(parts)
  return function(name) return name:find(compiled) ~= nil end
end

return M
