--- A histogram in the kernel: a counter of the same tracepoint for each bucket, each with a filter of its own.
-- No record is written or read; an event costs a comparison per bucket in the kernel.

local agg = require "perfev.aggregate.aggregator"
local check = require "perfev.base.check"
local callback_fields = require "perfev.base.lazy_module" "perfev.record.callback_fields"
local colon = require "perfev.base.method_guard"
local counter = require "perfev.base.lazy_module" "perfev.counter.counter"
local event = require "perfev.event.declaration"
local filters = require "perfev.tracepoint.filter"
local options = require "perfev.base.options"
local own = require("perfev.option_tables.counter").hist_counter
local where = require "perfev.aggregate.condition"

local M = {}
local Hist = {}
Hist.__index = Hist

local MOST = 64 -- buckets: the kernel looks at each event with all of their filters

local fail = check.fail

-- The limits of the buckets; one more bucket lies below the first limit and one above the last.
local function bounds_of(spec, level)
  local list = {}
  if spec.step then
    if not (spec.low and spec.high) or spec.low >= spec.high or spec.step < 1 then
      fail(level, "hist_counter: low, high and step go together: low below high, step above 0")
    end
    local at = spec.low
    while at < spec.high and #list <= MOST do list[#list + 1], at = at, at + spec.step end
    list[#list + 1] = spec.high
  else
    if spec.low or spec.high then fail(level, "hist_counter: low, high and step go together") end
    list[1] = 0
    for power = 0, 30 do list[power + 2] = 1 << power end
  end
  if #list + 1 > MOST then fail(level, "hist_counter: more than %d buckets", MOST) end
  return list
end

-- The filter for low <= value < high; low or high may be nil -> text, or nil if the bucket is always empty
local function bucket_filter(spec, fields, low, high)
  local words = { "and" }
  if low then words[#words + 1] = { spec.value, ">=", low } end
  if high then words[#words + 1] = { spec.value, "<", high } end
  words[#words + 1] = spec.where
  return where.decide(where.read(words, "hist_counter: where", 2), fields)
end

local function check_spec(spec, level)
  if type(spec) ~= "table" or type(spec[1]) ~= "string" or spec[2] ~= nil then
    fail(level, "hist_counter: one tracepoint is expected, as in {\"sched:sched_switch\", value = \"args.prev_prio\"}")
  end
  if type(spec.value) ~= "string" or not spec.value:find "^args%.." then
    fail(level, "hist_counter: value is a field of the payload, args.NAME")
  end
  for name, t in pairs(own) do
    if spec[name] ~= nil then
      local read, why = check.value(name, t, spec[name])
      if read == nil then fail(level, "hist_counter: %s", why) end
      spec[name] = read
    end
  end
  if spec.where ~= nil then where.read(spec.where, "hist_counter: where", level + 1) end
end

-- The tracepoint's fields with the kinds that the kernel's filter compares -> list | nil, message, errno
local function fields_of(spec)
  local found, why, code = event.resolve(spec[1], {})
  if not found then return nil, why, code end
  local name, format = spec.value:match "^args%.(.*)$", found.format
  local function fault(field)
    if field.name == name and field.kind ~= "number" then return "a value is a number, and this is not one" end
  end
  local wanted = { name }
  local ok, wrong, errno = callback_fields.check_payload(spec[1], "hist_counter", wanted, format, fault)
  if not ok then return nil, wrong, errno end
  local fields = filters.fields(format)
  for _, field in ipairs(fields) do field.bytes, field.is_signed = field.size, field.signed end
  return fields
end

--- Counts the values of a tracepoint's field in the kernel, without records.
-- @tparam table spec  `[1]` a tracepoint; `value` ("args.NAME"); `low`, `high`, `step`, or without them powers of two
--   up to 2^30; `where`, which the kernel must be able to decide; `title`, `unit`; and the options of perfev.counter
-- @treturn[1] histogram
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.new(spec, level)
  if type(spec) == "table" then spec = options.copy(spec) end
  check_spec(spec, level + 1)
  local bounds = bounds_of(spec, level + 1)
  local fields, why, code = fields_of(spec)
  if not fields then return nil, why, code end
  local self = setmetatable({ spec = spec, buckets = {} }, Hist)
  local members = {}
  for name, value in pairs(spec) do
    if name ~= 1 and not own[name] then members[name] = value end
  end
  for i = 0, #bounds do
    local low, high = bounds[i], bounds[i + 1]
    local text, exact = bucket_filter(spec, fields, low, high)
    if text ~= false and not exact then
      fail(level, "hist_counter: where: the kernel cannot decide it\n  try: perfev.hist, which decides any condition")
    end
    if text ~= false then
      local name = ("bucket %d"):format(i)
      self.buckets[#self.buckets + 1] = { low = low, high = high, name = name }
      members[#members + 1] = { spec[1], name = name, filter = text ~= true and text or nil }
    end
  end
  self.counter, why, code = counter.new(members, false, level + 1)
  if not self.counter then return nil, why, code end
  return self
end

local function value_of(self, counts)
  local buckets, sum, first, last = {}, 0, nil, 0
  for i, bucket in ipairs(self.buckets) do
    local n = counts[bucket.name] or 0
    buckets[i] = { low = bucket.low, high = bucket.high, count = n }
    if n > 0 then first, last = first or i, i end
    sum = sum + n
  end
  return { count = sum, buckets = first and table.move(buckets, first, last, 1, {}) or {} }
end

--- The counts: a table with `count` and `buckets`, as of perfev.hist.
-- @treturn table | nil, message, errno
function Hist:read()
  local counts, why, code = self.counter:read()
  if not counts then return nil, why, code end
  return value_of(self, counts)
end

--- The counts since the last delta().
function Hist:delta()
  local counts, why, code = self.counter:delta()
  if not counts then return nil, why, code end
  return value_of(self, counts)
end

--- Prints the histogram as perfev.hist does.
function Hist:print()
  local value, why = self:read()
  if not value then error(why, 2) end
  agg.print_histogram(self.spec.title, self.spec.unit, value, not self.spec.step)
end

--- Closes the counters.
function Hist:close() self.counter:close() end
Hist.__close = Hist.close

colon(Hist, Hist, "hist_counter", "h", "read delta print close")

return M
