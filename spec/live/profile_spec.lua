-- Scripts of stacks on the real kernel. profile: page faults of a known number in a known function, in every
-- form; offcputime: naps of a known number and least length.

local json = require "spec.support.json"
local protobuf = require "spec.support.protobuf"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local PAGES = 37

local program = [[
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGES = 37 };

__attribute__((noinline)) static void touch(volatile char *pages, long size)
{
	for (int i = 0; i < PAGES; i++)
		pages[i * size] = 1;
}

__attribute__((noinline)) static void work(long size)
{
	char *pages = mmap(NULL, PAGES * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(pages, PAGES * size, MADV_NOHUGEPAGE); /* each a fault of its own */
	touch(pages, size);
	syscall(SYS_getppid);
}

int main(void)
{
	work(sysconf(_SC_PAGESIZE));
	return 0;
}
]]

local napping = [[
#include <time.h>

/* libc's wrapper has no frame, so that its caller is in no chain of frame pointers. */
static void doze(void)
{
	struct timespec ms50 = { .tv_nsec = 50000000 };

	nanosleep(&ms50, NULL);
}

static void nap(void)
{
	doze();
}

int main(void)
{
	for (int i = 0; i < 3; i++)
		nap();
	return 0;
}
]]

local dir

local function build(name, text, ...)
  run.write_file(("%s/%s.c"):format(dir, name), text)
  -- Not optimised, so that every function has a frame: optimised leaf functions lack one with every option.
  run({ os.getenv "CC" or "gcc", "-O0", "-o", name, name .. ".c", ... }, { cwd = dir })
end

local function profile_of(event, ...)
  requires("perf", "root", "cc")
  local r = run({ run.perfl, "-q", "profile", "--event", event, "-F", "0", ... }, { cwd = dir })
  assert.same({ 0, "" }, { r.code, run.without_progress(r.err) })
  return r.out
end

local function profile(...) return profile_of("page-faults", ...) end

describe("profile", function()
  setup(function()
    dir = run.tempdir()
    build("faults", program)
  end)
  teardown(function() run.remove(dir) end)

  it("shows each function and its callers in a table and in a tree", function()
    assert.matches(("\n *%d +[%%d.]+%%%% +%d +[%%d.]+%%%%  touch %%[faults%%]\n"):format(PAGES, PAGES),
      profile("--", "./faults"))
    assert.matches("main %[faults%]\n[^\n]*work %[faults%]\n[^\n]*touch %[faults%]\n",
      profile("-f", "tree", "--", "./faults"))
  end)

  it("gives the same values to the graphical formats", function()
    assert.matches(("\nfaults;[^\n]*;main;work;touch %d\n"):format(PAGES),
      "\n" .. profile("-f", "folded", "--", "./faults"))
    local page = profile("-f", "html", "--title", "faults & pages", "--", "./faults")
    local data = json.decode(page:match '<script type="application/json" id="profile">(.-)</script>')
    local sum = 0
    for n, func in ipairs(data.func) do
      if data.functions[func][1] == "touch" then sum = sum + data.own[1][n] end
    end
    assert.same({ PAGES, "faults & pages", "page-faults" }, { sum, data.title, data.values[2].name })
    assert.matches((">touch %%[faults%%] %%(%d samples,"):format(PAGES), profile("-f", "svg", "--", "./faults"))
  end)

  it("gives pprof the same samples and their periods", function()
    local message = protobuf.profile(protobuf.gunzip(profile("-f", "pprof", "--", "./faults")))
    local sums = { 0, 0 }
    for _, sample in ipairs(message.samples) do
      if sample.frames[1]:find "^touch " then
        for i, value in ipairs(sample.values) do sums[i] = sums[i] + value end
      end
    end
    assert.same({ PAGES, PAGES }, sums)
    assert.is_true(message.duration > 0)
  end)

  it("leaves out user or kernel frames on request", function()
    requires("tracepoint raw_syscalls:sys_enter")
    local function called(...)
      return profile_of("raw_syscalls:sys_enter", "-f", "folded", ..., "--", "./faults")
    end
    assert.matches("\nfaults;[^\n]*;main;[^\n]*%f[%w_]syscall;[^\n]*_%[k%] 1\n", called "--idle")
    local user = called "--user"
    assert.matches("\nfaults;[^\n]*;main;[^\n]*%f[%w_]syscall 1\n", user)
    assert.is_nil(user:find("_[k]", 1, true))
    local kernel = called "--kernel"
    assert.matches("faults;[^\n]*_%[k%] %d+\n", kernel)
    assert.is_nil(kernel:find ";main[;\n ]")
  end)

  it("unwinds by DWARF on request where frame pointers find no caller", function()
    build("bare", program, "-O1", "-fomit-frame-pointer")
    local function called(how)
      return "\n" .. profile("-f", "folded", "--user", "--call-graph", how, "--", "./bare")
    end
    local chain = ("\nbare;[^\n]*;main;work;touch %d\n"):format(PAGES)
    assert.matches(chain, called "dwarf,4096")
    assert.is_nil(called("fp"):find(chain))
  end)

  it("refuses contradictory and invalid options", function()
    local r = run { run.perfl, "profile", "--user", "--kernel", "--", "true" }
    assert.same({ 2, "profile: --user or --kernel, not both\n" }, { r.code, r.err })
    assert.equal(2, run({ run.perfl, "profile", "-F", "-1", "--", "true" }).code)
    r = run { run.perfl, "profile", "--call-graph", "frames", "--", "true" }
    assert.equal(2, r.code)
    assert.matches("^profile: %-%-call%-graph: call%-graph is fp, dwarf, .*, not 'frames'\n  try: fp, dwarf, ", r.err)
  end)
end)

describe("annotate", function()
  setup(function()
    dir = run.tempdir()
    build("faults", program, "-g")
  end)
  teardown(function() run.remove(dir) end)

  local function annotate(...)
    requires("perf", "root", "cc")
    local r = run({ run.perfl, "-q", "annotate", "touch", ... }, { cwd = dir })
    assert.same({ 0, "" }, { r.code, r.err })
    return r.out
  end

  it("shows the line of each event, live and in a recording", function()
    for _, out in ipairs { annotate("-e", "page-faults", "-F", "0", "--", "./faults"),
      annotate("-e", "page-faults", "-F", "0", "--record", "t.data", "--", "./faults"),
      annotate("-e", "page-faults", "-i", "t.data") } do
      assert.matches(("^touch in [^\n]*/faults: %d samples of page%%-faults, "):format(PAGES), out)
      assert.matches("\n100.00%% +11  +pages%[i %* size%] = 1;\n", out)
    end
  end)

  -- The instructions that have samples -> their shares, in the order of their addresses
  local function shares(text, pattern)
    local list = {}
    for line in text:gmatch "[^\n]+" do
      local share, address = line:match(pattern)
      if share and tonumber(share) > 0 then list[#list + 1] = address .. " " .. share end
    end
    return list
  end

  it("prints the shares of perf annotate", function()
    requires("program objdump", "program perf")
    annotate("-e", "page-faults", "-F", "0", "--record", "t.data", "--", "./faults")
    local ours = shares(annotate("-e", "page-faults", "-i", "t.data", "--asm"), "^ *([%d.]+)%% +(%x+)  ")
    local theirs
    for _ = 1, 5 do -- perf 6.1 aborts now and then
      local r = run({ "perf", "annotate", "--stdio", "-i", "t.data", "touch" }, { cwd = dir })
      theirs = shares(r.out, "^ *([%d.]+) +: +(%x+):")
      if r.code == 0 then break end
    end
    assert.same({ 1, theirs }, { #ours, ours })
  end)
end)

describe("offcputime", function()
  setup(function()
    dir = run.tempdir()
    build("naps", napping)
  end)
  teardown(function() run.remove(dir) end)

  -- Asleep by nanosleep(2), and not waiting for a CPU on the way there or back.
  local function is_asleep(frames)
    local at = 1
    while frames[at] and frames[at]:find "^_*schedule " do at = at + 1 end
    return frames[at] and frames[at]:find "^do_nanosleep " ~= nil
  end

  -- Returns the sum of the sleeps below nap, in ns, and their number.
  local function naps(...)
    requires("perf", "root", "cc")
    local r = run({ run.perfl, "-q", "offcputime", "-f", "pprof", ... }, { cwd = dir })
    assert.same({ 0, "" }, { r.code, run.without_progress(r.err) })
    local message, time, waits = protobuf.profile(protobuf.gunzip(r.out)), 0, 0
    assert.same({ "time/nanoseconds", "waits/count" }, message.types)
    for _, sample in ipairs(message.samples) do
      if is_asleep(sample.frames) and table.concat(sample.frames, ";"):find(";nap ", 1, true) then
        time, waits = time + sample.values[1], waits + sample.values[2]
      end
    end
    return time, waits
  end

  it("assigns each sleep its time", function()
    -- It may have had to wait for a CPU on the way to sleep: less is left of a nap then.
    local time, waits = naps("--least", "1ms", "--", "./naps")
    assert.equal(3, waits)
    assert.is_true(time >= 50000000)
  end)

  it("shows a time in each row of its tree, and the time of all waits in the last row", function()
    requires("perf", "root", "cc")
    local r = run({ run.perfl, "-q", "offcputime", "--", "./naps" }, { cwd = dir })
    assert.same({ 0, "" }, { r.code, run.without_progress(r.err) })
    assert.matches("^ *time +total +own  function\n", r.out)
    assert.matches("\n *[%d.]+ [num]?s +[%d.]+%% +[%d.]+%% +%-? *nap %[naps%]\n", r.out)
    assert.matches("\n *[%d.]+ m?s +100%.0%% +all\n$", r.out)
  end)

  it("refuses a user who may not see kernel switches, instead of printing no waits", function()
    requires("perf", "root", "nobody", "paranoid 2")
    local r = run({ run.perfl, "offcputime", "--", "true" }, { user = "nobody", cwd = "/" })
    assert.same({ 1, "" }, { r.code, r.out })
    assert.matches("context%-switches.*kernel%.perf_event_paranoid is 2", r.err)
  end)

  it("leaves out waits shorter than --least", function()
    assert.same({ 0, 0 }, { naps("--least", "1h", "--", "./naps") })
  end)
end)
