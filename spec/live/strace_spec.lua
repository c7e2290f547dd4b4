-- The script strace beside strace(1), on a program whose system calls are known.

local run = require "spec.support.run"

local program = [[
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void on_signal(int number) { (void)number; }

static void use_files(void)
{
	char bytes[100];
	struct stat status;
	int pipes[2], fd = open("pev-file", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	void *map;

	write(fd, "hello", 5);
	lseek(fd, 0, SEEK_SET);
	read(fd, bytes, sizeof(bytes));
	pread(fd, bytes, 3, 1);
	fcntl(fd, F_GETFL);
	fcntl(fd, F_DUPFD_CLOEXEC, 30);
	dup2(fd, 20);
	close(20);
	close(20);
	map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	munmap(map, 4096);
	open("pev-nothing", O_RDONLY | O_DIRECTORY);
	access("pev-nothing", R_OK | W_OK);
	stat("pev-nothing", &status);
	mkdir("pev-dir", 0700);
	unlinkat(AT_FDCWD, "pev-dir", AT_REMOVEDIR);
	rename("pev-file", "pev-other");
	unlink("pev-other");
	pipe2(pipes, O_CLOEXEC | O_NONBLOCK);
	read(pipes[0], bytes, 1);
	socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static void use_memory(void)
{
	void *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	mprotect(map, 4096, PROT_NONE);
	madvise(map, 8192, MADV_DONTNEED);
	munmap(map, 8192);
	mmap(NULL, 0, PROT_EXEC, MAP_PRIVATE, -1, 0);
}

int main(int argc, char **argv)
{
	syscall(SYS_getppid);
	getpid();
	if (argc > 1 && !strcmp(argv[1], "fork")) {
		if (fork() == 0) {
			getpid();
			close(77);
			_exit(5);
		}
		wait(NULL);
		if (fork() == 0) {
			getpid();
			kill(getpid(), SIGTERM);
			_exit(0);
		}
		wait(NULL);
		_exit(0);
	}
	use_files();
	use_memory();
	signal(SIGUSR1, on_signal);
	kill(getpid(), SIGUSR1);
	_exit(3);
}
]]

local dir, reason

setup(function()
  if not run.root then reason = "tracepoints need root" return end
  if not run.have "cc" or not run.have "strace" then reason = "no C compiler or no strace(1) here" return end
  if not run.slurp "/sys/kernel/tracing/events/raw_syscalls/sys_enter/id" then reason = "no tracefs" return end
  dir = run.tempdir()
  local r = run({ "cc", "-O1", "-w", "-x", "c", "-o", dir .. "/calls", "-" }, { stdin = program })
  assert.equal(0, r.code, r.err)
end)

teardown(function() if dir then run.remove(dir) end end)

local function on(what, test)
  it(what, function()
    if reason then return pending(reason) end
    return test()
  end)
end

-- The lines of strace and of perfl for the program, from its first call on.
local function lines_of_strace(status, options, ...)
  local file = dir .. "/strace.out"
  local words = { "strace", "-s", "4096", "-o", file }
  table.move(options, 1, #options, #words + 1, words)
  table.move({ dir .. "/calls", ... }, 1, 1 + select("#", ...), #words + 1, words)
  local r = run(words, { cwd = dir })
  assert.equal(status, r.code, r.err)
  return (run.slurp(file):gsub("^.-getppid%(%)[^\n]*\n", ""))
end

local function lines_of_perfl(status, options, ...)
  local words = { run.perfl, "-q", "strace" }
  table.move(options, 1, #options, #words + 1, words)
  table.move({ "--", dir .. "/calls", ... }, 1, 2 + select("#", ...), #words + 1, words)
  local r = run(words, { cwd = dir })
  assert.same({ status, "" }, { r.code, r.err })
  return (r.out:gsub("^.-getppid%(%)[^\n]*\n", ""))
end

-- Memory is an address in perfl: strace reads buffers, structures and lists. Numbers of processes differ.
local function alike(text)
  local pid = text:match "getpid%(%) += (%d+)" or "no pid"
  local list = {}
  for line in text:gmatch "[^\n]+" do
    line = line:gsub("^(p?%l+%d*)%((%d+), \".-\", (%d+[,)])", "%1(%2, ADDRESS, %3")
    line = line:gsub("%b{}", "ADDRESS"):gsub("%b[]", "ADDRESS"):gsub("0x%x%x%x%x+", "ADDRESS")
    line = line:gsub("rt_sigreturn%(ADDRESS%)", "rt_sigreturn()"):gsub("%f[%d]" .. pid .. "%f[%D]", "PID")
    list[#list + 1] = line:gsub(" +", " ")
  end
  return list
end

-- { "first close -1 EBADF …", … }: for each process its calls with their results, its signals, its end.
local function calls_of(text, pid_of_line)
  local names, lists, nr = {}, {}, 0
  for line in text:gmatch "[^\n]+" do
    local pid, rest = line:match(pid_of_line)
    rest = rest or line
    pid = pid or "first"
    if not names[pid] then
      nr = nr + 1
      names[pid], lists[nr] = nr, {}
    end
    local name = rest:match "^<%.%.%. ([%w_]+) resumed>" or rest:match "^([%w_]+)%("
    local text_of = name and not rest:find "unfinished %.%.%.>$" and name .. " " .. rest:match "= ([^=]*)$"
      or rest:match "^%-%-%- (SIG%u+)" or rest:match "^%+%+%+ .*"
    if text_of then table.insert(lists[names[pid]], (text_of:gsub("^([%w_]+) %d%d+$", "%1 NUMBER"))) end
  end
  return lists
end

describe("strace", function()
  on("prints the lines of strace(1): calls, arguments, results, signals, the end", function()
    local theirs, ours = alike(lines_of_strace(3, {})), alike(lines_of_perfl(3, {}))
    assert.is_true(#theirs >= 35)
    assert.same(theirs, ours)
  end)

  on("prints the calls that strace -e selects", function()
    for _, expression in ipairs { "trace=%file,getppid", "trace=openat,close,getppid", "trace=!close",
                                  "%memory,getppid", "trace=%signal,getpid,getppid", "trace=%desc,getppid" } do
      local theirs = alike(lines_of_strace(3, { "-e", expression }))
      assert.is_true(#theirs > 3, expression)
      assert.same(theirs, alike(lines_of_perfl(3, { "-e", expression })))
    end
  end)

  on("counts the calls and errors of strace -c", function()
    local function counts_of(text)
      local counts = {}
      for calls, errors, name in text:gmatch "\n *[%d.]+ +[%d.]+ +%d+ +(%d+) +(%d*) +([%w_]+)%f[\n]" do
        counts[name] = calls .. " " .. errors
      end
      counts.total = nil
      return counts
    end
    local theirs = counts_of(lines_of_strace(3, { "-c" }))
    local ours = counts_of(lines_of_perfl(3, { "-c" }))
    theirs.execve, theirs.exit_group = nil, nil -- the first is before the run, the other does not return
    assert.is_true(theirs.close ~= nil and theirs.openat ~= nil)
    assert.same(theirs, ours)
  end)

  on("follows new processes: for each the calls of strace -f with their results, and its end", function()
    -- A traced process gets signals that it ignores.
    local theirs = calls_of(lines_of_strace(0, { "-f", "-e", "signal=!chld" }, "fork"), "^(%d+) +(.*)$")
    local text = lines_of_perfl(0, {}, "fork")
    local main = text:match "getpid%(%) += (%d+)" -- while it is alone its lines have no number
    text = ("\n" .. text):gsub("\n([^%[\n][^\n]*)", "\n[pid " .. main .. "] %1")
    assert.equal(3, #theirs)
    assert.same(theirs, calls_of(text, "^%[pid +(%d+)%] (.*)$"))
  end)

  on("prints times that the calls may have taken", function()
    local text = lines_of_perfl(3, { "-T", "-e", "close" })
    local _, nr = text:gsub("close%(20%) += [^\n]* <%d%.%d%d%d%d%d%d>\n", "")
    assert.equal(2, nr)
  end)

  on("prints files that a program opened itself, with -y", function()
    local text = lines_of_perfl(3, { "-y" })
    local fd = text:match "openat%(AT_FDCWD[^,]*, \"pev%-file\", [^\n]*%) = (%d+)<[^\n]*pev%-file>\n"
    assert.is_string(fd, text)
    assert.matches(("lseek%%(%s<[^\n]*pev%%-file>, 0, SEEK_SET%%)"):format(fd), text)
  end)
end)
