--- Bytes in hexadecimal: build ids and payloads, which are no text.

local M = {}

--- All of them, as kernels and linkers write a build id.
function M.of(bytes)
  return (bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

--- For a line that a person reads: the first ones where there are more than that, and how many there are.
-- @tparam string bytes
-- @tparam integer most  so many are shown whole
-- @treturn string       "0102...(8192 bytes)"
function M.cut(bytes, most)
  if #bytes <= most then return M.of(bytes) end
  return ("%s...(%d bytes)"):format(M.of(bytes:sub(1, most)), #bytes)
end

return M
