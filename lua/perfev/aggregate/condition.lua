--- Conditions as data: {"args.ret", "<", 0}, {"and", ...}, {"or", ...}, {"not", ...}.
-- A condition is checked and compiled once (src/aggregate/condition.h), and runs no Lua per record. The part that the
-- kernel can decide becomes the tracepoint's filter, so that it writes fewer records. The filter may pass more records
-- than the condition, because C checks each record against the whole condition.

local check = require "perfev.base.check"
local core = require "perfev.core"

local M = {}

local MOST = 1000 -- PEV_WHERE_MOST
local FILTER_SET_MOST = 64 -- values of a set in a filter: the kernel compares them one by one
local FILTER_BYTES_MOST = 3000 -- the kernel takes one page, and the user's own filter may be added

local opposite = { ["=="] = "!=", ["!="] = "==", ["<"] = ">=", [">="] = "<", [">"] = "<=", ["<="] = ">" }
local operators = { "==", "!=", "<", "<=", ">", ">=", "&", "in", "prefix" }
local meant = { ["="] = "==", ["~="] = "!=", ["=<"] = "<=", ["=>"] = ">=", ["<>"] = "!=", ["~"] = "prefix" }
local joints = { ["and"] = true, ["or"] = true, ["not"] = true }
local is_operator = {}
for _, op in ipairs(operators) do is_operator[op] = true end

-- Caught by M.read, which adds the option's name.
local function fail(...)
  error({ why = string.format(...) }, 0)
end

-- ---- reading the user's table ----

local function quoted(value)
  return type(value) == "string" and ('"%s"'):format(value) or tostring(value)
end

local function check_list(one)
  if type(one) ~= "table" then
    fail('a condition is a table such as {"args.ret", "<", 0}, not a %s', type(one))
  end
  for key in pairs(one) do
    if math.type(key) ~= "integer" or key < 1 or key > #one then
      fail('a condition is a list such as {"args.ret", "<", 0}; %s is not a position in one', quoted(key))
    end
  end
  if type(one[1]) == "table" then
    local joint = joints[one[2]] and one[2] or "and"
    fail('"and", "or" and "not" come first: {"%s", {...}, {...}}', joint)
  end
  if type(one[1]) ~= "string" then
    fail('a condition begins with a field\'s name, "and", "or" or "not", not with %s',
      #one == 0 and "nothing" or "a " .. type(one[1]))
  end
end

-- Checks a literal against its operator; a float with an integer value becomes that integer.
local function check_literal(value, field, op)
  local of_numbers = op ~= "==" and op ~= "!=" and op ~= "in" and op ~= "prefix"
  if math.type(value) == "float" then
    local whole = math.tointeger(value)
    if not whole then fail("%s: %s is not an integer", field, value) end
    return whole
  end
  if op == "prefix" and type(value) ~= "string" then
    fail("%s: the prefix of a string must be a string, not a %s", field, type(value))
  elseif of_numbers and math.type(value) ~= "integer" then
    fail("%s: %s is for integers, not for %s", field, op,
      type(value) == "string" and quoted(value) or "a " .. type(value))
  elseif type(value) ~= "string" and type(value) ~= "number" and type(value) ~= "boolean" then
    fail("%s: it is compared with an integer, a string or a truth value, not a %s", field, type(value))
  end
  return value
end

local function literals_of(one)
  local field, op, value = one[1], one[2], one[3]
  if op ~= "in" then
    if type(value) == "table" then
      fail('%s: a set is behind "in": {"%s", "in", {...}}', field, field)
    end
    return { check_literal(value, field, op) }
  end
  if type(value) ~= "table" or #value == 0 then
    fail('%s: behind "in" is a list: {"%s", "in", {1, 2, 3}}', field, field)
  end
  local list = {}
  for i = 1, #value do list[i] = check_literal(value[i], field, op) end
  for i = 2, #list do
    if type(list[i]) ~= type(list[1]) then fail("%s: the values of a set must have one type", field) end
  end
  return list
end

local of_kind = { number = "an integer", string = "a string", boolean = "true or false" }

-- Why a field of this kind cannot be compared with the node's literals, or nil.
local function mismatch(kind, node)
  local value = node[1]
  if type(value) ~= kind then
    return ("it is %s, and compared with %s"):format(kind == "number" and "a number" or kind == "string" and "a string"
      or "true or false", quoted(value))
  end
  if kind == "boolean" and node.op == "in" then return "true and false need no set" end
end

local function read_comparison(one)
  local field, op = one[1], one[2]
  if type(op) ~= "string" or not is_operator[op] then
    local near = meant[op] or type(op) == "string" and core.nearest(op, operators)
    fail("%s: %s is not an operator%s\n  known operators: %s", field, op == nil and "nothing" or quoted(op),
      check.meant(near), table.concat(operators, " "))
  end
  if #one ~= 3 then
    fail('%s: a comparison is {"%s", "%s", VALUE}, this one has %d words', field, field, op, #one)
  end
  local node = literals_of(one)
  node.field, node.op = field, op
  local kind, wrong = core.value_kind(field)
  if not kind then fail("%s", wrong) end
  if kind == "stack" then fail("%s: it is looked up when it is printed, and too late for a condition", field) end
  wrong = kind ~= "payload" and mismatch(kind, node)
  if wrong then fail("%s: %s\n  try: %s", field, wrong, of_kind[kind]) end
  return node
end

local function read_node(one, depth)
  check_list(one)
  if depth > 100 then fail("more than 100 conditions in each other") end
  local op = one[1]
  if not joints[op] then return read_comparison(one) end
  if #one < 2 or op == "not" and #one > 2 then
    fail('"%s" has %s behind it', op, op == "not" and "one condition" or "conditions")
  end
  local node = { op = op }
  for i = 2, #one do node[i - 1] = read_node(one[i], depth + 1) end
  return node
end

-- ---- the program ----

-- Emits the tests in reverse order, because a test needs the targets of its jumps. yes, no: "yes", "no" or the index of
-- a test, counted from the end.
local function emit(tests, node, yes, no)
  if node.op == "not" then return emit(tests, node[1], no, yes) end
  if node.op == "and" or node.op == "or" then
    local entry = node.op == "and" and yes or no
    for i = #node, 1, -1 do
      if node.op == "and" then entry = emit(tests, node[i], entry, no) else entry = emit(tests, node[i], yes, entry) end
    end
    return entry
  end
  local test = { field = node.field, op = node.op == "in" and "==" or node.op, yes = yes, no = no }
  table.move(node, 1, #node, 1, test)
  tests[#tests + 1] = test
  return #tests
end

local function compile(node)
  local backwards, tests = {}, {}
  emit(backwards, node, "yes", "no")
  if #backwards > MOST then fail("%d comparisons; at most %d", #backwards, MOST) end
  local function place(target)
    if target == "yes" then return 0 end
    if target ~= "no" then return #backwards + 1 - target end
  end
  for i = #backwards, 1, -1 do
    local test = backwards[i]
    test.yes, test.no = place(test.yes), place(test.no)
    tests[#tests + 1] = test
  end
  return core.condition(tests)
end

--- Checks a condition and compiles it.
-- @tparam table condition
-- @treturn[1] table     the tree: comparisons (`field`, `op`, the literals), and "and", "or", "not" (`op`, operands)
-- @treturn[1] userdata  the program
-- @treturn[2] nil
-- @treturn[2] string    why it is invalid
function M.compile(condition)
  local ok, node, program = pcall(function()
    local node = read_node(condition, 1)
    return node, compile(node)
  end)
  if ok then return node, program end
  if type(node) ~= "table" then error(node, 0) end
  return nil, node.why
end

--- The same, raising.
-- @tparam table condition
-- @tparam string what     the option, for the message: "count: where"
-- @tparam integer level   of the caller, for `error`
function M.read(condition, what, level)
  local node, program = M.compile(condition)
  if not node then error(("%s: %s"):format(what, program), level) end
  return node, program
end

--- Joins two trees from `read` by "and"; either may be nil.
function M.both(a, b)
  return a and b and { op = "and", a, b } or a or b
end

--- Compiles a tree.
function M.program(node) return node and compile(node) end

local function source_of(node)
  local words = {}
  if node.op == "and" or node.op == "or" or node.op == "not" then
    words[1] = node.op
    for i, one in ipairs(node) do words[i + 1] = source_of(one) end
    return words
  end
  return { node.field, node.op, node.op == "in" and table.move(node, 1, #node, 1, {}) or node[1] }
end

--- The tree as a condition that `read` accepts.
M.source = source_of

local function each(node, f)
  if node.field then return f(node) end
  for _, one in ipairs(node) do
    local why = each(one, f)
    if why then return why end
  end
end

--- The parts of a sample that deciding the condition requires, in the form of callback_fields.read: `bits`, `payload`,
-- `has_payload`.
function M.reads(node)
  local needs = { bits = 0, payload = {} }
  each(node, function(one)
    local bits, payload = core.sample_field(one.field)
    needs.bits = needs.bits | (bits or 0) -- nil: a field of other records
    needs.has_payload = needs.has_payload or payload ~= nil and bits ~= nil
    if bits and payload then table.insert(needs.payload, payload) end
  end)
  return needs
end

-- ---- checking against a tracepoint ----

-- The kind of the value that C reads: a char * is a number, because the record has only the address.
local function kind_of(field)
  if field.kind == "number" or field.is_pointer then return "number" end
  return field.kind == "string" and "string" or nil
end

--- Why the condition cannot compare this payload field, or nil.
-- @tparam table node   the condition
-- @tparam table field  of filter.lua's fields
function M.fault(node, field)
  return each(node, function(one)
    if one.field ~= "args." .. field.name then return end
    local kind = kind_of(field)
    return not kind and "it is neither a number nor a string" or kind and mismatch(kind, one)
  end)
end

-- ---- the filter for the kernel ----

-- The result of comparing the field with a value outside its range; nil if the value is inside. The kernel would
-- truncate such a value to the field's size.
local function decide_out_of_range(field, op, value)
  if field.size == 8 then return nil end
  local bits = 8 * field.size
  local low, high = 0, (1 << bits) - 1
  if field.signed then low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1 end
  if value < low then return op == "!=" or op == ">" or op == ">=" end
  if value > high then return op == "!=" or op == "<" or op == "<=" end
end

local function number_text(field, value)
  return (field.signed or value >= 0) and ("%d"):format(value) or ("0x%x"):format(value)
end

-- An argument of a system call can be narrower than the word that the kernel compares, and the upper half of the word
-- is arbitrary. So the filter passes every record that could match.
local function argument_text(field, name, op, value)
  local bits = 8 * field.bytes
  local low = value & (1 << bits) - 1
  local half = 1 << (bits - 1)
  local is_kept = field.is_signed and value >= -half and value < half or not field.is_signed and value == low
  if op == "!=" then return is_kept and ("%s != %d"):format(name, low) or nil end
  if not is_kept or op ~= "==" and field.is_signed then return nil end
  return ("(%s %s %d || %s > %d)"):format(name, op, low, name, (1 << bits) - 1)
end

local function number_filter(field, name, op, value)
  local size = field.bytes or field.size
  if op == "&" then
    local fits = value > 0 and (size == 8 or value < 1 << (8 * size - 1))
    return fits and ("%s & %d"):format(name, value) or nil
  end
  if size < field.size then return argument_text(field, name, op, value) end
  if field.is_signed and not field.signed and op ~= "==" and op ~= "!=" then return nil end
  local decided = decide_out_of_range(field, op, value)
  if decided ~= nil then return decided end
  -- Kernels before 4.17 negate a negative value, and the least integer has no positive counterpart.
  if value == math.mininteger and field.signed then return nil end
  return ("%s %s %s"):format(name, op, number_text(field, value))
end

-- A string comparison; nil if the value does not fit the field or contains characters special in the kernel's patterns.
local function string_filter(field, name, op, value, negated)
  if #value >= (field.is_dynamic and 256 or math.min(field.size, 256)) or value:find("[^ -~]") then return nil end
  if negated and field.is_dynamic then return nil end -- to the kernel a string without a NUL equals a longer one
  local quote = not value:find('"', 1, true) and '"' or not value:find("'", 1, true) and "'"
  if not quote then return nil end
  if op ~= "prefix" then return ("%s %s %s%s%s"):format(name, op, quote, value, quote) end
  if value == "" then return not negated end
  if value:find("[*?%[%]\\!]") then return nil end
  local text = ("%s ~ %s%s*%s"):format(name, quote, value, quote)
  return negated and ("!(%s)"):format(text) or text
end

-- Record fields that kernel filters know under names of their own (COMM, CPU). The comm of a record differs from the
-- kernel's for an idle CPU ("swapper") and for an unknown thread (":123").
local common_fields = {
  comm = { field = { name = "COMM", kind = "string", size = 16 },
           takes = function(value) return not value:find("^swapper") and value:sub(1, 1) ~= ":" end },
  cpu = { field = { name = "CPU", kind = "number", size = 4, signed = true }, takes = math.tointeger },
}

local function field_of(node, fields)
  local name = node.field:match("^args%.(.*)$")
  if name then
    for _, field in ipairs(fields) do
      if field.name == name then return not field.is_pointer and field or nil end
    end
    return nil
  end
  local common = common_fields[node.field]
  for _, value in ipairs(common and node or {}) do
    if not common.takes(value) then return nil end
  end
  for _, field in ipairs(common and fields or {}) do
    if field.name == common.field.name then return nil end
  end
  return common and common.field
end

-- The filter for one literal of a comparison -> text | true | false | nil if the kernel cannot decide it
local function literal_filter(field, op, value, negated)
  if negated and op ~= "prefix" then op = opposite[op] end
  if not op then return nil end
  if field.kind == "string" then return string_filter(field, field.name, op, value, negated or op == "!=") end
  if field.kind ~= "number" or field.name == "CPU" and op == "&" then return nil end
  return number_filter(field, field.name, op, value)
end

-- Joins the filters of the operands. An undecided operand (nil) is left out of an "and" and makes an "or" undecided.
-- -> text | true | false | nil, true if the result equals the condition
local function join(is_and, nr, part)
  local texts, exact = {}, true
  for i = 1, nr do
    local text, whole = part(i)
    if text == not is_and then return text, whole end
    exact = exact and whole
    if text == nil then
      if not is_and then return nil, false end
    elseif text ~= is_and then
      texts[#texts + 1] = text
    end
  end
  if #texts == 0 then
    if exact then return is_and, true end
    return nil, false
  end
  return #texts == 1 and texts[1] or ("(%s)"):format(table.concat(texts, is_and and " && " or " || ")), exact
end

local function text_of(node, fields, negated)
  if node.op == "not" then return text_of(node[1], fields, not negated) end
  if not node.field then
    return join((node.op == "and") ~= negated, #node, function(i) return text_of(node[i], fields, negated) end)
  end
  local field = field_of(node, fields)
  if not field or #node > FILTER_SET_MOST then return nil, false end
  local op = node.op == "in" and "==" or node.op
  local is_whole = (field.bytes or field.size) == field.size
  return join(negated, #node, function(i)
    local text = literal_filter(field, op, node[i], negated)
    return text, text ~= nil and is_whole
  end)
end

--- As `filter`, but true or false if the condition has the same result for every record.
function M.decide(node, fields) return text_of(node, fields, false) end

--- The tracepoint filter for a condition.
-- @tparam table node    the condition, checked against the same fields
-- @tparam table fields  of perfev.tracepoint.filter's fields
-- @treturn ?string   a filter that passes at least the records that match the condition; nil: no filter can
-- @treturn boolean   true if it passes exactly those
function M.filter(node, fields)
  local text, exact = text_of(node, fields, false)
  if type(text) ~= "string" or #text > FILTER_BYTES_MOST then return nil, false end
  return text, exact
end

return M
