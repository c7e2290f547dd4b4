--- The options and arguments that a built-in script or a verb declares, for its manual page and for completion.

local args = require "perfev.tool.args"
local load_source = require "perfl.load_source"
local native = require "perfl.core"

local M = {}

--- The declaration of a built-in script, which runs up to it.
-- @tparam string name
-- @treturn ?table  as args.check returns it
function M.of_script(name)
  local text = native.script(name)
  local script = text and load_source.compile(text, "=" .. name)
  if not script then return nil end
  local declared
  args.parse = function(found)
    declared = found
    error "declared"
  end
  pcall(script)
  return declared
end

-- Runs a verb's --help -> the text, and the argparse parser or nil.
local function run_help(module, verb)
  local write, printer, new_parser, texts, parser = io.write, print, args.new_parser, {}, nil
  -- luacheck: push ignore 121 122
  io.write = function(...)
    texts[#texts + 1] = table.concat { ... }
    return io.output()
  end
  print = function(text) texts[#texts + 1] = text .. "\n" end
  args.new_parser = function(...)
    parser = new_parser(...)
    return parser
  end
  local _, _, returned = pcall(module.main or module.parse or module.split, { "--help" }, verb)
  io.write, print, args.new_parser = write, printer, new_parser
  -- luacheck: pop
  return texts[1] and table.concat(texts) or returned, parser
end

-- An argument or option of argparse as a row of args.check.
local function row_of(element)
  local argname, flags = element._argname, {}
  for i, flag in ipairs(element._aliases or {}) do flags[i] = flag end
  if type(argname) == "table" then argname = argname[1] end
  return { flags = flags[1] and flags or nil, help = element._description or "", choices = element._choices,
    metavar = element._maxargs > 0 and (argname or element._name:gsub("^%-*", ""):upper()) or nil,
    switch = element._maxargs == 0, written = type(element._default) == "string" and element._default or nil }
end

--- What a verb declares.
-- @tparam table module
-- @tparam string verb
-- @treturn table  rows as args.check returns them, with `usage`, and `summary` and `epilog` or `text`: the help of a
--   verb that has no options
function M.of_verb(module, verb)
  local text, parser = run_help(module, verb)
  local usage, rest = text:gsub("%[%-h%] ", ""):match "^[Uu]sage: (.-)\n\n(.*)$"
  if not parser then return { usage = usage, text = rest } end
  local declared = { usage = usage, summary = parser._description, epilog = parser._epilog }
  for _, kind in ipairs { parser._arguments, parser._options } do
    for _, element in ipairs(kind) do
      local row = not element._hidden and row_of(element)
      if row and not (row.flags and row.flags[1] == "-h") then declared[#declared + 1] = row end
    end
  end
  return declared
end

return M
