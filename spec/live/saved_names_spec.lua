-- A recording keeps the names of its frames: after the program is gone, rebuilt or stripped; perf still reads the file.

local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local cc = os.getenv "CC" or "gcc"
local dir

before_each(function() dir = run.tempdir() end)
after_each(function() run.remove(dir) end)

local function sh(command)
  local result = run(("cd %s && %s"):format(dir, command))
  assert.equal(0, result.code, result.err)
  return result
end

local SOURCE = [[
__attribute__((noinline)) long inner(long n) { volatile long s = 0; for (long i = 0; i < n; i++) s += i; return s; }
__attribute__((noinline)) long outer(long n) { return inner(n) + 1; }
int main(void) { long s = 0; for (int i = 0; i < 100; i++) s += outer(1000000); return s == 0; }
]]

-- Each program has another build-id: perf record keeps copies in ~/.debug.
local function build(source, more)
  run.write_file(dir .. "/work.c", ('%s__attribute__((used)) const char tag[] = "%s";\n'):format(source, dir))
  sh(("%s -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls %s -o work work.c"):format(cc, more or ""))
end

local function perfl(...) return sh(run.quote(run.perfl) .. " " .. table.concat({ ... }, " ")) end

-- All frames of a recording, "name module" -> samples.
local function frames_of(path)
  local rec <close> = assert(perfev.open(dir .. "/" .. path))
  local list = {}
  for r in rec:records { user = false } do
    if r.type == "sample" then
      local stack = r.stack and r.stack:frames() or { { symbol = r.symbol, module = "ip" } }
      for _, frame in ipairs(stack) do
        local key = ("%s+%s %s"):format(frame.symbol, frame.offset, frame.module)
        list[key] = (list[key] or 0) + 1
      end
    end
  end
  return list
end

local function has(frames, pattern)
  for name in pairs(frames) do
    if name:find(pattern) then return true end
  end
  return false
end

for _, kind in ipairs {
  { "with call chains", "-g" }, { "without call chains", "" }, { "with compressed records", "-z -g" },
  { "of a program without a build-id", "-g", "-Wl,--build-id=none" },
} do
  describe("a recording " .. kind[1], function()
    it("names the frames of a program that is gone, rebuilt or stripped", function()
      requires("perf", "root", "cc")
      build(SOURCE, kind[3])
      local said = perfl("record -e cpu-clock:u -F 2000", kind[2], "-o t.data -- ./work").err
      assert.matches(" samples, [%d.]+ k?bytes? of names, 0 lost\n$", (said:gsub("kB", "kbytes")))
      local wanted = frames_of "t.data"
      assert.is_true(has(wanted, "^inner%+"))
      sh "mv work ran"
      assert.same(wanted, frames_of "t.data")
      build((SOURCE:gsub("inner", "other"):gsub("1000000", "7")))
      assert.same(wanted, frames_of "t.data")
      sh "mv ran work; strip work"
      assert.same(wanted, frames_of "t.data")
    end)
  end)
end

it("a profile of a program that was stripped has the names of its table and those of the recording", function()
  requires("perf", "root", "cc")
  -- .dynsym keeps outer(), and neither inner() nor second().
  build("static " .. SOURCE:gsub("^(.-\n)", "%1static %1"):gsub("inner", "second", 1)
    :gsub("inner%(n%) %+ 1", "inner(n) + second(n)"), "-rdynamic")
  perfl "record -e cpu-clock:u -F 2000 -g -o t.data -- ./work"
  local wanted = perfl("-q -i t.data profile -f folded").out
  for _, name in ipairs { "inner", "second" } do assert.matches("main;outer;" .. name .. " %d+\n", wanted) end
  sh "strip work"
  assert.equal(wanted, perfl("-q -i t.data profile -f folded").out)
end)

describe("perfl record --no-names", function()
  it("keeps none: the frames of a program that is gone have no names", function()
    requires("perf", "root", "cc")
    build(SOURCE)
    local said = perfl("record --no-names -e cpu-clock:u -F 2000 -g -o t.data -- ./work").err
    assert.is_nil(said:find "of names")
    sh "rm work"
    assert.is_false(has(frames_of "t.data", "^inner%+"))
  end)
end)

-- perf report prints equal rows in any order, and a tip at random.
local function sorted(text)
  local lines = {}
  for line in text:gsub("named%.data", "plain.data"):gmatch "[^\n]+" do
    if not line:find "^# %(Tip: " then lines[#lines + 1] = line end
  end
  table.sort(lines)
  return lines
end

describe("perf", function()
  it("prints the same of a recording with and without names", function()
    requires("root", "perf", "program perf")
    build(SOURCE)
    perfl "record --no-names -e cpu-clock -F 2000 -g -o plain.data -- ./work"
    perfl "archive plain.data -o named.data"
    for _, command in ipairs {
      "script -i %s", "report --stdio -g none -i %s", "buildid-list -i %s", "evlist -v -i %s",
      "annotate --stdio -s inner -i %s", "inject -b -i %s -o injected.data && perf script -i injected.data",
    } do
      local plain, named = sh("perf " .. command:format "plain.data"), sh("perf " .. command:format "named.data")
      assert.is_true(#plain.out > 0, command)
      assert.same(sorted(plain.out), sorted(named.out), command)
    end
  end)
end)

describe("perfl archive", function()
  it("adds the names to a recording of perf record, or to a copy that only its owner reads", function()
    requires("root", "perf", "program perf")
    build(SOURCE)
    sh "perf record -q -e cpu-clock -F 2000 -g -o t.data -- ./work"
    local wanted, before = frames_of "t.data", run.slurp(dir .. "/t.data")
    local said = perfl("archive t.data -o copy.data").err
    assert.matches("^perfl: added [%d.]+ k?bytes of names to copy.data\n$", (said:gsub("kB", "kbytes")))
    assert.equal(before, run.slurp(dir .. "/t.data"))
    assert.equal("600", sh("stat -c %a copy.data").out:match "%d+")
    perfl "archive t.data"
    local once = run.slurp(dir .. "/t.data")
    perfl "archive t.data" -- the same names are not written again
    assert.equal(once, run.slurp(dir .. "/t.data"))
    sh "rm work"
    assert.same(wanted, frames_of "t.data")
    assert.same(wanted, frames_of "copy.data")
  end)

  it("refuses standard input", function()
    local result = run({ run.perfl, "archive", "-" }, { stdin = "" })
    assert.same({ 2, "perfl: only a file keeps names, not standard input\n  try: perfl archive FILE\n" },
      { result.code, result.err })
  end)

  it("refuses a stream, and what is not a recording", function()
    requires("root", "perf", "program perf")
    local result = run(("cd %s && perf record -q -e cpu-clock -o - -- true > s.data; %s archive s.data"):format(dir,
      run.quote(run.perfl)))
    assert.same({ 1, "perfl: no names are added: s.data is a stream, and only a file keeps names\n"
      .. "  try: perf inject -i FILE -o OUT, which writes a file\n" }, { result.code, result.err })
    run.write_file(dir .. "/text", "no data")
    assert.equal(1, run({ run.perfl, "archive", dir .. "/text" }).code)
    assert.equal(2, run({ run.perfl, "archive", "a", "b" }).code)
  end)
end)
