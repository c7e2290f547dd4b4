-- Scripts of stacks on the real kernel, with programs whose numbers are known.

local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local program = [[
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 37, WRITES = 11 };

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

int main(int argc, char **argv)
{
	if (!strcmp(argv[1], "faults"))
		faults(sysconf(_SC_PAGESIZE));
	else if (!strcmp(argv[1], "writes"))
		writes();
	return argc > 2;
}
]]

local dir
setup(function()
  dir = run.tempdir()
  local file <close> = assert(io.open(dir .. "/acts.c", "w"))
  file:write(program)
  file:close()
  -- Every function with a frame of its own.
  run({ os.getenv "CC" or "gcc", "-O0", "-o", "acts", "acts.c" }, { cwd = dir })
end)
teardown(function() run.remove(dir) end)

-- perfl -q WORDS... -- ./acts WHAT -> what it prints
local function output_of(what, ...)
  requires("perf", "root", "cc")
  local words = { run.perfl, "-q", ... }
  table.move({ "--", "./acts", what }, 1, 3, #words + 1, words)
  local r = run(words, { cwd = dir })
  assert.same({ 0, "" }, { r.code, r.err })
  return r.out
end

describe("faultstacks", function()
  it("counts each page that is touched, where it is touched", function()
    assert.matches("\nacts;[^\n]*;main;faults;touch 37\n", "\n" .. output_of("faults", "faultstacks", "-f", "folded"))
    assert.is_nil(output_of("faults", "faultstacks", "--major", "-f", "folded"):find("touch 37", 1, true))
  end)

  it("does so with a recording of page-faults by perf record", function()
    requires("program perf")
    requires("root")
    run({ "perf", "record", "-q", "-g", "-c", "1", "-e", "page-faults", "./acts", "faults" }, { cwd = dir })
    local r = run({ run.perfl, "-q", "faultstacks", "-i", "perf.data", "-f", "folded" }, { cwd = dir })
    assert.matches(";main;faults;touch 37\n", r.out)
  end)
end)

describe("watch", function()
  it("finds who writes a variable, in children too", function()
    local out = output_of("writes", "watch", "./acts:counter", "-f", "folded")
    local lines, sum = {}, 0
    for line in out:gmatch "[^\n]+" do
      assert.matches("^acts;.*;main;writes;bump %d+$", line)
      lines[#lines + 1], sum = line, sum + line:match "%d+$"
    end
    assert.equal(12, sum)
    assert.equal(1, #lines)
  end)

  it("tells of each, and what they come to", function()
    local out = output_of("writes", "watch", "./acts:counter", "--each")
    assert.equal(12, select(2, out:gsub("  acts %d+, cpu %d+\n *%x+ bump%+", "")))
    assert.matches("\n12 writes of ./acts:counter\n", out, 1, true)
  end)

  it("hears of reads, and of a function's calls, when asked to", function()
    assert.matches("bump 24\n", output_of("writes", "watch", "--access", "rw", "./acts:counter", "-f", "folded"))
    -- Entered, it has no frame yet: its caller's is the next but one.
    assert.matches("main;bump 12\n", output_of("writes", "watch", "--access", "x", "./acts:bump", "-f", "folded"))
  end)

  it("says what the program does not have", function()
    requires("cc")
    local r = run({ run.perfl, "watch", "./acts:conter", "--", "./acts", "writes" }, { cwd = dir })
    assert.equal(1, r.code)
    assert.matches("no symbol 'conter' (did you mean 'counter'?)", r.err, 1, true)
  end)
end)
