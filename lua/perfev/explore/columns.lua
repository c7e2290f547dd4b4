--- Rows of integers as compact text: columns of variable-length numbers in base64, which a page's script decodes.
--
-- Rows are encoded CHUNK at a time, so that a million samples take some ten bytes each and not a Lua value for each
-- number. A number is seven bits in each byte, the lowest first; the highest bit means that another byte follows.

local M = {}
local Columns = {}
Columns.__index = Columns

local CHUNK = 8192

-- Two characters of base64 for each 12 bits.
local pairs_of = {}
do
  local letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
  for bits = 0, 4095 do
    pairs_of[bits] = letters:sub((bits >> 6) + 1, (bits >> 6) + 1) .. letters:sub((bits & 63) + 1, (bits & 63) + 1)
  end
end

-- Returns the numbers list[1] to list[nr] as bytes: an array and its length.
local function to_bytes(list, nr)
  local bytes, at = {}, 0
  for i = 1, nr do
    local value = list[i]
    while value >= 128 or value < 0 do -- the highest bit makes a number negative in Lua
      at = at + 1
      bytes[at] = value & 127 | 128
      value = value >> 7
    end
    at = at + 1
    bytes[at] = value
  end
  return bytes, at
end

local function base64(bytes, nr)
  local out = {}
  for i = 1, nr - 2, 3 do
    local bits = bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2]
    out[#out + 1] = pairs_of[bits >> 12]
    out[#out + 1] = pairs_of[bits & 4095]
  end
  local rest = nr % 3
  if rest == 1 then
    out[#out + 1] = pairs_of[bytes[nr] << 4] .. "=="
  elseif rest == 2 then
    local bits = bytes[nr - 1] << 10 | bytes[nr] << 2
    out[#out + 1] = pairs_of[bits >> 6] .. pairs_of[(bits & 63) << 6]:sub(1, 1) .. "="
  end
  return table.concat(out)
end

-- A column of one value is that number, any other one is text.
local function encode(list, nr)
  for i = 2, nr do
    if list[i] ~= list[1] then return ('"%s"'):format(base64(to_bytes(list, nr))) end
  end
  return ("%d"):format(list[1])
end

local function flush(self)
  if self.waiting == 0 then return end
  local parts = {}
  for i, list in ipairs(self.lists) do parts[i] = encode(list, self.waiting) end
  self.chunks[#self.chunks + 1] = ("[%d,%s]"):format(self.waiting, table.concat(parts, ","))
  self.waiting = 0
end

--- Adds a row. A number below 0 is written as one of 64 bits.
function Columns:add(...)
  local nr = self.waiting + 1
  for i, list in ipairs(self.lists) do list[nr] = (select(i, ...)) end
  self.waiting = nr
  if nr == CHUNK then flush(self) end
end

--- Returns the rows as JSON: a list of chunks, each the number of its rows, then its columns.
-- @tparam function write  called for each part of it
function Columns:write(write)
  flush(self)
  write "["
  for i, chunk in ipairs(self.chunks) do write((i > 1 and ",\n" or "") .. chunk) end
  write "]"
end

--- Maps an integer to one without a sign: 0, -1, 1, -2 to 0, 1, 2, 3.
function M.zigzag(value) return value < 0 and ~(value << 1) or value << 1 end

--- @tparam integer nr  of columns
function M.new(nr)
  local lists = {}
  for i = 1, nr do lists[i] = {} end
  return setmetatable({ lists = lists, chunks = {}, waiting = 0 }, Columns)
end

return M
