--- The functions with the most of a value of their own, as a table for a terminal.
-- "total" has what was seen below a function too, once where it calls itself.

local calls = require "perfev.profile.calls"
local terminal = require "perfev.profile.terminal"

local function rows_of(tree, side)
  local rows, open = {}, {}
  for n, func in ipairs(tree.func) do
    local row = rows[func]
    if not row then
      row = { func = tree.functions[func], own = 0, total = 0 }
      rows[func] = row
    end
    row.own = row.own + side.own[n]
    local inside = open[func]
    if not inside or n > tree.last[inside] then -- not below itself
      row.total = row.total + side.total[n]
      open[func] = n
    end
  end
  local list = {}
  for _, row in pairs(rows) do
    if row.own ~= 0 or row.total ~= 0 then list[#list + 1] = row end
  end
  table.sort(list, function(a, b)
    local own_a, own_b = math.abs(a.own), math.abs(b.own)
    if own_a ~= own_b then return own_a > own_b end
    local total_a, total_b = math.abs(a.total), math.abs(b.total)
    if total_a ~= total_b then return total_a > total_b end
    return a.func.key < b.func.key
  end)
  return list
end

-- { "12", "8.0%", … } -> as wide as the widest of each column, to the right.
local function aligned(lines)
  local widths = {}
  for _, cells in ipairs(lines) do
    for i = 1, #cells - 1 do widths[i] = math.max(widths[i] or 0, #cells[i]) end
  end
  for _, cells in ipairs(lines) do
    for i, width in ipairs(widths) do cells[i] = (" "):rep(width - #cells[i]) .. cells[i] end
  end
  return lines
end

return function(profile, opts)
  local index, value = profile:value(opts.value)
  local tree = calls.build(profile)
  local side = tree.values[index]
  local rows = rows_of(tree, side)
  local most = math.min(opts.limit or 20, #rows)
  local lines, shown = { { value.name, "%", "total", "%", "function" } }, 0
  for i = 1, most do
    local row = rows[i]
    lines[#lines + 1] = { terminal.number(row.own, value.unit), terminal.percent(row.own, side.all),
      terminal.number(row.total, value.unit), terminal.percent(row.total, side.all), terminal.label(row.func) }
    shown = shown + row.own
  end
  if most < #rows then
    local rest = side.all - shown
    lines[#lines + 1] = { terminal.number(rest, value.unit), terminal.percent(rest, side.all), "", "",
      ("(%d others)"):format(#rows - most) }
  end
  lines[#lines + 1] = { terminal.number(side.all, value.unit), terminal.percent(side.all, side.all), "", "", "all" }
  local out = {}
  for i, cells in ipairs(aligned(lines)) do
    out[i] = terminal.cut(table.concat(cells, "  "), opts.width or terminal.WIDTH)
  end
  return table.concat(out, "\n") .. "\n"
end
