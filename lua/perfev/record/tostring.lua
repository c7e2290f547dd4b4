--- How a record prints itself, on one line: its type, its fields in the kernel's order, its flags. Of bytes that
-- are no text, such as a copy of a stack, it has the first ones alone.

local core = require "perfev.core"
local escape = require "perfev.base.escape"
local hex = require "perfev.base.hex"

local BYTES = 16 -- that it shows of them

-- Not on the line: what the type says already, and what args says better.
local header = { type = true, number = true, size = true, misc = true, cpumode = true, identifier = true }
local addresses = { ip = true, addr = true, pgoff = true, phys_addr = true }

local bytes -- the fields that have such, when one record has been printed

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
