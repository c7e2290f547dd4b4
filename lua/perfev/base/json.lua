--- Encodes a value as JSON on one line, which is safe on a terminal.
-- Keys are sorted, so that equal values give equal text. Bytes that are not UTF-8 are written as \u00NN (Latin-1), and
-- the code points that perfev.escape replaces as \uNNNN.

local escape = require "perfev.base.escape"

-- null: an absent value in a list, which cannot hold nil.
local M = { null = setmetatable({}, { __name = "json.null" }) }

local short = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r" }

local function hex(c) return short[c] or ("\\u%04x"):format(c:byte()) end

-- \uNNNN for a multi-byte character that escape() replaces, else nil. They are all below U+10000.
local function character(c) return escape(c) ~= c and ("\\u%04x"):format(utf8.codepoint(c)) or nil end

local function text_of(text)
  if not text:find "[\128-\255]" then return '"' .. text:gsub('[%c"\\\127]', hex) .. '"' end
  if not utf8.len(text) then return '"' .. text:gsub('[%c"\\\127-\255]', hex) .. '"' end
  return '"' .. text:gsub('[%c"\\\127]', hex):gsub("[\194-\244][\128-\191]+", character) .. '"'
end

-- The shorter form if it reads back as the same value: 0.1, not 0.10000000000000001.
local function float_of(value)
  local short_one = ("%.15g"):format(value)
  return tonumber(short_one) == value and short_one or ("%.17g"):format(value)
end

local encode

local function list_of(list)
  local parts = {}
  for i, value in ipairs(list) do parts[i] = math.type(value) == "integer" and value or encode(value) end
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

--- Marks a table as an object; an empty table without the mark is a list.
function M.object(t) return setmetatable(t, Object) end

--- @tparam any value  tables with [1] and empty tables are lists; a function, userdata or thread raises
-- @treturn string    one line, without a newline
function encode(value)
  local kind = type(value)
  if value == nil or value == M.null then return "null" end
  if kind == "string" then return text_of(value) end
  if kind == "boolean" then return tostring(value) end
  if math.type(value) == "integer" then return ("%d"):format(value) end
  if kind == "number" then
    return value == value and value ~= math.huge and value ~= -math.huge and float_of(value) or "null"
  end
  if kind ~= "table" then error("json: cannot encode a " .. kind, 2) end
  if getmetatable(value) == Object then return object_of(value) end
  return (value[1] ~= nil or next(value) == nil) and list_of(value) or object_of(value)
end

M.encode = encode

return M
