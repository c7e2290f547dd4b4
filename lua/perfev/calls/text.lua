--- The report as text in 80 columns.

local comparison = require "perfev.calls.comparison"
local escape = require "perfev.base.escape"
local sentences = require "perfev.calls.sentences"
local table_rows = require "perfev.calls.table_rows"
local timeline = require "perfev.calls.timeline"

local function table_lines(report)
  local all = report.rows[1]
  local unit = sentences.table_unit(math.max(all.slow, all.rest))
  local function number(row, value)
    local text = row.is_count and ("%.1f"):format(value) or ("%.3f"):format(value / unit[1])
    return (text:gsub("^%-(0%.0+)$", "%1"))
  end
  local lines = { ("%-26s %10s %10s %10s  %19s"):format(unit[2] .. " PER CALL", "SLOW", "REST", "DIFFERENCE",
    "95 % INTERVAL") }
  for _, row in ipairs(table_rows(report)) do
    lines[#lines + 1] = ("%-26s %10s %10s %10s  %19s"):format((row.is_code and "  " or "") .. row.name,
      number(row, row.slow), number(row, row.rest), number(row, row.difference),
      row.interval and ("%s to %s"):format(number(row, row.interval[1]), number(row, row.interval[2])) or "-")
    if row.shows_code then
      local line = "    " .. escape(comparison.path_text(row.path))
      lines[#lines + 1] = #line > 80 and line:sub(1, 77) .. "..." or line
    end
  end
  return lines
end

--- @tparam table page  `headline`, `second`, `report`, `remarks`
-- @treturn string
return function(page)
  local lines = { page.headline, page.second }
  local function add(more)
    for _, line in ipairs(more) do lines[#lines + 1] = line end
  end
  if page.report.rows then
    lines[#lines + 1] = ""
    add(table_lines(page.report))
    for _, example in ipairs(page.report.examples) do
      if example[2] then
        lines[#lines + 1] = ""
        add(timeline.text(page.report, example[1], example[2]))
      end
    end
  end
  if page.remarks[1] then lines[#lines + 1] = "" end
  add(page.remarks)
  return table.concat(lines, "\n") .. "\n"
end
