--- Writes a table of the functions with the largest own values, for a terminal.
-- The columns "total" include the callees' values, once for a function that calls itself. They are left out if no
-- function has callees, as in samples without call chains. With a baseline the table has the functions whose own
-- share changed most, in points: percent of the profile minus percent of the baseline; or whose value changed most.

local function_rows = require "perfev.profile.function_rows"
local terminal = require "perfev.picture.terminal"

local function has_callers(rows)
  for _, row in ipairs(rows) do
    if row.now.total ~= row.now.own or row.before.total ~= row.before.own then return true end
  end
  return false
end

-- Right-aligns all cells but the last to the width of their column.
local function aligned(lines)
  local widths = {}
  for _, cells in ipairs(lines) do
    for i = 1, #cells - 1 do widths[i] = math.max(widths[i] or 0, utf8.len(cells[i])) end
  end
  for _, cells in ipairs(lines) do
    for i, width in ipairs(widths) do cells[i] = (" "):rep(width - utf8.len(cells[i])) .. cells[i] end
  end
  return lines
end

local layouts = {
  plain = { own = { "%s", "%" }, total = { "total", "%" }, cells = function(sum, _, side, _, unit)
    return { terminal.number(sum, unit), terminal.percent(sum, side.all) }
  end },
  shares = { own = { "%s", "own", "before", "change" }, total = { "total", "change" },
    cells = function(sum, before, side, base, unit)
      return { terminal.number(sum, unit), terminal.percent(sum, side.all), terminal.percent(before, base.all),
        terminal.points(sum, side.all, before, base.all) }
    end, total_cells = { 2, 4 } },
  values = { own = { "%s", "before", "change" }, total = { "total", "change" },
    cells = function(sum, before, _, _, unit)
      return { terminal.number(sum, unit), terminal.number(before, unit), terminal.signed(sum - before, unit) }
    end, total_cells = { 1, 3 } },
}

-- Appends the cells of a sum: all of them, or those with these numbers.
local function append(cells, more, numbers)
  for i = 1, numbers and #numbers or #more do cells[#cells + 1] = more[numbers and numbers[i] or i] end
end

return function(profile, opts)
  local _, value = profile:value(opts.value)
  local rows, side, base = function_rows.list(profile, opts)
  local layout = layouts[not opts.baseline and "plain" or opts.absolute and "values" or "shares"]
  local most = math.min(opts.limit or 20, #rows)
  local with_total = has_callers(rows)
  local lines = { { layout.own[1]:format(value.name) } }
  table.move(layout.own, 2, #layout.own, 2, lines[1])
  if with_total then append(lines[1], layout.total) end
  table.insert(lines[1], "function")
  -- now, before: sums with `own`, and `total` unless they are of several functions
  local function add(now, before, label)
    local cells = layout.cells(now.own, before.own, side, base, value.unit)
    if with_total and now.total then
      append(cells, layout.cells(now.total, before.total, side, base, value.unit), layout.total_cells)
    elseif with_total then
      append(cells, { "", "" })
    end
    cells[#cells + 1] = label
    lines[#lines + 1] = cells
  end
  local rest, rest_before = { own = side.all }, { own = base.all }
  for i = 1, most do
    local row = rows[i]
    add(row.now, row.before, terminal.label(row.func))
    rest.own, rest_before.own = rest.own - row.now.own, rest_before.own - row.before.own
  end
  if most < #rows then add(rest, rest_before, ("(%d others)"):format(#rows - most)) end
  add({ own = side.all }, { own = base.all }, "all")
  local out = {}
  for i, cells in ipairs(aligned(lines)) do
    out[i] = terminal.cut(table.concat(cells, "  "), opts.width or terminal.WIDTH)
  end
  return table.concat(out, "\n") .. "\n"
end
