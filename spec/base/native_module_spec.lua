-- Modules in C whose library is not installed: the message names the library and Debian's package.

local native_module = require "perfev.base.native_module"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

-- A command that needs the module: its words, the beginning of the message, and Debian's packages of its library.
local needs = {
  disassembler = { "annotate main -- ./work", "libcapstone4" },
  elf = { "funclatency libc:getenv -- true", "libelf1" },
  http = { "--http 0 -e 'event { \"cpu-clock:u\", sample = count {} }' -- true", "libmicrohttpd12" },
  nats = { "gather -s nats://127.0.0.1:1 syscount", "libnats3.4" },
  http_client = { "collect -s nats://127.0.0.1:1 --to pprof:http://127.0.0.1:1", "libcurl4" },
  pfm = { "list pfm", "libpfm4" },
  seccomp = { "--sandbox -e 'count {}' -- true", "libseccomp2" },
}

describe("a module whose library is missing", function()
  local build = run.capture(("realpath $(dirname %s)"):format(run.perfl)) -- with the modules of the same flags
  local dir

  setup(function()
    dir = run.tempdir()
    if not run.have "gcc" then return end
    -- A library that is gone when the module is loaded.
    local made = run([[cd $DIR && mkdir perfev && echo 'void gone(void) {}' > gone.c &&
      echo 'void gone(void); void broken(void) { gone(); }' > broken.c &&
      gcc -shared -fPIC -Wl,-soname,libgone.so.1 -o libgone.so.1 gone.c &&
      gcc -shared -fPIC -o broken.so broken.c libgone.so.1 && rm libgone.so.1 &&
      echo 'int main(void) { for (volatile long i = 0; i < 100000000; i++); }' | gcc -x c -o work -]],
      { env = { DIR = dir } })
    assert(made.code == 0, made.err)
    run.capture(("cp %s/perfl %s/perfl && ln -s %s/perfev/*.so %s/perfev/"):format(build, dir, build, dir))
  end)
  teardown(function() run.remove(dir) end)
  local it = require "spec.support.skip"(it, function() if requires.missing "program gcc" then return true end end)

  local function with_broken(module, words, opts)
    run.capture(("cd %s/perfev && rm %s.so && ln -s ../broken.so %s.so"):format(dir, module, module))
    local result = run(words, opts)
    run.capture(("ln -sf %s/perfev/%s.so %s/perfev/"):format(build, module, dir))
    return result
  end

  for module, need in pairs(needs) do
    it(("is named by perfl %s, with the package of %s"):format(need[1]:match "^%S+ ?%S*", module), function()
      local r = with_broken(module, { "sh", "-c", "cd " .. dir .. " && ./perfl " .. need[1] })
      assert.is_true(r.code ~= 0)
      assert.truthy(r.err:find("libgone.so.1", 1, true), r.err)
      assert.truthy(r.err:find("sudo apt-get install " .. need[2], 1, true), r.err)
    end)
  end

  it("is named outside of perfl, too", function()
    local code = 'print(select(2, require "perfev.base.native_module" "perfev.zstd"))'
    local r = with_broken("zstd", { "lua5.4", "-e", code },
      { env = { LUA_CPATH = dir .. "/?.so;build/?.so", LUA_PATH = "lua/?.lua;lua/?/init.lua" } })
    assert.equal("the module perfev.zstd cannot be loaded: libgone.so.1: cannot open shared object file: "
      .. "No such file or directory\tsudo apt-get install libzstd1\n", r.out)
  end)

  it("has the packages that have these libraries", function()
    if requires.missing "program dpkg-query" then return end
    local packages, patterns = {}, {} -- soname -> { module, packages }
    for module in run.capture(("cd %s/perfev && ls *.so"):format(build)):gmatch "([%w_]+)%.so" do
      local name = "perfev." .. module
      if module ~= "core" then native_module.set_unloadable(name, "") end
      for soname in run.capture(("readelf -d %s/perfev/%s.so"):format(build, module))
        :gmatch "%(NEEDED%)[^\n]*%[(lib[^%]]+)%]" do
        if not soname:find "san%.so" then -- of a build with sanitizers
          packages[soname] = { module, (native_module.refused[name] or {})[2] or "" }
          patterns[soname] = ("'*/%s'"):format(soname)
        end
      end
      native_module.refused[name] = nil
    end
    local list, owned, listed = {}, {}, {}
    for _, pattern in pairs(patterns) do list[#list + 1] = pattern end
    for owner, soname in run.capture("dpkg-query -S " .. table.concat(list, " "))
      :gmatch "%f[^\n%z]([^:\n]+):[^\n]*/([^/\n]+)%f[\n\0]" do
      local need = packages[soname]
      owned[soname] = need
      listed[soname] = listed[soname] or owner == "libc6" or (need[2] .. " "):find(" " .. owner .. " ", 1, true)
    end
    assert.is_true(next(owned) ~= nil)
    for soname, need in pairs(owned) do assert(listed[soname], ("%s: %s, not %s"):format(need[1], soname, need[2])) end
  end)
end)
