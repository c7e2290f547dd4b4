-- Functions of JIT compilers on the real kernel, by their jit-PID.dump: a program that replaces and moves its code, and
-- Node.js; live, recorded, and without the dump.

local core = require "perfev.core"
local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local cc = os.getenv "CC" or "gcc"
local dir

setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function sh(command)
  local result = run(("cd %s && %s"):format(dir, command))
  assert.equal(0, result.code, result.err)
  return result.out
end

local function jitted()
  requires("perf", "cc")
  if core.machine ~= "x86_64" then pending("the code is x86's") end
  sh(("%s -O1 -o jitted %s"):format(cc, run.quote(run.capture "pwd" .. "/spec/support/jitted.c")))
end

-- The names of functions in the order of their samples, each once in a row; samples in memory without a name are "?".
local function note(list, frame)
  if not frame or frame.kernel or frame.module:sub(1, 1) == "[" or not frame.module:find("jit%-%d+%.dump$")
    and frame.symbol then return end
  local name = frame.symbol or "?"
  if list[#list] ~= name then list[#list + 1] = name end
end

describe("code of a JIT compiler", function()
  it("has the name that it had at the sample's time, live", function()
    jitted()
    local s, names = perfev.session { command = { dir .. "/jitted", dir } }, {}
    s:event { "cpu-clock:u", freq = 999, callchain = true, sample = function(r) note(names, r.stack[1]) end }
    assert(s:run())
    assert.same({ "first", "second", "third" }, names)
  end)

  it("has it also if the dump was written later, and without the dump", function()
    jitted()
    sh(run.quote(run.perfl) .. " -q record -e cpu-clock:u -F 999 -g -o late.data -- ./jitted . late")
    local function read()
      local rec <close>, names = assert(perfev.open(dir .. "/late.data")), {}
      for r in rec:records { user = false } do
        if r.type == "sample" then note(names, r.stack[1]) end
      end
      return names
    end
    assert.same({ "first", "second", "third" }, read())
    sh "rm jit-*.dump"
    assert.same({ "first", "second", "third" }, read())
  end)

  it("is found in a recording of perf record -k mono", function()
    jitted()
    requires("program perf", "root")
    local r = run(("cd %s && perf record -k mono -e cpu-clock:u -F 999 -g -o perf.data ./jitted . late"):format(dir))
    if r.code ~= 0 then return pending("perf: " .. r.err) end
    local names = {}
    local rec <close> = assert(perfev.open(dir .. "/perf.data"))
    for record in rec:records { user = false } do
      if record.type == "sample" then note(names, record.stack[1]) end
    end
    assert.same({ "first", "second", "third" }, names)
  end)

  it("is shown by annotate, with the samples of each instruction", function()
    jitted()
    local r = run({ run.perfl, "-q", "annotate", "second", "--", "./jitted", "." }, { cwd = dir })
    if r.err:find("libcapstone", 1, true) then return pending(r.err) end
    assert.equal(0, r.code, r.err)
    assert.matches("^second in .*/jit%-%d+%.dump: %d+ samples", r.out)
    -- All samples are in the loop of two instructions: 100.00% in one of them, or a share in each.
    assert.matches("%% +%x+  %l+ [^\n]*\n", r.out)
    assert.matches("  jne 0x%x+ <second%+0x5>\n +%x+  ret", r.out)
    r = run({ run.perfl, "-q", "annotate", "third", "--", "./jitted", "." }, { cwd = dir }) -- it has moved
    assert.equal(0, r.code, r.err)
    assert.matches("%d%% +%x+10%x  %l+ [^\n]*\n", r.out)
  end)

  it("of Node.js has the names of its functions", function()
    requires("perf", "program node")
    run.write_file(dir .. "/hot.js", [[
function hotFunction(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; return s; }
let t = 0;
for (let i = 0; i < 20000; i++) t += hotFunction(20000);
process.exit(t > 0 ? 0 : 1);
]])
    local out = sh(run.quote(run.perfl) .. " -q profile -f folded -F 999 -- node --perf-prof hot.js")
    assert.matches("JS:.?hotFunction ", out)
    sh(run.quote(run.perfl) .. " -q record -e cpu-clock -F 999 -o node.data -- node --perf-prof hot.js")
    sh "rm jit-*.dump"
    assert.matches("JS:.?hotFunction ", sh(run.quote(run.perfl) .. " -q -i node.data profile -f folded"))
  end)
end)
