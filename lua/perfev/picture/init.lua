--- Draws numbers: a heat map (for example latency over time), a histogram, a timeline of CPUs.
-- The input is plain tables. The output is text: SVG, an HTML page with the SVG, or JSON for the timeline.

local _, this_file = ...
local asset = require "perfev.base.asset"
local check = require "perfev.base.check"
local escape = require "perfev.base.escape"
local json = require "perfev.base.json"
local markup = require "perfev.picture.markup"
local palette = require "perfev.picture.palette"
local option_tables = require "perfev.option_tables.picture"
local terminal = require "perfev.picture.terminal"
local sorted_keys = require("perfev.base.tables").sorted_keys

local M = {}

local function fail(level, ...) error(string.format(...), level + 1) end

local function check_numbers(what, rows, names, level)
  if type(rows) ~= "table" then fail(level, "%s: a list of rows expected, not a %s", what, type(rows)) end
  for i, row in ipairs(rows) do
    for _, name in ipairs(names) do
      local value = type(row) == "table" and row[name]
      if type(value) ~= "number" or value ~= value or math.abs(value) == math.huge then
        fail(level, "%s: row %d has no number '%s'", what, i, name)
      end
    end
  end
end

-- ---- shared by both drawings ----

-- Heat is a CSS class, so that high counts have contrast on light and on dark backgrounds.
local function heat_rules(of)
  local rules = {}
  for i = 0, palette.HEATS - 1 do rules[#rules + 1] = (".h%d{fill:%s}"):format(i, of(i)) end
  return table.concat(rules)
end

local style = asset("perfev/picture/picture.css", this_file)
  :gsub("/%* (%u+) %*/", { LIGHT = heat_rules(palette.heat_on_light), DARK = heat_rules(palette.heat_on_dark) })

-- look: its class, or its attributes.
local function text(x, y, words, anchor, look)
  return ('<text x="%.1f" y="%.1f"%s%s>%s</text>\n'):format(x, y, anchor and (' text-anchor="%s"'):format(anchor) or "",
    look and (' class="%s"'):format(look) or "", markup(words))
end

local function rectangle(x, y, width, height, look, title)
  return ('<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" class="%s">%s</rect>\n'):format(x, y, width, height, look,
    title and "<title>" .. markup(title) .. "</title>" or "")
end

local LINE = 18

-- Returns the finished drawing, an SVG element or a page, with the notes below it.
local function finish(opts, width, height, parts)
  local title, notes = escape(opts.title or ""), opts.notes or {}
  for i, note in ipairs(notes) do
    parts[#parts + 1] = text(12, height + LINE * i - 8, escape(tostring(note)), nil, "soft")
  end
  height = height + LINE * #notes
  local svg = ('<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" viewBox="0 0 %d %d">\n'
    .. '<title>%s</title>\n<style>\n%s</style>\n<rect class="paper" width="100%%" height="100%%"/>\n'
    .. '<text class="title" x="12" y="26">%s</text>\n%s</svg>\n'):format(width, height, width, height, markup(title),
    style, markup(title), table.concat(parts))
  if opts.format ~= "html" then return svg end
  return (asset("perfev/picture/picture.html", this_file):gsub("%$(%u+)", { TITLE = markup(title), DRAWING = svg }))
end

-- Checks the options of a drawing -> options, list of series: `series`, or the single one in the option `what`
local function take(verb, opts, what)
  opts = check.take(verb, opts, option_tables[verb], 4)
  if opts.series and opts[what] ~= nil then fail(3, "%s: %s and series at once", verb, what) end
  return opts, opts.series or { { [what] = opts[what] } }
end

-- Formats a value with its unit, without trailing zeros ("2.5 us"). Time units are converted to ns first.
local per_unit = { us = 1e3, ms = 1e6, s = 1e9 }
local function number(value, unit)
  if per_unit[unit] then value, unit = value * per_unit[unit], "ns" end
  return (terminal.number(value, unit):gsub("(%.%d-)0+%f[ \0]", "%1"):gsub("%.%f[ \0]", ""))
end

-- ---- heat map ----

local LEFT, TOP, RIGHT, BOTTOM = 84, 48, 24, 50
local PLOT_WIDTH, PLOT_HEIGHT, ONE_OF_SEVERAL = 860, 360, 170
local MOST_COLUMNS = PLOT_WIDTH // 2 -- more columns are merged: they would be too narrow to see

-- Returns the position of a value between the lowest and the highest, 0…1. The scale is logarithmic if values span
-- more than two powers of ten, as latencies do; values of 0 or less are then at the bottom.
local function value_scale(lowest, least_above_0, highest)
  if highest > 0 and highest / least_above_0 > 100 then
    local from, to = math.log(least_above_0), math.log(highest)
    return function(value) return value <= least_above_0 and 0 or (math.log(value) - from) / (to - from) end, true
  end
  return function(value) return highest > lowest and (value - lowest) / (highest - lowest) or 0 end, false
end

-- Returns the labelled values of the axis: powers of ten on a logarithmic scale, else fifths.
local function value_marks(lowest, highest, logarithmic)
  local marks = {}
  if not logarithmic then
    for i = 0, 5 do marks[#marks + 1] = lowest + (highest - lowest) * i / 5 end
    return marks
  end
  local mark = 10.0 ^ math.ceil(math.log(lowest, 10) - 1e-9)
  while mark <= highest do
    marks[#marks + 1] = mark
    mark = mark * 10
  end
  return marks
end

-- Returns five to ten labelled times of the axis, at steps of 1, 2 or 5 times a power of ten.
local function time_step(span)
  local step = 1
  while span // step > 10 do
    local digit = math.tointeger(10 ^ (#("%d"):format(step) - 1))
    step = step // digit == 2 and digit * 5 or step * 2
  end
  return step
end

-- Returns the ranges that all series share: times, values, the largest count.
local function extent(series, step)
  local first, last, lowest, highest = math.huge, -math.huge, math.huge, -math.huge
  local least_above_0 = math.huge
  for _, one in ipairs(series) do
    for _, cell in ipairs(one.cells) do
      first, last = math.min(first, cell.time), math.max(last, cell.time)
      lowest, highest = math.min(lowest, cell.low), math.max(highest, cell.high)
      local bottom = cell.low > 0 and cell.low or cell.high / 2
      if bottom > 0 then least_above_0 = math.min(least_above_0, bottom) end
    end
  end
  if first > last then first, last, lowest, highest, least_above_0 = 0, 0, 0, 1, 1 end
  while (last - first) // step >= MOST_COLUMNS do step = step * 2 end
  return { first = first, step = step, span = ((last - first) // step + 1) * step, lowest = lowest, highest = highest,
    least_above_0 = least_above_0 }
end

-- Adds up the cells of one column with the same values, and sorts by time and value, so that the output does not
-- depend on the order of the rows.
local function gathered(cells, x)
  local of, list = {}, {}
  for _, cell in ipairs(cells) do
    local time = x.first + (cell.time - x.first) // x.step * x.step
    local key = ("%d %.17g %.17g"):format(time, cell.low, cell.high)
    if not of[key] then
      of[key] = { time = time, low = cell.low, high = cell.high, count = 0 }
      list[#list + 1] = of[key]
    end
    of[key].count = of[key].count + cell.count
  end
  table.sort(list, function(a, b)
    if a.time ~= b.time then return a.time < b.time end
    if a.low ~= b.low then return a.low < b.low end
    return a.high < b.high
  end)
  return list
end

-- Draws the legend: the colours, with the smallest and the largest count.
local function heat_legend(most)
  local out, right, wide = {}, LEFT + PLOT_WIDTH, 10
  local words = terminal.number(most)
  local first = palette.heat(1, most)
  local x = right - 8 * #words - 6 - wide * palette.HEATS
  out[1] = text(x + first * wide - 6, 26, "1", "end", "soft")
  for i = first, palette.HEATS - 1 do out[#out + 1] = rectangle(x + i * wide, 15, wide, 12, "key h" .. i) end
  out[#out + 1] = text(right, 26, words, "end", "soft")
  return table.concat(out)
end

--- Draws a heat map: time to the right, values upwards, higher counts in stronger colours.
-- @tparam table opts  `cells`: a list of `{ time =, low =, high =, count = }`: count values of low…high in the slot
--                     that begins at `time` (ns); or `series`, a list of `{ name =, cells = }`, drawn below each
--                     other; `step` (ns): length of a slot; `unit` of the values; `title`; `notes`: lines of text
--                     below the drawing; `format`: "svg" or "html"
-- @treturn string
function M.heatmap(opts)
  local series
  opts, series = take("heatmap", opts, "cells")
  for _, one in ipairs(series) do check_numbers("heatmap", one.cells, { "time", "low", "high", "count" }, 3) end
  if not opts.step then fail(2, "heatmap: step is missing\n  try: step = 1000000, a time in ns") end
  local unit, x, most = opts.unit or "ns", extent(series, opts.step), 0
  local cells_of = {}
  for i, one in ipairs(series) do
    cells_of[i] = gathered(one.cells, x)
    for _, cell in ipairs(cells_of[i]) do most = math.max(most, cell.count) end
  end
  local at, logarithmic = value_scale(x.lowest, x.least_above_0, x.highest)
  local high = #series > 1 and ONE_OF_SEVERAL or PLOT_HEIGHT
  local out, top = { most > 0 and heat_legend(most) or "" }, TOP
  local function y_of(value) return top + high * (1 - at(value)) end
  local function draw(cell)
    local y, bottom = y_of(cell.high), y_of(cell.low)
    local since = cell.time - x.first
    out[#out + 1] = rectangle(LEFT + PLOT_WIDTH * since / x.span, y, PLOT_WIDTH * x.step / x.span,
      math.max(bottom - y, 0.5), ("h%d"):format(palette.heat(cell.count, most)),
      ("%s: %s of %s to %s"):format(number(since, "ns"), terminal.number(cell.count), number(cell.low, unit),
        number(cell.high, unit)))
  end
  for i, one in ipairs(series) do
    if one.name then
      out[#out + 1] = text(LEFT, top + 12, escape(tostring(one.name)), nil, "name")
      top = top + 20
    end
    out[#out + 1] = rectangle(LEFT, top, PLOT_WIDTH, high, "room")
    for _, cell in ipairs(cells_of[i]) do
      if cell.count > 0 then draw(cell) end
    end
    local bottom = logarithmic and x.least_above_0 or x.lowest
    for _, mark in ipairs(value_marks(bottom, x.highest, logarithmic)) do
      out[#out + 1] = text(LEFT - 8, y_of(mark) + 4, number(mark, unit), "end")
    end
    top = top + high + (i < #series and 12 or 0)
  end
  for mark = 0, x.span, time_step(x.span) do
    out[#out + 1] = text(LEFT + PLOT_WIDTH * mark / x.span, top + 18, number(mark, "ns"), "middle")
  end
  out[#out + 1] = text(LEFT + PLOT_WIDTH / 2, top + 40, "time since the first", "middle", "soft")
  return finish(opts, LEFT + PLOT_WIDTH + RIGHT, top + BOTTOM, out)
end

-- ---- histogram ----

local BAR, GAP, LABELS, NUMBERS = 18, 4, 190, 130

local function check_buckets(buckets)
  check_numbers("histogram", buckets, { "count" }, 4)
  local both = {}
  for i, one in ipairs(buckets) do both[i] = { low = one.low or one.high, high = one.high or one.low } end
  check_numbers("histogram", both, { "low", "high" }, 4)
end

local function by_value(a, b)
  if a.low ~= b.low then return not a.low or b.low ~= nil and a.low < b.low end
  return a.high ~= nil and (not b.high or a.high < b.high)
end

local function range_of(bucket, unit)
  if not bucket.low then return "below " .. number(bucket.high, unit) end
  if not bucket.high then return number(bucket.low, unit) .. " and above" end
  return ("%s to %s"):format(number(bucket.low, unit), number(bucket.high, unit))
end

--- Draws a histogram: a bar for each bucket, the lowest values on top.
-- @tparam table opts  `buckets`: a list of `{ low =, high =, count = }`, where the first may lack `low` and the last
--                     `high`; or `series`, a list of `{ name =, buckets = }`; `unit`, `title`, `notes`,
--                     `format` as of `heatmap`
-- @treturn string
function M.histogram(opts)
  local series
  opts, series = take("histogram", opts, "buckets")
  for _, one in ipairs(series) do check_buckets(one.buckets) end
  local width, top, out = LEFT + PLOT_WIDTH + RIGHT, TOP, {}
  local room = width - LABELS - NUMBERS
  for _, one in ipairs(series) do
    local buckets = table.move(one.buckets, 1, #one.buckets, 1, {})
    table.sort(buckets, by_value)
    local most, all = 0, 0
    for _, bucket in ipairs(buckets) do most, all = math.max(most, bucket.count), all + bucket.count end
    if one.name then
      out[#out + 1] = text(12, top + 12, escape(tostring(one.name)), nil, "name")
      top = top + 22
    end
    for _, bucket in ipairs(buckets) do
      local range, count = range_of(bucket, opts.unit), terminal.number(bucket.count)
      out[#out + 1] = text(LABELS - 8, top + BAR - 5, range, "end")
      out[#out + 1] = rectangle(LABELS, top, room, BAR, "room")
      local long = bucket.count > 0 and math.max(room * bucket.count / most, 1) or 0
      out[#out + 1] = rectangle(LABELS, top, long, BAR, "bar", ("%s: %s"):format(range, count))
      out[#out + 1] = text(width - 68, top + BAR - 5, count, "end")
      out[#out + 1] = text(width - 12, top + BAR - 5, terminal.percent(bucket.count, all), "end")
      top = top + BAR + GAP
    end
    top = top + (one.name and 10 or 0)
  end
  return finish(opts, width, top + 12, out)
end

-- ---- timeline ----

local PROCESS = 1 -- the only process of the trace; its threads are the CPUs

-- "Trace Event Format" has times in microseconds. ns are formatted as integers, because a float may lose digits.
local function us(ns)
  if math.type(ns) == "integer" and ns >= 0 then return ("%d.%03d"):format(ns // 1000, ns % 1000) end
  return json.encode(ns / 1000)
end

local function metadata(name, tid, args)
  return json.encode { ph = "M", pid = PROCESS, tid = tid, name = name, args = args }
end

-- Encodes each name once: a million spans may have a hundred names.
local function texts()
  return setmetatable({}, { __index = function(of, name)
    local encoded = json.encode(escape(tostring(name)))
    rawset(of, name, encoded)
    return encoded
  end })
end

local function args_of(row) return row.args and (',"args":%s'):format(json.encode(row.args)) or "" end

--- Writes a timeline of CPUs as a trace for Perfetto and chrome://tracing.
-- @tparam table opts  `spans`: a list of `{ cpu =, name =, begin =, finish = }`; `points`: of `{ cpu =, name =,
--                     time = }`; `counters`: of `{ name =, time =, value = }`; times in ns; each may have `args`,
--                     a table of values to show; `title`
-- @treturn string  JSON
function M.timeline(opts)
  opts = check.take("timeline", opts, option_tables.timeline, 3)
  local spans, points, counters = opts.spans or {}, opts.points or {}, opts.counters or {}
  check_numbers("timeline: spans", spans, { "cpu", "begin", "finish" }, 3)
  check_numbers("timeline: points", points, { "cpu", "time" }, 3)
  check_numbers("timeline: counters", counters, { "time", "value" }, 3)
  local events, cpus, text_of = { metadata("process_name", 0, { name = escape(opts.title or "CPUs") }) }, {}, texts()
  local function add(format, ...) events[#events + 1] = format:format(...) end
  -- Viewers treat thread 0 as the idle task, so CPU n is thread n + 1.
  local function thread(cpu)
    cpus[cpu] = true
    return cpu + 1
  end
  for _, span in ipairs(spans) do
    add('{"ph":"X","pid":%d,"tid":%d,"name":%s,"ts":%s,"dur":%s%s}', PROCESS, thread(span.cpu),
      text_of[span.name or ""], us(span.begin), us(span.finish - span.begin), args_of(span))
  end
  for _, point in ipairs(points) do
    add('{"ph":"i","s":"t","pid":%d,"tid":%d,"name":%s,"ts":%s%s}', PROCESS, thread(point.cpu),
      text_of[point.name or ""], us(point.time), args_of(point))
  end
  for _, counter in ipairs(counters) do
    add('{"ph":"C","pid":%d,"name":%s,"ts":%s,"args":{"value":%s}}', PROCESS, text_of[counter.name or ""],
      us(counter.time), json.encode(counter.value))
  end
  local list = sorted_keys(cpus)
  for _, cpu in ipairs(list) do
    events[#events + 1] = metadata("thread_name", cpu + 1, { name = ("CPU %d"):format(cpu) })
    events[#events + 1] = metadata("thread_sort_index", cpu + 1, { sort_index = cpu })
  end
  return ('{"displayTimeUnit":"ns","traceEvents":[\n%s\n]}\n'):format(table.concat(events, ",\n"))
end

return M
