-- Scripts of the kernel's memory on the real kernel: kmem, drsnoop, cachestat, and funccount, beside perf and ftrace.

local json = require "spec.support.json"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local program = [[
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 300, TIMES = 20, EVENTFDS = 321 };

static void check(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

/* Writes the file and drops its pages from the cache. */
static int dropped(const char *path, long page)
{
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	char *text = calloc(PAGES, page);

	check(fd >= 0 && write(fd, text, PAGES * page) == PAGES * page && fsync(fd) == 0, path);
	close(fd);
	free(text);
	fd = open(path, O_RDONLY);
	check(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "fadvise");
	return fd;
}

int main(int argc, char **argv)
{
	if (!strcmp(argv[1], "eventfds")) {
		for (int i = 0; i < EVENTFDS; i++)
			check(close(eventfd(0, 0)) == 0, "eventfd");
		return 0;
	}
	long page = sysconf(_SC_PAGESIZE);
	char *text = malloc(page);
	int fd = open(argv[2], O_RDONLY);

	if (!strcmp(argv[1], "drop"))
		return dropped(argv[2], page) < 0;
	check(fd >= 0, argv[2]);
	if (!strcmp(argv[1], "read")) {
		posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* no reading ahead */
		for (int i = 0; i < PAGES * TIMES; i++)
			check(pread(fd, text, page, i % PAGES * page) == page, "pread");
	} else if (!strcmp(argv[1], "ahead")) {
		for (int i = 0; i < PAGES; i++)
			check(read(fd, text, page) == page, "read");
	} else if (!strcmp(argv[1], "map")) {
		char *map = mmap(NULL, PAGES * page, PROT_READ, MAP_SHARED, fd, 0);

		check(map != MAP_FAILED && madvise(map, PAGES * page, MADV_RANDOM) == 0, "mmap");
		for (int i = 0; i < PAGES; i++)
			(void)((volatile char *)map)[i * page];
	}
	return 0;
}
]]

local dir
setup(function()
  if requires.missing("root", "cc") then return end
  dir = run.tempdir()
  local r = run({ os.getenv "CC" or "gcc", "-O1", "-x", "c", "-o", dir .. "/pages", "-" }, { stdin = program })
  assert.equal(0, r.code, r.err)
end)
teardown(function()
  if dir then run.remove(dir) end
end)

-- perfl -q -j WORDS... -> a list of rows
local function rows_of(...)
  requires("perf", "root", "cc")
  local r = run({ run.perfl, "-q", "-j", ... }, { cwd = dir })
  assert.equal(0, r.code, r.err)
  local rows = {}
  for line in r.out:gmatch "[^\n]+" do rows[#rows + 1] = json.decode(line) end
  return rows
end

describe("kmem", function()
  it("counts each allocation of a system call, its bytes, and that they were freed", function()
    requires("tracepoint kmem:kmem_cache_alloc")
    local found
    for _, row in ipairs(rows_of("kmem", "--", "./pages", "eventfds")) do
      if row.caller:find "eventfd" then
        assert.is_nil(found)
        found = row
      end
    end
    assert.equal(321, found.count)
    assert.equal(0, found.allocated % 321)
    assert.is_true(found.requested <= found.allocated and found.requested > 0)
    assert.equal(0, found.held)
  end)

  it("has the counts and bytes of perf kmem, of the same recording", function()
    requires("program perf")
    requires("root", "tracepoint kmem:kmem_cache_alloc", "cc")
    local record = { "perf", "record", "-q", "-o", "kmem.data" }
    for _, name in ipairs { "kmalloc", "kmem_cache_alloc", "kfree", "kmem_cache_free" } do
      table.move({ "-e", "kmem:" .. name }, 1, 2, #record + 1, record)
    end
    table.move({ "./pages", "eventfds" }, 1, 2, #record + 1, record)
    local expected, theirs = {}, nil
    for _ = 1, 5 do -- perf 6.1 aborts now and then
      theirs = run(record, { cwd = dir }).code == 0
        and run({ "perf", "kmem", "-i", "kmem.data", "--caller", "-l", "100000", "stat" }, { cwd = dir })
      if theirs and theirs.code == 0 then break end
    end
    if not theirs or theirs.code ~= 0 then pending "perf kmem does not work here" end
    local row = "\n (%S+) +| +(%d+)/%d+ +| +(%d+)/%d+ +| +(%d+) |"
    for caller, allocated, requested, count in (theirs.out .. theirs.err):gmatch(row) do
      expected[#expected + 1] = ("%s %s %s %s"):format(caller:gsub("%+(%x+)$", "+0x%1"), count, requested, allocated)
    end
    local ours = {}
    for i, one in ipairs(rows_of("-i", "kmem.data", "kmem")) do
      ours[i] = ("%s %d %d %d"):format(one.caller, one.count, one.requested, one.allocated)
    end
    table.sort(expected)
    table.sort(ours)
    assert.is_true(#ours > 5)
    assert.same(expected, ours)
  end)
end)

describe("drsnoop", function()
  it("prints each reclaim of a task whose memory cgroup is full, with the pages that ftrace shows", function()
    requires("perf", "root", "tracepoint vmscan:mm_vmscan_memcg_reclaim_end")
    local group = "/sys/fs/cgroup/memory/pev-spec-" .. dir:match "[^/]+$"
    local instance = "/sys/kernel/tracing/instances/pev-memory-spec"
    local limit = "mkdir %s 2>/dev/null && echo 16M >%s/memory.limit_in_bytes && echo made"
    if not run.capture(limit:format(group, group)) then
      pending "no memory cgroup (version 1) can be made here"
    end
    finally(function() run.capture("rmdir " .. group) end)
    if not run.capture("mkdir " .. instance .. " && echo made") then pending "no ftrace instance can be made" end
    local function set(value, name) run.capture(("echo %s >%s/%s"):format(value, instance, name)) end
    set(1, "events/vmscan/mm_vmscan_memcg_reclaim_end/enable")
    local rows = rows_of("drsnoop", "--", "sh", "-c", "echo $$ >" .. group .. "/cgroup.procs && "
      .. "dd if=/dev/zero of=big bs=64k count=800 status=none")
    set(0, "events/vmscan/mm_vmscan_memcg_reclaim_end/enable")
    local trace, pids, expected, ours = run.slurp(instance .. "/trace"), {}, {}, {}
    run.capture("rmdir " .. instance)
    for i, row in ipairs(rows) do
      pids[row.pid], ours[i] = true, ("%d %d"):format(row.pid, row.pages)
      assert.same({ "memcg", "number", true }, { row.kind, type(row.order), row.ms > 0 })
    end
    for pid, pages in trace:gmatch "%-(%d+) [^\n]*mm_vmscan_memcg_reclaim_end: nr_reclaimed=(%d+)" do
      if pids[tonumber(pid)] then expected[#expected + 1] = pid .. " " .. pages end
    end
    assert.is_true(#ours > 10)
    assert.same(expected, ours)
  end)
end)

describe("cachestat", function()
  local function counts_of(what) return rows_of("cachestat", "--", "./pages", what, "data")[1] end

  it("counts each read and each fault of a page that is not in the cache, and no other", function()
    requires("perf", "root", "cc", "tracepoint filemap:mm_filemap_get_pages")
    run({ "./pages", "drop", "data" }, { cwd = dir })
    local others = counts_of "nothing" -- of the programs and libraries, which were just used
    for what, wanted in pairs { read = { 5700, 300, 6000 }, map = { 0, 300, 0 }, ahead = { 290, nil, 300 } } do
      local r = run({ "./pages", "drop", "data" }, { cwd = dir })
      assert.equal(0, r.code, r.err)
      local first, second = counts_of(what), counts_of(what)
      if first.added < 300 then pending "the files of this directory stay in the page cache" end
      assert.equal(300, first.added)
      assert.equal(0, second.misses + second.added)
      if wanted[2] then assert.equal(wanted[2], first.misses) else assert.is_true(first.misses >= 1) end
      local most = others.hits + 50
      assert.is_true(first.hits >= wanted[1] and first.hits <= wanted[1] + 10 + most, what .. " " .. first.hits)
      assert.is_true(second.hits >= wanted[3] and second.hits <= wanted[3] + most, what .. " " .. second.hits)
    end
  end)

  it("counts pages that leave the cache, and prints a row for each interval", function()
    requires("perf", "root", "cc", "tracepoint filemap:mm_filemap_get_pages")
    run({ "./pages", "drop", "data" }, { cwd = dir })
    assert.is_true(counts_of "drop".removed >= 300)
    assert.is_true(#rows_of("-a", "-d", "250ms", "cachestat", "-I", "100ms") >= 2)
  end)
end)

describe("funccount", function()
  it("counts the calls of each system call that a pattern matches, as perf stat does", function()
    requires("perf", "root", "cc", "tracepoint syscalls:sys_enter_eventfd2")
    local rows = rows_of("funccount", "syscalls:sys_enter_e*", "syscalls:sys_enter_close", "--", "./pages", "eventfds")
    local ours = {}
    for _, row in ipairs(rows) do ours[row.event] = row.count end
    assert.equal(321, ours["syscalls:sys_enter_eventfd2"])
    assert.equal(rows[1].count, math.max(ours["syscalls:sys_enter_close"], 321))
    if not run.have "perf" then return end
    local names = {}
    for name in pairs(ours) do names[#names + 1] = name end
    local r = run({ "perf", "stat", "-x,", "-e", table.concat(names, ","), "./pages", "eventfds" }, { cwd = dir })
    if r.code ~= 0 then return end
    for count, name in r.err:gmatch "(%d+),,(syscalls:[%w_]+)," do assert.equal(tonumber(count), ours[name], name) end
  end)

  it("counts the calls of functions of a program", function()
    requires("perf", "root", "cc", "pmu uprobe")
    local rows = rows_of("funccount", "uprobe:libc:eventfd", "uprobe:libc:close", "uprobe:libc:sethostname", "--",
      "./pages", "eventfds")
    assert.same({ { event = "uprobe:libc:eventfd", count = 321 } },
      { rows[1].event == "uprobe:libc:eventfd" and rows[1] or rows[2] })
    assert.equal(2, #rows) -- not those that are not called
    assert.is_true(rows[1].count >= rows[2].count)
  end)

  it("shows the most frequent with --top; counts a pattern of functions or reports that it cannot", function()
    requires("perf", "root", "cc", "pmu uprobe")
    assert.equal(1, #rows_of("funccount", "-T", "1", "uprobe:libc:eventfd", "uprobe:libc:close", "--", "./pages",
      "eventfds"))
    local r = run({ run.perfl, "-q", "-j", "funccount", "uprobe:libc:eventf*", "--", "./pages", "eventfds" },
      { cwd = dir })
    if r.code ~= 0 then
      assert.same({ 1, "" }, { r.code, r.out })
      return assert.matches("'uprobe:libc:eventf%*': .*\n  try: ", r.err)
    end
    assert.matches('"count":321,"event":"uprobe:[^"]*:eventfd"', r.out)
  end)
end)
