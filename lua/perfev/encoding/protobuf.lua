--- Protocol buffers: encodes messages, and reads the fields of one.
-- Numbers are varints, all other values have a length before them. A field with its default value (0, an empty text)
-- is left out where the caller asks for a number.

local M = {}

local short = {} -- varints of one or two bytes
for n = 0, 0x3fff do short[n] = n <= 0x7f and string.char(n) or string.char(n & 0x7f | 0x80, n >> 7) end

local function varint(n)
  if short[n] then return short[n] end
  local bytes = {}
  while n < 0 or n > 0x7f do -- a negative number has ten bytes
    bytes[#bytes + 1] = string.char(n & 0x7f | 0x80)
    n = n >> 7
  end
  bytes[#bytes + 1] = string.char(n)
  return table.concat(bytes)
end

M.varint = varint

--- A number, or nothing if it is 0 or nil.
function M.number(field, n)
  if not n or n == 0 then return "" end
  return varint(field << 3) .. varint(n)
end

--- A text or a message.
function M.block(field, bytes) return varint(field << 3 | 2) .. varint(#bytes) .. bytes end

--- A list of numbers.
function M.packed(field, list)
  local parts = {}
  for i, n in ipairs(list) do parts[i] = varint(n) end
  return M.block(field, table.concat(parts))
end

--- A number of eight bytes.
function M.fixed64(field, n) return varint(field << 3 | 1) .. string.pack("<i8", n) end

--- Unique rows of a table, numbered from `first` in the order of first use.
-- @tparam integer field  the number of the table's field
-- @tparam integer first
-- @treturn function        f(key, make): the number of the key's row; make(number) returns a new row's bytes
-- @treturn {string,...}    the rows
function M.rows(field, first)
  local of, list = {}, {}
  return function(key, make)
    local id = of[key]
    if not id then
      id = first
      first = first + 1
      of[key] = id
      list[#list + 1] = M.block(field, make(id))
    end
    return id
  end, list
end

--- Maps stacks to locations. A location is a frame with the functions inlined into it, the innermost first.
-- @tparam function location  f(stack, first, last): the number of the location of these frames of the stack
-- @treturn function  f(stack): the varints of its locations, the leaf first
function M.stack_locations(location)
  local alone = {} -- frame -> its location, as a varint, without inlined functions, the most common case
  return function(stack)
    local parts, first = {}, 1
    for i, frame in ipairs(stack) do
      local bytes = first == i and alone[frame]
      if not bytes and (not frame.inlined or i == #stack) then -- the outermost frame cannot be inlined
        bytes = varint(location(stack, first, i))
        if first == i then alone[frame] = bytes end
      end
      if bytes then
        parts[#parts + 1] = bytes
        first = i + 1
      end
    end
    return table.concat(parts)
  end
end

--- The names of units in pprof and OTLP.
M.units = { ns = "nanoseconds", us = "microseconds", ms = "milliseconds", s = "seconds" }

--- The nearest integer.
function M.whole(value) return math.tointeger(value) or math.floor(value + 0.5) end

-- -> a varint at that place, the place behind it | nil if it is cut off or too long
local function read_varint(bytes, at)
  local n = 0
  for shift = 0, 63, 7 do
    local byte = bytes:byte(at)
    if not byte then return nil end
    n, at = n | (byte & 0x7f) << shift, at + 1
    if byte < 0x80 then return n, at end
  end
end

-- Readers by wire type -> the value, the place behind it
local readers = {
  [0] = read_varint,
  [1] = function(bytes, at) return at + 7 <= #bytes and string.unpack("<i8", bytes, at) or nil, at + 8 end,
  [2] = function(bytes, at)
    local len, first = read_varint(bytes, at)
    if not len or len < 0 or len > #bytes - first + 1 then return nil end
    return bytes:sub(first, first + len - 1), first + len
  end,
  [5] = function(bytes, at) return at + 3 <= #bytes and string.unpack("<i4", bytes, at) or nil, at + 4 end,
}

--- Reads a message of foreign bytes.
-- @treturn[1] table  number of a field -> its last value, an integer or a text
-- @treturn[2] nil if it is not a message
function M.fields(bytes)
  local found, at = {}, 1
  while at <= #bytes do
    local tag, value
    tag, at = read_varint(bytes, at)
    local read = tag and readers[tag & 7]
    if not read then return nil end
    value, at = read(bytes, at)
    if value == nil then return nil end
    found[tag >> 3] = value
  end
  return found
end

return M
