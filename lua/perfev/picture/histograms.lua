--- Draws an aggregator of histograms: as histograms, or as a heat map if its keys have time slots.
-- Each key gets a panel, the keys with the most values first; the last panel combines the remaining keys.

local picture = require "perfev.picture"
local check = require "perfev.base.check"
local escape = require "perfev.base.escape"
local option_tables = require "perfev.option_tables.picture"

local PANELS = 8

local function fail(level, ...) error(string.format(...), level + 1) end

-- Returns the name of a row's panel: its key without the time, as text. `names`: as of the aggregator.
local function name_of(by, row, names)
  local words = {}
  for i, name in ipairs(row.name and {} or by) do
    local key = row[name]
    if names and names[name] then key = names[name](key) end
    words[i] = escape(type(key) == "userdata" and key:folded() or tostring(key))
  end
  return row.name or table.concat(words, ", ")
end

-- A cell of a heat map needs both bounds: a bucket without one gets a visible width.
local function cell_of(time, bucket, step)
  local low, high = bucket.low, bucket.high
  if not low then low = step and high - step or high end
  if not high then high = step and low + step or low * 2.0 end
  return { time = time, low = low, high = high, count = bucket.count }
end

local function key_of(bucket) return ("%s %s"):format(bucket.low, bucket.high) end

-- Groups rows into panels by name, ordered by count.
local function panels_of(rows, by, names)
  local of, list = {}, {}
  for _, row in ipairs(rows) do
    local name = name_of(by, row, names)
    local panel = of[name]
    if not panel then
      panel = { name = name, count = 0, rows = {} }
      of[name], list[#list + 1] = panel, panel
    end
    panel.count = panel.count + row.value.count
    table.insert(panel.rows, row)
  end
  table.sort(list, function(a, b)
    if a.count ~= b.count then return a.count > b.count end
    return a.name < b.name
  end)
  return list
end

-- Merges the panels beyond the limit into the last one.
local function at_most(list, most)
  if #list <= most then return list end
  local rest = { name = ("(%d others)"):format(#list - most + 1), rows = {} }
  for i = most, #list do table.move(list[i].rows, 1, #list[i].rows, #rest.rows + 1, rest.rows) end
  return table.move({ rest }, 1, 1, most, table.move(list, 1, most - 1, 1, {}))
end

local function cells(rows, step)
  local list = {}
  for _, row in ipairs(rows) do
    for _, bucket in ipairs(row.value.buckets) do list[#list + 1] = cell_of(row.time, bucket, step) end
  end
  return list
end

-- Adds the empty buckets between the others; rows leave them out.
local function buckets(rows)
  local of, list = {}, {}
  for _, row in ipairs(rows) do
    for _, bucket in ipairs(row.value.buckets) do
      local key = key_of(bucket)
      if not of[key] then
        of[key] = { low = bucket.low, high = bucket.high, count = 0 }
        list[#list + 1] = of[key]
      end
      of[key].count = of[key].count + bucket.count
    end
  end
  return list
end

--- @tparam aggregator agg    of perfev.hist
-- @tparam ?table opts       `title` (default: its own), `panels`: how many at most
-- @tparam string format     "svg" or "html"
-- @tparam ?integer slot     ns, if its keys have time slots
-- @tparam integer level     of the caller, for `error`
-- @treturn string
return function(agg, opts, format, slot, level)
  local spec = agg:spec()
  if spec.kind ~= "hist" then fail(level, "%s: %s cannot be drawn, perfev.hist can", format, spec.kind) end
  opts = check.take(format, opts == nil and {} or opts, option_tables.drawn_histogram, level + 1)
  local by = {}
  for _, name in ipairs(spec.by) do
    if not (slot and name == "time") then by[#by + 1] = name end
  end
  local rows = agg:rows()
  local other, notes = agg:other(), agg:remarks()
  if other and slot then
    notes[#notes + 1] = "(other) has no times, and is not drawn"
  elseif other then
    rows[#rows + 1] = { value = other, name = "(other)" }
  end
  local series = at_most(panels_of(rows, by, spec.names), opts.panels or PANELS)
  for _, panel in ipairs(series) do
    if slot then panel.cells = cells(panel.rows, spec.step) else panel.buckets = buckets(panel.rows) end
    if #by == 0 then panel.name = nil end
  end
  return (slot and picture.heatmap or picture.histogram) { title = opts.title or spec.title, format = format,
    unit = spec.unit or "count", notes = notes, series = series, step = slot }
end
