--- Writes the protocol buffer of pprof, in gzip, for `go tool pprof`.
--
-- A location is a frame with the functions inlined into it, the innermost first. Functions are identified by name and
-- file, mappings by module. Locations have no addresses; the mappings are marked as symbolized.
-- Source: github.com/google/pprof, proto/profile.proto.

local gzip = require "perfev.encoding.gzip"
local protobuf = require "perfev.encoding.protobuf"

local number, block, packed = protobuf.number, protobuf.block, protobuf.packed
local rows, units, whole = protobuf.rows, protobuf.units, protobuf.whole

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

  local locations_of = protobuf.stack_locations(location)
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
