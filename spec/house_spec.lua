-- The house keeps its shape: who includes whom, what is named how, who knows Lua.

local run = require "spec.support.run"

-- room -> what it includes besides libc and uapi, floor by floor. What a room reaches
-- through another it may include itself; err (what failed, in words) stands under all.
local floors = {
  { err = {}, abi = {}, bits = {}, rights = {}, sys_calls = {},
    sys = { "abi", "rights", "sys_calls" }, attr = { "abi" }, record = { "abi" },
    merge = {}, budget = {},
    format = {}, pfm = {}, note = {}, rustname = {}, source = {}, debuginfod = {},
     inflate = {}, deflate = {}, text = {}, jitmap = {}, fde = {} },
  {
    ring = { "sys" },
    file = { "sys" },
    elffile = { "note" },
    elf_program = { "elffile", "note" },
    symtab = { "elffile", "note" },
    event = { "sys", "attr", "record" },
    counter = { "event" },
    printparser = { "format", "text" }, -- a print format as a tree
    printvalue = { "text" }, -- addresses and masks as text
    printplan = { "format", "printparser", "printvalue", "text" },
    tracepoint = { "format", "printplan", "text" },
    maps = { "record" },
    demangle = { "rustname" },
    task = { "sys", "maps", "record" },
    unwind = { "maps", "task", "record" },
    stack = { "budget", "maps", "task", "record", "unwind" },
    cfi = { "elffile", "fde", "unwind" },
    symbol = { "sys", "task" },
    agg = { "budget", "record", "task" },
    loss = { "record" }, -- records of what was lost
    deferred = { "record" }, -- samples that wait for a part of themselves
    span = { "agg" },
    where = { "agg" },
    aggpack = { "agg" },
    place = { "format", "record" }, -- where the samples of a plan have a number
    window = { "merge" }, -- records that come nearly in order, put in order
    unzstd = { "inflate" },
    zpack = { "deflate" },
    survey = { "record" }, -- what a recording is as a whole
    recorder = { "sys", "attr", "deflate", "survey" },
    lanes = { "sys", "record", "inflate" },
    recorded = { "attr", "lanes" },
    inputs = { "lanes", "merge" }, -- one input, or a directory's
    samples = { "recorded", "window" },
    datafile = { "sys", "attr", "record", "recorded", "window", "samples", "inputs" },
    groupread = { "attr", "record" }, -- samples of a group's members
    child = { "sys" },
    selection = { "record", "task" }, -- which records of a recording are wanted
  },
  { replay = "all below" }, -- a recording as a source
  { session = "all below" },
  { perfev = "all below" }, -- the header that stands for all of them
}

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

local function room_of(path)
  return path:match("([^/]+)%.[ch]$")
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

-- room -> set of rooms it may include, and room -> floor
local function allowed_rooms()
  local allowed, below = {}, { "err" }
  for _, floor in ipairs(floors) do
    for room, direct in pairs(floor) do
      local set = { [room] = true, err = true }
      for _, name in ipairs(direct == "all below" and below or direct) do set[name] = true end
      allowed[room] = set
    end
    for room in pairs(floor) do below[#below + 1] = room end
  end
  local grown
  repeat
    grown = false
    for _, set in pairs(allowed) do
      for name in pairs(set) do
        for reached in pairs(allowed[name]) do
          if not set[reached] then
            set[reached], grown = true, true
            goto again
          end
        end
      end
      ::again::
    end
  until not grown
  return allowed
end

local function core_files()
  local list = {}
  for _, path in ipairs(files("src/*.c", "src/*.h")) do
    if path ~= "src/perfl.c" and path ~= "src/embed.h" then list[#list + 1] = path end
  end
  return list
end

describe("the house", function()
  it("has a floor for every room of the core", function()
    local allowed, homeless = allowed_rooms(), {}
    for _, path in ipairs(core_files()) do
      if not allowed[room_of(path)] then homeless[#homeless + 1] = path end
    end
    assert.same({}, homeless)
  end)

  it("includes only downwards", function()
    local allowed, upward = allowed_rooms(), {}
    for _, path in ipairs(core_files()) do
      local may = allowed[room_of(path)] or {}
      for _, header in ipairs(includes(path)) do
        if header:find("/") or not may[room_of(header)] then
          upward[#upward + 1] = path .. " includes " .. header
        end
      end
    end
    assert.same({}, upward)
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

  it("binds the core alone: a binding includes the core's headers and its neighbours'", function()
    local strange = {}
    for _, path in ipairs(files("src/lua/*.c", "src/lua/*.h")) do
      for _, header in ipairs(includes(path)) do
        local name = header:match("[^/]+$")
        local known = #files("src/" .. name, "src/lua/" .. name) > 0 and name ~= "embed.h"
        if not known then strange[#strange + 1] = path .. " includes " .. header end
      end
    end
    assert.same({}, strange)
  end)

  it("keeps one userdata to a file", function()
    local crowded = {}
    for _, path in ipairs(files("src/lua/*.c")) do
      local _, nr = without_comments(read(path)):gsub("luaL_newmetatable%s*%(", "")
      if nr > 1 then crowded[#crowded + 1] = path .. ": " .. nr end
    end
    assert.same({}, crowded)
  end)

  it("names every public function pev_", function()
    local strangers = {}
    for _, path in ipairs(files("src/*.h")) do
      -- A declaration starts at the left edge, its name stands before the first bracket.
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

  it("exports nothing from the library but pev_, and needs nothing of Lua", function()
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

  it("has at its root what is known there, and no output of a trial", function()
    local known = {}
    for name in ([[.busted .ci .clang-format .clang-tidy .editorconfig .eslintrc.json .git .gitignore .luacheckrc
      ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md LICENSE Makefile README.md SECURITY.md bench build doc lua rockspec
      scripts spec src]]):gmatch "%S+" do
      known[name] = true
    end
    for name in run.capture("ls -A"):gmatch "[^\n]+" do
      assert.truthy(known[name] or name:find "^perf%.data" or name:find "%.rock$", name)
    end
  end)

  it("writes no line beyond 100 columns, a tab being 8", function()
    local long = {}
    for _, path in ipairs(files("src/*.[ch]", "src/lua/*.[ch]", "src/*.lua", "spec/support/*.c",
      "Makefile")) do
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
