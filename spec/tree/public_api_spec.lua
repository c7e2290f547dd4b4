-- The methods of every class against the documents: every method that a user can call is documented, and every
-- documented method exists. Other methods start with "_" or are local functions.

local docs = require "spec.support.docs"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"
local sim = require "perfev.sim"

local text = {}
for _, path in ipairs(docs.api_pages()) do text[#text + 1] = docs.slurp(path) end
text[#text + 1] = docs.slurp "doc/testing.md"
text = table.concat(text, "\n")

-- The names that the documents call on a variable, as in `s:run()`.
local function documented(variable)
  -- Elsewhere `calls` is a number of calls.
  local pages = variable == "calls" and docs.slurp "doc/api/hooks.md" or text
  local set = {}
  for name in pages:gmatch("%f[%w_]" .. variable .. ":([%a_][%w_]*)[%( `]") do set[name] = true end
  return set
end

-- The names that have headings of their own, or nil.
local function headed(variable)
  local set = {}
  for name in text:gmatch("\n##+ `" .. variable .. ":([%w_]+)") do set[name] = true end
  return next(set) and set
end

-- The functions of a table of methods, but for those that start with "_".
local function public(methods)
  local set = {}
  for name, value in pairs(methods) do
    if type(value) == "function" and not name:find "^_" then set[name] = true end
  end
  return set
end

local function sorted(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return list
end

-- The methods of an object. `__index` of an attr is a function that has them as its upvalue.
local function methods_of(object)
  local index = debug.getmetatable(object).__index
  if type(index) == "function" then index = select(2, debug.getupvalue(index, 1)) end
  return index
end

local k = sim.new { cpus = "0", tracepoints = { ["raw_syscalls:sys_exit"] = { 7, "long id; long ret" } } }

local function made(make)
  return function()
    local methods
    k:with(function() methods = methods_of(make()) end)
    return methods
  end
end

local function counter() return assert(perfev.counter { "page-faults" }) end

-- The name of a variable in the documents -> its methods
local classes = {
  s = made(perfev.session),
  ev = made(function() return perfev.session():event { switch = print } end),
  c = made(counter),
  member = made(function() return counter():member() end),
  h = made(function()
    return assert(perfev.hist_counter { "raw_syscalls:sys_exit", value = "args.ret" })
  end),
  a = made(function() return perfev.count {} end),
  frame = function()
    local header = { host = "a", start = ("0"):rep(32), seq = 1, name = "n", kind = "count" }
    return methods_of(perfev.frames(perfev.frames.encode(header, perfev.count {})[1])())
  end,
  reader = made(perfev.frames.reader),
  span = made(function()
    return perfev.span { start = "cs", stop = "page-faults", by = "tid", into = perfev.hist {} }
  end),
  b = made(function() return perfev.budget { syscalls = 1 } end),
  result = function()
    return methods_of(require("perfev.budget.result").new({}, { counts = {}, calls = {} }, nil, {}))
  end,
  line = made(function() return perfev.line "%d{tid}\n" end),
  p = made(function() return perfev.profile {} end),
  watched = made(function() return perfev.calls { start = "cs", stop = "page-faults" } end),
  d = made(function() return assert(perfev.decoder { sample_type = { "ip" } }) end),
  attr = made(function() return require("perfev.core").attr_new {} end),
  m = made(function() return perfev.hooks.memory(8) end),
  calls = made(function() return perfev.hooks.expect {} end),
  k = made(function() return perfev.sim.new {} end),
  stack = function() return require "perfev.symbol.stack" end,
  rec = function()
    local rec <close> = assert(perfdata.open(perfdata.new({ events = { { attr = {} } } }):file()))
    return methods_of(rec)
  end,
}

for variable, methods in pairs(classes) do
  describe("the methods that the documents call on " .. variable, function()
    it("are exactly its public methods", function()
      local names = public(methods())
      assert.same(sorted(names), sorted(documented(variable)))
      assert.same(sorted(names), sorted(headed(variable) or names))
    end)
  end)
end

describe("the methods that the documents call on r", function()
  it("are exactly the functions among the fields of a record", function()
    local spec = { sample_type = { "ip" }, sample_id_all = true }
    local bytes, found = perfev.encode(spec, { type = "sample", ip = 1 }), {}
    for r in assert(perfev.decoder(spec)):records(bytes) do
      local fields = select(2, debug.getupvalue(debug.getmetatable(r).__index, 1))
      for name in pairs(fields) do
        local ok, value = pcall(function() return r[name] end)
        found[name] = ok and type(value) == "function" or nil
      end
    end
    assert.same(sorted(found), sorted(headed "r"))
  end)
end)

describe("the functions of", function()
  for name, module in pairs { ["perfev.symbol"] = require "perfev.symbol", ["perfev.frames"] = perfev.frames,
    sim = sim, tool = perfev.tool } do
    it(name .. " are those that the documents call", function()
      local set = {}
      for word in text:gmatch("%f[%w_.]" .. name:gsub("%.", "%%.") .. "%.([%w_]+)%(") do set[word] = true end
      assert.same(sorted(public(module)), sorted(set))
    end)
  end
end)

describe("a class of the C module", function()
  -- The metatable -> the variable of its objects in the documents
  local variables = {
    ["perfev.aggregator"] = "a", ["perfev.line"] = "line", ["perfev.memory"] = "m", ["perfev.decoder"] = "d",
    ["perfev.aux"] = "bytes",
  }

  it("has documented methods, or a name with perfev.core.", function()
    local found = {}
    for name, class in pairs(debug.getregistry()) do
      local methods = type(name) == "string" and name:find "^perfev%." and type(class) == "table" and class.__index
      if type(methods) == "table" and not name:find "^perfev%.core%." then
        found[name] = variables[name]
        assert.is_string(variables[name], name)
        assert.same(sorted(public(methods)), sorted(documented(variables[name])), name)
      end
    end
    assert.same(variables, found)
  end)
end)
