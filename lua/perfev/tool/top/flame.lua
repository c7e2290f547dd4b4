--- The flame graph of perfl top: the callers above the functions that they call, in the columns of a terminal.

local rows = require "perfev.tool.top.rows"
local terminal = require "perfev.picture.terminal"

local M = {}

--- Returns the tree of an interval's stacks, below the names of their threads; a node is that of rows.child.
function M.tree(interval, group)
  local tree = interval.tree
  local totals, root, path = tree.values[1].total, rows.root "all", {}
  for first, last, task in rows.threads(interval, group) do
    path[1] = rows.child(root, task.comm, task.comm)
    path[1].total = path[1].total + totals[first]
    root.total = root.total + totals[first]
    for n = first + 1, last do
      local depth, func = tree.depth[n], tree.functions[tree.func[n]]
      path[depth] = rows.child(path[depth - 1], func.key, terminal.label(func), func)
      path[depth].total = path[depth].total + totals[n]
    end
  end
  return root
end

--- Returns the node with these keys below the root, or the last of them that exists.
function M.find(root, keys)
  local node = root
  for _, key in ipairs(keys) do
    if not node.by_key[key] then return node end
    node = node.by_key[key]
  end
  return node
end

--- Returns the keys from the root to a node.
function M.keys_of(node)
  local keys = {}
  while node.parent do
    table.insert(keys, 1, node.key)
    node = node.parent
  end
  return keys
end

--- Places boxes: those of a node and its callers have the whole width, the others the width of their share of the
-- node. A box narrower than a column is left out.
-- @tparam table zoom     a node
-- @tparam integer width  in columns
-- @treturn {table,...}   { node =, row = from 1, x = from 0, width = }, row after row, from left to right
function M.layout(zoom, width)
  local rows_of, node = {}, zoom
  while node do
    table.insert(rows_of, 1, { { node = node, x = 0, width = width, from = 0 } })
    node = node.parent
  end
  local scale = zoom.total > 0 and width / zoom.total or 0
  local function column(value) return math.floor(value * scale + 0.5) end
  local row = rows_of[#rows_of]
  while #row > 0 do
    local below = {}
    for _, box in ipairs(row) do
      local from = box.from
      table.sort(box.node.children, function(a, b) return a.key < b.key end)
      for _, child in ipairs(box.node.children) do
        local x, stop = column(from), column(from + child.total)
        if stop > x then below[#below + 1] = { node = child, x = x, width = stop - x, from = from } end
        from = from + child.total
      end
    end
    rows_of[#rows_of + 1] = below
    row = below
  end
  local boxes = {}
  for number, list in ipairs(rows_of) do
    for _, box in ipairs(list) do
      boxes[#boxes + 1] = { node = box.node, row = number, x = box.x, width = box.width }
    end
  end
  return boxes
end

return M
