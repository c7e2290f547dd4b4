--- Spans: pairs of events joined in C (src/span.h), how long each took into an aggregator.
-- Both ends stand as callbacks of their events, so that no Lua is run per record; they are declared here.

local agg = require "perfev.agg"
local core = require "perfev.core"
local duration = require "perfev.units".duration
local where = require "perfev.where"

local M = {}
local Span = {}
Span.__index = Span

local known = { "start", "stop", "by", "start_by", "stop_by", "where", "start_where", "stop_where", "into",
  "max_waiting" }
local units = { ns = 1, us = 1000, ms = 1000000, s = 1000000000 }

local function fail(level, ...)
  error(string.format(...), level + 1)
end

local function check_options(spec, level)
  if type(spec) ~= "table" then fail(level, "span: a table expected, not a %s", type(spec)) end
  local is_known = {}
  for _, name in ipairs(known) do is_known[name] = true end
  for name in pairs(spec) do
    if not is_known[name] then
      local near = core.nearest(tostring(name), known)
      fail(level, "span: no option is called '%s'%s", name, near and (" (did you mean '%s'?)"):format(near) or "")
    end
  end
  local most = spec.max_waiting
  if most ~= nil and (math.type(most) ~= "integer" or most < 1 or most > 1 << 28) then
    fail(level, "span: max_waiting is an integer from 1 to 2^28")
  end
end

-- Names of the key, of that end.
local function columns(spec, name, level)
  local by = spec[name]
  if by == nil then by = spec.by end
  local list = type(by) == "table" and table.move(by, 1, #by, 1, {}) or { by }
  for _, one in ipairs(list) do
    if type(one) ~= "string" then fail(level, "span: %s is a name or a list of names", name) end
  end
  if #list == 0 then
    fail(level, "span: by: nothing says which stop belongs to a start\n  try: by = \"tid\", or start_by and stop_by")
  end
  return list
end

-- The event as Session:event takes it, with the end in its callback's place.
local function event_of(spec, name, into, level)
  local event = spec[name]
  if type(event) == "string" then event = { event } end
  if type(event) ~= "table" then fail(level, "span: %s is an event string, or a table as event has", name) end
  if event.sample ~= nil then fail(level, "span: %s: its sample callback is the span's", name) end
  local copy = { sample = into }
  for key, value in pairs(event) do copy[key] = value end
  return copy
end

-- What is under a condition at both ends is so at each.
local function condition_of(spec, name, level)
  local both = spec.where ~= nil and where.read(spec.where, "span: where", level + 1) or nil
  local own = spec[name] ~= nil and where.read(spec[name], "span: " .. name, level + 1) or nil
  return where.both(both, own)
end

-- Its last columns may be those of what it is put into, whose times are of slots.
local function new_end(by, condition, slot)
  return core.aggregator { kind = "count", word = "span", by = by, value = "time", condition = condition,
                           where = where.program(condition), slot_ns = slot and duration(slot) }
end

local function check_into(into, level)
  if not agg.is(into) then fail(level, "span: into is an aggregator: perfev.hist{}, perfev.stats{}, ...") end
  local spec = into:spec()
  if spec.kind == "count" or spec.kind == "top" then
    fail(level, "span: into: %s has no values\n  try: perfev.stats, perfev.hist", spec.kind)
  end
  if spec.value then fail(level, "span: into: its value is how long it took, not %s", spec.value) end
  if spec.unit and not units[spec.unit] then
    fail(level, "span: into: unit is ns, us, ms or s, not '%s'", spec.unit)
  end
  return spec
end

--- Join two events, of a session.
-- @tparam table spec  `start`, `stop`: events; `by`, or `start_by` and `stop_by`: the fields that are the same of
--   both; `where`, or `start_where` and `stop_where`: conditions, as an aggregator's; `into`: an aggregator, whose
--   columns and whose own `where` are of the stop; `max_waiting`
-- @treturn span
function M.new(session, spec, level)
  check_options(spec, level + 1)
  local into = check_into(spec.into, level + 1)
  local start_by, stop_by = columns(spec, "start_by", level + 1), columns(spec, "stop_by", level + 1)
  if #start_by ~= #stop_by then
    fail(level, "span: start_by has %d names, stop_by %d: they stand for the same", #start_by, #stop_by)
  end
  if #stop_by + #into.by > 16 then fail(level, "span: more than 16 columns, its own and those of into together") end
  local ends = {
    new_end(start_by, condition_of(spec, "start_where", level + 1)),
    new_end(table.move(into.by, 1, #into.by, #stop_by + 1, stop_by), condition_of(spec, "stop_where", level + 1),
      into.slot),
  }
  local start, stop = event_of(spec, "start", ends[1], level + 1), event_of(spec, "stop", ends[2], level + 1)
  local most = spec.max_waiting or 65536
  local native = core.span(ends[1], ends[2], spec.into, #start_by, most, units[into.unit or "ns"])
  local self = setmetatable({ ends = ends, native = native, most = most }, Span)
  agg.add_span(spec.into, self)
  for _, event in ipairs { start, stop } do
    local ok, why, code = session:event(event)
    if not ok then return nil, why, code end
  end
  return self
end

--- Starts and stops that found no partner.
-- @treturn table  `waiting`: starts now without a stop; `unstarted`: stops without a start; `restarted`: starts
--   followed by another of the same key; `dropped`: starts that made room, more than `max_waiting` being there
function Span:unmatched()
  return core.span_counts(self.native)
end

local words = {
  { "unstarted", "stop%s without a start" }, { "waiting", "start%s without a stop" },
  { "restarted", "start%s with another before the stop" },
  { "dropped", "start%s dropped for newer ones" },
}

--- The same in words, and what the ends could not take.
-- @treturn {string,...}
function Span:remarks()
  local counts, lines = self:unmatched(), {}
  for _, word in ipairs(words) do
    local n = counts[word[1]]
    if n > 0 then lines[#lines + 1] = ("%d %s: not counted"):format(n, word[2]:format(n == 1 and "" or "s")) end
  end
  if counts.dropped > 0 then lines[#lines] = ("%s (max_waiting is %d)"):format(lines[#lines], self.most) end
  for _, one in ipairs(self.ends) do table.move(one:remarks(), 1, 9, #lines + 1, lines) end
  return lines
end

return M
