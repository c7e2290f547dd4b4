--- Pictures of numbers that are no stacks: a heat map (how long, over time), a histogram, a timeline of CPUs.
-- Plain tables in, text out: SVG, or the same in an HTML page; JSON for the timeline.

local escape = require "perfev.escape"
local json = require "perfev.json"
local markup = require "perfev.profile.markup"
local palette = require "perfev.profile.palette"
local terminal = require "perfev.profile.terminal"

local M = {}

local function fail(level, ...) error(string.format(...), level + 1) end

local function check_options(what, opts, known, level)
  if type(opts) ~= "table" then fail(level, "%s: a table expected, not a %s", what, type(opts)) end
  for key in pairs(opts) do
    if not known[key] then fail(level, "%s: no option is called '%s'", what, tostring(key)) end
  end
end

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

-- ---- what both drawings share ----

-- Heat is a class, so that what is most stands out on paper and on a dark screen.
local function heat_rules(of)
  local rules = {}
  for i = 0, palette.HEATS - 1 do rules[#rules + 1] = (".h%d{fill:%s}"):format(i, of(i)) end
  return table.concat(rules)
end

local style = ([[
  .paper { fill: #fbfaf8 } .ink, text { fill: #1d1b19 } .axis { stroke: #8a847c; fill: none } .room { fill: #efece7 }
  text { font: 12px system-ui, "DejaVu Sans", sans-serif } .title { font-size: 16px; font-weight: bold }
  .bar { fill: hsl(24,80%,58%) }
  $LIGHT
  @media (prefers-color-scheme: dark) {
    .paper { fill: #171614 } .ink, text { fill: #eceae6 } .room { fill: #262421 }
    $DARK
  }
]]):gsub("%$%u+", { ["$LIGHT"] = heat_rules(palette.heat_on_light), ["$DARK"] = heat_rules(palette.heat_on_dark) })

local page = [[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>%s</title>
<style>
body { margin: 0; padding: 1rem; background: #fbfaf8 } svg { max-width: 100%%; height: auto }
@media (prefers-color-scheme: dark) { body { background: #171614 } }
</style>
</head>
<body>
%s</body>
</html>
]]

local function text(x, y, words, anchor)
  return ('<text x="%.1f" y="%.1f"%s>%s</text>\n'):format(x, y, anchor and (' text-anchor="%s"'):format(anchor) or "",
    markup(words))
end

local function rectangle(x, y, width, height, look, title)
  return ('<rect x="%.2f" y="%.2f" width="%.2f" height="%.2f" %s>%s</rect>\n'):format(x, y, width, height, look,
    title and "<title>" .. markup(title) .. "</title>" or "")
end

-- The finished drawing, as an element or as a page.
local function finish(opts, width, height, parts)
  local title = escape(opts.title or "")
  local svg = ('<svg xmlns="http://www.w3.org/2000/svg" role="img" width="%d" height="%d" viewBox="0 0 %d %d">\n'
    .. '<title>%s</title>\n<style>\n%s</style>\n<rect class="paper" width="100%%" height="100%%"/>\n'
    .. '<text class="title" x="12" y="26">%s</text>\n%s</svg>\n'):format(width, height, width, height, markup(title),
    style, markup(title), table.concat(parts))
  if opts.format == "html" then return page:format(markup(title), svg) end
  return svg
end

local function check_format(what, opts, level)
  if opts.format ~= nil and opts.format ~= "svg" and opts.format ~= "html" then
    fail(level, "%s: format is \"svg\" or \"html\", not %s", what, tostring(opts.format))
  end
end

-- ---- heat map ----

local LEFT, TOP, RIGHT, BOTTOM = 84, 48, 24, 50
local PLOT_WIDTH, PLOT_HEIGHT = 860, 360

-- Where a value stands between the lowest and the highest, 0…1: by its logarithm where values are spread
-- over more than two powers of ten, as latencies are. Below 1 there is no logarithm worth drawing.
local function value_scale(lowest, highest)
  if highest > 0 and highest / math.max(lowest, 1) > 100 then
    local from, to = math.log(math.max(lowest, 1)), math.log(highest)
    return function(value) return (math.log(math.max(value, 1)) - from) / (to - from) end, true
  end
  return function(value) return highest > lowest and (value - lowest) / (highest - lowest) or 0 end, false
end

-- Values for the axis: powers of ten on a logarithmic one, else fifths.
local function value_marks(lowest, highest, logarithmic)
  local marks = {}
  if not logarithmic then
    for i = 0, 5 do marks[#marks + 1] = lowest + (highest - lowest) * i / 5 end
    return marks
  end
  local mark = 1
  while mark <= highest do
    if mark >= lowest then marks[#marks + 1] = mark end
    mark = mark * 10
  end
  return marks
end

local function bounds(rows, low, high)
  local least, most = math.huge, -math.huge
  for _, row in ipairs(rows) do least, most = math.min(least, row[low]), math.max(most, row[high]) end
  if #rows == 0 then return 0, 1 end
  return least, most
end

-- By time and bucket, so that the order of the rows is nobody's business.
local function sorted(cells)
  local list = table.move(cells, 1, #cells, 1, {})
  table.sort(list, function(a, b)
    if a.time ~= b.time then return a.time < b.time end
    if a.low ~= b.low then return a.low < b.low end
    return a.count < b.count
  end)
  return list
end

--- A heat map: time from left to right, a value upwards, the more the stronger.
-- @tparam table opts  `cells`: a list of `{ time =, low =, high =, count = }`, so many values of low…high in
--                     the time from `time` (ns) on; `step` (ns): how long that time is; `unit` of the values;
--                     `title`; `format`: "svg" or "html"
-- @treturn string
function M.heatmap(opts)
  check_options("heatmap", opts, { cells = true, step = true, unit = true, title = true, format = true }, 2)
  check_format("heatmap", opts, 2)
  check_numbers("heatmap", opts.cells, { "time", "low", "high", "count" }, 2)
  if math.type(opts.step) ~= "integer" or opts.step <= 0 then fail(2, "heatmap: step is a time in ns above 0") end
  local cells, unit = sorted(opts.cells), opts.unit or "ns"
  local lowest, highest = bounds(cells, "low", "high")
  local first, last = bounds(cells, "time", "time")
  local _, most = bounds(cells, "count", "count")
  local at, logarithmic = value_scale(lowest, highest)
  local span = last + opts.step - first
  local column = PLOT_WIDTH * opts.step / span
  local function x_of(time) return LEFT + PLOT_WIDTH * (time - first) / span end
  local function y_of(value) return TOP + PLOT_HEIGHT * (1 - at(value)) end
  local out = { rectangle(LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT, 'class="room"') }
  for _, cell in ipairs(cells) do
    if cell.count > 0 then
      local top, bottom = y_of(cell.high), y_of(cell.low)
      out[#out + 1] = rectangle(x_of(cell.time), top, column, math.max(bottom - top, 0.5),
        ('class="h%d"'):format(palette.heat(cell.count, most)),
        ("%s: %s of %s to %s"):format(terminal.number(cell.time - first, "ns"), terminal.number(cell.count),
          terminal.number(cell.low, unit), terminal.number(cell.high, unit)))
    end
  end
  for _, mark in ipairs(value_marks(lowest, highest, logarithmic)) do
    out[#out + 1] = text(LEFT - 8, y_of(mark) + 4, terminal.number(mark, unit), "end")
  end
  for i = 0, 5 do
    local mark = terminal.number(span * i // 5, "ns")
    out[#out + 1] = text(LEFT + PLOT_WIDTH * i / 5, TOP + PLOT_HEIGHT + 18, mark, i < 5 and "middle" or "end")
  end
  out[#out + 1] = text(LEFT + PLOT_WIDTH / 2, TOP + PLOT_HEIGHT + 40, "time since the first", "middle")
  local strongest = "strongest: " .. terminal.number(#cells > 0 and most or 0)
  out[#out + 1] = text(LEFT + PLOT_WIDTH, 26, strongest, "end")
  return finish(opts, LEFT + PLOT_WIDTH + RIGHT, TOP + PLOT_HEIGHT + BOTTOM, out)
end

-- ---- histogram ----

local BAR, GAP, LABELS, NUMBERS = 18, 4, 190, 130

--- A histogram: a bar for each bucket, the lowest values on top.
-- @tparam table opts  `buckets`: a list of `{ low =, high =, count = }`; `unit`, `title`, `format` as of `heatmap`
-- @treturn string
function M.histogram(opts)
  check_options("histogram", opts, { buckets = true, unit = true, title = true, format = true }, 2)
  check_format("histogram", opts, 2)
  check_numbers("histogram", opts.buckets, { "low", "high", "count" }, 2)
  local buckets = table.move(opts.buckets, 1, #opts.buckets, 1, {})
  table.sort(buckets, function(a, b)
    if a.low ~= b.low then return a.low < b.low end
    return a.high < b.high
  end)
  local most, all = 0, 0
  for _, bucket in ipairs(buckets) do most, all = math.max(most, bucket.count), all + bucket.count end
  local width = LEFT + PLOT_WIDTH + RIGHT
  local room = width - LABELS - NUMBERS
  local out = {}
  for i, bucket in ipairs(buckets) do
    local y = TOP + (i - 1) * (BAR + GAP)
    local range = ("%s to %s"):format(terminal.number(bucket.low, opts.unit), terminal.number(bucket.high, opts.unit))
    out[#out + 1] = text(LABELS - 8, y + BAR - 5, range, "end")
    out[#out + 1] = rectangle(LABELS, y, room, BAR, 'class="room"')
    local long = most > 0 and room * math.max(bucket.count, 0) / most or 0
    local count = terminal.number(bucket.count)
    out[#out + 1] = rectangle(LABELS, y, long, BAR, 'class="bar"', ("%s: %s"):format(range, count))
    out[#out + 1] = text(width - 68, y + BAR - 5, count, "end")
    out[#out + 1] = text(width - 12, y + BAR - 5, terminal.percent(bucket.count, all), "end")
  end
  return finish(opts, width, TOP + #buckets * (BAR + GAP) + 12, out)
end

-- ---- timeline ----

local PROCESS = 1 -- of the trace: one, whose threads are the CPUs

-- "Trace Event Format": times in microseconds.
local function us(ns) return ns / 1000 end

local function name_of(row) return escape(tostring(row.name or "")) end

local function metadata(name, tid, args) return { ph = "M", pid = PROCESS, tid = tid, name = name, args = args } end

--- What ran when on which CPU, as a trace that Perfetto and chrome://tracing read.
-- @tparam table opts  `spans`: a list of `{ cpu =, name =, begin =, finish = }`; `points`: of `{ cpu =, name =,
--                     time = }`; `counters`: of `{ name =, time =, value = }`; times in ns; each may have `args`,
--                     a table of what is shown beside it; `title`
-- @treturn string  JSON
function M.timeline(opts)
  check_options("timeline", opts, { spans = true, points = true, counters = true, title = true }, 2)
  local spans, points, counters = opts.spans or {}, opts.points or {}, opts.counters or {}
  check_numbers("timeline: spans", spans, { "cpu", "begin", "finish" }, 2)
  check_numbers("timeline: points", points, { "cpu", "time" }, 2)
  check_numbers("timeline: counters", counters, { "time", "value" }, 2)
  local events, cpus = { metadata("process_name", 0, { name = escape(opts.title or "CPUs") }) }, {}
  -- A thread of number 0 is the idle task to those who read it: CPU n is thread n + 1.
  local function thread(cpu)
    cpus[cpu] = true
    return cpu + 1
  end
  for _, span in ipairs(spans) do
    events[#events + 1] = { ph = "X", pid = PROCESS, tid = thread(span.cpu), name = name_of(span),
      ts = us(span.begin), dur = us(span.finish - span.begin), args = span.args }
  end
  for _, point in ipairs(points) do
    events[#events + 1] = { ph = "i", s = "t", pid = PROCESS, tid = thread(point.cpu), name = name_of(point),
      ts = us(point.time), args = point.args }
  end
  for _, counter in ipairs(counters) do
    events[#events + 1] = { ph = "C", pid = PROCESS, name = name_of(counter), ts = us(counter.time),
      args = { value = counter.value } }
  end
  local list = {}
  for cpu in pairs(cpus) do list[#list + 1] = cpu end
  table.sort(list)
  for _, cpu in ipairs(list) do
    events[#events + 1] = metadata("thread_name", cpu + 1, { name = ("CPU %d"):format(cpu) })
    events[#events + 1] = metadata("thread_sort_index", cpu + 1, { sort_index = cpu })
  end
  return json.encode { displayTimeUnit = "ns", traceEvents = events } .. "\n"
end

return M
