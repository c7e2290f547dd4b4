--- The rows of perfl top's tables, from the samples of an interval.
--
-- An interval has `tree`, of perfev.profile.call_tree, whose outermost frames are threads, and `tasks`: by the name of
-- such a frame { comm =, thread =, process =, cgroup = }. A group is the threads with one of these values.

local function_rows = require "perfev.profile.function_rows"
local terminal = require "perfev.picture.terminal"

local M = {}

--- Iterates over the threads of a group, or over all: the first and the last node of each, and its task.
function M.threads(interval, group)
  local tree, n = interval.tree, 1
  return function()
    while tree.func[n] do
      local first, task = n, interval.tasks[tree.functions[tree.func[n]].name]
      n = tree.last[first] + 1
      if not group or task[group.by] == group.key then return first, n - 1, task end
    end
  end
end

local function row_of(list, by_key, key, label)
  local row = by_key[key]
  if not row then
    row = { key = key, label = label, own = 0, total = 0 }
    by_key[key] = row
    list[#list + 1] = row
  end
  return row
end

--- Sums by thread, process or cgroup.
function M.groups(interval, by)
  local list, by_key, totals = {}, {}, interval.tree.values[1].total
  for first, _, task in M.threads(interval) do
    local row = row_of(list, by_key, task[by], task[by])
    row.own, row.total = row.own + totals[first], row.total + totals[first]
  end
  return list
end

--- Sums by function; each row has the function as `func`.
function M.functions(interval, group)
  local tree = interval.tree
  local side, list, by_key = tree.values[1], {}, {}
  local add = function_rows.adder(tree, side)
  for first, last in M.threads(interval, group) do
    if side.own[first] ~= 0 then
      local row = row_of(list, by_key, "[unknown]", "[unknown]") -- samples without a stack
      row.own, row.total = row.own + side.own[first], row.total + side.own[first]
    end
    for n = first + 1, last do
      local func = tree.functions[tree.func[n]]
      local row = row_of(list, by_key, func.key, terminal.label(func))
      row.func = func
      add(n, tree.func[n], row)
    end
  end
  return list
end

-- ---- callers ----

--- Returns a node's child with this key, and makes it if it does not exist. A node is { key =, total =, children =,
-- by_key =, parent =, func =, label = }.
function M.child(node, key, label, func)
  local child = node.by_key[key]
  if not child then
    child = { key = key, label = label, func = func, total = 0, children = {}, by_key = {}, parent = node }
    node.by_key[key] = child
    table.insert(node.children, child)
  end
  return child
end

function M.root(label) return { key = "", label = label, total = 0, children = {}, by_key = {} } end

-- Adds the value of a call at a depth to its callers, the nearest first, and to the thread's name.
local function add_callers(root, functions, path, depth, value, comm)
  local node = root
  for d = depth - 1, 2, -1 do
    local func = functions[path[d]]
    node = M.child(node, func.key, terminal.label(func), func)
    node.total = node.total + value
  end
  node = M.child(node, "thread " .. comm, comm)
  node.total = node.total + value
end

local LEAST = 0.005 -- of the function's total: callers with less have no row

-- As in p:tree(): a caller without others beside it is not indented.
local function flatten(list, node, least, depth, path)
  local is_alone = node.parent and #node.children == 1
  table.sort(node.children, function(a, b)
    if a.total ~= b.total then return a.total > b.total end
    return a.key < b.key
  end)
  for _, child in ipairs(node.children) do
    if child.total >= least then
      local key = path .. "\0" .. child.key
      list[#list + 1] = { key = key, label = ("  "):rep(depth) .. (is_alone and "  " or "- ") .. child.label,
        own = 0, total = child.total, func = child.func }
      flatten(list, child, least, depth + (#child.children == 1 and 0 or 1), key)
    end
  end
end

--- Returns the callers of a function as the rows of a tree, the nearest first. A recursive call counts once.
-- @tparam string key  of the function
function M.callers(interval, key, group)
  local tree = interval.tree
  local functions, totals, root, path = tree.functions, tree.values[1].total, M.root "", {}
  for first, last, task in M.threads(interval, group) do
    local counted = 0 -- the last node below a call that was counted
    for n = first + 1, last do
      local depth = tree.depth[n]
      path[depth] = tree.func[n]
      if functions[tree.func[n]].key == key and n > counted then
        counted = tree.last[n]
        root.total = root.total + totals[n]
        add_callers(root, functions, path, depth, totals[n], task.comm)
      end
    end
  end
  local list = {}
  flatten(list, root, root.total * LEAST, 0, "")
  return list
end

-- ---- order and selection ----

local orders = {
  own = function(a, b) return { b.own - a.own, b.total - a.total } end,
  total = function(a, b) return { b.total - a.total, b.own - a.own } end,
  name = function() return {} end,
}

--- Sorts rows by own value, total value or name.
function M.sort(list, order)
  table.sort(list, function(a, b)
    for _, difference in ipairs(orders[order](a, b)) do
      if difference ~= 0 then return difference < 0 end
    end
    return a.label < b.label or a.label == b.label and a.key < b.key
  end)
end

--- True if the label contains the text, in any case of letters.
function M.matches(label, text) return label:lower():find(text:lower(), 1, true) ~= nil end

return M
