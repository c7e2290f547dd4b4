--- Aggregators and text lines as callbacks of events: C feeds them, so that no Lua runs per record
-- (src/lua/aggregate/lsink.c). A run that uses neither does not load the modules that make them.

local lazy = require "perfev.base.lazy_module"
local core = require "perfev.core"
local callback_fields = lazy "perfev.record.callback_fields"
local conditions = lazy "perfev.aggregate.condition"

local M = {}

--- The options of an aggregator: the table that C also reads, which is not to be changed.
M.options_of = core.aggregator_methods.spec

--- aggregator -> column -> size of a number that the tracepoint prints in hexadecimal
M.hex_columns = setmetatable({}, { __mode = "k" })

--- True for an aggregator.
function M.is_aggregator(value)
  return type(value) == "userdata" and select("#", core.aggregator_fields(value)) > 0
end

--- True for a text line.
function M.is_line(value)
  return type(value) == "userdata" and select("#", core.line_fields(value)) > 0
end

--- True for an aggregator or a text line.
function M.is_sink(value) return M.is_aggregator(value) or M.is_line(value) end

--- True for a list of callbacks.
function M.is_list(value)
  return type(value) == "table" and getmetatable(value) == nil
end

--- The callbacks in a list; a single callback becomes a list of one.
-- @treturn table
function M.list(value)
  return M.is_list(value) and value or { value }
end

--- True if an aggregator of the callback has a column with one of these names.
-- @tparam any value  the callback
-- @tparam table names  a set
function M.has_column(value, names)
  for _, one in ipairs(M.list(value)) do
    for _, name in ipairs(M.is_aggregator(one) and M.options_of(one).by or {}) do
      if names[name] then return true end
    end
  end
  return false
end

-- The name of its constructor.
local function word_of(sink)
  return M.is_line(sink) and "line" or M.options_of(sink).word
end

-- The fields that it reads of a payload, or nil and why it can be no callback.
local function payload_fields(sink)
  if not M.is_line(sink) then return core.aggregator_fields(sink) end
  local wanted, has_payload = core.line_fields(sink)
  return has_payload and #wanted == 0 and { "common_type" } or wanted
end

local has_payload = { sample = true, record = true }

--- Why an aggregator or a text line cannot be this callback of any event; nil if it can, or if the value is neither.
function M.refusal(callback, value)
  if not M.is_sink(value) then return nil end
  local wanted, why = payload_fields(value)
  if not wanted then return ("%s = perfev.%s: %s"):format(callback, word_of(value), why) end
  if wanted[1] and not has_payload[callback] then
    local field = M.is_aggregator(value) and ("args.%s: "):format(wanted[1]) or ""
    return ("%s = perfev.%s: %sonly samples have a payload"):format(callback, word_of(value), field)
  end
end

local function note_hex(one, format)
  local by, of_hex = M.options_of(one).by, nil
  if not (format and table.concat(by, " "):find("args.", 1, true)) then return end
  for name, form in pairs(core.payload_forms(format)) do
    if form.hex then
      of_hex = of_hex or {}
      of_hex["args." .. name] = form.bytes
    end
  end
  M.hex_columns[one] = of_hex
end

-- Why a field that the payload has cannot be a key or a value of the aggregator, or nil.
local function fault_of(one, field)
  local opts = M.options_of(one)
  local name = "args." .. field.name
  if opts.value == name .. ":text" or opts.value == name and field.kind ~= "number" then
    return "a value is a number, and this is not one"
  end
  for _, column in ipairs(opts.by) do
    if column == name and (field.kind == "array" or field.kind == "cpumask") then
      return ('neither a number nor a string; its text is "%s:text"'):format(name)
    end
  end
  local why = opts.condition and conditions.fault(opts.condition, field)
  return why and "where: " .. why
end

--- Checks that the event has the fields that its aggregators and text lines read.
-- @tparam string event       its name, for the message
-- @tparam table callbacks
-- @tparam ?string format     the text of its tracepoint's format file
-- @treturn[1] true
-- @treturn[2] nil
-- @treturn[2] string         in three parts
-- @treturn[2] integer        EINVAL
function M.check(event, callbacks, format)
  for _, name in ipairs { "sample", "record" } do
    for _, one in ipairs(M.list(callbacks[name])) do
      if M.is_sink(one) then
        local is_aggregator = M.is_aggregator(one)
        if is_aggregator then note_hex(one, format) end
        local ok, why, code = callback_fields.check_payload(event, "perfev." .. word_of(one), payload_fields(one),
          format, is_aggregator and function(field) return fault_of(one, field) end or nil)
        if not ok then return nil, why, code end
      end
    end
  end
  return true
end

--- True if a callback counts samples, one each.
function M.counts(callbacks)
  for _, one in ipairs(M.list(callbacks.sample or callbacks.record)) do
    local kind = M.is_aggregator(one) and M.options_of(one).kind
    if kind == "count" or kind == "top" then return true end
  end
  return false
end

--- True if the only use of the records is a count of all samples, without keys and conditions.
function M.only_counts(callbacks)
  if next(callbacks) ~= "sample" or next(callbacks, "sample") then return false end
  local list = M.list(callbacks.sample)
  local opts = #list == 1 and M.is_aggregator(list[1]) and M.options_of(list[1])
  return opts and opts.word == "count" and not (opts.by[1] or opts.condition or opts.times)
end

--- True if one of the callbacks is a Lua function.
function M.has_function(callbacks)
  for _, callback in pairs(callbacks) do
    if not M.is_sink(M.list(callback)[1]) then return true end
  end
  return false
end

-- Kinds that need no value, and kinds that do.
local counting = { count = true, top = true }
local valued = { sum = true, avg = true, min = true, max = true, stats = true, hist = true, linear = true,
  quantile = true }
-- Columns and values from the record itself. The others depend on earlier records: names, maps.
local from_record = { pid = true, tid = true, cpu = true, ip = true, addr = true, period = true, weight = true }

-- A payload field's text can have names of functions.
local function is_from_record(name)
  local _, payload = core.sample_field(name)
  return payload and not name:find ":text$" or from_record[name]
end

--- True if none of these fields depends on earlier records.
-- @tparam {string,...} names
function M.are_from_record(names)
  for _, name in ipairs(names) do
    if not (is_from_record(name) or name == "time") then return false end
  end
  return true
end

--- The fields that these callbacks read of a sample, if aggregators read all samples and nothing else is called.
-- @tparam table callbacks
-- @treturn ?table  as callback_fields.read() gives them: `bits` of sample_type, `has_payload`; besides `has_order`:
--   true if the result depends on the order of the samples
function M.reads(callbacks)
  if next(callbacks) ~= "sample" or next(callbacks, "sample") then return nil end
  local reads = { bits = 0 }
  for _, one in ipairs(M.list(callbacks.sample)) do
    local opts = M.is_aggregator(one) and M.options_of(one)
    local names = opts and opts.by and table.move(opts.by, 1, #opts.by, 1, {})
    -- An end of a span reads what the other aggregator of the span reads.
    if not names or opts.word == "span" then return nil end
    if not (counting[opts.kind] or valued[opts.kind] and opts.value) then return nil end
    table.insert(names, opts.value)
    local tested = opts.condition and conditions.reads(opts.condition)
    -- The condition may read names, too.
    reads.has_order = reads.has_order or tested ~= nil or opts.kind == "top"
    reads.bits = reads.bits | (tested and tested.bits or 0)
    reads.has_payload = reads.has_payload or tested ~= nil and tested.has_payload
    for _, name in ipairs(names) do
      local bits, payload = core.sample_field(name)
      if not bits then return nil end
      reads.bits, reads.has_payload = reads.bits | bits, reads.has_payload or payload ~= nil
      reads.has_order = reads.has_order or not is_from_record(name)
    end
  end
  return reads
end

--- The condition of the only subscriber to an event's samples, as condition.lua's tree; nil for several subscribers.
function M.condition(callbacks)
  local one = callbacks.sample or callbacks.record
  return M.is_aggregator(one) and M.options_of(one).condition or nil
end

return M
