-- protobuf.lua - reads gzip files of stored blocks and pprof's message, independently of our writer:
-- RFC 1951, RFC 1952; proto/profile.proto of github.com/google/pprof.

local M = {}

-- Bit by bit; the writer uses a table.
local function crc32(text)
  local crc = 0xffffffff
  for i = 1, #text do
    crc = crc ~ text:byte(i)
    for _ = 1, 8 do crc = (crc >> 1) ~ (0xedb88320 & -(crc & 1)) end
  end
  return ~crc & 0xffffffff
end

--- Returns the content of a gzip file that has only stored blocks.
function M.gunzip(bytes)
  local id1, id2, method, flags = bytes:byte(1, 4)
  assert(id1 == 0x1f and id2 == 0x8b and method == 8 and flags == 0, "no gzip")
  local pos, parts = 11, {}
  local head, len, nlen
  repeat
    head, len, nlen, pos = ("<B I2 I2"):unpack(bytes, pos)
    assert(head >> 1 == 0, "a block that is not stored")
    assert(len ~ nlen == 0xffff, "its length and complement differ")
    parts[#parts + 1] = bytes:sub(pos, pos + len - 1)
    pos = pos + len
  until head & 1 == 1 -- the last block
  local text = table.concat(parts)
  local crc, size, stop = ("<I4 I4"):unpack(bytes, pos)
  assert(stop == #bytes + 1, "bytes behind the end")
  assert(size == #text and crc == crc32(text), "the checksum is another's")
  return text
end

local function varint(bytes, pos)
  local n, shift = 0, 0
  while true do
    local byte = bytes:byte(pos)
    n = n | (byte & 0x7f) << shift
    pos, shift = pos + 1, shift + 7
    if byte < 0x80 then return n, pos end
  end
end

-- Returns a message's fields in order: { field, value }.
local function fields(bytes)
  local list, pos = {}, 1
  while pos <= #bytes do
    local tag, value
    tag, pos = varint(bytes, pos)
    if tag & 7 == 0 then
      value, pos = varint(bytes, pos)
    else
      assert(tag & 7 == 2, "wire type " .. (tag & 7))
      local len
      len, pos = varint(bytes, pos)
      value, pos = bytes:sub(pos, pos + len - 1), pos + len
    end
    list[#list + 1] = { tag >> 3, value }
  end
  return list
end

local function numbers(bytes)
  local list, pos = {}, 1
  while pos <= #bytes do list[#list + 1], pos = varint(bytes, pos) end
  return list
end

-- Returns the fields that may occur once, by number.
local function record(bytes)
  local t = {}
  for _, field in ipairs(fields(bytes)) do t[field[1]] = field[2] end
  return t
end

--- Reads pprof's Profile.
-- @treturn table  `types` ("samples/count"), `default_type`, `time`, `duration`, `samples` ({ frames = {
--                 "name file:line" }, values }, the leaf first), `locations` (the first line's frame -> all, with ";")
function M.profile(bytes)
  local all = fields(bytes)
  local strings, functions, locations = {}, {}, {}
  local function each(number, f)
    for _, field in ipairs(all) do
      if field[1] == number then f(field[2]) end
    end
  end
  each(6, function(s) strings[#strings + 1] = s end)
  assert(strings[1] == "", "the first string is empty")
  local function text(n) return assert(strings[(n or 0) + 1], "no such string") end
  each(5, function(b) local f = record(b) functions[f[1]] = { text(f[2]), text(f[4]) } end)
  local result = { types = {}, samples = {}, locations = {} }
  each(4, function(b)
    local id, lines = nil, {}
    for _, field in ipairs(fields(b)) do
      if field[1] == 1 then id = field[2] end
      if field[1] == 4 then
        local line = record(field[2])
        local f = assert(functions[line[1]], "no such function")
        lines[#lines + 1] = ("%s %s:%d"):format(f[1], f[2], line[2] or 0)
      end
    end
    locations[id] = lines
    result.locations[lines[1]] = result.locations[lines[1]] or table.concat(lines, ";")
  end)
  each(1, function(b) local t = record(b) table.insert(result.types, text(t[1]) .. "/" .. text(t[2])) end)
  each(2, function(b)
    local sample, frames = record(b), {}
    for _, id in ipairs(numbers(sample[1])) do
      for _, line in ipairs(assert(locations[id], "no such location")) do frames[#frames + 1] = line end
    end
    table.insert(result.samples, { frames = frames, values = numbers(sample[2]) })
  end)
  each(9, function(n) result.time = n end)
  each(10, function(n) result.duration = n end)
  each(14, function(n) result.default_type = text(n) end)
  return result
end

return M
