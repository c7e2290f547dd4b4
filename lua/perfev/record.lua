--- How a record prints itself, on one line: its type, its fields in the kernel's order, its flags.

local core = require "perfev.core"
local escape = require "perfev.escape"

-- Not on the line: what the type says already, and what args says better.
local header = { type = true, number = true, size = true, misc = true, cpumode = true, identifier = true }
local addresses = { ip = true, addr = true, pgoff = true, phys_addr = true }

local function show_value(name, value)
  if type(value) == "string" then return '"' .. escape(value) .. '"' end
  if type(value) == "table" then return "{...}" end
  if addresses[name] then return ("0x%x"):format(value) end
  return tostring(value)
end

core.record_tostring(function(r)
  local parts = { r.type == "unknown" and ("unknown (%d)"):format(r.number) or r.type }
  local has_args = r.args ~= nil
  for name, value in pairs(r) do
    if not header[name] and value ~= false and not (name == "raw" and has_args) then
      parts[#parts + 1] = value == true and name or name .. "=" .. show_value(name, value)
    end
  end
  return table.concat(parts, " ")
end)
