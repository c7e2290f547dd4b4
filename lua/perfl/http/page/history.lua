--- What came when: slots of time with the histograms and stacks that came in each. Their number is bounded: the newest
-- are short, older ones are merged into longer ones, and all before that into one.

local call_tree = require "perfev.profile.call_tree"
local pieces = require "perfl.http.page.pieces"

local M = {}
M.__index = M

M.SLOT_MS = 1000
M.FINE, M.COARSE, M.MERGED = 300, 360, 10 -- slots; fine ones in a coarse one
M.MOST_NODES = 200000 -- of the call tree of a profile; further stacks are (other)
M.MOST_STACKS = 400000 -- kept in all slots; beyond, the oldest slots are merged

--- A slot: `begin`, `finish` (ms), `heat` (name -> { low, high, count, … }), `stacks` (name -> { node, value…, … }),
-- `sums` (name -> { value… }), `nr_stacks`. Slots are never changed: readers in pieces may hold them.
function M.new()
  return setmetatable({ slots = {}, nr_coarse = 0, trees = {}, nr_stacks = 0 }, M)
end

-- ---- heat ----

local BANDS = { 0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1 }

local function add_cell(sums, low, high, count)
  local row = sums[low]
  if not row then
    row = {}
    sums[low] = row
  end
  row[high] = (row[high] or 0) + count
end

-- A bucket of a linear histogram without a bound gets the width of a step.
local function add_hist(sums, value, spec)
  for _, bucket in ipairs(value.buckets) do
    local low, high = bucket.low, bucket.high
    if not low then low = spec.step and high - spec.step or high end
    if not high then high = spec.step and low + spec.step or low * 2 end
    if bucket.count > 0 then add_cell(sums, low, high, bucket.count) end
  end
end

-- The bounds of the cells that quantiles are spread over: 0, 1, 2, 3, 4, 6, 8, 12, 16, …
local function cell_below(value)
  if value < 4 then return math.max(value, 0) end
  local power = 4
  while value // power >= 2 do power = power * 2 end
  return value >= power + power // 2 and power + power // 2 or power
end
local function cell_after(low)
  if low < 4 then return low + 1 end
  return low & (low - 1) == 0 and low + low // 2 or low // 3 * 4
end

-- Spreads the number of values evenly over the cells between two quantiles.
local function spread(sums, low, high, count)
  local cells = { cell_below(low) }
  while cell_after(cells[#cells]) <= high and #cells < 128 do cells[#cells + 1] = cell_after(cells[#cells]) end
  for _, cell in ipairs(cells) do add_cell(sums, cell, cell_after(cell), count / #cells) end
end

local function add_quantiles(sums, one, value, keys, nr_keys)
  local low = one:quantile(0, table.unpack(keys, 1, nr_keys))
  for i = 2, #BANDS do
    local high = one:quantile(BANDS[i], table.unpack(keys, 1, nr_keys))
    spread(sums, low, high, value.count * (BANDS[i] - BANDS[i - 1]))
    low = high
  end
end

local function flat_cells(sums)
  local lows, list = {}, {}
  for low in pairs(sums) do lows[#lows + 1] = low end
  table.sort(lows)
  for _, low in ipairs(lows) do
    for high, count in pairs(sums[low]) do
      local n = #list
      list[n + 1], list[n + 2], list[n + 3] = low, high, math.tointeger(count) or tonumber(("%.2f"):format(count))
    end
  end
  return list
end

--- Adds up the histograms of a delta, or the bands of its quantiles, over all keys -> { low, high, count, … }
function M.heat_of(delta)
  local spec, sums, nr = delta:spec(), {}, 0
  local function take(...)
    local size = select("#", ...)
    if size == 0 then return false end
    local value = select(size, ...)
    if spec.kind == "hist" then
      add_hist(sums, value, spec)
    else
      add_quantiles(sums, delta, value, { ... }, size - 1)
    end
    nr = nr + 1
    if nr % 8 == 0 then pieces.rest() end
    return true
  end
  local step = delta:pairs()
  while take(step()) do end -- luacheck: ignore 542
  local other = delta:other()
  if other and spec.kind == "hist" then add_hist(sums, other, spec) end
  return flat_cells(sums)
end

-- ---- stacks ----

local OTHER = { symbol = "[other]" }

-- The call tree of all slots of a profile: numbered nodes, each after its parent.
local function tree_of(self, name)
  local tree = self.trees[name]
  if not tree then
    tree = { functions = {}, function_of = {}, children = {}, parent = {}, func = {} }
    self.trees[name] = tree
  end
  return tree
end

local function child(tree, parent, frame)
  local func = call_tree.function_of(tree, frame)
  local key = parent << 32 | func
  local node = tree.children[key]
  if not node then
    node = #tree.parent + 1
    if node > M.MOST_NODES and frame ~= OTHER then return child(tree, 0, OTHER), true end
    tree.children[key], tree.parent[node], tree.func[node] = node, parent, func
  end
  return node
end

--- Reads the stacks of a delta of a profile, in pieces -> { node, value…, … }, the sums of its values
function M:stacks_of(name, delta)
  local tree, list, sums, path, nr = tree_of(self, name), {}, {}, { [0] = 0 }, 0
  local is_other = {}
  for i = 1, #delta.values do sums[i] = 0 end
  delta:walk(function(depth, frame, values)
    if is_other[depth - 1] then
      path[depth], is_other[depth] = path[depth - 1], true
    else
      path[depth], is_other[depth] = child(tree, path[depth - 1], frame)
    end
    if values then
      local n = #list
      list[n + 1] = path[depth]
      for i = 1, #sums do list[n + 1 + i], sums[i] = values[i], sums[i] + values[i] end
    end
    nr = nr + 1
    if nr % 16 == 0 then pieces.rest() end
  end)
  return list, sums
end

--- Adds up the stacks of several slots, in pieces -> for each value: node -> sum
function M.summed(slots, name)
  local own = {}
  for _, slot in ipairs(slots) do
    local list, sums = slot.stacks[name], slot.sums[name]
    local width = sums and #sums or 0
    for v = 1, width do own[v] = own[v] or {} end
    for i = 1, list and #list or 0, width + 1 do
      local node = list[i]
      for v = 1, width do own[v][node] = (own[v][node] or 0) + list[i + v] end
      if i % 32 == 1 then pieces.rest() end
    end
  end
  return own
end

local function flat_stacks(own)
  local list = {}
  for node in pairs(own[1] or {}) do
    list[#list + 1] = node
    for v = 1, #own do list[#list + 1] = own[v][node] end
    if #list % 16 == 0 then pieces.rest() end
  end
  return list
end

-- ---- slots ----

local function names_in(slots, field)
  local names = {}
  for _, slot in ipairs(slots) do
    for name in pairs(slot[field]) do names[name] = true end
  end
  return names
end

-- Adds up slots that follow each other, in pieces -> a slot
local function merged(slots)
  local one = { begin = slots[1].begin, finish = slots[#slots].finish, heat = {}, stacks = {}, sums = {},
    nr_stacks = 0 }
  for name in pairs(names_in(slots, "heat")) do
    local sums = {}
    for _, slot in ipairs(slots) do
      local cells = slot.heat[name] or {}
      for i = 1, #cells, 3 do add_cell(sums, cells[i], cells[i + 1], cells[i + 2]) end
    end
    one.heat[name] = flat_cells(sums)
    pieces.rest()
  end
  for name in pairs(names_in(slots, "sums")) do
    local sums = {}
    for _, slot in ipairs(slots) do
      for i, value in ipairs(slot.sums[name] or {}) do sums[i] = (sums[i] or 0) + value end
    end
    one.sums[name], one.stacks[name] = sums, flat_stacks(M.summed(slots, name))
    one.nr_stacks = one.nr_stacks + #one.stacks[name] // (#sums + 1)
  end
  return one
end

-- Replaces the slots first…last by one.
local function merge(self, first, last, list)
  local old = table.move(self.slots, first, last, 1, {})
  local one = merged(old)
  for _, slot in ipairs(old) do self.nr_stacks = self.nr_stacks - slot.nr_stacks end
  self.nr_stacks = self.nr_stacks + one.nr_stacks
  local slots = table.move(self.slots, 1, first - 1, 1, {})
  slots[first] = one
  self.slots = table.move(self.slots, last + 1, #self.slots, first + 1, slots)
  list[#list + 1] = { one.begin, one.finish }
end

--- Adds a slot, and merges older ones, in pieces.
-- @treturn table  a list of the merged ranges: `{ begin, finish }`
function M:add(slot)
  slot.nr_stacks = 0
  for name, list in pairs(slot.stacks) do
    slot.nr_stacks = slot.nr_stacks + #list // (#slot.sums[name] + 1)
  end
  self.slots[#self.slots + 1], self.nr_stacks = slot, self.nr_stacks + slot.nr_stacks
  local list = {}
  if #self.slots - self.nr_coarse > self.FINE + self.MERGED then
    merge(self, self.nr_coarse + 1, self.nr_coarse + self.MERGED, list)
    self.nr_coarse = self.nr_coarse + 1
  end
  while self.nr_coarse > self.COARSE + 1 or self.nr_stacks > self.MOST_STACKS and #self.slots > 2 do
    merge(self, 1, 2, list)
    self.nr_coarse = math.max(self.nr_coarse - 1, 1)
  end
  return list
end

--- Returns the slots from one time to another (ms), rounded outwards.
function M:between(from, to)
  local list = {}
  for _, slot in ipairs(self.slots) do
    if slot.begin < to and slot.finish > from then list[#list + 1] = slot end
  end
  return list
end

--- Returns the slots before a time and those after it; a slot that has it counts as before.
function M:split(at)
  local before, after = {}, {}
  for _, slot in ipairs(self.slots) do
    local list = slot.begin < at and before or after
    list[#list + 1] = slot
  end
  return before, after
end

return M
