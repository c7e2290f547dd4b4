--- Checks a table of options against a table of types (perfev.option_tables).
--
-- A type is text:
--   string, boolean, function, table, path, true, false, "*" (the class checks it itself)
--   integer, number, each also with a bound: "integer > 0", "number >= 0", "integer 1..22", "integer 1..2^28"
--   "one of a, b, c"       "list of TYPE"       "TYPE | TYPE"
--   duration, size, buffer, moment (perfev.units), and the names that a class has defined
-- or { type, words }: words describe the type in a message, as in "a user's name or number".

local core = require "perfev.core"
local raw = require("perfev.base.tables").plain_copy
local shown = require "perfev.base.show_value"
local units = require "perfev.base.parse_units"

local M = {}

local function quoted(value)
  if value == nil then return "nil" end
  return type(value) == "string" and ("'%s'"):format(value) or shown(value)
end

-- ---- types ----

-- name -> { words =, read = function(value, option) -> the checked value | nil [, why [, remedy]] }
local types = {}

local function is_text(value) return type(value) == "string" and value or nil end

-- C would open the path before the NUL.
local function read_path(value)
  if type(value) ~= "string" or value == "" then return nil end
  if value:find("\0", 1, true) then return nil, "a path with a NUL byte in it" end
  return value
end

local function unit(words, parse)
  return { words = words, read = function(value)
    if type(value) ~= "string" and type(value) ~= "number" then return nil end
    return parse(value)
  end }
end

types.string = { words = "a string", read = is_text }
types.path = { words = "a path", read = read_path }
types.duration = unit("a duration such as \"500ms\"", units.duration)
types.size = unit("a size such as \"2M\"", units.size)
types.buffer = unit("a size such as \"2M\"", units.buffer)
types.moment = unit("a time such as \"12.345678\", \"+1.5s\" or \"25%\"", units.moment)
types["true"] = { words = "true", read = function(value) return value == true or nil end }
types["false"] = { words = "false", read = function(value) return value == false and value or nil end }
types["*"] = { words = "a value", read = function(value) return value end }
types.integer = { words = "an integer", read = function(value)
  return type(value) == "number" and math.tointeger(value) or nil
end }
types.number = { words = "a number", read = function(value) return type(value) == "number" and value or nil end }
for name, words in pairs { boolean = "true or false", ["function"] = "a function", table = "a table" } do
  types[name] = { words = words, read = function(value)
    if type(value) == name then return value end
  end }
end

-- "10", "2^28"
local function bound(text)
  local base, power = text:match "^(%d+)%^(%d+)$"
  return base and math.tointeger(base ^ power) or tonumber(text)
end

-- "integer > 0", "number >= 0", "integer 1..22"
local function bounded(kind, range)
  local op, least = range:match "^(>=?) (%S+)$"
  local low, high = range:match "^(%S+)%.%.(%S+)$"
  local words = op == ">" and " above " .. least or op and (" of %s or more"):format(least)
    or (" from %s to %s"):format(low, high)
  local from, to = bound(least or low), high and bound(high) or math.huge
  return { words = kind.words .. words, read = function(value)
    local n = kind.read(value)
    return n and n >= from and n <= to and not (op == ">" and n == from) and n or nil
  end }
end

local function one_of(words)
  local is_one = {}
  for word in words:gmatch "[^, ]+" do is_one[word] = true end
  return { words = "one of " .. words, read = function(value) return is_one[value] and value or nil end }
end

local of

-- Returns a copy. Lists from table.pack() have a field n.
local function list_of(name)
  local element = of(name)
  return { words = ("a list, each %s"):format(element.words), read = function(value)
    if type(value) ~= "table" then return nil end
    local list, n = raw(value), rawlen(value)
    for key in next, list do
      local is_place = math.type(key) == "integer" and key > 0
      if not is_place and key ~= "n" then return nil, ("%s is not allowed in a list"):format(quoted(key)) end
      if is_place and key > n then n = key end
    end
    if n == 0 then return nil, "the list is empty" end
    for i = 1, n do
      local one, why = element.read(list[i])
      if one == nil then
        return nil, why or ("element %d must be %s, not %s"):format(i, element.words, quoted(list[i]))
      end
      list[i] = one
    end
    return list
  end }
end

local function any_of(names)
  local all, words = {}, {}
  for name in names:gmatch "[^|]+" do
    all[#all + 1] = of(name:match "^%s*(.-)%s*$")
    words[#words + 1] = all[#all].words
  end
  return { words = table.concat(words, " or "), read = function(value, option)
    local first, its_remedy
    for _, one in ipairs(all) do
      local read, why, remedy = one.read(value, option)
      if read ~= nil then return read end
      first, its_remedy = first or why, its_remedy or remedy
    end
    return nil, first, its_remedy
  end }
end

-- The type of that name, made on first use.
function of(name)
  local made = types[name]
  if made then return made end
  local kind, range = name:match "^(%a+) ([>%d].*)$"
  local list, choice = name:match "^list of (.+)$", name:match "^one of (.+)$"
  if name:find("|", 1, true) then
    made = any_of(name)
  elseif list or choice then
    made = list and list_of(list) or one_of(choice)
  else
    if not kind then error(("option_tables: no type is called '%s'"):format(name), 0) end
    made = bounded(types[kind], range)
  end
  types[name] = made
  return made
end

--- Defines a type by name.
-- @tparam string name
-- @tparam string words   its description in messages: "a process's number or a list of numbers"
-- @tparam function read  f(value, option) -> the checked value | nil [, the reason [, the remedy]]
function M.define(name, words, read)
  types[name] = { words = words, read = read }
end

-- ---- checks ----

--- Raises a formatted message.
-- @tparam integer level  of the caller, for `error`
function M.fail(level, ...) error(string.format(...), level + 1) end

-- The fields of perf_event_attr as options, which the core checks.
local attr_fields = { __index = function(_, name)
  return type(name) == "string" and core.is_attr_field(name) and "*" or nil
end }

--- A table of types to which options are added; it has all fields of perf_event_attr.
function M.with_attr_fields() return setmetatable({}, attr_fields) end

--- The names of a table of types, sorted.
function M.names(options)
  local names = {}
  for name in pairs(options) do
    if type(name) == "string" then names[#names + 1] = name end
  end
  for _, field in ipairs(getmetatable(options) == attr_fields and core.attr_fields() or {}) do
    if rawget(options, field.name) == nil then names[#names + 1] = field.name end
  end
  table.sort(names)
  return names
end

--- The end of a message about a word for which there is a better one: " (did you mean 'x'?)".
-- @tparam ?string near
-- @tparam[opt=""] string otherwise  the end without one
function M.meant(near, otherwise)
  return near and (" (did you mean '%s'?)"):format(near) or otherwise or ""
end

--- The same for a word that is unknown.
-- @param word                  as the caller wrote it
-- @tparam {string,...} names   the known words
-- @tparam[opt=""] string otherwise  the end if no name is near
-- @treturn string
-- @treturn ?string             the nearest
function M.hint(word, names, otherwise)
  local near = core.nearest(shown(word), names)
  return M.meant(near, otherwise), near
end

local FEW = 16 -- names that a message lists if none is near

--- The message about an unknown option.
-- @param name
-- @tparam {string,...} names
-- @treturn string
function M.unknown(name, names)
  return ("unknown option '%s'%s"):format(shown(name),
    M.hint(name, names, #names <= FEW and "; the options are " .. table.concat(names, ", ") or nil))
end

--- Checks a value without a name.
-- @tparam string t  its type
-- @param value
-- @return the checked value, or nil
-- @treturn ?string  the reason, if it says more than the type's words
function M.read(t, value)
  return of(t).read(value)
end

--- Checks one value.
-- @tparam string name    the option's
-- @tparam string|table t  its type, or { type, words }
-- @param value
-- @return the checked value, or nil
-- @treturn ?string       the reason
function M.value(name, t, value)
  local words
  if type(t) == "table" then t, words = t[1], t[2] end
  local one = of(t)
  local read, why, remedy = one.read(value, name)
  if read ~= nil then return read end
  remedy = remedy and "\n  try: " .. remedy or ""
  if why then return nil, ("%s: %s%s"):format(name, why, remedy) end
  return nil, ("%s must be %s, not %s%s"):format(name, words or one.words, quoted(value), remedy)
end

--- Checks a table of options without running its metamethods.
-- @param given
-- @tparam table options  a type by the option's name; at 1 the type of the list's elements, if a list is allowed
-- @tparam[opt={}] table into
-- @treturn[1] table      into, with the checked values
-- @treturn[2] nil
-- @treturn[2] string     the reason
function M.options(given, options, into)
  if type(given) ~= "table" then return nil, "a table expected, not " .. quoted(given) end
  into = into or {}
  local elements = options[1] and rawlen(given) or 0
  for name, value in next, given do
    local is_element = math.type(name) == "integer" and name >= 1 and name <= elements
    local t = is_element and options[1] or type(name) == "string" and options[name]
    if not t and options[1] and math.type(name) == "integer" then
      return nil, ("element %d is not allowed in a list of %d"):format(name, elements)
    end
    if not t then return nil, M.unknown(name, M.names(options)) end
    local read, why = M.value(is_element and "element " .. name or name, t, value)
    if read == nil then return nil, why end
    into[name] = read
  end
  return into
end

--- The same, but raises the message.
-- @tparam string who     begins the message: "session"
-- @param given
-- @tparam table options
-- @tparam integer level  of the caller, for `error`
-- @treturn table
function M.take(who, given, options, level)
  local taken, why = M.options(given, options)
  if not taken then error(("%s: %s"):format(who, why), level) end
  return taken
end

return M
