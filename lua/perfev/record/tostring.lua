--- Formats a record as one line: its type, its fields in the kernel's order, its flags. Of binary fields, such as a
-- copy of a stack, only the first bytes are shown.

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local hex = require "perfev.base.hex"

local BYTES = 16 -- shown of a binary field

-- Fields that are not shown, because the type implies them or args has them.
local header = { type = true, number = true, size = true, misc = true, cpumode = true, identifier = true }
local addresses = { ip = true, addr = true, pgoff = true, phys_addr = true }

local bytes -- set of the binary fields, made on first use

local function fields_of_bytes()
  local names = {}
  for _, layout in ipairs(core.layouts().records) do
    for _, row in ipairs(layout.rows) do
      if row.kind == "bytes" or row.kind == "stack" then names[row.name] = true end
    end
  end
  return names
end

local function show_value(name, value)
  if bytes[name] then return hex.cut(value, BYTES) end
  if type(value) == "string" then return '"' .. escape(value) .. '"' end
  if type(value) == "table" then return "{...}" end
  if addresses[name] then return ("0x%x"):format(value) end
  return tostring(value)
end

core.record_tostring(function(r)
  bytes = bytes or fields_of_bytes()
  local parts = { r.type == "unknown" and ("unknown (%d)"):format(r.number) or r.type }
  local has_args = r.args ~= nil
  for name, value in pairs(r) do
    if not header[name] and value ~= false and not (name == "raw" and has_args) then
      parts[#parts + 1] = value == true and name or name .. "=" .. show_value(name, value)
    end
  end
  return table.concat(parts, " ")
end)
