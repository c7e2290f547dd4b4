--- Expressions of metrics, as perf's metric tables have them (MetricExpr; the grammar is that of tools/perf/util/expr.y
-- and expr.l of 6.1).
-- Values are floats. A division by 0 is NaN, d_ratio(a, 0) is 0, and "a if c else b" is b only if c is 0.

local core = require "perfev.core"

local M = {}

local MOST_DEPTH, MOST_WORDS = 200, 10000

-- The operators, from the weakest to the strongest; all are left-associative.
local levels = { { "|" }, { "^" }, { "&" }, { "<", ">" }, { "-", "+" }, { "*", "/", "%" } }

local functions = { min = 2, max = 2, d_ratio = 2 } -- the number of arguments
local keywords = { ["if"] = true, ["else"] = true }

-- ---- words ----

-- An event as perf writes it in an expression -> the event: @ stands for /, \, for a comma.
local function event_of(text)
  return (text:gsub("\\(.)", "%1"):gsub("@", "/"):gsub("%?", "0"))
end

-- The longest number and the longest name at a place; a name may have escaped characters: cpu@event\,umask\=1@.
local function number_at(text, at)
  local word = text:match("^%d+%.?%d*", at) or text:match("^%.%d+", at)
  return word and word .. (text:match("^e%-?%d+", at + #word) or "")
end

local function name_at(text, at)
  local from = at
  while true do
    local next = text:match("^[%w_.:@?]+()", at) or text:match("^\\[-,=]()", at)
    if not next then return at > from and text:sub(from, at - 1) or nil end
    at = next
  end
end

-- -> { { kind =, text =, value =, at = }, … } | nil, message
local function words_of(text)
  local words, at = {}, 1
  while true do
    at = text:match("^%s*()", at)
    if at > #text then return words end
    if #words >= MOST_WORDS then return nil, "too long" end
    local number, name, literal = number_at(text, at), name_at(text, at), text:match("^#[%w_.]+", at)
    local word = literal or name
    if number and #number >= #(name or "") then
      words[#words + 1], word = { kind = "number", value = tonumber(number) + 0.0 }, number
    elseif literal then
      words[#words + 1] = { kind = "literal", text = literal }
    elseif name then
      words[#words + 1] = { kind = (keywords[name] or functions[name]) and name or "event", text = event_of(name) }
    else
      word = text:match("^[|^&<>%-+*/%%(),]", at)
      if not word then return nil, ("'%s' is not expected"):format(text:sub(at, at)) end
      words[#words + 1] = { kind = word }
    end
    words[#words].at = at
    at = at + #word
  end
end

-- ---- the tree ----

local Parser = {}
Parser.__index = Parser

function Parser:peek() return self.words[self.at] and self.words[self.at].kind end

function Parser:fail()
  local word = self.words[self.at]
  error({ why = word and ("'%s' is not expected"):format(self.text:sub(word.at)) or "it ends too early" }, 0)
end

function Parser:take(kind)
  local word = self.words[self.at]
  if not word or kind and word.kind ~= kind then self:fail() end
  self.at = self.at + 1
  return word
end

function Parser:descend()
  self.depth = self.depth + 1
  if self.depth > MOST_DEPTH then error({ why = "too many levels" }, 0) end
end

function Parser:call(name)
  local node = { op = name }
  self:take "("
  for i = 1, functions[name] do
    if i > 1 then self:take "," end
    node[i] = self:choice()
  end
  self:take ")"
  return node
end

function Parser:operand()
  local word = self:take()
  if word.kind == "number" then return { op = "number", value = word.value } end
  if word.kind == "event" or word.kind == "literal" then return { op = word.kind, text = word.text } end
  if functions[word.kind] then return self:call(word.kind) end
  if word.kind == "-" then
    self:descend()
    local node = { op = "neg", self:operand() }
    self.depth = self.depth - 1
    return node
  end
  if word.kind ~= "(" then
    self.at = self.at - 1
    self:fail()
  end
  local inner = self:choice()
  self:take ")"
  return inner
end

function Parser:binary(level)
  if level > #levels then return self:operand() end
  local left = self:binary(level + 1)
  while true do
    local kind, is_ours = self:peek(), false
    for _, op in ipairs(levels[level]) do is_ours = is_ours or op == kind end
    if not is_ours then return left end
    self:take()
    left = { op = kind, left, self:binary(level + 1) }
  end
end

function Parser:choice()
  self:descend()
  local value = self:binary(1)
  if self:peek() == "if" then
    self:take()
    local condition = self:binary(1)
    self:take "else"
    value = { op = "if", value, condition, self:choice() }
  end
  self.depth = self.depth - 1
  return value
end

local NAN = 0.0 / 0.0

local function online_cpus() return #(core.cpus() or {}) end

local literals = {
  ["#num_cpus"] = online_cpus, ["#num_cpus_online"] = online_cpus,
  ["#smt_on"] = function()
    return math.tointeger(tonumber(core.slurp "/sys/devices/system/cpu/smt/active" or "")) or 0
  end,
}

local function check_literals(node)
  if node.op == "literal" and not literals[node.text] then
    error({ why = ("'%s' is not supported\n  try: one of #num_cpus, #num_cpus_online, #smt_on"):format(node.text) }, 0)
  end
  for _, part in ipairs(node) do check_literals(part) end
end

--- Parses an expression.
-- @tparam string text
-- @treturn[1] table  the tree
-- @treturn[2] nil
-- @treturn[2] string  the cause
function M.parse(text)
  local words, why = words_of(text)
  if not words then return nil, why end
  local parser = setmetatable({ words = words, at = 1, text = text, depth = 0 }, Parser)
  local ok, tree = pcall(function()
    local tree = parser:choice()
    if parser:peek() then parser:fail() end
    check_literals(tree)
    return tree
  end)
  if ok then return tree end
  if type(tree) == "table" then return nil, tree.why end
  error(tree, 0)
end

--- Returns the events of a tree, each once, in the order of the text.
function M.events(tree)
  local list, seen = {}, {}
  local function visit(node)
    if node.op == "event" and not seen[node.text] then list[#list + 1], seen[node.text] = node.text, true end
    for _, part in ipairs(node) do visit(part) end
  end
  visit(tree)
  return list
end

-- ---- the value ----

-- As C's conversion to long; NaN stays.
local function long(value)
  if value ~= value or math.abs(value) >= 2.0 ^ 63 then return nil end
  return math.tointeger(value >= 0 and math.floor(value) or math.ceil(value))
end

local function of_longs(f)
  return function(a, b)
    local x, y = long(a), long(b)
    return x and y and f(x, y) + 0.0 or NAN
  end
end

local operations = {
  ["|"] = of_longs(function(a, b) return a | b end), ["^"] = of_longs(function(a, b) return a ~ b end),
  ["&"] = of_longs(function(a, b) return a & b end),
  ["%"] = of_longs(function(a, b) return b ~= 0 and math.fmod(a, b) or NAN end),
  ["<"] = function(a, b) return a < b and 1.0 or 0.0 end, [">"] = function(a, b) return a > b and 1.0 or 0.0 end,
  ["+"] = function(a, b) return a + b end, ["-"] = function(a, b) return a - b end,
  ["*"] = function(a, b) return a * b end, ["/"] = function(a, b) return b ~= 0 and a / b or NAN end,
  min = function(a, b) return a < b and a or b end, max = function(a, b) return a > b and a or b end,
  d_ratio = function(a, b) return b ~= 0 and a / b or 0.0 end,
  neg = function(a) return -a end,
}

--- Computes the value.
-- @tparam table tree      of parse
-- @tparam table values    event -> number
-- @treturn ?number        nil: an event that it needs was not counted
function M.evaluate(tree, values)
  if tree.op == "number" then return tree.value end
  if tree.op == "literal" then return literals[tree.text]() + 0.0 end
  if tree.op == "event" then return values[tree.text] and values[tree.text] + 0.0 end
  if tree.op == "if" then
    local condition = M.evaluate(tree[2], values)
    return condition and M.evaluate(condition ~= 0 and tree[1] or tree[3], values)
  end
  local a, b = M.evaluate(tree[1], values), tree[2] and M.evaluate(tree[2], values)
  if not a or tree[2] and not b then return nil end
  return operations[tree.op](a, b)
end

return M
