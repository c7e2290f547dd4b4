-- Recorded snapshots on the real kernel: stalls of a held child, each in a file that perfl and perf read. Needs root,
-- tracefs and a C compiler; perf for its half.

local perfev = require "perfev"
local run = require "spec.support.run"
local requires = require "spec.support.requires"(function(why) pending(why) end)

local PRCTL = "syscalls:sys_enter_prctl"
local FIRST, TRIGGER = 1000000, 2000000 -- prctl options that no kernel knows: each call has its own number

local program = [[
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void call(long number) { prctl(1000000 + number, 0, 0, 0, 0); }

/* Waits until the session has taken the snapshot, and lets it go on. */
static void stall(long number, int gate)
{
	char released;

	prctl(2000000 + number, 0, 0, 0, 0);
	if (read(gate, &released, 1) != 1)
		_exit(1);
}

/* Some calls, and a stall, again and again. */
static void stalls(int gate, long nr, long each)
{
	for (long n = 0; n < nr; n++) {
		for (long i = 0; i < each; i++)
			call(n * each + i);
		stall(n, gate);
	}
}

/* A child with this name, and with this pid if it is not 0. Returns its pid when it has ended. */
static pid_t child(const char *name, long number, pid_t pid)
{
	struct clone_args args = { .exit_signal = SIGCHLD };

	if (pid) {
		args.set_tid = (unsigned long)&pid;
		args.set_tid_size = 1;
	}
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0)
		_exit(77);
	if (pid == 0) {
		prctl(PR_SET_NAME, name, 0, 0, 0);
		call(number);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	return pid;
}

static void names(int gate, const char *self)
{
	pid_t pid = child("first", 1, 0);

	child("second", 2, pid);
	prctl(PR_SET_NAME, "before", 0, 0, 0);
	call(3);
	prctl(PR_SET_NAME, "after", 0, 0, 0);
	call(4);
	if (fork() == 0) {
		execl(self, "renewed", "one", "-", "5", NULL);
		_exit(1);
	}
	wait(NULL);
	stall(0, gate);
}

__attribute__((noinline)) void touch_pages(volatile char *pages, long nr)
{
	for (long i = 0; i < nr; i++)
		pages[i * 4096] = 1;
}

static void touch(int gate, long nr)
{
	char *pages = mmap(NULL, nr * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	madvise(pages, nr * 4096, MADV_NOHUGEPAGE);
	touch_pages(pages, nr);
	stall(0, gate);
}

int main(int argc, char **argv)
{
	int gate = strcmp(argv[2], "-") ? open(argv[2], O_RDONLY | O_NONBLOCK) : -1;

	alarm(100); /* never left behind */
	fcntl(gate, F_SETFL, 0);
	if (!strcmp(argv[1], "stalls"))
		stalls(gate, atol(argv[3]), atol(argv[4]));
	else if (!strcmp(argv[1], "names"))
		names(gate, argv[0]);
	else if (!strcmp(argv[1], "touch"))
		touch(gate, atol(argv[3]));
	else
		call(atol(argv[3]));
	/* flightrec: the files are there. */
	for (int i = 5; i < argc; i++)
		while (access(argv[i], F_OK))
			usleep(1000);
	return 0;
}
]]

local dir, path, gate

setup(function()
  dir = run.tempdir()
  path, gate = dir .. "/keeper", dir .. "/gate"
  run.write_file(path .. ".c", program)
  run.capture(("%s -O1 -fno-omit-frame-pointer -fno-optimize-sibling-calls -o %s %s.c && mkfifo %s"):format(
    os.getenv "CC" or "gcc", path, path, gate))
  run.write_file(dir .. "/show.lua", [[
    local perfev = require "perfev"
    perfev.event { "*", sample = function(r, args)
      print(r.comm, args.option - 1000000)
    end }
  ]])
end)

teardown(function() run.remove(dir) end)

local function needs(...) requires("perf", "root", "tracefs", "cc", ...) end

-- Runs the command with `spec` kept in memory; calls snapshot(n, session) at its n-th stall, and releases it.
local function record(command, options, spec, snapshot)
  local opener = assert(io.open(gate, "r+")) -- does not wait for the reader
  opener:setvbuf "no"
  options.command, options.ordered = command, false -- the trigger is not kept for the order of time
  local s = perfev.session(options)
  spec.write_backward = true
  s:event(spec)
  s:event { PRCTL, filter = "option >= " .. TRIGGER, wakeup_events = 1, sample = function(_, args)
    snapshot(args.option - TRIGGER, s)
    opener:write "x"
  end }
  assert(s:run())
  opener:close()
  return s
end

-- The lines that perfl prints of a file.
local function by_perfl(file)
  local got = run { run.perfl, "-q", "-i", file, dir .. "/show.lua" }
  assert.same({ 0, "" }, { got.code, got.err })
  return got.out
end

-- What a command of perf prints; perf 6.1 aborts now and then.
local function by_perf(...)
  local got
  for _ = 1, 10 do
    got = run { "perf", ... }
    if got.code == 0 then return got.out end
  end
  error(("perf: status %s: %s"):format(got.code, got.err))
end

local function sampled(text)
  local n = 0
  for comm, option in text:gmatch "([^\n]+) syscalls:sys_enter_prctl: option: 0x(%x+)" do
    n = n + ((comm:find "^%s*keeper%s*$" and tonumber(option, 16) >= FIRST) and 1 or 0)
  end
  return n
end

describe("each of 50 stalls is in a file of its own", function()
  local STALLS, EACH = 50, 10

  local function file(n) return ("%s/stall-%d.data"):format(dir, n) end

  it("that perfl and perf script read, with every record until then", function()
    needs("program perf")
    local taken = 0
    record({ path, "stalls", gate, tostring(STALLS), tostring(EACH) }, { buffer = "256K" },
      { PRCTL, filter = ("option >= %d && option < %d"):format(FIRST, TRIGGER) },
      function(n, s)
        assert.equal(taken, n)
        assert.is_true(s:snapshot { record = file(n) })
        taken = taken + 1
      end)
    assert.equal(STALLS, taken)
    local lines = {}
    for n = 0, STALLS - 1 do
      for i = 0, EACH - 1 do lines[#lines + 1] = ("keeper\t%d\n"):format(n * EACH + i) end
      assert.equal(table.concat(lines), by_perfl(file(n)))
      if n % 5 == 4 then
        assert.equal(#lines, sampled(by_perf("script", "-i", file(n), "-F", "comm,event,trace")), n)
      end
    end
  end)

  it("or the last records, if a ring of one page has room for no more", function()
    needs()
    local cpu = run.slurp "/proc/self/status":match "Cpus_allowed_list:%s*(%d+)"
    record({ "taskset", "-c", cpu, path, "stalls", gate, "3", "500" }, { buffer = "4K" },
      { PRCTL, filter = ("option >= %d && option < %d"):format(FIRST, TRIGGER) },
      function(n, s) assert.is_true(s:snapshot { record = file(n) }) end)
    for n = 0, 2 do
      local numbers = {}
      for number in by_perfl(file(n)):gmatch "keeper\t(%d+)" do numbers[#numbers + 1] = tonumber(number) end
      assert.is_true(#numbers >= 20 and #numbers <= 64, #numbers)
      for i, number in ipairs(numbers) do assert.equal((n + 1) * 500 - #numbers + i - 1, number) end
    end
  end)
end)

describe("the file of a snapshot", function()
  it("has the names of tasks that ended, were renamed, executed a program, or have another's number", function()
    needs("linux 5.5", "program perf")
    local file = dir .. "/names.data"
    local s = record({ path, "names", gate }, { buffer = "256K" },
      { PRCTL, filter = ("option >= %d && option < %d"):format(FIRST, TRIGGER) },
      function(_, s) assert.is_true(s:snapshot { record = file }) end)
    if s.command_status.exit == 77 then return pending "clone3() cannot choose a pid here" end
    assert.equal("first\t1\nsecond\t2\nbefore\t3\nafter\t4\nkeeper\t5\n", by_perfl(file))
    local names = {}
    for comm in by_perf("script", "-i", file, "-F", "comm,event"):gmatch "([^\n]+) syscalls:sys_enter_prctl" do
      names[#names + 1] = comm:match "%S+"
    end
    assert.same({ "first", "second", "before", "after", "keeper" }, names)
  end)

  it("has the names of functions, for perf and, after the program is gone, for perfl", function()
    needs("program perf")
    local file, copy = dir .. "/faults.data", dir .. "/gone"
    assert(os.execute(("cp %s %s"):format(path, copy)))
    record({ copy, "touch", gate, "300" }, { buffer = "256K" }, { "page-faults", period = 1, callchain = true },
      function(_, s) assert.is_true(s:snapshot { record = file, names = true }) end)
    local report = by_perf("report", "-i", file, "--stdio", "-g", "none", "-s", "comm,symbol")
    assert.matches("gone%s+%[%.%] touch_pages", report)
    os.remove(copy)
    local rec <close> = assert(perfev.open(file))
    local faults = 0
    for r in rec:records { user = false } do
      if r.type == "sample" and r.symbol == "touch_pages" then
        faults = faults + 1
        assert.matches("main;touch_pages$", r.stack:folded())
      end
    end
    assert.equal(300, faults)
  end)
end)

describe("flightrec --record", function()
  it("writes a file for each trigger that the condition accepts, until --max", function()
    needs("program perf")
    local opener = assert(io.open(gate, "r+"))
    assert(opener:write "xxxxxxxx")
    assert(opener:flush())
    local file = dir .. "/flight.data"
    local got = run { run.perfl, "-q", "flightrec", "--record", file, "--max", "2", "--trigger", PRCTL,
      "--filter", "option >= " .. TRIGGER, "--when", "seen = (seen or 0) + 1; return seen % 2 == 0", PRCTL, "--",
      path, "stalls", gate, "5", "3", file, file .. ".1" }
    opener:close()
    assert.same({ 0, "" }, { got.code, got.err })
    assert.matches(("^%%-%%- %s: option: 0x001e8481, [^\n]* in %s\n%%-%%- [^\n]*0x001e8483, [^\n]* in %s.1\n$"):format(
      (PRCTL:gsub("%p", "%%%0")), (file:gsub("%p", "%%%0")), (file:gsub("%p", "%%%0"))), got.out)
    for _, one in ipairs { file, file .. ".1" } do
      local text = by_perf("script", "-i", one, "-F", "comm,event,trace")
      assert.is_true(sampled(text) >= 6, text)
      assert.equal(sampled(text), select(2, by_perfl(one):gsub("keeper\t%d+\n", "")))
    end
  end)

  it("keeps call chains with -g, and prints nothing of them", function()
    needs()
    local file = dir .. "/chains.data"
    local opener = assert(io.open(gate, "r+"))
    assert(opener:write "x")
    assert(opener:flush())
    local got = run { run.perfl, "-q", "flightrec", "-g", "--record", file, "--no-names", "page-faults", "--",
      path, "touch", gate, "5" }
    opener:close()
    assert.equal(0, got.code, got.err)
    assert.equal(("-- the end, in %s\n"):format(file), got.out)
    local chain = 0
    local rec <close> = assert(perfev.open(file))
    for r in rec:records { types = { "sample" }, user = false } do
      if r.type == "sample" then chain = math.max(chain, #r.stack) end
    end
    assert.is_true(chain > 1)
  end)

  it("exits with 1 if a file could not be written", function()
    needs()
    for _, trigger in ipairs { {}, { "--trigger", "page-faults/period=1/" } } do
      local words = { run.perfl, "-q", "flightrec", "--record", dir .. "/none/x", "--max", "1", "page-faults" }
      table.move(trigger, 1, #trigger, #words + 1, words)
      table.move({ "--", "true" }, 1, 2, #words + 1, words)
      local got = run(words)
      assert.same({ 1, ("flightrec: cannot record to %s/none/x: No such file or directory\n"
        .. "  try: a directory that is there\nflightrec: not every snapshot is there\n"):format(dir) },
        { got.code, got.err })
    end
  end)

  for words, says in pairs {
    ["--when 'args.pid > 0' sched:sched_switch"]
      = "^flightrec: %-%-when without %-%-trigger\n  try: %-%-trigger EVENT\n",
    ["--filter 'pid > 0' sched:sched_switch"]
      = "^flightrec: %-%-filter without %-%-trigger\n  try: %-%-trigger EVENT\n",
    ["--trigger sched:sched_switch --when 'x ==' sched:sched_switch"]
      = "^perfl: option '%-%-when': 'x ==': %-%-when:1: syntax error near '=='\n  try: ",
  } do
    it("refuses " .. words, function()
      local got = run(("%s flightrec %s -- true"):format(run.quote(run.perfl), words))
      assert.equal(2, got.code)
      assert.matches(says, got.err)
    end)
  end
end)
