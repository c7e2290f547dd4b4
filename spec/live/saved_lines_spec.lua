-- A recording keeps source lines and inlined functions: they are the same after the program is gone, rebuilt or
-- stripped, and perf still reads the file.

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

local function perfl(...) return sh(run.quote(run.perfl) .. " " .. table.concat({ ... }, " ")) end

local SOURCE = [[
static inline __attribute__((always_inline)) long square(long i)
{
	return i * i + 1;
}

__attribute__((noinline)) long inner(long n)
{
	volatile long s = 0;
	for (long i = 0; i < n; i++)
		s += square(i);
	return s;
}

__attribute__((noinline)) long outer(long n)
{
	return inner(n) + 1;
}

int main(void)
{
	long s = 0;
	for (int i = 0; i < 100; i++)
		s += outer(1000000);
	return s == 0;
}
]]

-- Each program has another build-id.
local function build(more)
  run.write_file(dir .. "/work.c", ('%s__attribute__((used)) const char tag[] = "%s";\n'):format(SOURCE, dir))
  sh(("%s -g -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls %s -o work work.c"):format(cc, more or ""))
end

local SCRIPT = [[
local perfev = require "perfev"
local counts = {}
perfev.event { "cpu-clock:u", callchain = true, sample = function(r)
  for _, f in ipairs(r.stack:frames()) do
    local key = ("%s %s:%s %s"):format(f.symbol, f.file and f.file:match "[^/]+$", f.line, f.inlined)
    counts[key] = (counts[key] or 0) + 1
  end
end }
perfev.done(function()
  for key, n in pairs(counts) do print(key, n) end
end)
]]

-- The frames of all samples with their lines, sorted.
local function lines_of(path)
  run.write_file(dir .. "/lines.lua", SCRIPT)
  local out, list = perfl("-q --inline -i", path, "./lines.lua").out, {}
  for line in out:gmatch "[^\n]+" do list[#list + 1] = line end
  table.sort(list)
  return list
end

local function assert_has_lines(list)
  local text = table.concat(list, "\n")
  for _, wanted in ipairs { "square work%.c:3 true", "inner work%.c:%d+ nil", "outer work%.c:16 nil",
                            "main work%.c:%d+ nil" } do
    assert.matches(wanted, text)
  end
end

for _, kind in ipairs {
  { "of a program", "-g" }, { "with compressed records", "-z -g" },
  { "of a program without a build-id", "-g", "-Wl,--build-id=none" },
} do
  it("perfl record --lines keeps the lines: a recording " .. kind[1], function()
    requires("perf", "root", "cc")
    build(kind[3])
    perfl("record --lines -e cpu-clock:u -F 2000", kind[2], "-o t.data -- ./work")
    local wanted = lines_of "t.data"
    assert_has_lines(wanted)
    sh "mv work ran"
    assert.same(wanted, lines_of "t.data")
    sh(("%s -O2 -DOTHER=1 -o work work.c"):format(cc))
    assert.same(wanted, lines_of "t.data")
    sh "mv ran work; strip work"
    assert.same(wanted, lines_of "t.data")
  end)
end

it("aggregators with a column line show the lines that a recording keeps", function()
  requires("perf", "root", "cc")
  build()
  run.write_file(dir .. "/by_line.lua", [[
local perfev = require "perfev"
local a = perfev.count { by = "line" }
perfev.event { "cpu-clock:u", sample = a }
perfev.done(function() a:print() end)
]])
  perfl "record --lines -e cpu-clock:u -F 2000 -o t.data -- ./work"
  local wanted = perfl("-q -i t.data ./by_line.lua").out
  assert.matches("work%.c:3 ", wanted)
  sh "rm work"
  assert.equal(wanted, perfl("-q -i t.data ./by_line.lua").out)
end)

it("perfl --record --lines of a script keeps the lines", function()
  requires("perf", "root", "cc")
  build()
  perfl "-q --record t.data --lines -e 'event { \"cpu-clock:u\", freq = 2000, callchain = true }' -- ./work"
  local wanted = lines_of "t.data"
  assert_has_lines(wanted)
  sh "rm work"
  assert.same(wanted, lines_of "t.data")
end)

it("a recording without --lines has none after the program is gone", function()
  requires("perf", "root", "cc")
  build()
  perfl "record -e cpu-clock:u -F 2000 -g -o t.data -- ./work"
  assert_has_lines(lines_of "t.data")
  sh "rm work"
  assert.is_nil(table.concat(lines_of "t.data", "\n"):find("work.c", 1, true))
end)

it("perfl archive --lines adds the lines to a recording of perf record; a later archive keeps them", function()
  requires("root", "perf", "program perf", "cc")
  build()
  sh "perf record -q -e cpu-clock:u -F 2000 -g -o t.data -- ./work"
  local wanted, script = lines_of "t.data", sh("perf script -i t.data").out
  assert_has_lines(wanted)
  assert.matches("perfl: added [^\n]+ of names to t.data\n", perfl("archive --lines t.data").err)
  local once = run.slurp(dir .. "/t.data")
  perfl "archive t.data"
  assert.equal(once, run.slurp(dir .. "/t.data"))
  assert.equal(script, sh("perf script -i t.data").out)
  sh "rm work"
  assert.same(wanted, lines_of "t.data")
  perfl "archive t.data" -- from what it keeps
  assert.same(wanted, lines_of "t.data")
end)

it("perf reads a recording with lines as without", function()
  requires("root", "perf", "program perf", "cc")
  build()
  perfl "record -e cpu-clock:u -F 2000 -g -o plain.data -- ./work"
  perfl "archive --lines plain.data -o lines.data"
  for _, command in ipairs { "script", "report --stats", "buildid-list", "evlist -v" } do
    local plain, with = sh("perf " .. command .. " -i plain.data").out, sh("perf " .. command .. " -i lines.data").out
    assert.equal(plain, with, command)
  end
end)

it("--lines without a recording, or without its names, is refused", function()
  for words, wanted in pairs {
    [{ "--lines", "cswlog" }] = "%-%-lines without %-%-record",
    [{ "record", "--lines", "--no-names", "--", "true" }] = "%-%-lines and %-%-no%-names at once",
  } do
    local result = run { run.perfl, table.unpack(words) }
    assert.equal(2, result.code)
    assert.matches(wanted, result.err)
  end
  local perfev = require "perfev"
  assert.error_matches(function() perfev.session { record = "x", lines = true } end, "lines without names")
end)
