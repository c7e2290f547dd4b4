--- What perfl top shows, and what the keys change. It reads no terminal and draws nothing: drawing.lua does.

local flame = require "perfev.tool.top.flame"
local rows = require "perfev.tool.top.rows"
local terminal = require "perfev.picture.terminal"

local M = {}
local Model = {}
Model.__index = Model

local BY = { "function", "thread", "process", "cgroup" }
local ORDERS = { "own", "total", "name" }
local HEAD, FOOT = 3, 1 -- lines around the rows of a table
local NO_SAMPLES = { tree = { func = {}, values = { {} } } }

-- What a step back restores.
local KEPT = { "view", "by", "group", "caller_of", "pinned", "offset", "filter", "zoom", "at" }

--- @tparam string title  what is sampled
function M.new(title)
  return setmetatable({ title = title, view = "table", by = "function", order = "own", filter = "", offset = 0,
    history = {}, width = 80, height = 24 }, Model)
end

--- Shows the samples of another interval, unless the picture is frozen.
function Model:show(interval)
  if self.frozen then return end
  self.interval, self.cache = interval, nil
end

--- Sets the size of the terminal.
function Model:resize(width, height) self.width, self.height = width, height end

-- ---- tables ----

-- The selected row stays, even if the interval has no sample of it.
local function keep_pinned(self, list)
  local pinned = self.pinned
  if not pinned then return end
  for _, row in ipairs(list) do
    if row.key == pinned.key then return end
  end
  list[#list + 1] = { key = pinned.key, label = pinned.label, func = pinned.func, own = 0, total = 0 }
end

local function matching(list, filter)
  local found = {}
  for _, row in ipairs(list) do
    if rows.matches(row.label, filter) then found[#found + 1] = row end
  end
  return found
end

local function make_rows(self)
  if not self.interval then return {} end
  local list
  if self.view == "callers" then
    list = rows.callers(self.interval, self.caller_of.key, self.group)
  else
    list = self.by == "function" and rows.functions(self.interval, self.group) or rows.groups(self.interval, self.by)
    keep_pinned(self, list)
    rows.sort(list, self.order)
  end
  return self.filter == "" and list or matching(list, self.filter)
end

--- Returns the rows of the table.
function Model:rows()
  if not self.cache then self.cache = make_rows(self) end
  return self.cache
end

--- Returns the selected row and its number: the one that the user chose, else the first.
function Model:selected()
  local list = self:rows()
  for i, row in ipairs(list) do
    if self.pinned and row.key == self.pinned.key then return row, i end
  end
  return list[1], 1
end

--- Returns the number of rows that fit, and the number of rows above them, so that the selected row is among them.
function Model:page()
  local nr, _, selected = math.max(self.height - HEAD - FOOT, 1), self:selected()
  self.offset = math.max(math.min(self.offset, selected - 1, #self:rows() - nr), selected - nr, 0)
  return nr, self.offset
end

local function move(self, step)
  local list, _, selected = self:rows(), self:selected()
  self.pinned = list[math.max(math.min(selected + step, #list), 1)]
end

-- ---- the flame graph ----

--- Returns the boxes of the flame graph, the selected node, and the tree.
function Model:boxes()
  if not self.cache then self.cache = flame.tree(self.interval or NO_SAMPLES, self.group) end
  local boxes, at = flame.layout(flame.find(self.cache, self.zoom), self.width), flame.find(self.cache, self.at)
  local is_drawn = {}
  for _, box in ipairs(boxes) do is_drawn[box.node] = true end
  while not is_drawn[at] do at = at.parent end
  return boxes, at, self.cache
end

local function box_of(boxes, node)
  for i, box in ipairs(boxes) do
    if box.node == node then return box, i end
  end
end

-- The widest box below the selected one.
local function widest_below(boxes, node)
  local widest
  for _, box in ipairs(boxes) do
    if box.node.parent == node and (not widest or box.width > widest.width) then widest = box end
  end
  return widest and widest.node
end

local flame_moves = {
  up = function(_, at) return at.parent end,
  down = function(boxes, at) return widest_below(boxes, at) end,
  left = function(boxes, at)
    local box, i = box_of(boxes, at)
    local other = boxes[i - 1]
    return other and other.row == box.row and other.node
  end,
  right = function(boxes, at)
    local box, i = box_of(boxes, at)
    local other = boxes[i + 1]
    return other and other.row == box.row and other.node
  end,
  home = function(boxes) return boxes[1].node end,
}
flame_moves.k, flame_moves.j, flame_moves.h, flame_moves.l =
  flame_moves.up, flame_moves.down, flame_moves.left, flame_moves.right

-- ---- steps ----

local function push(self, view)
  local kept = {}
  for _, name in ipairs(KEPT) do kept[name] = self[name] end
  table.insert(self.history, kept)
  self.view, self.pinned, self.offset, self.filter, self.cache = view, nil, 0, "", nil
end

local function back(self)
  if self.filter ~= "" then
    self.filter, self.cache = "", nil
    return
  end
  local kept = table.remove(self.history)
  if not kept then return end
  for _, name in ipairs(KEPT) do self[name] = kept[name] end
  self.cache = nil
end

-- The selected row as the group of what is shown next; a function is not a group.
local function group_of(self, row)
  return self.view == "table" and self.by ~= "function" and row and { by = self.by, key = row.key } or self.group
end

local function enter(self)
  if self.view == "flame" then
    local _, at = self:boxes()
    local keys, tree = flame.keys_of(at), self.cache
    if flame.find(tree, self.zoom) == at then return end
    push(self, "flame")
    self.zoom, self.at = keys, keys
    return
  end
  local row = self:selected()
  if not row then return end
  if self.view == "table" and self.by ~= "function" then
    local group = group_of(self, row)
    push(self, "table")
    self.group, self.by = group, "function"
  elseif row.func then
    push(self, "callers")
    self.caller_of = { key = row.func.key, label = terminal.label(row.func) }
  end
end

local function show_flames(self)
  if self.view == "flame" then return end
  local group = group_of(self, self:selected())
  push(self, "flame")
  self.group, self.zoom, self.at = group, {}, {}
end

local function show_by(self, by)
  self.history, self.view, self.by, self.group = {}, "table", by, nil
  self.pinned, self.offset, self.filter, self.cache = nil, 0, "", nil
end

local function next_of(list, value)
  for i, one in ipairs(list) do
    if one == value then return list[i % #list + 1] end
  end
end

local function sort_by(order)
  return function(self) self.order, self.cache = order, nil end
end

local function toggle_frozen(self) self.frozen = not self.frozen end

local commands = {
  up = function(self) move(self, -1) end, down = function(self) move(self, 1) end,
  pageup = function(self) move(self, -self:page()) end, pagedown = function(self) move(self, (self:page())) end,
  home = function(self) self.pinned, self.offset = nil, 0 end,
  ["end"] = function(self) move(self, #self:rows()) end,
  enter = enter, esc = back, backspace = back,
  g = show_flames,
  o = sort_by "own", t = sort_by "total", n = sort_by "name",
  s = function(self) self.order, self.cache = next_of(ORDERS, self.order), nil end,
  v = function(self) show_by(self, next_of(BY, self.by)) end,
  ["/"] = function(self) self.typing, self.filter, self.cache = true, "", nil end,
  ["?"] = function(self) self.help = true end,
  [" "] = toggle_frozen, f = toggle_frozen,
  q = function() return "quit" end,
  w = function() return "save" end,
}
commands.k, commands.j = commands.up, commands.down
for i, by in ipairs(BY) do
  commands[tostring(i)] = function(self) show_by(self, by) end
end

-- A key while the filter is typed.
local function type_filter(self, key)
  if key == "enter" then
    self.typing = false
  elseif key == "esc" then
    self.typing, self.filter = false, ""
  elseif key == "backspace" then
    self.filter = self.filter:sub(1, (utf8.offset(self.filter, -1) or 1) - 1)
  elseif utf8.len(key) == 1 then
    self.filter = self.filter .. key
  end
  if self.view ~= "flame" then self.cache = nil end
end

--- Obeys a key.
-- @tparam string key  of keys.split
-- @treturn ?string    "quit" or "save": the caller's part
function Model:press(key)
  self.message = nil
  if self.help then
    self.help = false
  elseif self.typing then
    type_filter(self, key)
  elseif self.view == "flame" and flame_moves[key] then
    local boxes, at = self:boxes()
    local node = flame_moves[key](boxes, at)
    if node then self.at = flame.keys_of(node) end
  elseif commands[key] then
    return commands[key](self)
  end
end

return M
