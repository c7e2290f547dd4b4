--- Writes a table of the functions with the largest own values, for a terminal.
-- The column "total" includes the callees' values, once for a function that calls itself. It is left out if no
-- function has callees, as in samples without call chains. With a baseline the table has the functions whose own
-- share changed most, in points: percent of the profile minus percent of the baseline.

local calls = require "perfev.profile.call_tree"
local terminal = require "perfev.picture.terminal"

local function rows_of(tree, side, base)
  local rows, open = {}, {}
  for n, func in ipairs(tree.func) do
    local row = rows[func]
    if not row then
      row = { func = tree.functions[func], own = 0, total = 0, before = 0 }
      rows[func] = row
    end
    row.own, row.before = row.own + side.own[n], row.before + base.own[n]
    local inside = open[func]
    if not inside or n > tree.last[inside] then -- not a recursive call
      row.total = row.total + side.total[n]
      open[func] = n
    end
  end
  local list = {}
  for _, row in pairs(rows) do
    row.change = terminal.share(row.own, side.all) - terminal.share(row.before, base.all)
    if row.own ~= 0 or row.total ~= 0 or row.before ~= 0 then list[#list + 1] = row end
  end
  return list
end

local function has_callers(rows)
  for _, row in ipairs(rows) do
    if row.total ~= row.own then return true end
  end
  return false
end

local function by(field)
  return function(a, b)
    local x, y = math.abs(a[field]), math.abs(b[field])
    if x ~= y then return x > y end
    x, y = math.abs(a.total), math.abs(b.total)
    if x ~= y then return x > y end
    return a.func.key < b.func.key
  end
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

return function(profile, opts)
  local index, value = profile:value(opts.value)
  local tree = calls.build(profile, opts.baseline)
  local side, base = tree.values[index], tree.base and tree.base[index] or calls.nothing
  local rows = rows_of(tree, side, base)
  table.sort(rows, by(tree.base and "change" or "own"))
  local most = math.min(opts.limit or 20, #rows)
  local with_total = not tree.base and has_callers(rows)
  local lines = { tree.base and { value.name, "now", "before", "change" }
    or with_total and { value.name, "%", "total", "%" } or { value.name, "%" } }
  table.insert(lines[1], "function")
  local function add(own, before, total, label)
    local cells = { terminal.number(own, value.unit), terminal.percent(own, side.all) }
    if tree.base then
      cells[3], cells[4] = terminal.percent(before, base.all), terminal.points(own, side.all, before, base.all)
    elseif with_total then
      cells[3], cells[4] = total and terminal.number(total, value.unit) or "", total
        and terminal.percent(total, side.all) or ""
    end
    cells[#cells + 1] = label
    lines[#lines + 1] = cells
  end
  local shown, shown_before = 0, 0
  for i = 1, most do
    local row = rows[i]
    add(row.own, row.before, row.total, terminal.label(row.func))
    shown, shown_before = shown + row.own, shown_before + row.before
  end
  if most < #rows then add(side.all - shown, base.all - shown_before, nil, ("(%d others)"):format(#rows - most)) end
  add(side.all, base.all, nil, "all")
  local out = {}
  for i, cells in ipairs(aligned(lines)) do
    out[i] = terminal.cut(table.concat(cells, "  "), opts.width or terminal.WIDTH)
  end
  return table.concat(out, "\n") .. "\n"
end
