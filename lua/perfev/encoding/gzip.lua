--- Writes a gzip file without compression: RFC 1952 with the stored blocks of RFC 1951, 3.2.4.
-- pprof requires gzip; this needs no library. gzip -9 compresses the file.

local core = require "perfev.core"

local BLOCK_MAX = 65535

-- Without name and time, so that the same bytes give the same file. 255: unknown operating system.
local HEADER = string.pack("<BBBB I4 BB", 0x1f, 0x8b, 8, 0, 0, 0, 255)

return function(text)
  local parts = { HEADER }
  local at = 1
  repeat
    local block = text:sub(at, at + BLOCK_MAX - 1)
    at = at + #block
    parts[#parts + 1] = string.pack("<B I2 I2", at > #text and 1 or 0, #block, ~#block & 0xffff) .. block
  until at > #text
  parts[#parts + 1] = string.pack("<I4 I4", core.crc32(text), #text & 0xffffffff)
  return table.concat(parts)
end
