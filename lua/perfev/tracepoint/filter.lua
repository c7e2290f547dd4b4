--- Checks a tracepoint's filter against its format, because the kernel reports only EINVAL.
-- The kernel refuses every filter that is refused here, and may refuse others. Grammar:
-- kernel/trace/trace_events_filter.c, predicate_parse() and parse_pred().

local check = require "perfev.base.check"
local core = require "perfev.core"

local M = {}

local CORRECTIONS_MAX = 32 -- mistakes in one text
local FILTER_MAX = 4095 -- bytes: perf_event_set_filter() copies a page

-- trace_define_generic_fields(): fields of every event that are not in its format file.
local generic = {
  { name = "CPU", text = "CPU", kind = "number" }, { name = "cpu", text = "cpu", kind = "number" },
  { name = "COMM", text = "COMM", kind = "string" }, { name = "comm", text = "comm", kind = "string" },
  { name = "stacktrace", text = "stacktrace", kind = "stack", quiet = true },
  { name = "STACKTRACE", text = "STACKTRACE", kind = "stack", quiet = true },
}

-- filter_assign_type(), and the sizes that select_comparison_fn() supports.
local function kind_of(declared, size)
  local is_char, is_array = declared:find("char", 1, true), declared:find("[", 1, true)
  if declared:find("__data_loc", 1, true) or declared:find("__rel_loc", 1, true) then
    if declared:find("cpumask", 1, true) then return "cpumask" end
    return is_char and "string" or "array"
  end
  if declared:find("cpumask", 1, true) then return "cpumask" end
  if is_char and (is_array or declared:find("*", 1, true)) then return "string" end
  if is_array or (size ~= 1 and size ~= 2 and size ~= 4 and size ~= 8) then return "array" end
  return "number"
end

--- Lists the fields of a tracepoint's format file, in its order.
-- @tparam string format
-- @treturn {table,...}  `name`, `text` (as declared), `kind` ("number", "string", "array", "cpumask"), `common`,
--   `offset`, `size`, `signed`, `is_dynamic` (bytes at the payload's end), `is_pointer` (to a string), `is_hex`
--   (shown in hexadecimal); `bytes`, `is_signed`: size and sign of the value in args. For an argument of a system call
--   these are its C type's; the kernel's filter compares the whole word in the payload
function M.fields(format)
  local list, forms = {}, core.payload_forms(format)
  for declared, offset, size, rest in format:gmatch("field:([^;]+);%s*offset:(%d+);%s*size:(%d+);([^\n]*)") do
    local name = declared:gsub("%b[]$", ""):match("([%w_]+)%s*$")
    if name then
      local kind = kind_of(declared, tonumber(size))
      local bytes, signed = math.tointeger(tonumber(size)), rest:find("signed:1", 1, true) ~= nil
      local form = forms[name] or { bytes = bytes, signed = signed }
      list[#list + 1] = {
        name = name, text = declared, kind = kind, common = name:find("^common_") ~= nil,
        offset = math.tointeger(tonumber(offset)), size = bytes, signed = signed,
        bytes = form.bytes, is_signed = form.signed, is_hex = form.hex,
        is_dynamic = declared:find("__data_loc", 1, true) ~= nil or declared:find("__rel_loc", 1, true) ~= nil,
        is_pointer = kind == "string" and not declared:find("[", 1, true),
      }
    end
  end
  return list
end

local function find_field(fields, name)
  for _, list in ipairs { fields, generic } do
    for _, field in ipairs(list) do
      if field.name == name then return field end
    end
  end
end

local function nearest_field(fields, name)
  local names = {}
  for _, list in ipairs { fields, generic } do
    for _, field in ipairs(list) do names[#names + 1] = field.name end
  end
  return core.nearest(name, names)
end

-- ---- the grammar ----

local operators = { "==", "!=", "<=", ">=", "<", ">", "~", "&" }
local of_strings = { ["=="] = true, ["!="] = true, ["~"] = true }

-- Raises a fault at a range of the text. M.check catches it.
local function raise_fault(at, stop, why, ...)
  error({ at = at, stop = stop, why = why:format(...) }, 0)
end

-- Raises a fault with a correction: the text with `meant` in place of the range.
local function raise_correctable(text, at, stop, meant, why, ...)
  error({ at = at, stop = stop, why = why:format(...), meant = text:sub(1, at - 1) .. meant .. text:sub(stop + 1) }, 0)
end

local function skip_blanks(text, at)
  return text:match("^%s*()", at)
end

local function operator_at(text, at)
  for _, op in ipairs(operators) do
    if text:sub(at, at + #op - 1) == op then return op end
  end
end

local function word_at(text, at)
  return text:match("^[^%s()&|!]+", at) or text:sub(at, at)
end

-- The parse_ functions return the position after the part that they parse.
local function parse_string(text, at)
  local quote = text:sub(at, at)
  local stop = text:find(quote, at + 1, true)
  if not stop then raise_fault(at, #text, "the string that begins here is not closed") end
  return stop + 1
end

-- True for a number that kstrtoull() accepts: hex, octal after a 0, or decimal, of 64 bits.
local function is_number(word)
  if word:find("^%-?0[xX]%x+$") then return #word:match("[xX]0*(%x*)$") <= 16 end
  if word:find("^%-?0[0-7]*$") then return true end
  local digits = word:match("^%-?([1-9]%d*)$")
  return digits ~= nil and (#digits < 20 or #digits == 20 and digits <= "18446744073709551615")
end

local function parse_number(field, op, text, at)
  if text:find("^CPUS{", at) then
    local stop = text:match("^CPUS{[%d,%-]+}()", at)
    if not stop then raise_fault(at, #text, "CPUS{...} has a list of CPUs, such as CPUS{0-3,7}") end
    return stop
  end
  local word = text:match("^%-?%w+", at)
  if not (word and is_number(word)) then
    local given = word_at(text, at)
    raise_fault(at, at + #given - 1, "a number is expected after '%s %s', not %s", field.name, op,
      given ~= "" and ("'%s'"):format(given) or "the end")
  end
  return at + #word
end

local function parse_value(field, op, text, at)
  local first = text:sub(at, at)
  local quoted = first == '"' or first == "'"
  if field.kind == "string" then
    if quoted then return parse_string(text, at) end
    local given = word_at(text, at)
    raise_correctable(text, at, at + #given - 1, ('"%s"'):format(given),
      "'%s' is a string: its value is quoted", field.name)
  end
  if quoted then
    local stop = parse_string(text, at) - 1
    raise_correctable(text, at, stop, text:sub(at + 1, stop - 1),
      "'%s' is a number: its value is not quoted", field.name)
  end
  return parse_number(field, op, text, at)
end

local function check_operator(field, op, at)
  if field.kind == "string" and not of_strings[op] then
    raise_fault(at, at + #op - 1, "'%s' is a string: it has ==, != and ~ (a pattern with *), not %s", field.name, op)
  elseif field.kind ~= "string" and op == "~" then
    raise_fault(at, at + #op - 1, "~ is for strings, but '%s' is not one", field.name)
  end
end

local function parse_predicate(text, at, fields)
  local name = text:match("^[%w_]+", at)
  if not name then
    local given = word_at(text, at)
    raise_fault(at, at + math.max(#given, 1) - 1, given == "" and "a field's name is expected at the end"
      or "a field's name is expected, not '%s'", given)
  end
  local field = find_field(fields, name)
  if not field then
    local near = nearest_field(fields, name)
    if near then
      raise_correctable(text, at, at + #name - 1, near, "unknown field '%s'%s", name, check.meant(near))
    end
    raise_fault(at, at + #name - 1, "unknown field '%s'", name)
  end
  at = at + #name
  local suffix = text:match("^%.%w+", at) -- .ustring (5.18), .function (6.4): the kernel knows which it has
  if suffix then return at + #suffix, "unknown" end
  at = skip_blanks(text, at)
  local op = operator_at(text, at)
  if not op or text:sub(at, at + 1) == "&&" then
    local given = word_at(text, at)
    if text:find("^=[^=]", at) then raise_correctable(text, at, at, "==", "'=' is not an operator; equal is ==") end
    raise_fault(at, at + math.max(#given, 1) - 1, "an operator is expected after '%s' (== != < <= > >= & ~)", name)
  end
  -- The kernel accepts comparisons of an array (seen on 6.18); the value is not checked here.
  if field.kind ~= "string" and field.kind ~= "number" then return at, "unknown" end
  check_operator(field, op, at)
  return parse_value(field, op, text, skip_blanks(text, at + #op))
end

local parse_conditions

local function parse_condition(text, at, fields)
  at = skip_blanks(text, at)
  local first = text:sub(at, at)
  if first == "!" then return parse_condition(text, at + 1, fields) end
  if first ~= "(" then return parse_predicate(text, at, fields) end
  local stop, unknown = parse_conditions(text, at + 1, fields)
  if unknown then return stop, unknown end
  if text:sub(stop, stop) ~= ")" then raise_fault(at, at, "this parenthesis is not closed") end
  return stop + 1
end

-- Parses conditions joined by && and || -> position of the ")" or of the end
function parse_conditions(text, at, fields)
  local unknown
  while true do
    at, unknown = parse_condition(text, at, fields)
    if unknown then return at, unknown end
    at = skip_blanks(text, at)
    local joint = text:sub(at, at + 1)
    if joint ~= "&&" and joint ~= "||" then return at end
    at = skip_blanks(text, at + 2)
    if at > #text then return at end -- the kernel accepts a trailing && (seen on 6.18)
  end
end

local meant_joints = { ["and"] = "&&", AND = "&&", ["&"] = "&&", ["or"] = "||", OR = "||", ["|"] = "||", [","] = "||" }

local function check_whole(text, fields)
  if #text > FILTER_MAX then
    raise_fault(FILTER_MAX, FILTER_MAX, "a filter has at most %d bytes, this one has %d", FILTER_MAX, #text)
  end
  local control = text:find("[%z\1-\8\14-\31\127]")
  if control then raise_fault(control, control, "a filter cannot contain a control byte") end
  local at, unknown = parse_conditions(text, 1, fields)
  if unknown or at > #text then return end
  local given = word_at(text, at)
  local meant = meant_joints[given]
  if meant then
    raise_correctable(text, at, at + #given - 1, meant, "conditions are joined by && and ||, not '%s'", given)
  end
  raise_fault(at, at + math.max(#given, 1) - 1, text:sub(at, at) == ")" and "no parenthesis is open here"
    or "&&, || or the end is expected, not '%s'", given)
end

-- ---- messages ----

-- Joins words with commas into lines of at most width columns.
local function fold_words(words, width)
  local lines, line = {}, ""
  for _, word in ipairs(words) do
    if line ~= "" and #line + 2 + #word > width then
      lines[#lines + 1] = line .. ","
      line = word
    else
      line = line == "" and word or line .. ", " .. word
    end
  end
  lines[#lines + 1] = line
  return lines
end

--- Lists the fields with their types in folded lines, the common fields last.
function M.describe(fields)
  local own, common = {}, {}
  for _, field in ipairs(fields) do
    local list = field.common and common or own
    list[#list + 1] = field.text
  end
  for _, field in ipairs(common) do own[#own + 1] = field end
  for _, field in ipairs(generic) do
    if not field.quiet then own[#own + 1] = field.text end
  end
  return fold_words(own, 69) -- 80 columns with indentation and "fields: "
end

-- Cuts a long text to the part around the caret -> text, the caret's position in it
local function cut_around(text, at, width)
  if #text <= width then return text, at end
  local from = math.max(1, math.min(at - width // 2, #text - width + 1))
  return text:sub(from, from + width - 1), at - from + 1
end

--- Returns two lines: the text, and carets under the range.
function M.caret(text, at, stop)
  local shown, column = cut_around(text:gsub("[%c]", " "), at, 90)
  local length = math.max(1, math.min(stop - at + 1, #shown - column + 1))
  return shown, (" "):rep(column - 1) .. ("^"):rep(length)
end

-- Returns the text with every mistake corrected, or nil if one has no known correction.
local function correct(fault, fields)
  for _ = 1, CORRECTIONS_MAX do
    if not fault.meant then return nil end
    local ok, next_fault = pcall(check_whole, fault.meant, fields)
    if ok then return fault.meant end
    if type(next_fault) ~= "table" then error(next_fault, 0) end
    fault = next_fault
  end
end

--- Checks a filter.
-- @tparam string name    the event's name, for the message
-- @tparam string text    the filter
-- @tparam string format  the text of the tracepoint's format file
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string     the cause, a caret under the token, the event's fields, and a correction
-- @treturn[2] integer    EINVAL
function M.check(name, text, format)
  local fields = M.fields(format)
  if #fields == 0 then return true end -- unknown format: the kernel decides
  local ok, fault = pcall(check_whole, text, fields)
  if ok then return true end
  if type(fault) ~= "table" then error(fault, 0) end
  local shown, caret = M.caret(text, fault.at, fault.stop)
  local lines = { ("%s: filter '%s': %s"):format(name, text, fault.why), "| " .. shown, "| " .. caret }
  for i, line in ipairs(M.describe(fields)) do lines[#lines + 1] = (i == 1 and "fields: " or "  ") .. line end
  lines[#lines + 1] = "try: " .. (correct(fault, fields) or "perfl list -v " .. name)
  return nil, table.concat(lines, "\n  "), core.errno.EINVAL
end

return M
