--- The values of an aggregator for the page: its largest keys, the sum of the others, its histograms.

local aggregator = require "perfev.aggregate.aggregator"
local json = require "perfev.base.json"
local pieces = require "perfl.http.page.pieces"

local M = {}

M.ROWS = 100 -- keys that the page shows; the others are (other)
local EXACT = 1 << 53 -- a browser's numbers are exact below

local names_of = { hist = { "count", "avg", "min", "max" } }

--- Returns the names of the parts of a value: `{ "count", "avg", … }`, `{ "sum" }`.
function M.names(spec)
  local names = names_of[spec.kind] or aggregator.value_names(spec)
  return names[1] == "value" and { spec.kind } or names
end

local function encode_number(value)
  if math.type(value) == "integer" and (value >= EXACT or value <= -EXACT) then return ('"%d"'):format(value) end
  return json.encode(value)
end

local function weight_of(value) return type(value) == "table" and value.count or value end

-- ---- the sum of several values ----

local plain_sum = { count = true, sum = true }

local function add_buckets(into, buckets)
  for _, bucket in ipairs(buckets) do
    local key = bucket.low or math.mininteger
    local known = into[key]
    if known then
      known.count = known.count + bucket.count
    else
      into[key] = { low = bucket.low, high = bucket.high, count = bucket.count }
    end
  end
end

-- Adds a value to a sum of a kind, which may be nil -> the sum. An average without its number cannot be added.
local function add(kind, sum, value)
  if kind == "avg" or value == nil then return sum end
  if plain_sum[kind] then return (sum or 0) + value end
  if kind == "min" then return math.min(sum or value, value) end
  if kind == "max" then return math.max(sum or value, value) end
  sum = sum or { count = 0, sum = value.sum and 0, error = value.error and 0, min = value.min, max = value.max }
  sum.count = sum.count + value.count
  if sum.error then sum.error = sum.error + value.error end
  if sum.sum then
    sum.sum = sum.sum + value.sum
    sum.avg = sum.count > 0 and sum.sum / sum.count or 0
    sum.min, sum.max = math.min(sum.min, value.min), math.max(sum.max, value.max)
  end
  return sum
end

-- ---- the largest keys ----

-- A heap with the smallest weight first.
local function sift_down(heap)
  local i, size = 1, #heap
  while true do
    local least = i
    for child = 2 * i, math.min(2 * i + 1, size) do
      if heap[child].weight < heap[least].weight then least = child end
    end
    if least == i then return end
    heap[i], heap[least] = heap[least], heap[i]
    i = least
  end
end

local function push(heap, cell)
  local i = #heap + 1
  heap[i] = cell
  while i > 1 and heap[i // 2].weight > cell.weight do
    heap[i], heap[i // 2] = heap[i // 2], heap[i]
    i = i // 2
  end
end

-- Adds a value to the sum of the keys that are not in the heap.
local function add_other(self, value)
  self.others = self.others + 1
  self.other = add(self.kind, self.other, value)
  if self.other_buckets then add_buckets(self.other_buckets, value.buckets) end
end

-- Takes a key that is among the largest so far, and its value.
local function take(self, weight, value, ...)
  local heap = self.heap
  local cell = { weight = weight, value = value, ... }
  if #heap < M.ROWS then return push(heap, cell) end
  value, heap[1] = heap[1].value, cell
  sift_down(heap)
  add_other(self, value)
end

-- Takes a key of several columns, or a value with several parts -> false: there is none
local function take_any(self, ...)
  local nr = select("#", ...)
  if nr == 0 then return false end
  local value = select(nr, ...)
  local weight = weight_of(value)
  self.all = add(self.kind, self.all, value)
  if self.buckets then add_buckets(self.buckets, value.buckets) end
  if #self.heap < M.ROWS or weight > self.heap[1].weight then
    take(self, weight, value, ...)
  else
    add_other(self, value)
  end
  return true
end

-- The keys of one column with integers: a hundred thousand of them are many.
local function take_plain(self, step)
  local keys, all, other, others, heap = 0, 0, 0, 0, self.heap
  local key, value = step()
  while value do
    keys, all = keys + 1, all + value
    if #heap < M.ROWS then
      push(heap, { weight = value, value = value, key })
    else
      others = others + 1
      if value > heap[1].weight then
        local cell = { weight = value, value = value, key }
        value, heap[1] = heap[1].value, cell
        sift_down(heap)
      end
      other = other + value
    end
    if keys % 64 == 0 then pieces.rest() end
    key, value = step()
  end
  self.keys, self.all, self.other, self.others = keys, all, others > 0 and other or nil, others
end

local function take_all(self)
  local step = aggregator.walk(self.source)
  if plain_sum[self.kind] and #self.by == 1 then return take_plain(self, step) end
  while take_any(self, step()) do
    self.keys = self.keys + 1
    if self.keys % 16 == 0 then pieces.rest() end
  end
end

-- ---- as JSON ----

local function triples(buckets)
  local list = {}
  for i, bucket in ipairs(buckets) do
    list[i] = ("%s,%s,%s"):format(bucket.low and encode_number(bucket.low) or "null",
      bucket.high and encode_number(bucket.high) or "null", encode_number(bucket.count))
  end
  return "[" .. table.concat(list, ",") .. "]"
end

local function by_low(a, b) return (a.low or math.mininteger) < (b.low or math.mininteger) end

local function sorted(buckets)
  local list = {}
  for _, bucket in pairs(buckets) do list[#list + 1] = bucket end
  table.sort(list, by_low)
  return list
end

local function encode_row(self, keys, value)
  local cells = {}
  for i, name in ipairs(self.names) do
    local part = value
    if type(value) == "table" then part = value[name] end
    cells[i] = part == nil and "null" or encode_number(part)
  end
  return "[" .. table.concat(table.move(cells, 1, #cells, #keys + 1, keys), ",") .. "]"
end

local function encode_keys(self, cell)
  local keys = {}
  for i, name in ipairs(self.by) do
    local key = cell[i]
    local text = aggregator.key_text(self.source, name, key)
    keys[i] = math.type(key) == "integer" and text == tostring(key) and encode_number(key) or json.encode(text)
  end
  return keys
end

-- nr: the number of keys in (other), or nil if it is not known
local function other_keys(self, nr)
  local keys = {}
  for i = 1, #self.by do keys[i] = '""' end
  if keys[1] then keys[1] = nr and ('"(other): %d keys"'):format(nr) or '"(other)"' end
  return keys
end

--- Reads an aggregator, in pieces, without marking it as read.
-- @tparam aggregator one
-- @treturn string  a JSON object: `keys` (their number), `rows` (lists: keys, parts of the value), `buckets` (of each
--                  row: low, high, count, …), `all` (the sum of the weights), `all_buckets`, `other` (a row),
--                  `other_buckets`, `remarks`
function M.read(one)
  local spec = one:spec()
  local is_hist = spec.kind == "hist"
  local self = { source = one, kind = spec.kind, by = spec.by, names = M.names(spec), heap = {}, keys = 0, others = 0,
    buckets = is_hist and {} or nil, other_buckets = is_hist and {} or nil }
  take_all(self)
  local beyond = one:other()
  self.all, self.other = add(self.kind, self.all, beyond), add(self.kind, self.other, beyond)
  if is_hist and beyond then
    add_buckets(self.buckets, beyond.buckets)
    add_buckets(self.other_buckets, beyond.buckets)
  end
  table.sort(self.heap, function(a, b) return a.weight > b.weight end)
  local has_other = self.others > 0 or beyond ~= nil
  local parts = { ('"keys":%d'):format(self.keys),
    '"rows":' .. pieces.encode_list(self.heap, function(cell)
      return encode_row(self, encode_keys(self, cell), cell.value)
    end),
    '"all":' .. encode_number(weight_of(self.all or 0)), '"remarks":' .. json.encode(one:remarks()) }
  if is_hist then
    parts[#parts + 1] = '"buckets":' .. pieces.encode_list(self.heap, function(cell)
      return triples(cell.value.buckets)
    end)
    parts[#parts + 1] = '"all_buckets":' .. triples(sorted(self.buckets))
  end
  if has_other then
    local keys = other_keys(self, beyond == nil and self.others or nil)
    parts[#parts + 1] = '"other":' .. encode_row(self, keys, self.other)
    if is_hist then parts[#parts + 1] = '"other_buckets":' .. triples(sorted(self.other_buckets)) end
  end
  return "{" .. table.concat(parts, ",") .. "}"
end

local YIELDED = 8192 -- bytes of rows that are passed on together

--- Yields the lines of `perfl -j` as the elements of a JSON list, in the order of the keys' first appearance.
function M.yield_rows(one)
  local spec, parts, size, lead = one:spec(), {}, 0, ""
  local function pass_on()
    coroutine.yield(table.concat(parts))
    parts, size = {}, 0
  end
  local function line(row)
    row.title, row.unit = spec.title, spec.unit
    local text = lead .. json.encode(row)
    lead, parts[#parts + 1], size = ",\n", text, size + #text
    if size > YIELDED then pass_on() else pieces.rest() end
  end
  local function row_of(...)
    local nr = select("#", ...)
    if nr == 0 then return nil end
    local row = { value = (select(nr, ...)) }
    for i, name in ipairs(spec.by) do row[name] = aggregator.key_value(one, name, (select(i, ...))) end
    return row
  end
  local step = aggregator.walk(one)
  local row = row_of(step())
  while row do
    line(row)
    row = row_of(step())
  end
  local other = one:other()
  if other ~= nil then line { other = true, value = other } end
  for _, remark in ipairs(one:remarks()) do line { remark = remark } end
  pass_on()
end

return M
