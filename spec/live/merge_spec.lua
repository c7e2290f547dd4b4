-- perfl --pack and perfl merge on the real kernel: a command, recordings, and the memory that programs keep.

local core = require "perfev.core"
local json = require "spec.support.json"
local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

-- Known numbers of calls, and of bytes that each function maps and keeps; the C library's wrappers have no frames.
local PROGRAM = [[
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((noinline)) static void map(int pages)
{
	if (mmap(NULL, pages * sysconf(_SC_PAGESIZE), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
		exit(1);
}
__attribute__((noinline)) static void keep_all(int pages) { map(pages); }

int main(int argc, char **argv)
{
	int nr = argc > 1 ? atoi(argv[1]) : 1;

	for (int i = 0; i < nr; i++) {
		getppid();
		keep_all(2);
	}
	return 0;
}
]]

local dir
setup(function()
  if requires.missing("cc") then return end
  dir = run.tempdir()
  run.write_file(dir .. "/calls.c", PROGRAM)
  local r = run({ os.getenv "CC" or "gcc", "-O0", "-fno-omit-frame-pointer", "-o", "calls", "calls.c" }, { cwd = dir })
  assert.equal(0, r.code, r.err)
end)
teardown(function()
  if dir then run.remove(dir) end
end)

-- perfl -q WORDS... in the directory -> its output
local function quiet(...)
  local r = run({ run.perfl, "-q", ... }, { cwd = dir })
  assert.equal(0, r.code, r.err)
  return r.out
end

local function count_of(text, call) return tonumber(text:match("\n" .. call .. " +(%d+)\n")) end

describe("perfl --pack on the real kernel", function()
  it("counts what the commands do, and merges it", function()
    requires("perf", "root", "cc", "tracefs")
    for i, nr in ipairs { "3", "4", "50" } do
      local shown = quiet("--pack", "live." .. i, "syscount", "--", "./calls", nr)
      assert.equal(tonumber(nr), count_of(shown, "getppid"))
    end
    local text = quiet("merge", "live.1", "live.2", "live.3")
    assert.equal(57, count_of(text, "getppid"))
  end)

  it("merges the stacks that growth finds, which its done function adds", function()
    requires("perf", "root", "cc", "tracefs")
    local pages = 0
    for i, nr in ipairs { 3, 4 } do
      quiet("--pack", "growth." .. i, "growth", "--anonymous", "-f", "folded", "--", "./calls", tostring(nr))
      pages = pages + 2 * nr
    end
    local bytes = 0
    for line in quiet("merge", "growth.1", "growth.2"):gmatch "[^\n]+" do
      if line:find "keep_all" then bytes = bytes + tonumber(line:match "%d+$") end
    end
    assert.equal(pages * tonumber(run.capture "getconf PAGESIZE"), bytes)
  end)

  it("takes the times of a recording, and merges as many recordings as one of them all", function()
    requires("perf", "root", "cc", "tracefs")
    for i, nr in ipairs { "3", "4" } do
      quiet("--record", i .. ".data", "syscount", "--", "./calls", nr)
      quiet("-i", i .. ".data", "--pack", i .. ".frames", "--interval", "1ms", "syscount")
    end
    quiet("merge", "-o", "both.data", "1.data", "2.data")
    local expected = quiet("-i", "both.data", "syscount")
    assert.equal(7, count_of(expected, "getppid"))
    assert.equal(expected, quiet("merge", "1.frames", "2.frames"))
    local facts, first = json.decode(run({ run.perfl, "report", "-j", dir .. "/1.data" }).out), nil
    for frame in perfev.frames(assert(io.open(dir .. "/1.frames", "rb"))) do
      first = first or frame.header.begin
      assert.equal(facts.header.hostname, frame.header.host)
      assert.is_true(frame.header.begin <= frame.header["end"])
    end
    assert.equal(facts.began, first // 1000000000)
  end)

  it("says that a recording has no time of day", function()
    requires("perf", "root", "cc", "tracefs")
    if not run.have "perf" then return pending "perf is not installed" end
    assert.equal(0, run("perf record -q -e raw_syscalls:sys_enter -o plain.data ./calls", { cwd = dir }).code)
    local r = run({ run.perfl, "-i", "plain.data", "--pack", "plain.frames", "syscount" }, { cwd = dir })
    assert.equal(0, r.code, r.err)
    assert.matches("the recording does not have the time of day", r.err)
  end)

  it("confines the script by the kernel where it can", function()
    requires("perf", "root", "cc", "tracefs")
    if not core.landlock_abi() then return pending "this kernel has no Landlock" end
    run.write_file(dir .. "/waits.lua", ([[
      local perfev = require "perfev"
      perfev.event { "syscalls:sys_enter_getppid", sample = perfev.count {} }
      if perfev.default_session().opts.input then io.open(%q):read "a" end]]):format(dir .. "/fifo"))
    quiet("--pack", "waits", "./waits.lua", "--", "./calls", "1")
    -- The script waits until the shell closes the FIFO.
    local r = run([[mkfifo fifo; $PERFL merge -q --read "$PWD/fifo" --script ./waits.lua waits >/dev/null & exec 3>fifo
      grep -E '^(CapEff|CapPrm|NoNewPrivs|Seccomp):' /proc/$!/status; exec 3>&-; wait $!]],
      { cwd = dir, env = { PERFL = run.perfl } })
    assert.same({ 0, "CapPrm:\t0000000000000000\nCapEff:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n" },
      { r.code, r.out })
  end)

  it("needs no right to merge, and opens no event and no file to write", function()
    requires("perf", "root", "cc", "tracefs")
    quiet("--pack", "traced", "syscount", "--", "./calls")
    assert(os.execute(("chmod 644 %s/traced"):format(dir)))
    local expected = quiet("merge", "traced")
    assert.equal(expected, run({ run.perfl, "merge", "-q", dir .. "/traced" }, { user = "nobody" }).out)
    if not run.have "strace" then return pending "strace is not installed" end
    local r = run({ "strace", "-f", "-o", "trace", run.perfl, "merge", "-q", "traced" }, { cwd = dir })
    assert.equal(expected, r.out)
    local calls = run.slurp(dir .. "/trace")
    assert.is_nil(calls:find "perf_event_open")
    for line in calls:gmatch "open%w*%([^\n]+" do assert.is_nil(line:find "O_WRONLY" or line:find "O_RDWR", line) end
  end)
end)
