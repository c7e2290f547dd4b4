--- Builds the call tree for pictures: frames merged by function, without lines, together with a baseline.
--
-- Nodes are numbered parents first and siblings by name, so a subtree is a range: n to last[n]. The
-- tree includes nodes that only the baseline has.

-- The sums without a baseline.
local zeroes = setmetatable({}, { __index = function() return 0 end })
local M = { nothing = { own = zeroes, total = zeroes, all = 0 } }

-- FNV-1a over the name, 0…99: a function keeps its shade in all pictures.
local function shade_of(name)
  local hash = 0x811c9dc5
  for i = 1, #name do hash = (hash ~ name:byte(i)) * 0x01000193 & 0xffffffff end
  return (hash ~ hash >> 15) % 100
end

local function kind_of(frame)
  return frame.kernel and "kernel" or frame.inlined and "inlined" or frame.symbol:find("^%[") and "unknown" or "user"
end

-- Two builds of a program have a function at other addresses, inlined or not, in files of other folders: with a
-- baseline it is one function by its name, the last part of its file's path, and its side, kernel or user. Folded text
-- has no files and may have no sides, so they count only if both profiles have some.
local function key_of(tree, frame, kind)
  if not tree.has_both then return table.concat({ frame.symbol, frame.module or "", kind }, "\0") end
  local module = tree.has_both.module and frame.module and (frame.module:match "([^/]+)/*$" or frame.module) or ""
  return table.concat({ frame.symbol, module, tree.has_both.kernel and frame.kernel and "kernel" or "" }, "\0")
end

-- Returns which of `module` and `kernel` some frame has in either profile.
local function properties_of_both(profile, baseline)
  local function properties_of(one)
    local has = {}
    one:walk(function(_, frame) has.module, has.kernel = has.module or frame.module, has.kernel or frame.kernel end)
    return has
  end
  local now, before = properties_of(profile), properties_of(baseline)
  return { module = now.module and before.module, kernel = now.kernel and before.kernel }
end

--- Returns the number of a frame's function in tree.functions, which may be new.
-- @tparam table tree  `functions`, `function_of`
function M.function_of(tree, frame)
  local kind = kind_of(frame)
  local key = key_of(tree, frame, kind)
  if not tree.function_of[key] then
    table.insert(tree.functions, { name = frame.symbol, module = frame.module, kind = kind, key = key,
      shade = shade_of(frame.symbol), file = frame.file })
    tree.function_of[key] = #tree.functions
  end
  return tree.function_of[key]
end

-- places: gets the node of each node of the profile, by its number there
local function insert(tree, profile, side, to, places)
  local path = { [0] = 0 }
  profile:walk(function(depth, frame, values, place)
    local func = M.function_of(tree, frame)
    local key = path[depth - 1] << 32 | func
    local node = tree.children[key]
    if not node then
      node = #tree.nodes + 1
      tree.children[key], tree.nodes[node] = node, { func = func, parent = path[depth - 1] }
    end
    path[depth], places[place] = node, node
    for i, value in ipairs(values or {}) do
      local own = side[to[i]]
      own[node] = (own[node] or 0) + value
    end
  end)
end

--- Returns the old numbers in the order of the new ones, and the depth of each node.
-- @tparam table tree  `functions`; `nodes`: `{ func =, parent = }`
-- @tparam[opt] function rest  called between steps
function M.in_order(tree, rest)
  rest = rest or function() end
  local of = {}
  for node, at in ipairs(tree.nodes) do
    local list = of[at.parent]
    if list then list[#list + 1] = node else of[at.parent] = { node } end
    if node % 64 == 0 then rest() end
  end
  local functions, nodes = tree.functions, tree.nodes
  for _, list in pairs(of) do
    table.sort(list, function(a, b) return functions[nodes[a].func].key < functions[nodes[b].func].key end)
    rest()
  end
  local order, depth, stack = {}, {}, { 0 }
  local level = { [0] = 0 }
  while #stack > 0 do
    local node = table.remove(stack)
    if node ~= 0 then
      order[#order + 1] = node
      depth[#order] = level[node]
    end
    local list = of[node] or {}
    for i = #list, 1, -1 do
      stack[#stack + 1] = list[i]
      level[list[i]] = level[node] + 1
    end
    rest()
  end
  return order, depth
end

local function last_of_each(depth)
  local last, open = {}, {}
  for n = 1, #depth do
    while #open > 0 and depth[open[#open]] >= depth[n] do last[table.remove(open)] = n - 1 end
    open[#open + 1] = n
  end
  for _, n in ipairs(open) do last[n] = #depth end
  return last
end

-- Returns each node's own value and its total with the nodes below, by new numbers.
local function sums(order, depth, old)
  local own, total, above = {}, {}, {}
  for n, node in ipairs(order) do own[n], total[n] = old[node] or 0, 0 end
  for n = #order, 1, -1 do
    local d = depth[n]
    total[n] = own[n] + (above[d + 1] or 0)
    above[d + 1] = 0
    above[d] = (above[d] or 0) + total[n]
  end
  return { own = own, total = total, all = above[1] or 0 }
end

--- @tparam profile profile
-- @tparam profile|nil baseline  its value types are found by name
-- @treturn table  by node: `func` (index of `functions`), `depth` (from 1), `last`; `values` and `base`: for
--                 each value type `own`, `total` (by node) and `all`; `functions`: `{ name, module, kind, shade }`;
--                 `places`: a node of the profile (Profile:_add_each) -> node
function M.build(profile, baseline)
  local tree = { nodes = {}, children = {}, functions = {}, function_of = {},
    has_both = baseline and properties_of_both(profile, baseline) }
  local now, base, same, to = {}, {}, {}, {}
  for i in ipairs(profile.values) do now[i], base[i], same[i] = {}, {}, i end
  local places = {}
  insert(tree, profile, now, same, places)
  if baseline then
    for i, value in ipairs(baseline.values) do to[i] = profile:value(value.name) end
    insert(tree, baseline, base, to, {})
  end
  local order, depth = M.in_order(tree)
  local result = { func = {}, depth = depth, last = last_of_each(depth), values = {}, base = baseline and {},
    functions = tree.functions, places = {} }
  local number = {}
  for n, node in ipairs(order) do result.func[n], number[node] = tree.nodes[node].func, n end
  for place, node in pairs(places) do result.places[place] = number[node] end
  for i in ipairs(profile.values) do
    result.values[i] = sums(order, depth, now[i])
    if baseline then result.base[i] = sums(order, depth, base[i]) end
  end
  return result
end

local KINDS = { user = 0, inlined = 1, kernel = 2, unknown = 3 }

--- Returns a function of a tree as flamegraph.js takes it.
function M.function_row(func) return { func.name, func.module or "", KINDS[func.kind], func.shade } end

--- Returns all of them.
function M.function_rows(tree)
  local rows = {}
  for i, func in ipairs(tree.functions) do rows[i] = M.function_row(func) end
  return rows
end

return M
