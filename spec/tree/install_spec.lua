-- The files of `make install` and `luarocks make` work without the checkout.

local run = require "spec.support.run"

local built = io.open("src/perfl.c") ~= nil
local checkout = run.capture("pwd -P")

local function must(cmd, opts)
  local result = run(cmd, opts)
  local told = { "failed: ", run.show(cmd), "\n", result.out, result.err }
  assert(result.code == 0, table.concat(told))
  return result.out
end

local function found(dir)
  return must({ "find", dir, "-type", "f", "-printf", "%P\n" })
end

-- The pages of a flame graph and of a histogram: their parts are files beside the modules.
local write_page = [[io.write(require "perfev".profile { title = "a" }:html(), (require "perfev.picture".histogram {
  buckets = { { low = 1, high = 2, count = 3 } }, format = "html" }))]]
local page = require "perfev".profile { title = "a" }:html() .. require "perfev.picture".histogram {
  buckets = { { low = 1, high = 2, count = 3 } }, format = "html" }

-- From another directory, and with no path of ours in the environment.
local elsewhere = { cwd = "/", env = { LUA_PATH = false, LUA_CPATH = false } }

describe("make install", function()
  local root

  setup(function()
    root = run.tempdir()
    if built then must({ "make", "install", "DESTDIR=" .. root, "PREFIX=/usr" }) end
  end)
  teardown(function() run.remove(root) end)
  local it = require "spec.support.skip"(it, function() if not built then pending("no src/perfl.c yet") end end)

  it("puts every file in its place", function()
    local list = found(root)
    for _, path in ipairs {
      "usr/bin/perfl", "usr/lib/lua/5.4/perfev/core.so", "usr/lib/lua/5.4/perfev/elf.so",
      "usr/lib/lua/5.4/perfev/pfm.so",
      "usr/share/lua/5.4/perfev/init.lua", "usr/share/lua/5.4/perfev/types/perfev.lua",
      "usr/share/lua/5.4/perfev/types/perfev/sim.lua",
      "usr/lib/libperfev.a", "usr/lib/pkgconfig/perfev.pc", "usr/include/perfev/base/err.h",
      "usr/share/doc/perfev/README.md", "usr/share/doc/perfev/doc/api/README.md",
      "usr/share/doc/perfev/doc/example.c",
      "usr/share/man/man1/perfl.1", "usr/share/man/man1/perfl-runqlat.1", "usr/share/man/man1/perfl-record.1",
    } do
      assert.matches("%f[^\n\0]" .. path:gsub("%p", "%%%0") .. "\n", list)
    end
    for script in must("cd scripts && find . -name '*.lua' | cut -c3-"):gmatch("[^\n]+") do
      assert(list:find("usr/share/lua/5.4/perfev/scripts/" .. script .. "\n", 1, true), script)
    end
  end)

  it("installs a perfl that starts", function()
    assert.matches("^perfl ", must({ root .. "/usr/bin/perfl", "--version" }, elsewhere))
  end)

  it("installs a perfl that runs its scripts by name", function()
    assert.matches("syscount", must({ root .. "/usr/bin/perfl", "syscount", "--help" }, elsewhere))
  end)

  it("installs a module that loads", function()
    local env = {
      LUA_PATH = root .. "/usr/share/lua/5.4/?.lua;" .. root .. "/usr/share/lua/5.4/?/init.lua",
      LUA_CPATH = root .. "/usr/lib/lua/5.4/?.so",
    }
    must({ "lua5.4", "-e", 'require "perfev"' }, { cwd = "/", env = env })
    assert.equal(page, must({ "lua5.4", "-e", write_page }, { cwd = "/", env = env }))
  end)

  it("installs a perfl that includes the assets of a page", function()
    local script = root .. "/page.lua"
    assert(io.open(script, "w")):write(write_page):close()
    assert.equal(page, must({ root .. "/usr/bin/perfl", "-q", script }, elsewhere))
  end)

  it("installs a C library with complete pkg-config flags", function()
    local tree = run.tempdir()
    finally(function() run.remove(tree) end)
    must({ "make", "install", "PREFIX=" .. tree })
    must([[cd $TREE && printf 'int main(void) { return 0; }' | ${CC:-gcc} -x c -o all - -x none \
      -Wl,--whole-archive lib/libperfev.a -Wl,--no-whole-archive $(pkg-config --static --libs perfev)]],
      { env = { TREE = tree, PKG_CONFIG_PATH = tree .. "/lib/pkgconfig" } })
    must({ tree .. "/all" })
  end)

  it("removes everything on uninstall", function()
    local tree = run.tempdir()
    finally(function() run.remove(tree) end)
    must({ "make", "install", "DESTDIR=" .. tree, "PREFIX=/opt" })
    must({ "make", "uninstall", "DESTDIR=" .. tree, "PREFIX=/opt" })
    assert.equal("", found(tree))
    assert.equal("", must({ "find", tree, "-name", "perfev" }))
  end)
end)

describe("luarocks make", function()
  local tree

  local function rocks_lua(code)
    return run({ "lua5.4", "-e", code }, { cwd = "/", env = {
      LUA_PATH = tree .. "/share/lua/5.4/?.lua;" .. tree .. "/share/lua/5.4/?/init.lua",
      LUA_CPATH = tree .. "/lib/lua/5.4/?.so",
    } })
  end

  setup(function()
    tree = run.tempdir()
    if not built or not run.have "luarocks" then return end
    -- An own HOME: no configuration and no cache besides this checkout's.
    must({ "luarocks", "--lua-version=5.4", "--tree=" .. tree, "make",
      checkout .. "/" .. run.capture "ls rockspec/perfev-[0-9]* | sort -V | tail -n 1" },
      { env = { HOME = tree } })
  end)
  teardown(function() run.remove(tree) end)
  local it = require "spec.support.skip"(it, function()
    if not built then pending("no src/perfl.c yet") end
    if not run.have "luarocks" then pending("luarocks is not installed") end
  end)

  it("installs a module that loads from another directory", function()
    local result = rocks_lua('assert(require "perfev")')
    assert.equal("", result.err)
    assert.equal(0, result.code)
  end)

  it("installs a perfl that starts, and its scripts by name", function()
    assert.matches("^perfl ", must({ tree .. "/bin/perfl", "--version" }, elsewhere))
    assert.matches("syscount", must({ tree .. "/bin/perfl", "syscount", "--help" }, elsewhere))
  end)
end)

describe("a Lua of another version", function()
  local path = checkout .. "/lua/?.lua;" .. checkout .. "/lua/?/init.lua"
  local code = "package.path, package.cpath = %q, ''; %s print(select(2, pcall(require, 'perfev')))"

  it("is refused with the needed version, before a file that it cannot read", function()
    if not run.have "lua5.1" then pending("lua5.1 is not installed") end
    local r = run({ "lua5.1", "-e", code:format(path, "") }, elsewhere)
    assert.equal("perfev: Lua 5.4 is needed, and this is Lua 5.1\n", r.out)
  end)

  it("is reported as LuaJIT if it is LuaJIT", function()
    local r = run({ "lua5.4", "-e", code:format(path, "_VERSION, jit = 'Lua 5.1', {}") }, elsewhere)
    assert.equal("perfev: Lua 5.4 is needed, and this is Lua 5.1 (LuaJIT)\n", r.out)
  end)
end)
