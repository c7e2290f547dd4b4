-- json.lua - parses the JSON that specs read; null becomes json.null.

local json = { null = setmetatable({}, { __tostring = function() return "null" end }) }

local value

local escapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }

local function string_at(text, pos)
  local stop = pos + 1
  while text:sub(stop, stop) ~= '"' do
    stop = stop + (text:sub(stop, stop) == "\\" and 2 or 1)
    assert(stop <= #text, "a string without an end")
  end
  local body = text:sub(pos + 1, stop - 1):gsub("\\u(%x%x%x%x)", function(hex) return utf8.char(tonumber(hex, 16)) end)
  return body:gsub("\\(.)", function(c) return escapes[c] or c end), stop + 1
end

local function skip(text, pos) return text:find("[^%s]", pos) end

local function items(text, pos, close, one)
  pos = skip(text, pos + 1)
  while text:sub(pos, pos) ~= close do
    pos = skip(text, one(pos))
    if text:sub(pos, pos) == "," then pos = skip(text, pos + 1) end
  end
  return pos + 1
end

local function array(text, pos)
  local out = {}
  return out, items(text, pos, "]", function(at)
    out[#out + 1], at = value(text, at)
    return at
  end)
end

local function object(text, pos)
  local out = {}
  return out, items(text, pos, "}", function(at)
    local key
    key, at = string_at(text, at)
    out[key], at = value(text, skip(text, text:find(":", at, true) + 1))
    return at
  end)
end

local words = { ["true"] = true, ["false"] = false, null = json.null }

function value(text, pos)
  local c = text:sub(pos, pos)
  if c == "{" then return object(text, pos) end
  if c == "[" then return array(text, pos) end
  if c == '"' then return string_at(text, pos) end
  local word = assert(text:match("^[%w%.%+%-]+", pos), "no value at byte " .. pos)
  if words[word] ~= nil then return words[word], pos + #word end
  return math.tointeger(word) or assert(tonumber(word), word), pos + #word
end

function json.decode(text) return (value(text, skip(text, 1))) end

return json
