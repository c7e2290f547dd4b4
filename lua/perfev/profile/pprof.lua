--- Writes the protocol buffer of pprof, in gzip, for `go tool pprof`.
--
-- A location is a frame with the functions inlined into it, the innermost first. Functions are identified by name and
-- file, mappings by module. Locations have no addresses; the mappings are marked as symbolized.
-- Source: github.com/google/pprof, proto/profile.proto.

local gzip = require "perfev.profile.gzip"

local units = { ns = "nanoseconds", us = "microseconds", ms = "milliseconds", s = "seconds" }

-- ---- encoding: numbers are varints, all other values have a length before them ----

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

local function number(field, n)
  if not n or n == 0 then return "" end
  return varint(field << 3) .. varint(n)
end

local function block(field, bytes) return varint(field << 3 | 2) .. varint(#bytes) .. bytes end

local function packed(field, list)
  local parts = {}
  for i, n in ipairs(list) do parts[i] = varint(n) end
  return block(field, table.concat(parts))
end

-- ---- tables: unique rows, numbered from `first` in the order of first use ----

local function rows(field, first)
  local of, list = {}, {}
  return function(key, make)
    local id = of[key]
    if not id then
      id = first
      first = first + 1
      of[key] = id
      list[#list + 1] = block(field, make(id))
    end
    return id
  end, list
end

local function whole(value) return math.tointeger(value) or math.floor(value + 0.5) end

return function(profile)
  local string_row, strings = rows(6, 0)
  local function text(s) return string_row(s or "", function() return s or "" end) end
  text ""

  local mapping_row, mappings = rows(3, 1)
  local function mapping(frame)
    local module = frame.module or (frame.kernel and "[kernel]" or "")
    return mapping_row(module, function(id)
      return number(1, id) .. number(5, text(module)) .. number(7, 1) .. number(8, 1) .. number(9, 1) .. number(10, 1)
    end)
  end

  local function_row, functions = rows(5, 1)
  local function function_id(frame)
    local file = frame.file or ""
    return function_row(frame.symbol .. "\0" .. file, function(id)
      local name = text(frame.symbol)
      return number(1, id) .. number(2, name) .. number(3, name) .. number(4, text(file))
    end)
  end

  local location_row, locations = rows(4, 1)
  local alone = {} -- frame -> its location, as a varint, without inlined functions, the most common case
  local function location(stack, first, last)
    local keys = {}
    for i = first, last do keys[#keys + 1] = stack[i].key end
    return location_row(table.concat(keys, "\1"), function(id)
      local lines = {}
      for i = first, last do
        lines[#lines + 1] = block(4, number(1, function_id(stack[i])) .. number(2, stack[i].line))
      end
      return number(1, id) .. number(2, mapping(stack[last])) .. table.concat(lines)
    end)
  end

  -- Packed. The outermost frame cannot be inlined.
  local function locations_of(stack)
    local parts, first = {}, 1
    for i, frame in ipairs(stack) do
      local bytes = first == i and alone[frame]
      if not bytes and (not frame.inlined or i == #stack) then
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

  local out = {}
  for _, value in ipairs(profile.values) do
    out[#out + 1] = block(1, number(1, text(value.name)) .. number(2, text(units[value.unit] or value.unit)))
  end
  for stack, values in profile:stacks() do
    for i, value in ipairs(values) do values[i] = whole(value) end
    out[#out + 1] = block(2, block(1, locations_of(stack)) .. packed(2, values))
  end
  local said = (profile.title and number(13, text(profile.title)) or "") .. number(14, text(profile.values[1].name))
  for _, list in ipairs { mappings, locations, functions, strings } do out[#out + 1] = table.concat(list) end
  out[#out + 1] = number(9, profile.time) .. number(10, profile.duration) .. said
  return gzip(table.concat(out))
end
