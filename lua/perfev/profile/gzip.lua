--- Writes a gzip file without compression: RFC 1952 with the stored blocks of RFC 1951, 3.2.4.
-- pprof requires gzip; this needs no library. gzip -9 compresses the file.

local BLOCK_MAX = 65535

local remainders = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = c & 1 == 1 and 0xedb88320 ~ c >> 1 or c >> 1 end
  remainders[i] = c
end

-- In chunks, because string.byte returns a limited number of values.
local function crc32(text)
  local crc = 0xffffffff
  for at = 1, #text, 4096 do
    for _, byte in ipairs { text:byte(at, at + 4095) } do crc = remainders[(crc ~ byte) & 0xff] ~ crc >> 8 end
  end
  return crc ~ 0xffffffff
end

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
  parts[#parts + 1] = string.pack("<I4 I4", crc32(text), #text & 0xffffffff)
  return table.concat(parts)
end
