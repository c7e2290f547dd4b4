--- Spans: C joins pairs of events (src/aggregate/span.h) and feeds the time between them to an aggregator.
-- The ends of a span are native callbacks of their events, so that no Lua runs per record. The events are declared
-- here, or by the script if one event is more than one end.

local as_callback = require "perfev.aggregate.as_callback"
local aggregator = require "perfev.aggregate.aggregator"
local check = require "perfev.base.check"
local method_guard = require "perfev.base.method_guard"
local core = require "perfev.core"
local escape = require "perfev.base.escape"
local duration = require "perfev.base.parse_units".duration
local option_tables = require "perfev.option_tables.span"
local conditions = require "perfev.aggregate.condition"

local M = {}
local Span = {}
Span.__index = Span

-- In the order of src/lua/aggregate/laggregator.h's enum l_span_end.
local ENDS = { "start", "via", "stop", "cancel" }
local STOP = 3
local TOOK = #ENDS -- in place of an end's index: the duration
local MOST_FIELDS = 8 -- L_SPAN_VALUES, src/lua/aggregate/lspan.h

local units = { ns = 1, us = 1000, ms = 1000000, s = 1000000000 }

local fail = check.fail

check.define("aggregator", "an aggregator", function(value)
  return as_callback.is_aggregator(value) and value or nil
end)

-- The key's field names at one end.
local function columns(spec, name, level)
  local by = spec[name] or spec.by or {}
  if not by[1] then
    fail(level, "span: no field joins a stop to its start\n  try: by = \"tid\", or start_by and stop_by")
  end
  return table.move(by, 1, #by, 1, {})
end

-- The declaration of an end's event, with the end as its callback; nil: the script declares the event.
local function event_of(spec, name, into, level)
  local event = spec[name]
  if event == true then return nil end
  if type(event) == "string" then event = { event } end
  if event.sample ~= nil then fail(level, "span: %s: its sample callback is the span's", name) end
  local copy = { sample = into }
  for key, value in pairs(event) do copy[key] = value end
  return copy
end

-- The condition of one end: `where` holds at start and stop, `NAME_where` at this end.
local function condition_of(spec, name, level)
  local is_both = name == "start" or name == "stop"
  local both = is_both and spec.where ~= nil and conditions.read(spec.where, "span: where", level + 1) or nil
  name = name .. "_where"
  local own = spec[name] ~= nil and conditions.read(spec[name], "span: " .. name, level + 1) or nil
  return conditions.both(both, own)
end

-- An end's last columns are the columns of `into`; a column `time` is in slots of `into`.
local function new_end(name, by, spec, into, level)
  local condition = condition_of(spec, name, level + 1)
  return core.aggregator { kind = "count", word = "span", by = by, value = name ~= "cancel" and "time" or nil,
                           condition = condition, where = conditions.program(condition), lacking = into.lacking,
                           slot_ns = name == "stop" and into.slot and duration(into.slot) or nil }
end

local function check_into(into, has_value, level)
  if not into then fail(level, "span: no aggregator takes the times\n  try: into = perfev.hist {}") end
  local spec = into:spec()
  if spec.kind == "count" or spec.kind == "top" then
    fail(level, "span: into: %s has no values\n  try: perfev.stats, perfev.hist", spec.kind)
  end
  if spec.value and spec.value ~= "took" then
    fail(level, "span: into: its value is how long it took, not %s", spec.value)
  end
  if spec.unit and not units[spec.unit] and not has_value then
    fail(level, "span: into: unit is ns, us, ms or s, not '%s'", spec.unit)
  end
  return spec
end

-- The columns that each end supplies after its key: those of `into`, then the fields of the value; and for each column
-- and each field the index of its end.
local function columns_of(into, fields)
  local own, from, value = { {}, {}, {}, {} }, {}, {}
  local function add(name)
    local side, rest = name:match "^(%a+)%.(.+)$"
    local nr = side == "start" and 1 or side == "via" and 2 or STOP
    table.insert(own[nr], nr == STOP and name or rest)
    return nr - 1
  end
  for i, name in ipairs(into.by) do from[i] = add(name) end
  for i, name in ipairs(fields) do value[i] = name == "took" and TOOK or add(name) end
  return own, from, value
end

-- Returns the fields of the value and the function of them; no fields: the value is the duration.
local function value_of(spec, level)
  local value, fields = spec.value, spec.fields
  if type(value) == "function" then
    if not fields then
      fail(level, "span: value: a function of fields, and there are none\n"
        .. "  try: fields = { \"start.args.NAME\", \"args.NAME\" }")
    end
    if #fields > MOST_FIELDS then fail(level, "span: fields: at most %d", MOST_FIELDS) end
    return fields, value
  end
  if fields then fail(level, "span: fields: they are the arguments of a function\n  try: value = function(...) end") end
  if value == nil then return {} end
  fields = type(value) == "string" and { value } or nil
  if not fields and value[2] == "-" and #value == 3 then fields = { value[1], value[3] } end
  for _, name in ipairs(fields or { false }) do
    local bare = type(name) == "string" and name:gsub("^start%.", ""):gsub("^via%.", "")
    local kind = bare and (bare == "took" and "number" or core.value_kind(bare))
    if not fields or not bare then
      fail(level, "span: value: a field, a difference of two, or a function expected\n"
        .. "  try: value = { \"args.NAME\", \"-\", \"start.args.NAME\" }")
    elseif kind and kind ~= "number" and kind ~= "payload" then
      fail(level, "span: value: %s is not a number", name)
    end
  end
  return fields
end

local function has_end(spec, name) return name == "start" or name == "stop" or spec[name] ~= nil end

-- The ends of the span, nil for an absent one, and the number of key columns.
local function new_ends(spec, into, own, level)
  local ends, nr_by = {}, #columns(spec, "start_by", level + 1)
  for i, name in ipairs(ENDS) do
    local by = has_end(spec, name) and columns(spec, name .. "_by", level + 1)
    if by and #by ~= nr_by then
      fail(level, "span: start_by has %d names, %s_by %d: they must have the same number", nr_by, name, #by)
    end
    if nr_by + #own[i] > 16 then fail(level, "span: more than 16 columns, its own and those of into together") end
    ends[i] = by and new_end(name, table.move(own[i], 1, #own[i], #by + 1, by), spec, into, level + 1) or nil
  end
  return ends, nr_by
end

--- Joins two events of a session.
-- @tparam table spec `start`, `stop`: events, or true: the script then uses `span.start` and `span.stop` as callbacks,
--   of any record type. `via`, `cancel`: the same for an event in between, and for one that ends the span uncounted.
--   `by`, or `start_by` and so on: the fields whose values must be equal at all ends. `where`, or `start_where` and so
--   on: conditions, as for an aggregator. `into`: an aggregator; its columns and its `where` are fields of the stop,
--   columns with the prefix "start." or "via." of those ends. `least`: shorter spans are left out. `max_waiting`.
--   `value`: instead of the duration a field, { FIELD, "-", FIELD }, or a function of `fields`
-- @treturn span
function M.new(session, spec, level)
  spec = check.take("span", spec, option_tables.span, level + 1)
  local into = check_into(spec.into, spec.value ~= nil, level + 1)
  local fields, f = value_of(spec, level + 1)
  local own, from, value = columns_of(into, fields)
  if #own[2] > 0 and spec.via == nil then
    fail(level, "span: %s: via.%s, but the span has no 'via'", #fields > 0 and "value" or "into", own[2][1])
  end
  local ends, nr_by = new_ends(spec, into, own, level + 1)
  local events = {}
  for i, name in ipairs(ENDS) do
    if ends[i] then events[#events + 1] = event_of(spec, name, ends[i], level + 1) end
  end
  local most = spec.max_waiting or 65536
  local native = core.span(ends[1], ends[2], ends[3], ends[4], spec.into,
    { nr_by = nr_by, most = most, unit = units[into.unit or "ns"] or 1, least = spec.least or 0, from = from,
      value = value, f = f })
  local self = setmetatable({ ends = {}, native = native, most = most }, Span)
  for i, name in ipairs(ENDS) do
    self[name] = ends[i]
    table.insert(self.ends, ends[i])
  end
  aggregator.add_span(spec.into, self)
  for _, event in ipairs(events) do
    local ok, why, code = session:_declare(event, level + 1)
    if not ok then return nil, why, code end
  end
  return self
end

--- Starts and stops that found no partner.
-- @treturn table `waiting`: starts now without a stop; `unstarted`: stops without a start; `restarted`: starts followed
--   by another start of the same key; `dropped`: the oldest starts, removed because more than `max_waiting` were
--   waiting; if not zero also `bypassed`: pairs without a `via` between them, `cancelled`: starts that `cancel`
--   ended, `valueless`: pairs whose value is not an integer, and `failed`: pairs for which `value` raised an error
function Span:unmatched()
  local counts, first_error = core.span_counts(self.native)
  for name, n in pairs(self.more or {}) do counts[name] = (counts[name] or 0) + n end
  return counts, first_error
end

-- Adds counts of other runs.
function Span:_add_counts(counts)
  self.more = self.more or {}
  for name, n in pairs(counts) do self.more[name] = (self.more[name] or 0) + n end
end

local words = {
  { "unstarted", "stop%s without a start" }, { "waiting", "start%s without a stop" },
  { "restarted", "start%s with another before the stop" },
  { "bypassed", "pair%s with no via between" },
  { "dropped", "start%s dropped for newer ones" },
  { "valueless", "pair%s whose value is not an integer" },
}

--- The unmatched starts and stops as text lines, and the remarks of the ends.
-- @treturn {string,...}
function Span:remarks()
  local counts, first_error = self:unmatched()
  local lines = {}
  for _, word in ipairs(words) do
    local n = counts[word[1]]
    if n and n > 0 then
      lines[#lines + 1] = ("%d %s: not counted%s"):format(n, word[2]:format(n == 1 and "" or "s"),
        word[1] == "dropped" and (" (max_waiting is %d)"):format(self.most) or "")
    end
  end
  if counts.failed then
    lines[#lines + 1] = ("%d pair%s for which value failed: %s"):format(counts.failed, counts.failed == 1 and "" or "s",
      escape(first_error or "in another run"))
  end
  for _, one in ipairs(self.ends) do table.move(one:remarks(), 1, 9, #lines + 1, lines) end
  return lines
end

method_guard(Span, Span, "span", "span", "unmatched remarks")

return M
