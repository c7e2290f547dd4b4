-- The annotations for editors (src/gen/types.lua) against the code: every public name has one and every one a name, and
-- the records have the fields and types of the layout tables.

local core = require "perfev.core"
local perfev = require "perfev"
local run = require "spec.support.run"
local session_options = require "perfev.base.options"
local syscalls = require "perfev.tracepoint.syscalls"
local units = require "perfev.base.parse_units"

local generated

-- class -> { parent =, fields = { name = type }, methods = { name = { params } } }
local function classes_of(text)
  local classes, class, params, variables = {}, nil, {}, {}
  for line in text:gmatch "[^\n]+" do
    local name, parent = line:match "^%-%-%-@class ([%w_.]+):? ?(.*)$"
    local field, type = line:match "^%-%-%-@field ([%w_]+)%??%s+(.-)%s*$"
    local receiver, method, list = line:match "^function ([%w_]+)[.:]([%w_]+)%((.*)%) end$"
    if name then
      class = { parent = parent, fields = {}, methods = {} }
      classes[name] = class
    elseif field then
      class.fields[field] = type:gsub(" # .*$", "")
    elseif line:find "^%-%-%-@param " then
      params[#params + 1] = line:match "^%-%-%-@param ([%w_.]+)"
    elseif line:find "^local [%w_]+ = {}$" then
      variables[line:match "^local ([%w_]+)"] = class
    elseif receiver then
      local methods = variables[receiver].methods
      methods[method] = { annotated = table.concat(params, ", "), declared = list }
      params = {}
    end
  end
  return classes
end

local text, classes
setup(function()
  generated = run "lua5.4 src/gen/types.lua doc/api/*.md doc/testing.md doc/reference.md"
  text = generated.out
  classes = classes_of(text)
end)

local function sorted(set, prefix)
  local list = {}
  for name in pairs(set) do
    if not name:find "^_" then list[#list + 1] = (prefix or "") .. name end
  end
  table.sort(list)
  return list
end

-- Fields and methods of a class.
local function names_of(class)
  local set = {}
  for _, part in ipairs { "fields", "methods" } do
    for name in pairs(classes[class][part]) do set[name] = true end
  end
  return set
end

describe("the annotations for editors", function()
  it("have a type for every function in doc/api, with its parameters, and no other", function()
    assert.same({ 0, "" }, { generated.code, generated.err })
  end)

  it("are Lua code that loads, and annotate each parameter of each function", function()
    assert(load(text))
    for name, class in pairs(classes) do
      for method, params in pairs(class.methods) do
        assert.equal(params.declared, params.annotated, name .. " " .. method)
      end
    end
  end)

  it("define every class that they use", function()
    local defined = {}
    for name in text:gmatch "%-%-%-@class ([%w_.]+)" do defined[name] = true end
    for name in text:gmatch "%-%-%-@alias ([%w_.]+)" do defined[name] = true end
    for line in text:gmatch "%-%-%-@%l+ ([^\n]+)" do
      for name in line:gsub(" # .*", ""):gmatch "%f[%w_.]perfev%.[%w_.]*[%w_]" do
        assert(defined[name], name .. " in " .. line)
      end
    end
  end)

  it("have the names of the module and of its tables", function()
    local named = names_of "perfev"
    for name in pairs(named) do assert(perfev[name], name) end
    for name in pairs(perfev) do assert(named[name], name) end
    for class, module in pairs { ["perfev.hooks"] = perfev.hooks, ["perfev.picture"] = perfev.picture,
      ["perfev.profile"] = perfev.profile, ["perfev.units"] = units, ["perfev.syscalls"] = syscalls,
      ["perfev.tool"] = perfev.tool } do
      assert.same(sorted(module), sorted(names_of(class)), class)
    end
  end)

  it("have the methods of objects", function()
    local ev = perfev.session {}:event { switch = print }
    for class, methods in pairs { ["perfev.Event"] = getmetatable(ev).__index,
      ["perfev.Profile"] = getmetatable(perfev.profile {}), ["perfev.Aggregator"] = core.aggregator_methods } do
      assert.same(sorted(methods), sorted(classes[class].methods), class)
    end
    local methods = getmetatable(perfev.session {}).__index
    for name in pairs(classes["perfev.Session"].methods) do assert.is_function(methods[name], name) end
  end)

  it("have the options of a session", function()
    local expected = {}
    for _, name in ipairs(session_options.names) do expected[name] = true end
    local fields = classes["perfev.SessionOptions"].fields
    assert.same(sorted(expected), sorted(fields))
    assert.same({ 'integer|integer[]|"self"', "boolean|integer", "string|string[]", "fun(level, text): any" },
      { fields.pid, fields.compress, fields.events, fields.log })
    assert.equal('"boottime"|"monotonic"|"monotonic_raw"|"realtime"|"tai"', fields.clock)
  end)

  it("have the options and the methods of a simulated kernel", function()
    assert.same(sorted(perfev.sim.options), sorted(classes["perfev.SimOptions"].fields))
    local k = perfev.sim.new {}
    for name in pairs(names_of "perfev.Kernel") do assert(k[name], name) end
  end)

  it("have the fields of perf_event_attr in an event's options and in its attr", function()
    for _, field in ipairs(core.attr_fields()) do
      assert(classes["perfev.EventSpec"].fields[field.name], field.name)
      assert(classes["perfev.Attr"].fields[field.name], field.name)
    end
  end)

  it("have the fields of every record type, with the types of the layout tables", function()
    local kinds = { u16 = "integer", u32 = "integer", u64 = "integer", s32 = "integer", string = "string",
      bytes = "string", read = "table", chain = "table", branch = "any[]", regs = "table", stack = "string",
      namespaces = "table", bits = "table" }
    for _, layout in ipairs(core.layouts().records) do
      local own, all = classes["perfev.record." .. layout.name].fields, classes["perfev.Record"].fields
      assert.equal(('%q'):format(layout.name), own.type)
      for _, row in ipairs(layout.rows) do
        local type = own[row.name] or all[row.name]
        assert(type and type:find(kinds[row.kind], 1, true),
          ("%s.%s: %s, not %s"):format(layout.name, row.name, row.kind, type))
      end
    end
  end)

  it("pass a callback the records of its type", function()
    local fields = classes["perfev.EventSpec"].fields
    assert.matches("fun(r: perfev.record.sample, args: perfev.Payload): any", fields.sample, 1, true)
    assert.matches("fun(r: perfev.record.mmap|perfev.record.mmap2): any", fields.mmap, 1, true)
    assert.matches("perfev.Sink", fields.switch, 1, true)
  end)

  it("warn about a name without a page or without a signature", function()
    local dir = run.tempdir()
    finally(function() run.remove(dir) end)
    assert(io.open(dir .. "/page.md", "w")):write "# A page\n\n## `s:dance(steps)`\n\nDances.\n":close()
    local r = run { "lua5.4", "src/gen/types.lua", dir .. "/page.md" }
    assert.equal(0, r.code)
    assert.matches("s:dance has no line in signatures.lua", r.err, 1, true)
    assert.matches("s:run has no heading in doc/api", r.err, 1, true)
    assert.matches("function s:dance(steps) end", r.out, 1, true)
  end)

  it("make lua-language-server find the mistakes in a script", function()
    if not run.have "lua-language-server" then return pending "lua-language-server is not installed" end
    local dir = run.tempdir()
    finally(function() run.remove(dir) end)
    local function check(name, script)
      local folder = dir .. "/" .. name
      run { "mkdir", folder }
      local settings = ('{ "workspace.library": ["%s/types"] }'):format(dir)
      assert(io.open(folder .. "/.luarc.json", "w")):write(settings):close()
      assert(io.open(folder .. "/script.lua", "w")):write(script):close()
      local r = run { "lua-language-server", "--check=" .. folder, "--checklevel=Warning", "--logpath=" .. dir }
      return r.out:find "no problems found" ~= nil
    end
    run { "mkdir", dir .. "/types" }
    assert(io.open(dir .. "/types/perfev.lua", "w")):write(text):close()
    assert.is_true(check("right", 'local p = require "perfev"\np.event { "cpu-clock", freq = 99 }\n'))
    assert.is_false(check("wrong", 'local p = require "perfev"\np.evnt { "cpu-clock" }\n'))
  end)
end)
