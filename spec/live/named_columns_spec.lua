-- Columns of aggregators whose keys are names, on the real kernel: source lines, callers and cgroups.

local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"
local with_cgroups = require "spec.support.cgroups"(requires, function(why) pending(why) end,
  function(f) finally(f) end)

local cc = os.getenv "CC" or "gcc"
local dir

setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function sh(command)
  local result = run(("cd %s && %s"):format(dir, command))
  assert.equal(0, result.code, result.err)
  return result.out
end

-- Each function's loop is on a line of its own: 2 and 5.
local SOURCE = [[
__attribute__((noinline)) long work(long n) { volatile long s = 0;
  while (n-- > 0) s += n;
  return s; }
__attribute__((noinline)) long other(long n) { volatile long s = 0;
  while (n-- > 0) s += n;
  return s; }
__attribute__((noinline)) long outer(long n) { return work(n) + 1; }
int main(void) { return outer(100000000) + other(100000000) == 3; }
]]

local function build()
  run.write_file(dir .. "/lines.c", SOURCE)
  sh(cc .. " -g -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -o lines lines.c")
end

describe("the column line", function()
  it("is the file and line of the sampled address, live and in a recording", function()
    requires("perf", "cc")
    build()
    local s, a = perfev.session { command = { dir .. "/lines" } }, perfev.count { by = { "line", "symbol" } }
    s:event { "cpu-clock:u", freq = 999, sample = a }
    assert(s:run())
    local place = dir .. "/lines.c:"
    assert.is_true(a:get(place .. 2, "work") > 5)
    assert.is_true(a:get(place .. 5, "other") > 5)
    for line, symbol in a:pairs() do
      if symbol == "work" then assert.matches(":[123]$", line) end
      if symbol == "other" then assert.matches(":[456]$", line) end
    end
    sh(run.quote(run.perfl) .. " -q record -e cpu-clock:u -o lines.data -- ./lines")
    local out = sh(run.quote(run.perfl) .. [[ -q -i lines.data -e 'a = count { by = "line" }
      event { "*", sample = a } done(function() a:print() end)']])
    assert.matches("lines%.c:2 ", out)
    assert.matches("lines%.c:5 ", out)
  end)
end)

describe("the column caller", function()
  it("is the first function that skip does not match", function()
    requires("perf", "cc")
    build()
    local s, a = perfev.session { command = { dir .. "/lines" } },
      perfev.count { by = { "symbol", "caller" }, skip = { "^work$", "^other$" } }
    s:event { "cpu-clock:u", freq = 999, callchain = true, sample = a }
    assert(s:run())
    assert.is_true(a:get("work", "outer") > 5)
    assert.is_true(a:get("other", "main") > 5)
    assert.is_nil(a:get("work", "work"))
  end)
end)

describe("the column cgroup", function()
  it("is the path of the cgroup of each sample", function()
    local root, own = with_cgroups { "one", "two" }
    if not root then return end
    run.write_file(dir .. "/work.sh", ([[
for name in one two; do
  echo 0 > %s%s/$name/cgroup.procs
  i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done
done
echo 0 > %s/cgroup.procs
]]):format(root, own, root))
    local a = perfev.count { by = "cgroup" }
    local s = perfev.session { command = { "sh", dir .. "/work.sh" } }
    s:event { "cpu-clock", freq = 999, sample = a }
    assert(s:run())
    assert.is_true((a:get(own .. "/one") or 0) > 5)
    assert.is_true((a:get(own .. "/two") or 0) > 5)
    sh(run.quote(run.perfl) .. " -q record -e cpu-clock --all-cgroups -o cgroups.data -- sh work.sh")
    local out = sh(run.quote(run.perfl) .. [[ -q -i cgroups.data -e 'a = count { by = "cgroup" }
      event { "*", sample = a } done(function() a:print() end)']])
    assert.matches("\n" .. own:gsub("%-", "%%-") .. "/one +%d", "\n" .. out)
  end)
end)
