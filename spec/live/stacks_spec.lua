-- Scripts of stacks on the real kernel, with programs that make a known number of calls.

local protobuf = require "spec.support.protobuf"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local program = [[
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 37, WRITES = 11, WAITS = 5, READS = 13, BLOCK = 4096 };

int counter;

/* Each a fault of its own: new memory, or pages of a file. */
__attribute__((noinline)) static void touch(volatile char *pages, long size, int write)
{
	for (int i = 0; i < PAGES; i++)
		if (write)
			pages[i * size] = 1;
		else
			(void)pages[i * size];
}

__attribute__((noinline)) static void faults(long size)
{
	char *pages = mmap(NULL, PAGES * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(pages, PAGES * size, MADV_NOHUGEPAGE);
	touch(pages, size, 1);
}

__attribute__((noinline)) static void bump(void)
{
	counter++;
}

static void writes(void)
{
	for (int i = 0; i < WRITES; i++)
		bump();
	if (fork() == 0) { /* a child's counter, at the same address */
		bump();
		_exit(0);
	}
	wait(NULL);
}

/* Asleep, and once more than before: one that is preempted on the way to sleep has not left the CPU by itself. */
static int is_asleep(int pid, long *sleeps)
{
	char path[32], line[128], state = 0;
	long nr = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	file = fopen(path, "r");
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "State: %c", &state);
		sscanf(line, "voluntary_ctxt_switches: %ld", &nr);
	}
	fclose(file);
	if (state != 'S' || nr == *sleeps)
		return 0;
	*sleeps = nr;
	return 1;
}

/* Both on one CPU: who is seen asleep has left it. libc's read and write have no frames; hence the callers. */
static void take(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		_exit(1);
}

static void sleeps(int fd)
{
	for (int i = 0; i < WAITS; i++)
		take(fd);
}

static void give(int fd)
{
	if (write(fd, "", 1) != 1)
		_exit(1);
}

static void wakes(int fd, int pid)
{
	long before = 0;

	for (int i = 0; i < WAITS; i++) {
		while (!is_asleep(pid, &before))
			sched_yield();
		give(fd);
	}
}

static void waits(void)
{
	int fds[2], pid, cpu = sched_getcpu();
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one) || pipe(fds))
		_exit(1);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_NAME, "sleeper");
		sleeps(fds[0]);
		_exit(0);
	}
	wakes(fds[1], pid);
	wait(NULL);
}

/* Past the page cache, and apart, so that each is a request of its own. */
static int reads(void)
{
	void *block;
	int fd = open("blocks", O_RDWR | O_CREAT, 0600);

	if (fd < 0 || posix_memalign(&block, BLOCK, 16 * BLOCK))
		return 1;
	memset(block, 1, 16 * BLOCK);
	for (int i = 0; i < READS; i++)
		if (write(fd, block, 16 * BLOCK) < 0)
			return 1;
	if (fsync(fd) || close(fd))
		return 1;
	fd = open("blocks", O_RDONLY | O_DIRECT);
	for (int i = 0; i < READS; i++)
		if (pread(fd, block, BLOCK, 16L * i * BLOCK) != BLOCK)
			return 1;
	return 0;
}

/* Keep every CPU from idling, so that whoever a disk's interrupt meets is a task. */
static void spin_everywhere(void)
{
	int ready[2];
	cpu_set_t all, one;

	if (sched_getaffinity(0, sizeof(all), &all) || pipe(ready))
		_exit(1);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		if (fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			CPU_ZERO(&one);
			CPU_SET(cpu, &one);
			sched_setaffinity(0, sizeof(one), &one);
			give(ready[1]);
			for (;;)
				;
		}
		take(ready[0]);
	}
}

int main(int argc, char **argv)
{
	if (!strcmp(argv[1], "faults"))
		faults(sysconf(_SC_PAGESIZE));
	else if (!strcmp(argv[1], "writes"))
		writes();
	else if (!strcmp(argv[1], "waits"))
		waits();
	else if (!strcmp(argv[1], "spin+reads"))
		spin_everywhere();
	if (strstr(argv[1], "reads"))
		return reads();
	return argc != 2;
}
]]

local dir
setup(function()
  dir = run.tempdir()
  run.write_file(dir .. "/acts.c", program)
  -- Every function has a frame.
  run({ os.getenv "CC" or "gcc", "-O0", "-o", "acts", "acts.c" }, { cwd = dir })
end)
teardown(function() run.remove(dir) end)

-- perfl -q WORDS... -- ./acts WHAT -> its output
local function output_of(what, ...)
  requires("perf", "root", "cc")
  local words = { run.perfl, "-q", ... }
  table.move({ "--", "./acts", what }, 1, 3, #words + 1, words)
  local r = run(words, { cwd = dir })
  assert.same({ 0, "" }, { r.code, run.without_progress(r.err) })
  return r.out
end

describe("faultstacks", function()
  it("counts each touched page by the stack that touches it", function()
    assert.matches("\nacts;[^\n]*;main;faults;touch 37\n", "\n" .. output_of("faults", "faultstacks", "-f", "folded"))
    assert.is_nil(output_of("faults", "faultstacks", "--major", "-f", "folded"):find("touch 37", 1, true))
  end)

  it("counts the same in a recording of page-faults by perf record", function()
    requires("program perf")
    requires("root")
    run({ "perf", "record", "-q", "-g", "-c", "1", "-e", "page-faults", "./acts", "faults" }, { cwd = dir })
    local r = run({ run.perfl, "-q", "faultstacks", "-i", "perf.data", "-f", "folded" }, { cwd = dir })
    assert.matches(";main;faults;touch 37\n", r.out)
  end)
end)

-- Of all stacks of a pprof file that have these words in this order, the leaf first: the sums of their values.
local function sums_of(pprof, types, pattern)
  local message, sums = protobuf.profile(protobuf.gunzip(pprof)), {}
  assert.same(types, message.types)
  for _, sample in ipairs(message.samples) do
    if table.concat(sample.frames, ";"):find(pattern) then
      for i, value in ipairs(sample.values) do sums[i] = (sums[i] or 0) + value end
    end
  end
  return sums
end

describe("wakeuptime", function()
  it("measures each wait by the stack that ends it", function()
    requires("tracepoint sched:sched_waking")
    local sums = sums_of(output_of("waits", "wakeuptime", "-f", "pprof"), { "time/nanoseconds", "waits/count" },
      ";wakes .*;%[woken by%] acts[^;]*;sleeper")
    assert.equal(5, sums[2])
    assert.is_true(sums[1] > 0)
  end)
end)

describe("offwaketime", function()
  it("measures each wait by its stack and by the stack that ends it", function()
    requires("tracepoint sched:sched_waking")
    local sums = sums_of(output_of("waits", "offwaketime", "-f", "pprof"), { "time/nanoseconds", "waits/count" },
      "^acts[^;]*;.*;wakes .*;%-%-[^;]*;.*;sleeps .*;sleeper")
    assert.equal(5, sums[2])
    assert.is_true(sums[1] > 0)
  end)

  it("of the machine shows only the waits that --filter selects", function()
    requires("perf", "root", "tracepoint sched:sched_waking")
    local out = output_of("waits", "-a", "offwaketime", "--filter", 'comm == "sleeper"', "-f", "folded")
    assert.matches("%f[^\n\0]sleeper;[^\n]*;sleeps;[^\n]*;%-%-;[^\n]*;wakes;[^\n]*;acts %d+\n", out)
    for line in out:gmatch "[^\n]+" do assert.matches("^sleeper;", line) end
  end)
end)

describe("biostacks", function()
  local function on_a_disk()
    requires("tracepoint block:block_rq_issue")
    local device = run.capture("stat -c %Hd:%Ld " .. dir)
    if not run.capture(("test -e /sys/dev/block/%s && echo yes"):format(device)) then
      pending("temporary files are on no block device here")
    end
  end

  it("counts a command's requests and bytes", function()
    on_a_disk()
    local sums = sums_of(output_of("reads", "biostacks", "-f", "pprof"), { "requests/count", "bytes/bytes" },
      "pread.*;main ")
    assert.same({ 13, 13 * 4096 }, sums)
  end)

  it("measures the time of each when the machine is watched", function()
    on_a_disk()
    local sums = sums_of(output_of("spin+reads", "-a", "biostacks", "--time", "--filter", 'rwbs ~ "R*"', "-f", "pprof"),
      { "time/nanoseconds", "requests/count", "bytes/bytes" }, "pread.*;main [^;]*;.*acts")
    assert.same({ 13, 13 * 4096 }, { sums[2], sums[3] })
    assert.is_true(sums[1] > 0)
  end)

  it("prints the same live and from a recording", function()
    on_a_disk()
    local live = output_of("spin+reads", "-a", "biostacks", "--time", "-f", "folded", "--record", "disks.data")
    local r = run({ run.perfl, "-q", "biostacks", "--time", "-f", "folded", "-i", "disks.data" }, { cwd = dir })
    assert.equal(live, r.out)
    assert.matches("pread", live)
  end)
end)

describe("a tree of stacks", function()
  it("shows the number in each row beside the share, and the total in the last row", function()
    local out = output_of("faults", "faultstacks")
    assert.matches("^ *faults +total +own  function\n", out)
    assert.matches("\n +%d+ +[%d.]+%% +[%d.]+%%  %- acts\n", out)
    assert.matches("\n +37 +[%d.]+%% +[%d.]+%% +%-? *touch %[acts%]\n", out)
    assert.matches("\n +%d+ +100%.0%% +all\n$", out)
    out = output_of("writes", "watch", "./acts:counter")
    assert.matches("^writes +total +own  function\n +12 +100%.0%% +0%.0%%  %- acts\n", out)
    assert.matches("\n +12 +100%.0%% +all\n$", out)
  end)
end)

describe("watch", function()
  it("finds each writer of a variable, in children too", function()
    local out = output_of("writes", "watch", "./acts:counter", "-f", "folded")
    local lines, sum = {}, 0
    for line in out:gmatch "[^\n]+" do
      assert.matches("^acts;.*;main;writes;bump %d+$", line)
      lines[#lines + 1], sum = line, sum + line:match "%d+$"
    end
    assert.equal(12, sum)
    assert.equal(1, #lines)
  end)

  it("prints each write with --each, and their number", function()
    local out = output_of("writes", "watch", "./acts:counter", "--each")
    assert.equal(12, select(2, out:gsub("  acts %d+, cpu %d+\n *%x+ bump%+", "")))
    assert.matches("\n12 writes of ./acts:counter\n", out, 1, true)
  end)

  it("finds reads with --access rw, and a function's calls with --access x", function()
    assert.matches("bump 24\n", output_of("writes", "watch", "--access", "rw", "./acts:counter", "-f", "folded"))
    -- Entered, it has no frame yet: its caller's is the next but one.
    assert.matches("main;bump 12\n", output_of("writes", "watch", "--access", "x", "./acts:bump", "-f", "folded"))
  end)

  it("reports a missing symbol, with the nearest name", function()
    requires("cc")
    local r = run({ run.perfl, "watch", "./acts:conter", "--", "./acts", "writes" }, { cwd = dir })
    assert.equal(1, r.code)
    assert.matches("no symbol 'conter' (did you mean 'counter'?)", r.err, 1, true)
  end)
end)

describe("top", function()
  it("leaves the terminal to a command, and still prints the last table", function()
    local out = output_of("faults", "top", "--event", "minor-faults", "-F", "0")
    assert.matches("\n +%d+ +[%d.]+%%  touch %[acts%]\n", out)
    assert.is_nil(out:find("\27", 1, true))
    assert.equal("37", out:match "\n +(%d+) +[%d.]+%%  touch ")
  end)
end)
