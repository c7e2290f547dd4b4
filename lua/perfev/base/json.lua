--- A value as JSON: keys sorted, text that is not UTF-8 with its bytes as \u00NN (Latin-1), so that each line
-- is valid and the same value is always the same text. A terminal shows a line and does not obey it: controls,
-- C1's too, and the marks that turn or break a line are written \uNNNN, as perfev.escape chooses them.

local escape = require "perfev.base.escape"

-- null: what stands in a list for nothing, which nil cannot.
local M = { null = setmetatable({}, { __name = "json.null" }) }

local short = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r" }

local function hex(c) return short[c] or ("\\u%04x"):format(c:byte()) end

-- A character of more than one byte: itself, unless escape changes it. Those are all below U+10000.
local function character(c) return escape(c) ~= c and ("\\u%04x"):format(utf8.codepoint(c)) or nil end

local function text_of(text)
  if not text:find "[\128-\255]" then return '"' .. text:gsub('[%c"\\\127]', hex) .. '"' end
  if not utf8.len(text) then return '"' .. text:gsub('[%c"\\\127-\255]', hex) .. '"' end
  return '"' .. text:gsub('[%c"\\\127]', hex):gsub("[\194-\244][\128-\191]+", character) .. '"'
end

-- The fewest digits that say it: 0.1, not 0.10000000000000001.
local function float_of(value)
  local short_one = ("%.15g"):format(value)
  return tonumber(short_one) == value and short_one or ("%.17g"):format(value)
end

local encode

local function list_of(list)
  local parts = {}
  for i, value in ipairs(list) do parts[i] = encode(value) end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function object_of(object)
  local keys, parts = {}, {}
  for key in pairs(object) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do parts[i] = text_of(tostring(key)) .. ":" .. encode(object[key]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

local Object = {}

--- Mark a table as an object, which an empty one is otherwise not.
function M.object(t) return setmetatable(t, Object) end

--- @tparam any value  tables with [1], and empty ones, are lists; functions and the like raise
-- @treturn string    on one line, without its newline
function encode(value)
  local kind = type(value)
  if value == nil or value == M.null then return "null" end
  if kind == "string" then return text_of(value) end
  if kind == "boolean" then return tostring(value) end
  if math.type(value) == "integer" then return ("%d"):format(value) end
  if kind == "number" then
    return value == value and value ~= math.huge and value ~= -math.huge and float_of(value) or "null"
  end
  if kind ~= "table" then error("json: a " .. kind .. " has no form", 2) end
  if getmetatable(value) == Object then return object_of(value) end
  return (value[1] ~= nil or next(value) == nil) and list_of(value) or object_of(value)
end

M.encode = encode

return M
