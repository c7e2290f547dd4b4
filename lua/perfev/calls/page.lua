--- The report as one HTML file that loads nothing from a network: the cause, the table, timelines of three calls, and a
-- flame graph of the slow calls with the rest as its baseline.

local _, this_file = ...
local asset = require "perfev.base.asset"
local comparison = require "perfev.calls.comparison"
local escape = require "perfev.base.escape"
local markup = require "perfev.picture.markup"
local profiles = require "perfev.profile"
local sentences = require "perfev.calls.sentences"
local table_rows = require "perfev.calls.table_rows"
local timeline = require "perfev.calls.timeline"

local function text(words) return markup(escape(words)) end

local function cell(row, ns)
  if row.is_count then return (("%.1f"):format(ns):gsub("^%-0%.0$", "0.0")) end
  return sentences.duration(ns)
end

local function row_html(row)
  local interval = row.interval and ("%s to %s"):format(cell(row, row.interval[1]), cell(row, row.interval[2])) or ""
  local path = row.shows_code and comparison.path_text(row.path) or ""
  return ('<tr class="%s"><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td><code>%s</code></td></tr>\n')
    :format(row.is_code and "part" or row.key == "took" and "all" or "", text(row.name), cell(row, row.slow),
    cell(row, row.rest), cell(row, row.difference), interval, text(path))
end

local function table_html(report)
  local parts = { "<h2>Per call</h2>\n<table>\n<tr><th>what</th><th>slow</th><th>rest</th><th>difference</th>",
    "<th>95 % interval</th><th>code</th></tr>\n" }
  for _, row in ipairs(table_rows(report)) do parts[#parts + 1] = row_html(row) end
  parts[#parts + 1] = "</table>\n"
  return table.concat(parts)
end

local function lanes_html(report, name, call)
  local parts = { ("<h2>%s</h2>\n<div class=\"lanes\">\n"):format(text(timeline.title(name, call))) }
  local lanes, longest = timeline.lanes(report, call)
  for _, lane in ipairs(lanes) do
    local bars = {}
    for i, piece in ipairs(lane.pieces) do
      bars[i] = ('<i class="%s" style="left:%.3f%%;width:%.3f%%" title="%s"></i>'):format(lane.key,
        piece[1] * 100 / call.took, (piece[2] - piece[1]) * 100 / call.took,
        text(("%s after %s"):format(sentences.duration(piece[2] - piece[1]), sentences.duration(piece[1]))))
    end
    parts[#parts + 1] = ('<span>%s</span><div class="lane">%s</div><span>%s</span>\n'):format(text(lane.name),
      table.concat(bars), sentences.duration(lane.time))
  end
  parts[#parts + 1] = "</div>\n"
  for _, piece in ipairs(longest) do
    parts[#parts + 1] = ("<p>%s after %s: %s <code>%s</code></p>\n"):format(sentences.duration(piece.took),
      sentences.duration(piece.from), text(piece.name), text(piece.path))
  end
  return table.concat(parts)
end

local function report_html(page)
  local parts = { '<section class="report">\n', "<h1>", text(page.headline), "</h1>\n" }
  local function add(words) parts[#parts + 1] = "<p>" .. text(words) .. "</p>\n" end
  if page.second then add(page.second) end
  if page.report.rows then
    parts[#parts + 1] = table_html(page.report)
    for _, example in ipairs(page.report.examples) do
      if example[2] then parts[#parts + 1] = lanes_html(page.report, example[1], example[2]) end
    end
  end
  for _, line in ipairs(page.remarks) do add(line) end
  parts[#parts + 1] = "</section>\n"
  return table.concat(parts)
end

--- @tparam table page  as for perfev.calls.text, and `title`
-- @treturn string
return function(page)
  local function profile_of(calls)
    local profile = profiles { title = page.title .. ": a slow call, set against the rest",
      values = { { "time per call", unit = "ns" } } }
    if calls[1] then comparison.add_to_profile(page.report, calls, profile) end
    return profile
  end
  return profile_of(page.report.slow):html { baseline = profile_of(page.report.rest), absolute = true,
    above = report_html(page), style = asset("perfev/calls/page.css", this_file) }
end
