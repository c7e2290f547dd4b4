-- The structure of the tree: includes and requires, names, sizes, and the files that use Lua's headers.

local run = require "spec.support.run"

-- Folders from the bottom up. A file includes or requires files of its own folder and of folders before it.
local c_folders = { "base", "sandbox", "http", "fleet", "aggregate", "tracepoint", "record", "task", "event", "dwarf",
  "symbol", "profile", "perfdata", "live", "engine" }
local binding_folders = { "base", "fleet", "event", "hooks", "sandbox", "symbol", "record", "aggregate", "profile",
  "perfdata", "engine", "http" }
local lua_folders = {
  "perfev/option_tables", "perfev/encoding", "perfev/base", "perfev/tracepoint", "perfev/record", "perfev/picture",
  "perfev/aggregate", "perfev/symbol", "perfev/probe", "perfev/event", "perfev/counter", "perfev/perfdata",
  "perfev/live", "perfev/profile", "perfev/profile/html", "perfev/calls", "perfev/explore",
  "perfev/tool/memory", "perfev/tool/sched", "perfev/tool/stat", "perfev/tool/system_calls",
  "perfev/tool/top", "perfev/tool", "perfev/budget", "perfev/sim", "perfev", "perfl", "perfl/sandbox", "perfl/frames",
  "perfl/rewrite", "perfl/verb", "perfl/budget", "perfl/prove", "perfl/help", "perfl/completion", "perfl/http",
  "perfl/http/page", "perfl/collect", "perfl/fleet", "the program",
}
local FILES_MAX = 15 -- in a folder; a .c and its .h count as one

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("a")
  file:close()
  return text
end

local function files(...)
  local found = {}
  for path in (run.capture("ls -d " .. table.concat({ ... }, " ") .. " 2>/dev/null; true"))
    :gmatch("[^\n]+") do
    found[#found + 1] = path
  end
  return found
end

local function includes(path)
  local list = {}
  for header in ("\n" .. read(path)):gmatch('\n%s*#%s*include%s*"([^"]+)"') do
    list[#list + 1] = header
  end
  return list
end

local function each_line(path, fn)
  local number = 0
  for line in (read(path) .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    fn(line, number)
  end
end

local function without_comments(text)
  return (text:gsub("/%*.-%*/", " "):gsub("//[^\n]*", " "))
end

local function folder_of(path)
  return path:match("^(.*)/[^/]*$") or ""
end

local function ranks(folders)
  local rank = {}
  for i, folder in ipairs(folders) do rank[folder] = i end
  return rank
end

-- The files of a language as a graph: name -> { folder =, uses = { name, ... } }. A .c and its .h are one node.
local function c_graph()
  local graph = {}
  for _, path in ipairs(files("src/*.[ch]", "src/*/*.[ch]", "src/lua/*/*.[ch]")) do
    local name = path:match("^src/(.*)%.[ch]$")
    graph[name] = graph[name] or { folder = folder_of(name), uses = {} }
    for _, header in ipairs(includes(path)) do
      local used = header:gsub("%.h$", "")
      if used ~= name then table.insert(graph[name].uses, used) end
    end
  end
  return graph
end

local function lua_files()
  local list = {}
  for path in run.capture("find lua -name '*.lua' | sort"):gmatch("[^\n]+") do list[#list + 1] = path end
  return list
end

local function lua_graph()
  local graph = {}
  for _, path in ipairs(lua_files()) do
    local name = path:match("^lua/(.*)%.lua$")
    graph[name] = { folder = folder_of(name), uses = {} }
  end
  for name, file in pairs(graph) do
    local text = read("lua/" .. name .. ".lua")
    local function add(module)
      local used = module:gsub("%.", "/")
      if not graph[used] then used = used .. "/init" end
      if graph[used] and used ~= name then table.insert(file.uses, used) end
    end
    for module in text:gmatch('require[ (]+"([a-z_]+)"') do add(module) end
    -- Any string with a module's name counts, so that a module loaded late or by a table counts as well.
    for module in text:gmatch('"(perf[a-z]+%.[a-z_.]+)"') do add(module) end
  end
  graph["perfl/main"].folder = "the program"
  return graph
end

-- "a -> b" for each use of a folder above the user's own.
local function upward(graph, rank)
  local found = {}
  for name, file in pairs(graph) do
    for _, used in ipairs(file.uses) do
      local target = graph[used]
      if not target or rank(target.folder) > rank(file.folder) then found[#found + 1] = name .. " -> " .. used end
    end
  end
  table.sort(found)
  return found
end

-- Each cycle as "a -> b -> a".
local function cycles(graph)
  local found, state = {}, {}
  local function visit(name, path)
    state[name] = "open"
    path[#path + 1] = name
    for _, used in ipairs(graph[name] and graph[name].uses or {}) do
      if state[used] == "open" then
        local from = 1
        while path[from] ~= used do from = from + 1 end
        found[#found + 1] = table.concat(path, " -> ", from) .. " -> " .. used
      elseif not state[used] then
        visit(used, path)
      end
    end
    path[#path] = nil
    state[name] = "done"
  end
  for name in pairs(graph) do
    if not state[name] then visit(name, {}) end
  end
  return found
end

local function core_files()
  local list = {}
  for _, path in ipairs(files("src/*/*.[ch]")) do
    if not path:find("^src/lua/") and not path:find("^src/gen/") then list[#list + 1] = path end
  end
  return list
end

-- src/perfl.c and src/perfev.h are above all folders.
local function c_rank(folder)
  local rank = ranks(c_folders)
  if folder == "gen" then return 0 end
  if folder == "" then return math.huge end
  local binding = folder:match("^lua/(.*)$")
  if binding then return 100 + assert(ranks(binding_folders)[binding], folder) end
  return folder == "lua" and 200 or assert(rank[folder], folder)
end

local function lua_rank(folder)
  return assert(ranks(lua_folders)[folder], folder)
end

describe("the house", function()
  it("has scripts that require the documented modules only", function()
    local documented = { ["perfev"] = true, ["perfev.tool"] = true, ["perfev.sim"] = true }
    local others = {}
    for path in run.capture("find scripts -name '*.lua' | sort"):gmatch("[^\n]+") do
      for module in read(path):gmatch("require[ (]*[\"']([%w_.]+)") do
        if not documented[module] then others[#others + 1] = path .. " -> " .. module end
      end
    end
    assert.same({}, others)
  end)

  it("includes only downwards, in C", function()
    assert.same({}, upward(c_graph(), c_rank))
  end)

  it("requires only downwards, in Lua", function()
    assert.same({}, upward(lua_graph(), lua_rank))
  end)

  it("has no cycle of files, in C or Lua", function()
    assert.same({}, cycles(c_graph()))
    assert.same({}, cycles(lua_graph()))
  end)

  it("detects an upward use and a cycle", function()
    local graph = {
      ["base/a"] = { folder = "base", uses = { "live/b" } }, ["live/b"] = { folder = "live", uses = { "base/a" } },
    }
    assert.same({ "base/a -> live/b" }, upward(graph, c_rank))
    assert.equal(1, #cycles(graph))
  end)

  it("has at most 15 files in a folder of the code", function()
    local count, crowded = {}, {}
    local function add(folder, name)
      count[folder] = count[folder] or {}
      count[folder][name] = true
    end
    for name, file in pairs(c_graph()) do add("src/" .. file.folder, name) end
    for path in run.capture("find lua -type f"):gmatch("[^\n]+") do add(folder_of(path), path) end
    for folder, names in pairs(count) do
      local nr = 0
      for _ in pairs(names) do nr = nr + 1 end
      if nr > FILES_MAX then crowded[#crowded + 1] = folder .. ": " .. nr end
    end
    assert.same({}, crowded)
  end)

  it("has no file of more than 900 lines", function()
    local long = {}
    for path in run.capture("find src lua -name '*.[ch]' -o -name '*.lua'"):gmatch "[^\n]+" do
      local _, lines = read(path):gsub("\n", "")
      if lines > 900 then long[#long + 1] = path .. ": " .. lines end
    end
    assert.same({}, long)
  end)

  it("lets only the bindings and the runner see a Lua header", function()
    local seen = {}
    for _, path in ipairs(core_files()) do
      local text = without_comments(read(path))
      for _, header in ipairs { "lua.h", "lauxlib.h", "lualib.h", "luaconf.h" } do
        if text:find('#%s*include%s*[<"]' .. header:gsub("%.", "%%.")) then
          seen[#seen + 1] = path .. " includes " .. header
        end
      end
    end
    assert.same({}, seen)
  end)

  it("keeps one userdata to a file", function()
    local crowded = {}
    for _, path in ipairs(files("src/lua/*/*.c")) do
      local _, nr = without_comments(read(path)):gsub("luaL_newmetatable%s*%(", "")
      if nr > 1 then crowded[#crowded + 1] = path .. ": " .. nr end
    end
    assert.same({}, crowded)
  end)

  it("names every public function pev_", function()
    local strangers = {}
    for _, path in ipairs(files("src/perfev.h", "src/*/*.h")) do
      -- A declaration starts at the left edge; its name is before the first bracket.
      for line in ("\n" .. without_comments(read(path))):gmatch("\n([%a_][^\n]*)") do
        local name = line:match("^[%w_%s%*]-([%a_][%w_]*)%s*%(")
        local public = name and not line:find("^static") and not line:find("^typedef")
          and name ~= "__attribute__" and name ~= "_Static_assert"
        if public and not name:find("^pev_") then
          strangers[#strangers + 1] = path .. ": " .. name
        end
      end
    end
    assert.same({}, strangers)
  end)

  it("exports nothing from the library but pev_, and uses no symbol of Lua", function()
    local archive = "build/libperfev.a"
    if #files(archive) == 0 then pending("no build/libperfev.a") end
    if not run.have "nm" then pending("no nm(1)") end
    local wrong = {}
    for line in run.capture("nm -g " .. archive):gmatch("[^\n]+") do
      local kind, name = line:match("(%a) (%S+)$")
      local lua = name and (name:find("^lua_") or name:find("^luaL_"))
      local ours = kind == "U" or not name or name:find("^pev_")
      if lua or not ours then wrong[#wrong + 1] = line end
    end
    assert.same({}, wrong)
  end)

  it("exports only luaopen_ from the module", function()
    local modules = files("build/perfev/*.so")
    if #modules == 0 then pending("no build/perfev/core.so") end
    if not run.have "nm" then pending("no nm(1)") end
    for _, module in ipairs(modules) do
      for name in run.capture("nm -D --defined-only " .. module):gmatch("%S+%f[\n\0]") do
        assert.matches("^luaopen_", name, module)
      end
    end
  end)

  it("is hardened: position independent, bound at start, no writable code", function()
    if #files("build/perfl") == 0 then pending("no build/perfl") end
    if not run.have "readelf" then pending("no readelf(1)") end
    for _, path in ipairs { "build/perfl", "build/perfev/core.so" } do
      local facts = run.capture("readelf -hldW " .. path)
      assert.matches("Type:%s+DYN", facts, path)
      assert.matches("BIND_NOW", facts, path)
      assert.matches("GNU_RELRO", facts, path)
      assert.matches("GNU_STACK[^\n]+RW ", facts, path)
      assert.not_matches("TEXTREL", facts, path)
      assert.not_matches("LOAD[^\n]+RWE", facts, path)
    end
    assert.matches("FLAGS_1[^\n]+PIE", run.capture("readelf -dW build/perfl"))
    assert.matches("_chk@", run.capture("readelf -sW --dyn-syms build/perfl"))
  end)

  it("has only known files at its root", function()
    local known = {}
    for name in ([[.busted .ci .clang-format .clang-tidy .editorconfig .eslintrc.json .git .github .gitignore
      .luacheckrc ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md LICENSE Makefile README.md SECURITY.md
      bench build debian doc lua rockspec scripts spec src]]):gmatch "%S+" do
      known[name] = true
    end
    for name in run.capture("ls -A"):gmatch "[^\n]+" do
      assert.truthy(known[name] or name:find "^perf%.data" or name:find "%.rock$", name)
    end
  end)

  describe("parses no message: code decides by an errno or by a field", function()
    -- argparse and the Lua interpreter, also when it has no memory, report in text alone.
    local readers = { ["lua/perfl/command_line.lua"] = true, ["lua/perfl/other_tools.lua"] = true,
                      ["lua/perfev/base/memory_shortage.lua"] = true }
    local verbs = { match = true, find = true, gsub = true, gmatch = true }

    -- "file:line" of each line of our Lua that a function finds.
    local function lines_with(finder, is_exempt)
      local found = {}
      for _, path in ipairs(lua_files()) do
        local is_found, number = finder(), 0
        for line in (is_exempt[path] and "" or read(path)):gmatch "([^\n]*)\n" do
          number = number + 1
          if is_found(line) then found[#found + 1] = path .. ":" .. number end
        end
      end
      return found
    end

    it("in a variable named like a message, or caught by pcall", function()
      local is_message = { why = true, what = true, message = true, msg = true, reason = true, wrong = true, err = true,
                           said = true, refused = true, failure = true }
      local function finder()
        local caught = {} -- by a pcall in this function
        return function(line)
          if line:find "^end" then caught = {} end
          local result = line:match "local [%w_]+, ([%w_]+)[%w_, ]* = x?pcall%("
          if result and not line:find "pcall%(tostring" then caught[result] = true end
          for name, verb, pattern in line:gmatch "%f[%w_]([%w_]+):(%a+)%(?%s*(.?.?.?.?.?.?.?)" do
            local is_layout = pattern:find "^[\"']%^?%[%^\\n" -- lines of it
            local is_of_lua = line:find("nil value", 1, true) -- "attempt to call a nil value (global 'evnt')"
            local is_parsed = (is_message[name] or caught[name]) and verbs[verb]
            if is_parsed and not is_layout and not is_of_lua then return true end
          end
        end
      end
      local parsed = finder()
      assert(not parsed "local ok, one = pcall(f)" and not parsed "  local made, a, b = pcall(f)")
      assert(parsed 'if why:find("^ring on cpu") then' and parsed "local n = what:match 'pid (%d+)'")
      assert(parsed 'return refuse((one:gsub("^[^ ]+:%d+: ", "")))' and parsed "a:match 'x'")
      assert(not parsed 'why:match("^[^\\n]*")' and not parsed 'text:find("x")')
      assert(not parsed "end" and not parsed "a:match 'x'")
      assert.same({}, lines_with(finder, readers))
    end)

    it("by a pattern from one of its sentences", function()
      local sentences = {} -- the text of every string in C and Lua
      for _, path in ipairs(files("src/*.c", "src/*/*.c", "src/lua/*/*.c")) do
        for text in without_comments(read(path)):gmatch '"([^"\n]*)"' do sentences[#sentences + 1] = text end
      end
      for _, path in ipairs(lua_files()) do
        for line in read(path):gmatch "[^\n]+" do
          local is_pattern = line:find "[:.]match" or line:find "[:.]g?find" or line:find "[:.]gsub"
          for text in (is_pattern and "" or line):gmatch '"([^"]*)"' do sentences[#sentences + 1] = text end
        end
      end
      local all = table.concat(sentences, "\n")
      local function finder()
        return function(line)
          for verb, pattern in line:gmatch "[:.](%a+)%(?[^\"']-[\"]([^\"]*)" do
            -- The longest text of the pattern without a special character: a sentence has three words or more.
            for words in (verbs[verb] and pattern or ""):gmatch "%a[%a ,']+%a" do
              local is_sentence = words:find "%a+ %a+ %a+"
              local is_file = line:find("slurp", 1, true) -- of /proc
              if is_sentence and not is_file and all:find(words, 1, true) then return true end
            end
          end
        end
      end
      assert(finder()([[local field = line:match("no record has a field '([^']+)'")]]))
      assert(not finder()([[local words = line:match("%a+ some words that no message has")]]))
      assert.same({}, lines_with(finder, { ["lua/perfev/base/memory_shortage.lua"] = true }))
    end)
  end)

  it("has no line beyond 100 columns, with tabs of 8", function()
    local long = {}
    for _, path in ipairs(files("src/*.[ch]", "src/*/*.[ch]", "src/lua/*/*.[ch]", "src/gen/*.lua",
      "spec/support/*.c", "Makefile")) do
      each_line(path, function(line, number)
        local columns = 0
        for _, code in utf8.codes(line) do
          columns = code == 9 and columns + 8 - columns % 8 or columns + 1
        end
        if columns > 100 then long[#long + 1] = path .. ":" .. number end
      end)
    end
    assert.same({}, long)
  end)
end)
