--- A profile as a request of OTLP profiles, development version 1 (alpha: the numbers of fields change between
-- versions; a server of another version must refuse the header that names it).
--
-- Source: github.com/open-telemetry/opentelemetry-proto, opentelemetry/proto/profiles/v1development/profiles.proto and
-- collector/profiles/v1development/profiles_service.proto. Each value type of a profile becomes a profile there. Row 0
-- of each table of the dictionary is empty, so that an index of 0 means none.

local core = require "perfev.core"
local perfev_version = require("perfev")._VERSION
local protobuf = require "perfev.encoding.protobuf"

local M = {}

--- What a request must say about its version.
M.VERSION_HEADER = "OTLP-Profiles-Development-Version: 1"

local number, block, rows = protobuf.number, protobuf.block, protobuf.rows

-- KeyValue with a text
local function attribute(field, key, text) return block(field, block(1, key) .. block(2, block(1, text or ""))) end

-- 16 bytes, the same each time the frame is sent: its start, mixed with what it is.
local function profile_id(header, index)
  local start = tostring(header.start or ""):gsub("[^%x]", ""):sub(1, 32)
  start = start .. ("0"):rep(32 - #start)
  local low = core.crc32(("%s %s %s %d"):format(header.host, header.name, header.part, index)) << 32
  local mixed = math.tointeger(tonumber(start:sub(17), 16) or 0) ~ low ~ (header.seq or 0) + 1
  return start:sub(1, 16):gsub("%x%x", function(hex) return string.char(tonumber(hex, 16)) end)
    .. string.pack(">i8", mixed)
end

-- The tables that the profiles share -> functions text(s) and stack(frames), which return numbers; the dictionary
local function new_dictionary()
  local string_row, strings = rows(5, 0)
  local function text(s) return string_row(s or "", function() return s or "" end) end
  text ""

  local function table_of(field)
    local row, list = rows(field, 0)
    row({}, function() return "" end) -- row 0
    return row, list
  end
  local mapping_row, mappings = table_of(1)
  local location_row, locations = table_of(2)
  local function_row, functions = table_of(3)
  local _, links = table_of(4)
  local _, attributes = table_of(6)
  local stack_row, stacks = table_of(7)

  local function mapping(frame)
    local module = frame.module or (frame.kernel and "[kernel]")
    return module and mapping_row(module, function() return number(4, text(module)) end) or 0
  end
  local function function_index(frame)
    local file = frame.file or ""
    return function_row(frame.symbol .. "\0" .. file, function()
      local name = text(frame.symbol)
      return number(1, name) .. number(2, name) .. number(3, text(file))
    end)
  end
  local function location(stack, first, last)
    local keys = {}
    for i = first, last do keys[#keys + 1] = stack[i].key end
    return location_row(table.concat(keys, "\1"), function()
      local lines = {}
      for i = first, last do
        lines[#lines + 1] = block(3, number(1, function_index(stack[i])) .. number(2, stack[i].line))
      end
      return number(1, mapping(stack[last])) .. table.concat(lines)
    end)
  end
  local locations_of = protobuf.stack_locations(location)
  local function stack(frames)
    local bytes = locations_of(frames)
    return stack_row(bytes, function() return block(1, bytes) end)
  end
  return text, stack, function()
    local parts = {}
    for _, list in ipairs { mappings, locations, functions, links, strings, attributes, stacks } do
      parts[#parts + 1] = table.concat(list)
    end
    return table.concat(parts)
  end
end

-- The profile of one value type.
local function profile_of(header, value, index, samples, text)
  local begin = header.begin or 0
  return block(1, number(1, text(value.name)) .. number(2, text(protobuf.units[value.unit] or value.unit)))
    .. table.concat(samples) .. protobuf.fixed64(3, begin) .. number(4, math.max(0, (header["end"] or begin) - begin))
    .. block(7, profile_id(header, index))
end

--- @tparam table header  of the frame
-- @tparam profile profile
-- @treturn string  an ExportProfilesServiceRequest
function M.request(header, profile)
  local text, stack, dictionary = new_dictionary()
  local samples = {} -- by value type
  for i in ipairs(profile.values) do samples[i] = {} end
  for frames, values in profile:stacks() do
    local index = number(1, stack(frames))
    for i, value in ipairs(values) do
      if value ~= 0 then
        table.insert(samples[i], block(2, index .. protobuf.packed(4, { protobuf.whole(value) })))
      end
    end
  end
  local profiles = {}
  for i, value in ipairs(profile.values) do
    profiles[i] = block(2, profile_of(header, value, i, samples[i], text))
  end
  local resource = attribute(1, "service.name", header.job) .. attribute(1, "host.name", header.host)
    .. attribute(1, "perfev.name", header.name)
  local scope = block(1, block(1, "perfev") .. block(2, perfev_version)) .. table.concat(profiles)
  return block(1, block(1, resource) .. block(2, scope)) .. block(2, dictionary())
end

--- Reads the response -> the number of profiles that the server rejected, its reason.
-- The message is ExportProfilesServiceResponse { partial_success = 1 { rejected_profiles = 1; error_message = 2 } }.
function M.rejected(bytes)
  local message = bytes and protobuf.fields(bytes)
  local partial = message and type(message[1]) == "string" and protobuf.fields(message[1])
  if not partial then return 0 end
  return math.type(partial[1]) == "integer" and partial[1] or 0, type(partial[2]) == "string" and partial[2] or nil
end

return M
