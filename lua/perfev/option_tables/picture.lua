--- Options of perfev.picture: heatmap{}, histogram{}, timeline{}; and of svg{}, html{} of a perfev.hist.

local M = {}

local series, notes = { "table", "a list" }, { "table", "a list of lines" }
local format = "one of svg, html"

M.heatmap = {
  title = "*", notes = notes, series = series, unit = "*", format = format, cells = "*",
  step = { "integer > 0", "a time in ns above 0" },
}
M.histogram = { title = "*", notes = notes, series = series, unit = "*", format = format, buckets = "*" }
M.timeline = { spans = "*", points = "*", counters = "*", title = "*" }
M.drawn_histogram = { title = "*", panels = "integer > 0", format = format }

return M
