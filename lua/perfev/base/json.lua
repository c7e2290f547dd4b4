--- Encodes a value as JSON on one line, which is safe on a terminal; and decodes it.
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

-- ---- decoding ----

local MOST_DEPTH = 100

local unescaped = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }
local constants = { ["true"] = true, ["false"] = false, null = M.null }

local function refuse(at, why) error({ at = at, why = why }, 0) end

-- The text of \uXXXX and the place behind it; two surrogates are one character.
local function unicode(text, at)
  local code = tonumber(text:match("^%x%x%x%x", at) or refuse(at, "four hexadecimal digits expected"), 16)
  local low = code >= 0xd800 and code < 0xdc00 and text:match("^\\u([dD][c-fC-F]%x%x)", at + 4)
  if not low then return utf8.char(code), at + 4 end
  return utf8.char(0x10000 + (code - 0xd800 << 10) + tonumber(low, 16) - 0xdc00), at + 10
end

-- `at`: behind the opening quote
local function read_string(text, at)
  local parts = {}
  while true do
    local plain, stop = text:match('^([^"\\%c]*)()', at)
    parts[#parts + 1] = plain
    local c = text:sub(stop, stop)
    if c == '"' then return table.concat(parts), stop + 1 end
    if c ~= "\\" then refuse(stop, c == "" and "a string does not end" or "a control character in a string") end
    local letter = text:sub(stop + 1, stop + 1)
    if letter == "u" then
      parts[#parts + 1], at = unicode(text, stop + 2)
    else
      parts[#parts + 1], at = unescaped[letter] or refuse(stop, "an unknown escape"), stop + 2
    end
  end
end

local read_value

-- Reads the members of a list or an object. `at`: behind the bracket.
local function read_members(text, at, depth, closing)
  local result, nr = {}, 0
  at = text:match("^[ \t\r\n]*()", at)
  if text:sub(at, at) == closing then return result, at + 1 end
  while true do
    local key, value
    nr = nr + 1
    if closing == "}" then
      key, at = text:match('^[ \t\r\n]*"()', at), at
      if not key then refuse(at, "a name in quotes expected") end
      key, at = read_string(text, key)
      at = text:match("^[ \t\r\n]*:()", at) or refuse(at, "':' expected")
    end
    value, at = read_value(text, at, depth + 1)
    result[key or nr] = value
    local c, next = text:match("^[ \t\r\n]*(.)()", at)
    if c == closing then return result, next end
    if c ~= "," then refuse(at, ("',' or '%s' expected"):format(closing)) end
    at = next
  end
end

function read_value(text, at, depth)
  if depth > MOST_DEPTH then refuse(at, "more than 100 levels") end
  at = text:match("^[ \t\r\n]*()", at)
  local c = text:sub(at, at)
  if c == "{" then return read_members(text, at + 1, depth, "}") end
  if c == "[" then return read_members(text, at + 1, depth, "]") end
  if c == '"' then return read_string(text, at + 1) end
  local word, stop = text:match("^(%a+)()", at)
  if constants[word] ~= nil then return constants[word], stop end
  word, stop = text:match("^(%-?%d+%.?%d*[eE]?[+-]?%d*)()", at)
  local number = word and tonumber(word)
  if not number then refuse(at, c == "" and "it ends too early" or "a value expected") end
  return number, stop
end

--- Decodes a text; objects and lists are tables, null is M.null.
-- @tparam string text
-- @treturn[1] any
-- @treturn[2] nil
-- @treturn[2] string  where and why it is not JSON
function M.decode(text)
  local ok, value, at = pcall(read_value, text, 1, 0)
  if ok then
    at = text:match("^[ \t\r\n]*()", at)
    if at > #text then return value end
    value = { at = at, why = "the end expected" }
  end
  if type(value) ~= "table" or not value.why then error(value, 0) end
  return nil, ("byte %d: %s"):format(value.at, value.why)
end

return M
