--- Formats the fields of tools' records as text (name=value) and as JSON, and lists the fields of a payload.
--
-- Addresses are hexadecimal, in JSON as strings. C writes the kernel's records alike (src/record/record_text.c).

local escape = require "perfev.base.escape"
local json = require "perfev.base.json"

local M = {}

local addresses = { ip = true, addr = true, pgoff = true, phys_addr = true, from = true, to = true, raw = true,
                    cookie = true }

--- The text of a u64, which is a signed integer in Lua.
function M.unsigned(n)
  if n >= 0 then return ("%d"):format(n) end
  local tens = (n >> 1) // 5
  return ("%d%d"):format(tens, n - tens * 10)
end

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

-- ---- text ----

--- A string in quotes, escaped together with the quotes in it.
local function quoted(text) return '"' .. escape(text):gsub('"', "\\x22") .. '"' end

local function address(n) return ("0x%x"):format(n) end

local any_text

-- A table as text; fields that are false are left out.
local function table_text(t)
  local parts = {}
  if t[1] ~= nil then
    for i, value in ipairs(t) do parts[i] = any_text(nil, value) end
    return "[" .. table.concat(parts, " ") .. "]"
  end
  for _, key in ipairs(sorted_keys(t)) do
    local value, name = t[key], escape(tostring(key))
    if value == true then
      parts[#parts + 1] = name
    elseif value ~= false then
      parts[#parts + 1] = name .. "=" .. any_text(key, value)
    end
  end
  return "{" .. table.concat(parts, " ") .. "}"
end

function any_text(name, value)
  if type(value) == "table" then return table_text(value) end
  if type(value) == "string" then return quoted(value) end
  if math.type(value) == "integer" then return addresses[name] and address(value) or ("%d"):format(value) end
  return tostring(value)
end
M.any_text = any_text

-- ---- JSON ----

local function address_json(n) return ('"0x%x"'):format(n) end

local any_json

local function list_json(list, one)
  local parts = {}
  for i, value in ipairs(list) do parts[i] = one(nil, value) end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function table_json(t)
  if t[1] ~= nil then return list_json(t, any_json) end
  local parts = {}
  for i, key in ipairs(sorted_keys(t)) do parts[i] = json.encode(tostring(key)) .. ":" .. any_json(key, t[key]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

function any_json(name, value)
  if type(value) == "table" then return table_json(value) end
  if addresses[name] and math.type(value) == "integer" then return address_json(value) end
  return json.encode(value)
end
M.any_json = any_json

-- ---- payloads ----

-- Splits a declaration such as "unsigned long *args" or "char comm[16]" -> name, type
local function parse_field(declared)
  local type_name, name, array = declared:match("^(.-)%s*([%w_]+)(%[?[^%s]*)$")
  if not name then return nil end
  return name, type_name .. array
end

--- The fields of a tracepoint's payload, in its order, without the common fields.
-- @tparam string format  the text of tracefs
-- @treturn {table,...}   { name =, type = "char[16]" }
function M.payload(format)
  local list = {}
  for declared in format:gmatch("\n%s*field:([^;\n]*);") do
    local name, type_name = parse_field(declared)
    if name and not name:find("^common_") then
      list[#list + 1] = { name = name, type = type_name:gsub("^__data_loc ", ""):gsub("^__rel_loc ", "") }
    end
  end
  return list
end

return M
