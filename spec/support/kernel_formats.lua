-- kernel_formats.lua - lists this kernel's tracepoint formats and makes a payload for each.

local lfs = require "lfs"
local run = require "spec.support.run"

local EVENTS = "/sys/kernel/tracing/events"
local STRING = "made up\0"

local M = {}

local function has_folder(path) return lfs.attributes(path, "mode") == "directory" end

--- Returns all formats, sorted by system and name.
-- @treturn {table,...}  each `system`, `name`, `text`; empty if tracefs cannot be read
function M.all()
  local list = {}
  if not pcall(lfs.dir, EVENTS) then return list end
  for system in lfs.dir(EVENTS) do
    if system:find "^%w" and has_folder(EVENTS .. "/" .. system) then
      for name in lfs.dir(EVENTS .. "/" .. system) do
        local text = name:find "^%w" and run.slurp(("%s/%s/%s/format"):format(EVENTS, system, name))
        if text then list[#list + 1] = { system = system, name = name, text = text } end
      end
    end
  end
  table.sort(list, function(a, b) return a.system .. ":" .. a.name < b.system .. ":" .. b.name end)
  return list
end

--- Makes a payload: `fill` in each byte of a number or an array; after all fields, one string for
-- each dynamic field.
-- @tparam string text  a format
-- @tparam integer fill  0 to 255
function M.payload(text, fill)
  local size, dynamic = 0, {}
  for kind, offset, width in text:gmatch "field:([^;]-);%s*offset:(%d+);%s*size:(%d+);" do
    offset, width = tonumber(offset), tonumber(width)
    size = math.max(size, offset + width)
    local loc = kind:match "^__(%l+)_loc"
    if loc then dynamic[#dynamic + 1] = { offset = offset, relative = loc == "rel" } end
  end
  local bytes = string.char(fill):rep(size)
  for _, field in ipairs(dynamic) do
    local from = #bytes - (field.relative and field.offset + 4 or 0)
    bytes = bytes:sub(1, field.offset) .. string.pack("I4", #STRING << 16 | from)
      .. bytes:sub(field.offset + 5) .. STRING
  end
  return bytes
end

return M
