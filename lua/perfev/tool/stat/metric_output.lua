--- Prints metrics: those of -M and --topdown below the counts, and --metric-only instead of them.
-- Source of the formats: print_metric_only() and generic_metric() in tools/perf/util/stat-display.c and stat-shadow.c
-- of 6.1.

local json = require "perfev.base.json"
local metrics = require "perfev.tool.stat.metrics"
local places = require "perfev.tool.stat.places"

local M = {}

local ONLY_WIDTH = 20 -- METRIC_ONLY_LEN

-- The values of a place's rows as metrics read them: clocks in msec, times in seconds, others in their PMU's unit.
local function add_value(values, row)
  if not row.value then return end
  local scale = row.unit == "ns" and 1e-9 or row.is_clock and 1e-6 or row.scale or 1
  values[row.id or row.name] = row.value * scale
end

--- Returns the rows of each place and cgroup: { place =, cgroup =, values =, rows = }, in their order.
function M.groups(rows)
  local list = {}
  for _, row in ipairs(rows) do
    local key = (row.place and row.place.name or "") .. "\0" .. (row.cgroup or "")
    local group = list[key]
    if not group then
      group = { place = row.place, cgroup = row.cgroup, values = {}, rows = {} }
      list[key], list[#list + 1] = group, group
    end
    add_value(group.values, row)
    table.insert(group.rows, row)
  end
  return list
end

local function number_text(format, value)
  if value ~= value then return (" "):rep(5) .. "nan" end
  return format:format(value)
end

--- Calls write(group, text, name) for each metric of each group; the text is nil if an event was not counted.
function M.each(groups, list, write)
  for _, group in ipairs(groups) do
    for _, metric in ipairs(list) do
      local value, format, name = metrics.value(metric, group.values), metrics.label(metric)
      write(group, value and number_text(format, value), name, value)
    end
  end
end

-- ---- metrics alone ----

-- perf leaves out rates and "CPUs utilized": valid_only_metric().
local function is_kept(unit) return unit and not unit:find("/sec", 1, true) and unit ~= "CPUs utilized" end

-- The cells of a group: { name =, text = }. row_metrics(row) -> { value, format, unit }, …
local function cells_of(group, list, row_metrics)
  local cells = {}
  for _, row in ipairs(group.rows) do
    for _, one in ipairs(row_metrics(row)) do
      local value, format, unit = table.unpack(one)
      if is_kept(unit) then
        local name = unit:find "^of all" and ("%s %s"):format(row.name, unit) or unit
        cells[#cells + 1] = { name = name, text = number_text(format, value) }
      end
    end
  end
  M.each({ group }, list, function(_, text, name) cells[#cells + 1] = { name = name, text = text or "" } end)
  return cells
end

local function width_of(name) return math.max(ONLY_WIDTH, #name + 1) end

local Columns, Separated, Objects = {}, {}, {}

function Columns.head(_, cells, place, at)
  local words = { at and "#           time" .. (" "):rep(1) or "", (" "):rep(#places.column(place)) }
  for _, cell in ipairs(cells) do words[#words + 1] = ("%" .. width_of(cell.name) .. "s "):format(cell.name) end
  return (table.concat(words):gsub(" +$", ""))
end

function Columns.line(_, cells, group, at)
  local words = { at and ("%16.9f "):format(at / 1e9) or "", places.column(group.place) }
  for _, cell in ipairs(cells) do
    words[#words + 1] = ("%" .. width_of(cell.name) .. "s "):format((cell.text:gsub("^ +", ""):gsub(" +$", "")))
  end
  if group.cgroup then words[#words + 1] = group.cgroup end
  return (table.concat(words):gsub(" +$", ""))
end

local function separated(self, at, place, cgroup, words)
  local line = at and { ("%16.9f"):format(at / 1e9) } or {}
  table.move(places.cells(place), 1, 2, #line + 1, line)
  table.move(words, 1, #words, #line + 1, line)
  line[#line + 1] = cgroup
  return table.concat(line, self.separator)
end

function Separated:head(cells, place, at)
  local names = {}
  for i, cell in ipairs(cells) do names[i] = cell.name end
  local before = at and { "time" } or {}
  for i = 1, #places.cells(place) do before[#before + 1] = i == 1 and place.kind or "cpus" end
  table.move(names, 1, #names, #before + 1, before)
  return table.concat(before, self.separator)
end

function Separated:line(cells, group, at)
  local words = {}
  for i, cell in ipairs(cells) do words[i] = cell.text:gsub("[ %%]", "") end
  return separated(self, at, group.place, group.cgroup, words)
end

function Objects.line(_, cells, group, at)
  local members = {}
  for i, cell in ipairs(cells) do
    local text = cell.text:gsub("[ %%]", "")
    members[i] = ("%s : %s"):format(json.encode(cell.name), json.encode(text ~= "" and text or json.null))
  end
  if group.cgroup then members[#members + 1] = '"cgroup" : ' .. json.encode(group.cgroup) end
  return ("{%s%s%s}"):format(at and ('"interval" : %.9f, '):format(at / 1e9) or "", places.json(group.place),
    table.concat(members, ", "))
end

--- Returns a function that prints the metrics of rows, and the heading before the first.
-- @tparam boolean is_json
-- @tparam ?string separator
-- @tparam {metric,...} list    of -M and --topdown
-- @treturn function  f(rows, row_metrics, at): see cells_of; at: ns, of an interval
function M.only(is_json, separator, list)
  local form = setmetatable({ separator = separator }, { __index = is_json and Objects or separator and Separated
    or Columns })
  local has_head = false
  return function(rows, row_metrics, at)
    for _, group in ipairs(M.groups(rows)) do
      local cells = cells_of(group, list, function(row) return row_metrics(row, group) end)
      if #cells > 0 then
        if form.head and not has_head then print(form:head(cells, group.place, at)) end
        has_head = true
        print(form:line(cells, group, at))
      end
    end
    return has_head
  end
end

return M
