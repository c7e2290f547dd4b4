--- perfev.args{…}: the options a script declares, as the table they become.
--
-- A declaration is data: { "--top -t", type = "integer", default = 10, help = "…" }.
-- Under perfl they join the runner's own options in one parser (it sets `parse`
-- below); without it the global `arg` is parsed, if it exists. Only in that case this module prints and exits, as
-- argparse does.

local check = require "perfev.base.check"
local escape = require "perfev.base.escape"
local option_tables = require "perfev.option_tables.args"
local shown = require "perfev.base.show_value"
local units = require "perfev.base.parse_units"

local M = {}

--- Set by a runner: function(declared) -> the script's values. See `M.check`.
M.parse = nil

--- Set by a runner: the globals of conditions, which may be a script's defaults; nil: Lua's own.
M.environment = nil

local function to_integer(text)
  local n = math.tointeger(tonumber(text))
  if n then return n end
  return nil, ("'%s' is not a whole number"):format(escape(text))
end

local function to_number(text)
  local n = tonumber(text)
  if n then return n end
  return nil, ("'%s' is not a number"):format(escape(text))
end

--- Compiles a condition on records: a Lua expression, or statements with return.
-- @tparam string text
-- @tparam string name  of the option, for errors in it
-- @treturn[1] function  f(r, args) -> its value, of a record and its payload
-- @treturn[2] nil
-- @treturn[2] string    "NAME:LINE: ..."
function M.condition(text, name)
  local globals = M.environment or _G
  local expression = load("local r, args = ... return " .. text, "=" .. name, "t", globals)
  if expression then return expression end
  return load("local r, args = ... " .. text, "=" .. name, "t", globals)
end

local condition_texts = setmetatable({}, { __mode = "k" })

local function to_condition(text, name)
  local condition, why = M.condition(text, name)
  if condition then
    condition_texts[condition] = text
    return condition
  end
  return nil, ("'%s': %s"):format(escape(text), escape(why))
end

local converters = {
  condition = to_condition,
  string = function(text) return text end,
  integer = to_integer,
  number = to_number,
  duration = units.duration,
  size = units.size,
}

-- The Lua type of a default that is not a string.
local lua_types = { integer = "integer", number = "number", duration = "number", size = "number",
                    condition = "function" }

-- The caller's line: skips the frames of this module.
local function complain(format, ...)
  local level = 2
  local source = debug.getinfo(1, "S").source
  while true do
    local frame = debug.getinfo(level, "S")
    if not frame or frame.what ~= "C" and frame.source ~= source then break end
    level = level + 1
  end
  error(("perfev.args: " .. format):format(...), level)
end

-- "--per-process -p" -> { "--per-process", "-p" }, "per_process"
local function split_flags(text)
  local flags, name = {}, nil
  for flag in text:gmatch("%S+") do
    if not (flag:find("^%-[%w?]$") or flag:find("^%-%-%w[%w_-]*$")) then
      complain("'%s' is not an option name: write -x or --some-name", flag)
    end
    flags[#flags + 1] = flag
    if not name and flag:sub(1, 2) == "--" then name = flag:sub(3) end
  end
  return flags, (name or flags[1]:sub(2)):gsub("-", "_")
end

-- argparse's notation -> least, most
local function bounds_of(args)
  if args == "*" then return 0, math.huge end
  if args == "+" then return 1, math.huge end
  if args == "?" then return 0, 1 end
  local n = math.tointeger(tonumber(args))
  if n and n > 0 then return n, n end
end

-- One converter per option, whose sentence names the option.
local function converter_of(label, name, kind)
  local convert = converters[kind]
  return function(text)
    local value, why = convert(text, name)
    if value == nil then return nil, label .. ": " .. why end
    return value
  end
end

local function check_default(option)
  local default = option.default
  if default == nil or option.switch then return default end
  if option.many and type(default) ~= "table" then complain("the default of %s is not a list", option.label) end
  if type(default) == "string" then
    local value, why = option.convert(default)
    if value == nil then complain("the default of %s", why) end
    return value
  end
  local wanted = lua_types[option.kind]
  local is_list = (option.most > 1 or option.many) and type(default) == "table"
  if is_list or wanted == math.type(default) or wanted == type(default) then
    if option.kind == "duration" then return units.duration(default) end
    return default
  end
  complain("the default of %s is a %s, not a %s", option.label, type(default), option.kind)
end

local function texts_of(list)
  local out = {}
  for i = 1, rawlen(list) do out[i] = shown(rawget(list, i)) end
  return out
end

-- A declaration -> the form that the parsers use.
local function check_option(declared)
  local text = rawget(declared, 1)
  if type(text) ~= "string" or not text:find "%S" then
    complain("each declaration is a table that begins with the option's name")
  end
  local option = {}
  if text:find("^%s*%-") then
    option.flags, option.name = split_flags(text)
    option.label = ("option '%s'"):format(option.flags[#option.flags])
  else
    if not text:find("^[%a_][%w_-]*$") then complain("'%s' is not a name for an argument", text) end
    option.name = text:gsub("-", "_")
    option.metavar = rawget(declared, "metavar") or text:upper()
    option.label = ("argument '%s'"):format(shown(option.metavar))
  end
  local why
  declared, why = check.options(declared, option_tables.args_option)
  if not declared then complain("%s: %s", option.label, why) end
  if declared[2] then complain("%s: '%s' has no place behind the name", option.label, declared[2]) end
  local kind = declared.type
  option.help, option.required, option.metavar = declared.help, declared.required, declared.metavar or option.metavar
  option.switch = option.flags and not kind and not declared.args and not declared.choices
    and not declared.metavar and not declared.many and (declared.default == nil or type(declared.default) == "boolean")
  option.kind = kind or "string"
  option.convert = converter_of(option.label, option.flags and option.flags[#option.flags] or option.name, option.kind)
  option.choices = declared.choices and texts_of(declared.choices)
  option.least, option.most = 1, 1
  if declared.args then
    option.least, option.most = bounds_of(declared.args)
    if not option.least or option.flags and declared.args == "?" then
      complain("%s: args = %s is not \"*\", \"+\"%s or a number", option.label, shown(declared.args),
        option.flags and "" or ", \"?\"")
    end
  end
  option.many = declared.many
  if option.many and (not option.flags or declared.args) then
    complain("%s: many is for options with one value", option.label)
  end
  option.metavar = option.metavar or option.flags and (option.name:upper():gsub("_", "-"))
  option.default, option.written = declared.default, declared.default
  option.default = check_default(option)
  if not option.flags and (option.default ~= nil or option.required == false) then
    option.least = 0
  end
  return option
end

--- A declaration as written, checked.
-- @tparam table spec  the argument of perfev.args
-- @treturn table  list of { name, label, flags (nil: an argument), switch, kind, convert,
--                 default, help, metavar, choices, required, many, least, most }, with
--                 .summary, .output, .epilog and .all_cpus
function M.check(spec)
  local why
  spec, why = check.options(spec, option_tables.args)
  if not spec then complain("%s", why) end
  local declared, seen = { summary = spec.summary, output = spec.output, epilog = spec.epilog,
    all_cpus = spec.all_cpus }, {}
  for _, written in ipairs(spec) do
    local option = check_option(written)
    for _, key in ipairs(option.flags or {}) do
      if seen[key] then complain("'%s' is declared twice", key) end
      seen[key] = true
    end
    if seen[option.name] then complain("'%s' is declared twice", option.name) end
    seen[option.name] = true
    declared[#declared + 1] = option
  end
  return declared
end

local function shown_default(option)
  local default = option.default
  if default == nil or default == false or default == true or type(default) == "table" then
    return ""
  end
  local written = option.written
  if option.kind == "duration" and type(written) ~= "string" then written = ("%gs"):format(default / 1e9) end
  return (" (default: %s)"):format(written)
end

local function bounds_text(option)
  if option.most == math.huge then return option.least .. "+" end
  return option.least .. "-" .. option.most
end

--- Adds the options of a declaration to an argparse parser.
-- @param parser             of argparse
-- @tparam table declared    from `check`
-- @treturn table  the parser's elements, in the order declared
function M.add(parser, declared)
  local elements = {}
  for i, option in ipairs(declared) do
    local add = not option.flags and parser.argument or option.switch and parser.flag
      or parser.option
    local element = add(parser, option.flags and table.concat(option.flags, " ")
      or option.metavar)
    element:target(option.name):description((option.help or "") .. shown_default(option))
    if not option.switch then
      element:args(bounds_text(option)):convert(option.convert):argname(option.metavar)
      if option.choices then element:choices(option.choices) end
    end
    if option.flags and option.required then element:count("1") end
    if option.many then element:count(option.required and "+" or "*") end
    elements[i] = element
  end
  return elements
end

--- The results of a parser, with the defaults.
-- @tparam table declared  from `check`
-- @tparam table found     argparse's result
-- @treturn table  value by name; a switch is true or false
function M.values(declared, found)
  local values = {}
  for _, option in ipairs(declared) do
    local value = found[option.name]
    local absent = value == nil or type(value) == "table" and #value == 0
    if absent and option.default ~= nil then value = option.default end
    if option.switch then value = value or false end
    if option.many then value = value or {} end
    values[option.name] = value
  end
  return values
end

-- The text of a value that the option's converter reads as this value.
local function text_of(option, value)
  if option.kind == "duration" then return ("%dns"):format(value) end
  return math.type(value) == "float" and ("%.17g"):format(value) or condition_texts[value] or tostring(value)
end

local function is_same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for i = 1, math.max(#a, #b) do
    if a[i] ~= b[i] then return false end
  end
  return true
end

local function long_flag(option)
  for _, flag in ipairs(option.flags) do
    if #flag > 2 then return flag end
  end
  return option.flags[1]
end

-- Appends the option with one value, which may begin with a dash.
local function add_option(words, option, value)
  local flag = long_flag(option)
  words[#words + 1] = flag .. (#flag > 2 and "=" or "") .. text_of(option, value)
end

--- Returns words of a command line that give these values: the same ones for each way to write them.
-- @tparam table declared  from `check`
-- @tparam table values    from `values`
-- @treturn {string,...}   the arguments, then the options that differ from their defaults
function M.words(declared, values)
  local words = {}
  for _, option in ipairs(declared) do
    local value = values[option.name]
    local list = type(value) == "table" and value or { value }
    for i = 1, option.flags and 0 or #list do words[#words + 1] = text_of(option, list[i]) end
  end
  for _, option in ipairs(declared) do
    local value = values[option.name]
    local is_set = option.flags and value ~= nil and not is_same(value, option.default)
    if is_set and option.switch then
      if value then words[#words + 1] = long_flag(option) end
    elseif is_set and option.most > 1 then
      words[#words + 1] = long_flag(option)
      for _, one in ipairs(value) do words[#words + 1] = text_of(option, one) end
    elseif is_set then
      for _, one in ipairs(type(value) == "table" and value or { value }) do add_option(words, option, one) end
    end
  end
  return words
end

--- Returns the values of a declaration for these words.
-- @tparam table declared  from `check`
-- @tparam {string,...} words
-- @treturn[1] table
-- @treturn[2] nil
-- @treturn[2] string
function M.read(declared, words)
  local parser = M.new_parser "script"
  M.add(parser, declared)
  local ok, found = parser:pparse(words)
  if not ok then return nil, found end
  return M.values(declared, found)
end

local function usage_word(option)
  local words = option.metavar or ""
  if option.most > 1 then
    words = option.least > 0 and ("%s [%s...]"):format(words, words)
      or ("[%s...]"):format(words)
    if option.most < math.huge then words = (option.metavar .. " "):rep(option.most):sub(1, -2) end
  elseif option.least == 0 then
    words = ("[%s]"):format(words)
  end
  if not option.flags then return words end
  words = option.flags[1] .. (option.switch and "" or " " .. words)
  return option.required and words or ("[%s]"):format(words)
end

--- The words of a usage line: { "[--top N]", "EVENT" }, options first.
function M.usage(declared)
  local flags, rest = {}, {}
  for _, option in ipairs(declared) do
    local into = option.flags and flags or rest
    into[#into + 1] = usage_word(option)
  end
  return table.move(rest, 1, #rest, #flags + 1, flags)
end

--- The text below the options in the help: what the script prints, and the epilog; or nil.
function M.closing(declared)
  if declared.output and declared.epilog then return declared.output .. "\n\n" .. declared.epilog end
  return declared.output or declared.epilog
end

--- A new argparse parser, 80 columns wide, without options of its own.
function M.new_parser(name)
  local found, argparse = pcall(require, "argparse")
  if not found then
    error("perfev.args needs the argparse module: install lua-argparse", 0)
  end
  return argparse(name):add_help(false):help_max_width(80):usage_max_width(79)
end

local function parse_alone(declared)
  local words = rawget(_G, "arg")
  local parser = M.new_parser(words and words[0] or "script"):add_help(true)
  if declared.summary then parser:description(declared.summary) end
  local closing = M.closing(declared)
  if closing then parser:epilog(closing) end
  M.add(parser, declared)
  if words then return M.values(declared, parser:parse(words)) end
  local ok, found = parser:pparse({})
  if not ok then complain("no command line (global 'arg') and %s", found) end
  return M.values(declared, found)
end

--- Declares a script's options and returns their values.
-- @tparam table spec `summary`, `output`, `epilog`, `all_cpus` (true: watch the machine if perfl's command line
--   names no target), and a list of declarations: [1] = "-x --name" or "argument"; `help type default metavar choices
--   required args many`. Types: string integer number duration (ns) size (bytes); an option without a type is a switch.
-- @treturn table  values by long name, - as _
return setmetatable(M, {
  __call = function(_, spec)
    local declared = M.check(spec)
    return (M.parse or parse_alone)(declared)
  end,
})
