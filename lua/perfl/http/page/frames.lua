--- The stacks of some slots as a flame graph (the data of flamegraph.js), and as a list of functions.

local call_tree = require "perfev.profile.call_tree"
local history = require "perfl.http.page.history"
local json = require "perfev.base.json"
local pieces = require "perfl.http.page.pieces"

local M = {}

local LEAST_SHARE = 1 / 2000 -- of all: narrower frames are summed up

-- -> the values of each node with those below it, and of all. Each node comes after its parent.
local function totals(parent, nr, own)
  local total = { [0] = 0 }
  for n = nr, 1, -1 do
    local sum = (total[n] or 0) + (own[n] or 0)
    if sum ~= 0 then
      total[n] = sum
      total[parent[n]] = (total[parent[n]] or 0) + sum
    end
    if n % 64 == 0 then pieces.rest() end
  end
  return total
end

local function is_wide(sides, n)
  for _, side in ipairs(sides) do
    if (side.total[n] or 0) > 0 and side.total[n] >= side.total[0] * LEAST_SHARE then return true end
  end
  return false
end

-- Keeps the wide frames; the values of the others are those of "[other]" below the frame that called them.
-- -> the tree of the kept frames, the number of those left out
local function prune(tree, nr, sides)
  local kept = { nodes = {}, children = {}, functions = tree.functions, function_of = tree.function_of }
  local number, left_out = { [0] = 0 }, 0
  for _, side in ipairs(sides) do side.kept = {} end
  local function add(parent, func)
    local key = parent << 32 | func
    local node = kept.children[key]
    if not node then
      node = #kept.nodes + 1
      kept.children[key], kept.nodes[node] = node, { func = func, parent = parent }
    end
    return node
  end
  local other = call_tree.function_of(tree, { symbol = "[other]" })
  for n = 1, nr do
    local parent = number[tree.parent[n]]
    if parent and is_wide(sides, n) then
      number[n] = add(parent, tree.func[n])
      for _, side in ipairs(sides) do
        side.kept[number[n]] = (side.kept[number[n]] or 0) + (side.own[n] or 0)
      end
    elseif parent then -- its callees are in its total
      local is_there = false
      for _, side in ipairs(sides) do
        if side.total[n] then
          local node = add(parent, other)
          side.kept[node], is_there = (side.kept[node] or 0) + side.total[n], true
        end
      end
      left_out = left_out + (is_there and 1 or 0)
    end
    if n % 64 == 0 then pieces.rest() end
  end
  return kept, left_out
end

-- -> the sides of the flame graph: a list for each value
local function sides_of(tree, nr, slots, name, nr_values)
  local sums, sides = history.summed(slots, name), {}
  for v = 1, nr_values do
    local own = sums[v] or {}
    sides[v] = { own = own, total = totals(tree.parent, nr, own) }
  end
  return sides
end

local function encode_sides(sides, order)
  local lists = {}
  for v, side in ipairs(sides) do
    lists[v] = pieces.encode_list(order, function(node) return json.encode(side.kept[node] or 0) end)
  end
  return "[" .. table.concat(lists, ",") .. "]"
end

-- -> the functions of the kept frames, numbered anew
local function used_functions(kept, order)
  local number, list, func = {}, {}, {}
  for i, node in ipairs(order) do
    local old = kept.nodes[node].func
    if not number[old] then
      list[#list + 1] = kept.functions[old]
      number[old] = #list
    end
    func[i] = number[old]
    if i % 64 == 0 then pieces.rest() end
  end
  return list, func
end

local function encode_function(func) return json.encode(call_tree.function_row(func)) end

local function encode_integer(n) return ("%d"):format(n) end

--- Yields a flame graph as JSON, in pieces.
-- @tparam history kept
-- @tparam string name     of the profile
-- @tparam profile profile  its title and values
-- @tparam table slots
-- @tparam ?table before   the slots of the baseline
function M.yield_flame(kept, name, profile, slots, before)
  local tree = kept.trees[name] or { functions = {}, function_of = {}, parent = {}, func = {} }
  local nr = #tree.parent
  local now = sides_of(tree, nr, slots, name, #profile.values)
  local base = before and sides_of(tree, nr, before, name, #profile.values)
  local all = table.move(now, 1, #now, 1, {})
  if base then table.move(base, 1, #base, #all + 1, all) end
  local small, left_out = prune(tree, nr, all)
  local order, depth = call_tree.in_order(small, pieces.rest)
  local functions, func = used_functions(small, order)
  coroutine.yield(('{"title":%s,"values":%s,"from":%d,"to":%d,"left_out":%d,"functions":'):format(
    json.encode(profile.title or name), json.encode(profile.values), slots[1] and slots[1].begin or 0,
    slots[1] and slots[#slots].finish or 0, left_out))
  coroutine.yield(pieces.encode_list(functions, encode_function))
  coroutine.yield(',"func":' .. pieces.encode_list(func, encode_integer))
  coroutine.yield(',"depth":' .. pieces.encode_list(depth, encode_integer))
  coroutine.yield(',"own":' .. encode_sides(now, order))
  if base then coroutine.yield(',"base":' .. encode_sides(base, order)) end
  coroutine.yield "}"
end

--- Yields the functions of a profile with their values, as the format json of profiles has them.
function M.yield_functions(kept, name, profile)
  local tree = kept.trees[name] or { functions = {}, parent = {}, func = {} }
  local own = history.summed(kept.slots, name)[1] or {}
  local rows, all = {}, 0
  for n = 1, #tree.parent do
    local value = own[n]
    if value then
      local seen = {}
      all = all + value
      local up = n
      while up ~= 0 do
        local func = tree.func[up]
        local row = rows[func]
        if not row then
          row = { own = 0, total = 0, func = tree.functions[func] }
          rows[func] = row
        end
        if up == n then row.own = row.own + value end
        if not seen[func] then row.total = row.total + value end
        seen[func], up = true, tree.parent[up]
      end
    end
    if n % 16 == 0 then pieces.rest() end
  end
  local _, value = profile:value()
  local list = {}
  for _, row in pairs(rows) do list[#list + 1] = row end
  table.sort(list, function(a, b)
    if a.own ~= b.own then return a.own > b.own end
    return a.func.key < b.func.key
  end)
  coroutine.yield(('{"name":%s,"title":%s,"value":%s,"unit":%s,"total":%s,"functions":'):format(json.encode(name),
    profile.title and json.encode(profile.title) or "null", json.encode(value.name), json.encode(value.unit),
    json.encode(all)))
  local function share(part) return all ~= 0 and part / all or 0 end
  coroutine.yield(pieces.encode_list(list, function(row)
    return json.encode { own = row.own, total = row.total, own_share = share(row.own), total_share = share(row.total),
      name = row.func.name, module = row.func.module, kind = row.func.kind }
  end) .. "}")
end

return M
