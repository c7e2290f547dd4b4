-- memleak and growth on the real kernel, with a program that keeps a known number of bytes of each function.

local protobuf = require "spec.support.protobuf"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local program = [[
#define _GNU_SOURCE
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWN __attribute__((noinline)) static

void *kept[64];

/* Seen by no optimiser. */
OWN void *keep(void *block)
{
	static int nr;

	return kept[nr++ % 64] = block;
}

OWN void leak_malloc(void)
{
	for (int i = 0; i < 3; i++)
		keep(malloc(100));
}

OWN void leak_calloc(void)
{
	for (int i = 0; i < 2; i++)
		keep(calloc(7, 11));
}

/* The block moves or stays: it has one size. */
OWN void leak_realloc(void)
{
	void *block = realloc(NULL, 10);

	for (int i = 1; i <= 5; i++)
		block = realloc(block, i * 10000);
	keep(block);
}

OWN void leak_after_failure(void)
{
	void *block = malloc(222);
	volatile size_t too_much = SIZE_MAX / 2;

	keep(block);
	if (realloc(block, too_much))
		exit(1);
}

OWN void leak_aligned(void)
{
	void *block;

	if (posix_memalign(&block, 64, 4000))
		exit(1);
	keep(block);
	keep(aligned_alloc(64, 640));
	keep(memalign(32, 320));
}

OWN void leak_elsewhere(void)
{
	if (posix_memalign(&kept[63], 64, 5000))
		exit(1);
}

OWN void frees_all(void)
{
	for (int i = 1; i < 500; i++) {
		void *block = keep(malloc(i)), *other;

		free(keep(realloc(block, 2 * i)));
		if (posix_memalign(&other, 64, i))
			exit(1);
		free(keep(other));
		free(keep(calloc(i, 3)));
	}
}

/* The child frees its copy, which leaves the parent's as it is, and keeps memory of its own. */
OWN void leak_in_child(void)
{
	void *block = keep(malloc(1234));

	if (fork() == 0) {
		free(block);
		keep(malloc(4321));
		_exit(0);
	}
	wait(NULL);
}

static void leaks(void)
{
	frees_all();
	leak_malloc();
	leak_calloc();
	leak_realloc();
	leak_after_failure();
	leak_aligned();
	leak_in_child();
}

/* The C library's wrappers of system calls have no frames; hence a caller of the caller. */
static long page;

OWN char *map(char *at, int pages, int flags)
{
	char *start = mmap(at, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	if (start == MAP_FAILED)
		exit(1);
	return start;
}

OWN void unmap(char *start, int pages)
{
	if (munmap(start, pages * page))
		exit(1);
}

OWN char *resize(char *start, int old_pages, int pages)
{
	start = mremap(start, old_pages * page, pages * page, MREMAP_MAYMOVE);
	if (start == MAP_FAILED)
		exit(1);
	return start;
}

OWN void map_some(void)
{
	for (int i = 0; i < 5; i++)
		keep(map(NULL, 3, 0));
}

OWN void unmap_some(void)
{
	unmap(kept[1], 3);
	unmap(kept[3], 3);
	if (munmap((char *)kept[0] + 1, page) == 0) /* not aligned */
		exit(1);
}

OWN void map_with_hole(void)
{
	char *start = map(NULL, 10, 0);

	unmap(start + 3 * page, 4);
}

OWN void grow(char *start)
{
	resize(start, 4, 16);
}

OWN void map_small(void)
{
	grow(map(NULL, 4, 0));
}

OWN void map_over(void)
{
	char *start = map(NULL, 8, 0);

	map(start + 2 * page, 2, MAP_FIXED);
}

/* Past the C library, which has a break of its own; nothing below allocates. */
OWN void move_break(long bytes)
{
	long at = syscall(SYS_brk, 0);

	if (syscall(SYS_brk, at + bytes) != at + bytes)
		exit(1);
}

OWN void move_up(void) { move_break(60 * page + 100); }
OWN void move_down(void) { move_break(-20 * page); }

OWN void map_file(void)
{
	int fd = memfd_create("keeps", 0);

	if (ftruncate(fd, 7 * page) ||
	    mmap(NULL, 7 * page, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED)
		exit(1);
}

OWN void map_the_file(void) { map_file(); }

static void maps(void)
{
	map_some();
	unmap_some();
	map_with_hole();
	map_small();
	map_over();
	move_up();
	move_down();
	map_the_file();
}

int main(int argc, char **argv)
{
	page = sysconf(_SC_PAGESIZE);
	if (!strcmp(argv[1], "maps"))
		maps();
	else if (!strcmp(argv[1], "elsewhere"))
		leak_elsewhere();
	else if (strcmp(argv[1], "waits") || getchar() != EOF)
		leaks();
	return argc != 2;
}
]]

local dir
setup(function()
  if requires.missing("cc") then return end
  dir = run.tempdir()
  run.write_file(dir .. "/keeps.c", program)
  local r = run({ os.getenv "CC" or "gcc", "-O0", "-fno-omit-frame-pointer", "-o", "keeps", "keeps.c" }, { cwd = dir })
  assert.equal(0, r.code, r.err)
end)
teardown(function()
  if dir then run.remove(dir) end
end)

-- perfl -q WORDS... -- ./keeps WHAT -> its output and errors
local function output_of(what, ...)
  requires("perf", "root", "cc", "tracefs")
  local words = { run.perfl, "-q", ... }
  table.move({ "--", "./keeps", what }, 1, 3, #words + 1, words)
  local r = run(words, { cwd = dir })
  assert.equal(0, r.code, r.err)
  return r.out, run.without_progress(r.err)
end

-- function of the program -> { bytes, number } of the stacks in which it is the caller of the library
local function sums_of(pprof, owns)
  local sums = {}
  for _, sample in ipairs(protobuf.profile(protobuf.gunzip(pprof)).samples) do
    for _, frame in ipairs(sample.frames) do
      local name = frame:match "^[%w_]+"
      if owns[name] then
        local sum = sums[name] or { 0, 0 }
        sums[name] = { sum[1] + sample.values[1], sum[2] + sample.values[2] }
        break
      end
    end
  end
  return sums
end

local leaks = {
  leak_malloc = { 300, 3 }, leak_calloc = { 154, 2 }, leak_realloc = { 50000, 1 }, leak_after_failure = { 222, 1 },
  leak_aligned = { 4960, 3 }, leak_in_child = { 1234 + 4321, 2 },
}

local with_frees = setmetatable({ frees_all = { 0, 0 } }, { __index = leaks })

describe("memleak", function()
  it("finds the bytes and the number of the blocks that each function leaks", function()
    requires("pmu uprobe")
    local out, err = output_of("leaks", "memleak", "-f", "pprof")
    assert.equal("", err)
    assert.same(leaks, sums_of(out, with_frees))
  end)

  it("names the function that calls malloc", function()
    requires("pmu uprobe")
    local out = output_of("leaks", "memleak", "-f", "folded")
    assert.matches("%f[^\n\0]keeps;[^\n]*;main;leaks;leak_malloc 300\n", out)
    assert.matches("%f[^\n\0]keeps;[^\n]*;main;leaks;leak_in_child 5555\n", out)
  end)

  it("shows the largest stacks with --top, and none younger than --least", function()
    requires("pmu uprobe")
    assert.same({ leak_realloc = { 50000, 1 } }, sums_of((output_of("leaks", "memleak", "--top", "1", "-f", "pprof")),
      with_frees))
    assert.equal("", (output_of("leaks", "memleak", "--least", "1h", "-f", "folded")))
  end)

  it("reports a block whose address it cannot know", function()
    requires("pmu uprobe")
    local out, err = output_of("elsewhere", "memleak", "-f", "folded")
    assert.is_nil(out:find("leak_elsewhere", 1, true))
    assert.equal("memleak: 1 allocation by posix_memalign is not followed\n", err)
  end)

  it("refuses the whole machine, where the session would follow itself", function()
    requires("perf", "root", "pmu uprobe")
    for _, words in ipairs { { "-a" }, { "-C", "0" } } do
      local r = run { run.perfl, "-q", "-d", "1s", words[1], words[2] or "-q", "memleak" }
      assert.same({ 2, "" }, { r.code, r.out })
      assert.matches("^memleak: the session itself allocates .*\n  try: %-p PID, or a command\n$", r.err)
    end
  end)

  it("follows a process that runs", function()
    requires("perf", "root", "pmu uprobe", "program sh")
    local r = run("mkfifo go; ./keeps waits <>go & pid=$!; until grep -q keeps /proc/$pid/comm; do :; done; "
      .. run.quote(run.perfl) .. " -q -p $pid memleak -f folded -- sh -c \"echo >go; tail --pid=$pid -f /dev/null\"",
      { cwd = dir })
    assert.same({ 0, "" }, { r.code, run.without_progress(r.err) })
    assert.matches(";main;leaks;leak_malloc 300\n", r.out)
  end)

  it("refuses a library without malloc", function()
    requires("perf", "root", "pmu uprobe", "cc")
    local r = run({ run.perfl, "memleak", "--library", "./keeps", "--", "./keeps", "leaks" }, { cwd = dir })
    assert.equal(1, r.code)
    assert.matches("no symbol 'malloc'", r.err, 1, true)
  end)
end)

local page = tonumber(run.capture "getconf PAGESIZE")
local maps = {
  map_some = { 9 * page, 3 }, map_with_hole = { 6 * page, 1 }, grow = { 16 * page, 1 }, map_over = { 8 * page, 2 },
  move_up = { 40 * page + 100, 1 }, map_the_file = { 7 * page, 1 },
}
local with_others = setmetatable({ unmap_some = {}, map_small = {}, move_down = {} }, { __index = maps })

describe("growth", function()
  it("finds the bytes and the number of the mappings that each function leaves", function()
    requires("tracepoint syscalls:sys_enter_mmap")
    local out, err = output_of("maps", "growth", "-f", "pprof")
    assert.equal("", err)
    assert.same(maps, sums_of(out, with_others))
  end)

  it("shows process and kind of memory, and leaves out files with --anonymous", function()
    requires("tracepoint syscalls:sys_enter_mmap")
    local out = output_of("maps", "growth", "-f", "folded")
    assert.matches(("%%f[^\n\0]keeps %%d+;%%[heap%%];[^\n]*;maps;move_up;[^\n]* %d\n"):format(40 * page + 100), out)
    assert.matches(("%%f[^\n\0]keeps %%d+;%%[file%%];[^\n]*;map_the_file;[^\n]* %d\n"):format(7 * page), out)
    out = output_of("maps", "growth", "--anonymous", "-f", "folded")
    assert.is_nil(out:find("[file]", 1, true))
    assert.matches(";maps;map_some;", out)
  end)
end)
