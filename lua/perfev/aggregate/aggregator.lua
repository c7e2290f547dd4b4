--- Aggregators: C combines values by key as records arrive (src/aggregate/aggregator.h).
-- An aggregator can be a callback (see as_callback.lua), or a script feeds it. This file does the work that happens
-- once: options, rows and printing.

local as_callback = require "perfev.aggregate.as_callback"
local lazy = require "perfev.base.lazy_module"
local check = require "perfev.base.check"
local method_guard = require "perfev.base.method_guard"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local exported = require "perfev.aggregate.exported"
local option_tables = require "perfev.option_tables.aggregator"
local plain_copy = require("perfev.base.tables").plain_copy
local show_value = require "perfev.base.show_value"
local conditions = lazy "perfev.aggregate.condition"

local M = {}

local methods = core.aggregator_methods
-- Raw functions; scripts get the methods below.
local native_pack
native_pack, M.unpack, methods.pack, methods.unpack = methods.pack, methods.unpack, nil, nil
-- A function for M.under.
local put_under = methods.put_under
methods.put_under = nil
-- A function for the sampler of perfev.profile.
M.times, methods.times = methods.times, nil
local walk = methods.pairs -- does not mark the aggregator as read
local own_spec = as_callback.options_of

local WIDTH, BAR = 80, 52
local LEAST = 8 -- screen columns: a key is not cut to less

local is_stack = {} -- columns whose keys are stacks
for _, name in ipairs { "stack", "ustack", "kstack" } do
  is_stack[name], is_stack["start." .. name], is_stack["via." .. name] = true, true, true
end

local needs_chain = setmetatable({ caller = true }, { __index = is_stack })

local TOP_ROWS = 10

local fail = check.fail

-- ---- construction ----

check.define("columns", "a name or a list of names", function(value)
  local list, why
  if type(value) == "table" and next(value) == nil then
    list = {}
  else
    list, why = check.read("list of string", type(value) == "table" and value or { value })
  end
  if not list then return nil, type(value) == "table" and why or nil end
  local seen = { value = true }
  for _, name in ipairs(list) do
    if seen[name] then
      return nil, name == "value" and "'value' is the name of the values" or ("'%s' twice"):format(name)
    end
    seen[name] = true
  end
  return list
end)

check.define("patterns", "a list of patterns", function(value)
  local list, why = check.read("list of string", type(value) == "string" and { value } or value)
  for _, pattern in ipairs(list or {}) do
    local ok, fault = pcall(string.find, "", pattern)
    if not ok then return nil, ("'%s': %s"):format(pattern, fault) end
  end
  return list, why
end)

-- True if one of the columns has one of these names.
local function has_column(by, names)
  for _, name in ipairs(by) do
    if names[name] then return true end
  end
  return false
end

-- The remedy for a field without an option name: it is `by` for counts, else `value`.
local function remedy(kind, field)
  if type(field) ~= "string" then return "" end
  return ("\n  try: %s { %s = \"%s\" }"):format(kind, (kind == "count" or kind == "top") and "by" or "value", field)
end

-- Returns why this kind lacks one of the options, with the kind or the option that was probably meant; or nil.
local function refused_word(kind, spec, types)
  if type(spec) ~= "table" then return ("a table expected, not %s%s"):format(show_value(spec), remedy(kind, spec)) end
  for name in next, spec do
    if types[name] == nil and name == 1 then
      return "options have names" .. remedy(kind, spec[1])
    elseif types[name] == nil and name == "value" then
      return ("value: a count takes no values\n  try: sum, or by = \"%s\""):format(show_value(spec.value))
    elseif types[name] == nil and (option_tables.hist[name] or option_tables.top[name]) then
      return ("'%s' is an option of %s"):format(name, name == "rows" and "top" or "hist")
    end
  end
end

-- Returns a copy of the option `names`; nil and why it is refused.
local function checked_names(spec)
  if not spec.names then return nil end
  local names = plain_copy(spec.names)
  for column, f in next, names do
    if type(f) ~= "function" or not has_column(spec.by or {}, { [column] = true }) then
      return nil, ("names: %s: a function for a column of 'by' expected"):format(show_value(column))
    end
  end
  return names
end

local made = setmetatable({}, { __mode = "v" }) -- all aggregators, in the order of their construction
local nr_made = 0
local was_read = setmetatable({}, { __mode = "k" })
local CLEARED = "cleared" -- a value of was_read: read, then cleared; its values are new

--- Makes an aggregator.
-- @tparam string kind    "count", "top", "sum", "avg", "min", "max", "stats", "hist" or "quantile"
-- @tparam[opt] table spec `by` (a name or a list of names: the columns of its keys), `value` (the field to aggregate),
--   `where` (a condition: see condition.lua), `unit` and `title` (for print), `max_keys` (default 65536), `slot` (the
--   length of the time slots in a column `time`), `skip` (patterns of functions that are not a `caller`), `names`
--   (column -> function(key) -> its text); for hist: `low`, `high`, `step`; for top: `rows` (for print, 10)
-- @tparam[opt] boolean is_copy  not made by the script: it is not exported
-- @treturn[1] aggregator
-- @treturn[2] nil
-- @treturn[2] string  the reason
function M.make(kind, spec, is_copy)
  local types = option_tables[kind]
  if spec == nil then spec = {} end
  local why = refused_word(kind, spec, types)
  if why then return nil, why end
  local slot = rawget(spec, "slot")
  spec, why = check.options(spec, types)
  if not spec then return nil, why end
  if slot and spec.slot == 0 then return nil, "slot must be above 0" end
  local by = spec.by or {}
  if slot and not has_column(by, { time = true }) then
    return nil, "slot needs a column 'time'\n  try: by = \"time\""
  end
  if spec.skip and not has_column(by, { caller = true, ["start.caller"] = true, ["via.caller"] = true }) then
    return nil, "skip needs a column 'caller'\n  try: by = \"caller\""
  end
  local is_linear = spec.low or spec.high or spec.step
  if is_linear and not (spec.low and spec.high and spec.step) then
    return nil, "low, high and step go together; without them it is by powers of two"
  end
  local names, wrong = checked_names(spec)
  if wrong then return nil, wrong end
  local condition, program
  if spec.where ~= nil then
    condition, program = conditions.compile(spec.where)
    if not condition then return nil, "where: " .. program end
  end
  local ok, one = pcall(core.aggregator, {
    kind = is_linear and "linear" or kind, word = kind, by = by, value = spec.value,
    unit = spec.unit, title = spec.title, max_keys = spec.max_keys,
    slot = slot, slot_ns = spec.slot, low = spec.low, high = spec.high, step = spec.step,
    addresses = spec.addresses, skip = spec.skip, names = names,
    rows = kind == "top" and (spec.rows or TOP_ROWS) or nil, where = program, condition = condition,
  })
  if not ok then return nil, one end
  nr_made = nr_made + 1
  made[nr_made] = one
  if not is_copy then
    exported.add(one, { kind = kind, columns = by, title = spec.title, follow = core.aggregator_follow })
  end
  return one
end

--- The same, raising.
-- @tparam integer level  of the caller, for `error`
function M.new(kind, spec, level)
  local one, why = M.make(kind, spec)
  if not one then fail(level, "%s: %s", kind, why) end
  return one
end

--- The aggregators that were not printed or read, in the order of their construction. One that was read and cleared
-- counts as unread if it has new values.
function M.unread()
  local list = {}
  for i = 1, nr_made do
    local state = made[i] and was_read[made[i]]
    if made[i] and (not state or state == CLEARED and #made[i] > 0) then list[#list + 1] = made[i] end
  end
  return list
end

--- A copy of the options; `kind` is the constructor's name.
function methods:spec()
  local spec = {}
  for name, value in pairs(own_spec(self)) do spec[name] = value end
  spec.kind, spec.word, spec.slot_ns, spec.by = spec.word, nil, nil, { table.unpack(spec.by) }
  spec.where, spec.condition = spec.condition and conditions.source(spec.condition), nil
  return spec
end

-- ---- rows ----

-- The sort key of a value: its count if it is a table.
local function weight(value)
  return type(value) == "table" and value.count or value
end

local order_of = { boolean = 1, number = 2, string = 3, userdata = 4 }

local function is_before(a, b)
  if type(a) ~= type(b) then return order_of[type(a)] < order_of[type(b)] end
  if type(a) == "boolean" then return not a and b end
  if type(a) == "userdata" then return core.stack_is_before(a, b) end
  return a < b
end

local function sorted_cells(self)
  local cells = {}
  local by = #own_spec(self).by
  local function take(...)
    if select("#", ...) == 0 then return false end
    cells[#cells + 1] = { value = (select(by + 1, ...)), ... }
    return true
  end
  local step = walk(self)
  while take(step()) do end -- luacheck: ignore 542
  table.sort(cells, function(a, b)
    local wa, wb = weight(a.value), weight(b.value)
    if wa ~= wb then return wa > wb end
    for i = 1, by do
      if a[i] ~= b[i] then return is_before(a[i], b[i]) end
    end
    return false
  end)
  return cells
end

local function row_of(by, cell)
  local row = { value = cell.value }
  for i, name in ipairs(by) do row[name] = cell[i] end
  return row
end

--- All rows, the greatest value first.
-- @treturn {table,...}  each with its key under the names of the columns, and `value`
function methods:rows()
  return (self:top(math.maxinteger))
end

--- The n rows with the greatest values.
-- @treturn {table,...}
-- @treturn integer  the number of further rows
function methods:top(n)
  local most = type(n) == "number" and math.tointeger(n)
  if not most or most < 0 then error("top: how many is an integer from 0 on", 2) end
  was_read[self] = true
  local cells, rows = sorted_cells(self), {}
  for i = 1, math.min(most, #cells) do rows[i] = row_of(own_spec(self).by, cells[i]) end
  return rows, #cells - #rows
end

--- Key..., value, in the order the keys were first seen.
function methods:pairs()
  was_read[self] = true
  return walk(self)
end

-- The aggregator as bytes, or its keys `first` to `last`; see perfev.aggregate.pack.
function methods:_pack(first, last)
  local spec = methods.spec(self)
  spec.word = spec.kind
  return require "perfev.aggregate.pack".pack(native_pack, self, spec, first, last)
end

--- The aggregator as bytes, for perfev.unpack.
function methods:pack()
  was_read[self] = true
  return methods._pack(self)
end

local native_delta, native_merge, native_clear = methods.delta, methods.merge, methods.clear

function methods:clear()
  native_clear(self)
  was_read[self] = was_read[self] and CLEARED
end

function methods:delta()
  was_read[self] = true
  return native_delta(self)
end

-- A condition as the text of its table.
local function where_text(condition)
  local words = {}
  for i, value in ipairs(condition) do
    words[i] = type(value) == "table" and where_text(value) or type(value) == "string" and ("%q"):format(value)
      or tostring(value)
  end
  return ("{%s}"):format(table.concat(words, ", "))
end

local function where_of(spec) return spec.condition and where_text(conditions.source(spec.condition)) end

-- Makes the checks that C does not make: column names, slots and units.
local function check_alike(spec, other, level)
  if spec.kind ~= other.kind then
    fail(level, "merge: it is a perfev.%s%s, and this is a perfev.%s%s", other.word, other.low and " with steps" or "",
      spec.word, spec.low and " with steps" or "")
  end
  for _, name in ipairs { "low", "high", "step" } do
    if spec[name] ~= other[name] then
      fail(level, "merge: its %s is %d, and here it is %d", name, other[name], spec[name])
    end
  end
  local mine, theirs = table.concat(spec.by, ", "), table.concat(other.by, ", ")
  if mine ~= theirs then fail(level, "merge: its columns are (%s), and those here (%s)", theirs, mine) end
  if spec.slot_ns ~= other.slot_ns then
    fail(level, "merge: its times are distinguished by %s, and those here by %s", other.slot or "the ns",
      spec.slot or "the ns")
  end
  if (spec.unit or "") ~= (other.unit or "") then
    fail(level, "merge: its values are in %s, and those here in %s", other.unit or "no unit", spec.unit or "none")
  end
  local where, others = where_of(spec), where_of(other)
  if where ~= others then
    fail(level, "merge: its records are %s, and those here %s", others and "where " .. escape(others) or "all",
      where and "where " .. escape(where) or "all")
  end
end

function methods:merge(other)
  if not as_callback.is_aggregator(other) then fail(2, "merge: another aggregator expected, not a %s", type(other)) end
  check_alike(own_spec(self), own_spec(other), 3)
  was_read[other] = was_read[other] or false -- allocates its place before anything has changed
  local merged, why = native_merge(self, other)
  if not merged then fail(2, "merge: %s", why) end
  was_read[other] = true -- its values are in `self` now
  return merged
end

-- ---- printing ----

local function number(value)
  return math.type(value) == "float" and ("%.2f"):format(value) or tostring(value)
end

-- The columns of a value that is a table, by kind: the fields to print.
local columns_of = {
  stats = { "count", "sum", "avg", "min", "max" }, top = { "count", "error" },
  quantile = { "count", "avg", "p50", "p90", "p99", "p999", "max" },
}

local function value_cells(kind, value)
  if not columns_of[kind] then return { number(value) } end
  local cells = {}
  for i, name in ipairs(columns_of[kind]) do cells[i] = number(value[name]) end
  return cells
end

local function value_names(spec)
  local names = {}
  for i, name in ipairs(columns_of[spec.kind] or { spec.word }) do names[i] = name:upper() end
  if #names == 1 and spec.unit then names[1] = ("%s (%s)"):format(names[1], escape(spec.unit)) end
  return names
end

-- The title line; it shows the unit if the value has several columns.
local function title_of(spec)
  local words = {}
  if spec.title then words[1] = escape(spec.title) end
  if spec.unit and columns_of[spec.kind] then words[#words + 1] = ("(%s)"):format(escape(spec.unit)) end
  return words[1] and table.concat(words, " ")
end

local function width_of(text) return utf8.len(text) or #text end

local function fitted(text, width, right)
  if width_of(text) > width then
    local stop = utf8.offset(text, width - 1)
    text = text:sub(1, (stop or width - 1) - 1) .. ".."
  end
  local blanks = (" "):rep(width - width_of(text))
  return right and blanks .. text or text .. blanks
end

-- Widths of the columns; while a line is too long, the widest key column shrinks.
local function column_widths(lines, nr_keys)
  local widths, total = {}, -2
  for _, line in ipairs(lines) do
    for i, cell in ipairs(line) do widths[i] = math.max(widths[i] or 0, width_of(cell)) end
  end
  for _, width in ipairs(widths) do total = total + width + 2 end
  while total > WIDTH do
    local widest
    for i = 1, nr_keys do
      if widths[i] > LEAST and (not widest or widths[i] > widths[widest]) then widest = i end
    end
    if not widest then break end
    widths[widest], total = widths[widest] - 1, total - 1
  end
  return widths
end

local spans = setmetatable({}, { __mode = "k" }) -- aggregator -> the spans that feed it

-- The size of a key that is printed in hexadecimal, or nil; "start.args.addr" is args.addr of the span's start.
local function hex_bytes(self, name)
  local own = as_callback.hex_columns[self]
  if own and own[name] then return own[name] end
  local side, field = name:match "^(%l+)%.(args%..+)$"
  for _, span in ipairs(spans[self] or {}) do
    local columns = as_callback.hex_columns[span[side or "stop"]]
    if columns then return columns[field or name] end
  end
end

-- The start of a slot in seconds, with the digits that distinguish slots.
local function seconds_text(ns, slot_ns)
  local digits = 9
  while digits > 0 and slot_ns % 10 == 0 do slot_ns, digits = slot_ns // 10, digits - 1 end
  local text = ("%d.%09d"):format(ns // 1000000000, ns % 1000000000)
  return text:sub(1, digits > 0 and digits - 10 or -11)
end

-- A key in the column `name` as a value for programs: its text if the column has names, a stack folded.
local function key_value(spec, name, key)
  local text_of = spec.names and spec.names[name]
  if text_of then return tostring(text_of(key)) end
  return type(key) == "userdata" and key:folded() or key
end

-- The text of a key in the column `name`.
local function key_text(self, spec, name, key)
  if spec.names and spec.names[name] then return escape(key_value(spec, name, key)) end
  if math.type(key) == "integer" then
    if name == "time" and spec.slot_ns then return seconds_text(key, spec.slot_ns) end
    local bytes = hex_bytes(self, name)
    if bytes then return ("0x%x"):format(bytes < 8 and key & (1 << 8 * bytes) - 1 or key) end
  end
  return escape(tostring(key))
end

--- Iterates as a:pairs() does, without marking the aggregator as read.
M.walk = walk

--- The text of a key, and the key as a value for programs.
function M.key_text(self, name, key) return key_text(self, own_spec(self), name, key) end
function M.key_value(self, name, key) return key_value(own_spec(self), name, key) end

-- The header: key columns, then value columns; args.comm and args.comm:text are COMM unless another column has that
-- name.
local function head_of(spec)
  local names, values, uses = {}, columns_of[spec.kind] or { spec.word }, {}
  for _, name in ipairs(values) do uses[name] = 1 end
  for i, name in ipairs(spec.by) do
    names[i] = name:gsub("^args%.", ""):gsub(":text$", "")
    uses[names[i]] = (uses[names[i]] or 0) + 1
  end
  for i, name in ipairs(spec.by) do
    names[i] = escape(uses[names[i]] > 1 and name or names[i]):upper()
    if name == "time" then names[i] = names[i] .. (spec.slot_ns and " (s)" or " (ns)") end
  end
  values = value_names(spec)
  return table.move(values, 1, #values, #names + 1, names)
end

local function print_table(self, spec, cells)
  local head, lines, is_right = head_of(spec), {}, {}
  for i = 1, #spec.by do is_right[i] = true end
  lines[1] = head
  for _, cell in ipairs(cells) do
    local line = {}
    for i = 1, #spec.by do
      line[i] = key_text(self, spec, spec.by[i], cell[i])
      is_right[i] = is_right[i] and type(cell[i]) == "number"
    end
    table.move(value_cells(spec.kind, cell.value), 1, #head, #line + 1, line)
    lines[#lines + 1] = line
  end
  local other = self:other()
  if other ~= nil then
    local line = {}
    for i = 1, #spec.by do line[i] = i == 1 and "(other)" or "" end
    lines[#lines + 1] = table.move(value_cells(spec.kind, other), 1, #head, #line + 1, line)
  end
  local widths = column_widths(lines, #spec.by)
  for _, line in ipairs(lines) do
    local parts = {}
    for i, cell in ipairs(line) do parts[i] = fitted(cell, widths[i], i > #spec.by or is_right[i]) end
    print((table.concat(parts, "  "):gsub("%s+$", "")))
  end
end

local suffixes = { "", "K", "M", "G", "T", "P", "E" }

-- A bucket's limit as bpftrace prints it: 4096 is 4K.
local function limit_text(n, is_log2)
  local i = 1
  while is_log2 and n >= 1024 and n % 1024 == 0 and suffixes[i + 1] do n, i = n // 1024, i + 1 end
  return n .. suffixes[i]
end

local function bucket_label(bucket, is_log2)
  local low, high = bucket.low, bucket.high
  if not low then return ("(..., %s)"):format(limit_text(high, is_log2)) end
  if not high then return ("[%s, ...)"):format(limit_text(low, is_log2)) end
  if is_log2 and high - low == 1 then return ("[%d]"):format(low) end
  return ("[%s, %s)"):format(limit_text(low, is_log2), limit_text(high, is_log2))
end

local function print_buckets(value, is_log2)
  local most = 1
  for _, bucket in ipairs(value.buckets) do most = math.max(most, bucket.count) end
  for _, bucket in ipairs(value.buckets) do
    local bar = ("@"):rep(math.floor(BAR * (bucket.count / most)))
    print(("%-16s %8d |%-52s|"):format(bucket_label(bucket, is_log2), bucket.count, bar))
  end
end

-- A stack in a key as bpftrace prints it: a frame a line, the innermost first.
local function stack_text(stack)
  local lines = { "" }
  for i, frame in ipairs(stack:frames()) do
    local name = frame.symbol and escape(frame.symbol) or ("0x%x"):format(frame.ip)
    if frame.symbol and frame.offset then name = ("%s+0x%x"):format(name, frame.offset) end
    if stack.id ~= 0 then name = ("%s (%s)"):format(name, escape(frame.module)) end
    lines[i + 1] = "    " .. fitted(name, WIDTH - 4):gsub(" +$", "")
  end
  lines[#lines + 1] = ""
  return table.concat(lines, "\n")
end

local function bracketed_key(self, spec, cell)
  local keys = {}
  for k, name in ipairs(spec.by) do
    keys[k] = type(cell[k]) == "userdata" and stack_text(cell[k]) or key_text(self, spec, name, cell[k])
    if name == "time" and spec.slot_ns then keys[k] = keys[k] .. " s" end
  end
  return #keys > 0 and ("[%s]"):format((table.concat(keys, ", "):gsub(", \n", ",\n"))) or ""
end

local function print_hist(self, spec, cells)
  local unit = spec.unit and (" (%s)"):format(escape(spec.unit)) or ""
  for i = #cells, 1, -1 do -- the greatest last, as bpftrace does
    print(("@%s%s:"):format(bracketed_key(self, spec, cells[i]), unit))
    print_buckets(cells[i].value, spec.kind == "hist")
    if i > 1 then print() end
  end
  local other = self:other()
  if other then
    print(("\n@(other)%s:"):format(unit))
    print_buckets(other, spec.kind == "hist")
  end
end

--- Prints a histogram without an aggregator; `value` has the form of a value of perfev.hist.
function M.print_histogram(title, unit, value, is_log2)
  if title then print(escape(title)) end
  print(unit and ("@ (%s):"):format(escape(unit)) or "@:")
  print_buckets(value, is_log2)
end

-- A value on the line of its key.
local function value_text(spec, value)
  local cells = value_cells(spec.kind, value)
  if not columns_of[spec.kind] then return cells[1] .. (spec.unit and " " .. escape(spec.unit) or "") end
  for i, name in ipairs(columns_of[spec.kind]) do cells[i] = name .. " " .. cells[i] end
  return table.concat(cells, ", ")
end

-- Stacks do not fit a table: keys in bpftrace's form, the greatest value last.
local function print_stacks(self, spec, cells)
  for i = #cells, 1, -1 do
    print(("@%s: %s"):format(bracketed_key(self, spec, cells[i]), value_text(spec, cells[i].value)))
  end
  local other = self:other()
  if other ~= nil then print("@(other): " .. value_text(spec, other)) end
end

--- Registers a span that feeds the aggregator; remarks() includes the span's.
function M.add_span(self, span)
  spans[self] = spans[self] or {}
  table.insert(spans[self], span)
end

--- Returns a new aggregator with the same values, whose keys have this text as a first column.
-- @tparam string column  its name
-- @tparam string text
-- @tparam aggregator self  without stacks in its keys, as perfev.unpack makes it
-- @tparam ?table names     functions for the texts of columns
function M.under(column, text, self, names)
  local own, spec = own_spec(self), {}
  for _, name in ipairs { "value", "unit", "title", "max_keys", "slot", "low", "high", "step", "rows" } do
    spec[name] = own[name]
  end
  spec.by, spec.names = table.move(own.by, 1, #own.by, 2, { column }), names
  local one = M.new(own.word, spec, 2)
  put_under(one, text, self)
  was_read[self] = true
  return one
end

--- Returns the counts of the spans that feed the aggregator, as span:unmatched() does, in the order of declaration.
function M.span_counts(self)
  local list = {}
  for i, span in ipairs(spans[self] or {}) do list[i] = span:unmatched() end
  return list
end

--- Adds counts of other runs of the same script; remarks() includes them.
-- @tparam {table,...} list  in the form of span_counts()
function M.add_span_counts(self, list)
  for i, span in ipairs(spans[self] or {}) do span:_add_counts(list[i] or {}) end
end

--- Removes the waiting starts and the counts of the spans that feed the aggregator.
function M.clear_spans(self)
  for _, span in ipairs(spans[self] or {}) do core.span_clear(span.native) end
end

--- Text lines about values outside the rows: lost keys, missing fields, unmatched spans.
-- @treturn {string,...}
function methods:remarks()
  local spec, lines = own_spec(self), {}
  for _, span in ipairs(spans[self] or {}) do table.move(span:remarks(), 1, 9, #lines + 1, lines) end
  local _, others, unfit = self:other()
  unfit = unfit or 0
  if others and others > unfit then
    others = others - unfit
    lines[#lines + 1] = ("%d value%s of further keys counted as (other): max_keys is %d"):format(others,
      others == 1 and "" or "s", spec.max_keys or 65536)
  end
  if unfit > 0 then
    lines[#lines + 1] = ("%d value%s of keys that did not fit in max_bytes %s counted as (other)"):format(unfit,
      unfit == 1 and "" or "s", unfit == 1 and "is" or "are")
  end
  if self:floor() > 0 then
    lines[#lines + 1] = ("keys that are not here had at most %d each: max_keys is %d"):format(self:floor(),
      spec.max_keys or 65536)
  end
  local absent, columns = self:uncounted(), { table.unpack(spec.by) }
  table.insert(columns, 1, spec.value or "value")
  for _, name in ipairs(columns) do
    if absent[name] then
      lines[#lines + 1] = ("%d record%s without %s: not counted"):format(absent[name], absent[name] == 1 and "" or "s",
        escape(name) .. (needs_chain[name] and " (callchain = true takes them)" or ""))
      absent[name] = nil
    end
  end
  if absent.where then
    lines[#lines + 1] = ("%d record%s without a field that where reads: not counted"):format(absent.where,
      absent.where == 1 and "" or "s")
  end
  if self:refused() > 0 then lines[#lines + 1] = ("%d not counted for want of memory"):format(self:refused()) end
  return lines
end

local function print_text(self, spec, cells)
  local title, all = title_of(spec), #cells
  if title then print(title) end
  if spec.rows and all > spec.rows then cells = table.move(cells, 1, spec.rows, 1, {}) end
  if #cells == 0 then
    print(("(nothing: %s%s)"):format(spec.word, #spec.by > 0 and " by " .. escape(table.concat(spec.by, ", ")) or ""))
  elseif spec.kind == "hist" or spec.kind == "linear" then
    print_hist(self, spec, cells)
  elseif has_column(spec.by, is_stack) then
    print_stacks(self, spec, cells)
  else
    print_table(self, spec, cells)
  end
  if all > #cells then print(("%d more key%s"):format(all - #cells, all - #cells == 1 and "" or "s")) end
  for _, line in ipairs(self:remarks()) do print(line) end
end

--- A picture of a `hist`: its histograms, or a heat map if it has a column "time" with slots.
-- @tparam[opt] table opts  `title`, `panels`: the number of keys with a panel (default 8)
-- @treturn string
for _, format in ipairs { "svg", "html" } do
  methods[format] = function(self, opts)
    return require "perfev.picture.histograms"(self, opts, format, own_spec(self).slot_ns, 2)
  end
end

local function csv_cell(value)
  local text = tostring(value)
  return text:find('[",\r\n]') and '"' .. text:gsub('"', '""') .. '"' or text
end

-- A line for each key, or for each bucket of a histogram.
local function print_csv(self, spec, cells)
  local names = { table.unpack(spec.by) }
  local is_hist = spec.kind == "hist" or spec.kind == "linear"
  local parts = is_hist and { "low", "high", "count" } or columns_of[spec.kind] or { "value" }
  table.move(parts, 1, #parts, #names + 1, names)
  local function line(cell, value)
    local words = {}
    for i, name in ipairs(spec.by) do
      words[i] = csv_cell(cell.is_other and cell[i] or key_value(spec, name, cell[i]))
    end
    for _, part in ipairs(parts) do
      local word = value
      if type(value) == "table" then word = value[part] end
      words[#words + 1] = word == nil and "" or math.type(word) == "float" and ("%.17g"):format(word) or csv_cell(word)
    end
    print(table.concat(words, ","))
  end
  for i, name in ipairs(names) do names[i] = csv_cell(name) end
  print(table.concat(names, ","))
  local other = self:other()
  if other ~= nil then
    local cell = { value = other, is_other = true }
    for i = 1, #spec.by do cell[i] = i == 1 and "(other)" or "" end
    cells[#cells + 1] = cell
  end
  for _, cell in ipairs(cells) do
    for _, value in ipairs(is_hist and cell.value.buckets or { cell.value }) do line(cell, value) end
  end
end

-- A line for each key, as in rows(); then (other), and the remarks.
local function print_json(self, spec, cells, more)
  local json = require "perfev.base.json"
  local function line(row)
    row.title, row.unit = spec.title, spec.unit
    for name, value in pairs(more or {}) do row[name] = value end
    print(json.encode(row))
  end
  for _, cell in ipairs(cells) do
    local row = { value = cell.value }
    for i, name in ipairs(spec.by) do row[name] = key_value(spec, name, cell[i]) end
    line(row)
  end
  local other = self:other()
  if other ~= nil then line { other = true, value = other } end
  for _, remark in ipairs(self:remarks()) do line { remark = remark } end
end

local function print_prometheus(self, spec)
  local lines = {}
  for text in require("perfev.aggregate.prometheus").pieces(spec, function() return self end) do
    lines[#lines + 1] = text
  end
  for _, remark in ipairs(self:remarks()) do lines[#lines + 1] = ("# %s\n"):format(remark) end
  print((table.concat(lines):gsub("\n$", "")))
end

local forms = { text = print_text, csv = print_csv, json = print_json, prom = print_prometheus }

--- The default form of print; perfl -j sets it to "json".
M.default_form = "text"

--- Prints a table, or histograms, as a:print() does.
-- @tparam table more  members of each JSON object
function M.print(self, how, more)
  was_read[self] = true
  forms[how](self, own_spec(self), sorted_cells(self), more)
end

--- Prints a table, or histograms.
-- @tparam[opt] string how  "text", "csv", "json" or "prom" (default: M.default_form)
function methods:print(how)
  how = how or M.default_form
  if not forms[how] then
    error(("print: '%s' is not an output form (text, csv, json, prom)"):format(tostring(how)), 2)
  end
  M.print(self, how)
end

--- All aggregators of the script, in the order of their construction.
function M.all()
  local list = {}
  for i = 1, nr_made do list[#list + 1] = made[i] end
  return list
end

--- Returns the names of the parts of a value: { "count", "sum", … }; { "value" } for a single number.
function M.value_names(spec)
  if spec.kind == "hist" then return { "low", "high", "count" } end
  return table.move(columns_of[spec.kind] or { "value" }, 1, 9, 1, {})
end

-- Methods in C check their userdata themselves. getmetatable() returns false for an aggregator.
method_guard(methods, false, "aggregator", "a", "spec rows top pairs pack delta merge remarks print svg html")

return M
