--- Bytes in hexadecimal, for build ids and payloads.

local M = {}

--- All bytes, in lower case as kernels and linkers write a build id.
function M.of(bytes)
  return (bytes:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

--- The bytes of hexadecimal digits.
function M.to(digits)
  return (digits:gsub("%x%x", function(byte) return string.char(tonumber(byte, 16)) end))
end

--- At most the first `most` bytes; if bytes are cut, the total number follows.
-- @tparam string bytes
-- @tparam integer most
-- @treturn string       "0102...(8192 bytes)"
function M.cut(bytes, most)
  if #bytes <= most then return M.of(bytes) end
  return ("%s...(%d bytes)"):format(M.of(bytes:sub(1, most)), #bytes)
end

return M
