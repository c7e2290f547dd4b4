--- A value as JSON: keys sorted, bytes that are no UTF-8 as \u00NN (Latin-1), so that what
-- reads it never meets an invalid line, and the same value is always the same text.

-- null: what stands in a list for nothing, which nil cannot.
local M = { null = setmetatable({}, { __name = "json.null" }) }

local short = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r" }

local function hex(c) return short[c] or ("\\u%04x"):format(c:byte()) end

local function text_of(text)
  local class = utf8.len(text) and '[%c"\\\127]' or '[%c"\\\127-\255]'
  return '"' .. text:gsub(class, hex) .. '"'
end

local encode

local function list_of(list)
  local parts = {}
  for i, value in ipairs(list) do parts[i] = encode(value) end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function object_of(object)
  local keys, parts = {}, {}
  for key in pairs(object) do keys[#keys + 1] = tostring(key) end
  table.sort(keys)
  for i, key in ipairs(keys) do parts[i] = text_of(key) .. ":" .. encode(object[key]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

--- @tparam any value  tables with [1], and empty ones, are lists; functions and the like raise
-- @treturn string    on one line, without its newline
function encode(value)
  local kind = type(value)
  if value == nil or value == M.null then return "null" end
  if kind == "string" then return text_of(value) end
  if kind == "boolean" then return tostring(value) end
  if math.type(value) == "integer" then return ("%d"):format(value) end
  if kind == "number" then
    return value == value and value ~= math.huge and value ~= -math.huge and ("%.17g"):format(value) or "null"
  end
  if kind ~= "table" then error("json: a " .. kind .. " has no form", 2) end
  return (value[1] ~= nil or next(value) == nil) and list_of(value) or object_of(value)
end

M.encode = encode

return M
