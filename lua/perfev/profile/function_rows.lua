--- Sums a call tree by function.

local calls = require "perfev.profile.call_tree"
local terminal = require "perfev.picture.terminal"

local M = {}

--- Returns a function that adds a node's values to its function's sums. A recursive call adds nothing to the total.
-- @tparam table tree  of perfev.profile.call_tree
-- @tparam table side  its values or its baseline's
-- @treturn function   f(node, its function, sums with `own` and `total`), to be called in the order of the nodes
function M.adder(tree, side)
  local open = {}
  return function(n, func, sums)
    sums.own = sums.own + side.own[n]
    local outer = open[func]
    if outer and n <= tree.last[outer] then return end
    sums.total = sums.total + side.total[n]
    open[func] = n
  end
end

local function row_of(rows, func, functions)
  rows[func] = rows[func] or { func = functions[func], now = { own = 0, total = 0 }, before = { own = 0, total = 0 } }
  return rows[func]
end

local function is_empty(row)
  return row.now.own == 0 and row.now.total == 0 and row.before.own == 0 and row.before.total == 0
end

-- The largest first, in any direction, by the first of these numbers that differs.
local function by(numbers_of)
  return function(a, b)
    local these, those = numbers_of(a), numbers_of(b)
    for i, this in ipairs(these) do
      local x, y = math.abs(this), math.abs(those[i])
      if x ~= y then return x > y end
    end
    return a.func.key < b.func.key
  end
end

local function by_size(row) return { row.now.own, row.now.total } end
local function by_change(row) return { row.change.own, row.change.total, row.now.total } end

--- Returns the functions of a profile: the largest own values first, or with a baseline the largest changes.
-- @tparam profile profile
-- @tparam table opts  of a writer: `value`, `baseline`, `absolute` (changes of the values, not of their shares)
-- @treturn {table,...}  `func` (of perfev.profile.call_tree); `now`, `before`, `change`: each `own` and `total`; a
--                       change of shares is in points
-- @treturn table  the profile's side of the tree
-- @treturn table  the baseline's
function M.list(profile, opts)
  local index = profile:value(opts.value)
  local tree = calls.build(profile, opts.baseline)
  local side, base = tree.values[index], tree.base and tree.base[index] or calls.nothing
  local rows, list = {}, {}
  local add_now, add_before = M.adder(tree, side), M.adder(tree, base)
  for n, func in ipairs(tree.func) do
    local row = row_of(rows, func, tree.functions)
    add_now(n, func, row.now)
    add_before(n, func, row.before)
  end
  for _, row in pairs(rows) do
    row.change = {}
    for name, now in pairs(row.now) do
      local before = row.before[name]
      row.change[name] = opts.absolute and now - before
        or terminal.share(now, side.all) - terminal.share(before, base.all)
    end
    if not is_empty(row) then list[#list + 1] = row end
  end
  table.sort(list, by(opts.baseline and by_change or by_size))
  return list, side, base
end

return M
