--- Text lines: C writes a line for each record, from a format that is parsed once (src/lua/record/ltext_line.c).
-- A text line can be a callback: see as_callback.lua.

local check = require "perfev.base.check"
local core = require "perfev.core"

local M = {}

local special = { task = true, tracepoint = true, latency = true, text = true }

local fail = check.fail

local function check_name(name, level)
  if special[name] then return end
  local kind, why = core.value_kind(name)
  if not kind then fail(level, "line: {%s}: %s", name, why) end
  if kind == "stack" then
    fail(level, "line: {%s} cannot be part of a line; a callback can print r.%s", name, name)
  end
end

-- Parses the text between two braces: "NAME" or "NAME:SPEC". literal: the text before them.
local function column(text, literal, level)
  local name, spec = text:match "^(args%.[%w_.]+:text):?(.*)$"
  if not name then name, spec = text:match "^([%w_.]+):?(.*)$" end
  if not name then fail(level, "line: {%s} is not a field; {{ is a brace", text) end
  if not spec:find "^[-#0]*%d?%d?%d?%.?%d?[duxXo]?$" then
    fail(level, "line: {%s}: '%s' is not understood\n  try: a width, as in {comm:-16} or {cpu:03}; x; {time:12.6}",
      text, spec)
  end
  check_name(name, level + 1)
  return { literal = literal, name = name, spec = spec }
end

local function parse_format(format, level)
  local list, literal, at = {}, "", 1
  while at <= #format do
    local plain, stop = format:match("^([^{}]+)()", at)
    if plain then
      literal, at = literal .. plain, stop
    elseif format:find("^{{", at) or format:find("^}}", at) then
      literal, at = literal .. format:sub(at, at), at + 2
    else
      local inside, behind = format:match("^{([^{}]*)}()", at)
      if not inside then fail(level, "line: unpaired brace at %d; {{ and }} are braces", at) end
      list[#list + 1] = column(inside, literal, level + 1)
      literal, at = "", behind
    end
  end
  list[#list + 1] = { literal = literal .. "\n" }
  return list
end

--- Makes a text line.
-- @tparam string format  text with `{NAME}` and `{NAME:SPEC}`; SPEC is printf's flags and width, and x or X
-- @treturn userdata      `line:text(r)`, `line(r)`, or a callback
function M.new(format, level)
  if type(format) ~= "string" then fail(level + 1, "line: a format is a string, not a %s", type(format)) end
  local ok, one = pcall(core.line, parse_format(format, level + 2))
  if not ok then fail(level + 1, "line: %s", one) end
  return one
end

return M
