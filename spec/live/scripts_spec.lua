-- The scripts on the real kernel: exact counts of a small program's actions; text that a task chooses reaches
-- the terminal only escaped.

local core = require "perfev.core"
local json = require "spec.support.json"
local meets = require "spec.support.meets"
local run = require "spec.support.run"
local units = require "perfev.base.parse_units"

local program = [[
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int load_bpf(void)
{
	struct bpf_insn body[] = { { .code = 0xb7 }, { .code = 0x95 } }; /* r0 = 0; exit */
	union bpf_attr attr;

	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
	attr.insns = (unsigned long)body;
	attr.insn_cnt = 2;
	attr.license = (unsigned long)"GPL";
	strcpy(attr.prog_name, "pevspec");
	return syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof(attr)) < 0 ? 77 : 0;
}

static long waits(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

/* Until it was off the CPU for it: a busy machine lets a timer fire before who set it sleeps. */
static void doze(void)
{
	for (long before = waits(); waits() == before;)
		usleep(1);
}

/* Of its own: what is sampled on the user's side alone has to meet it there. */
static void spin(void)
{
	while (clock() < CLOCKS_PER_SEC / 10)
		for (volatile int n = 0; n < 100000; n++)
			;
}

/* To the discard port of this host: its reception is a soft interrupt. */
static void send_packet(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	sendto(s, "x", 1, 0, (struct sockaddr *)&to, sizeof(to));
	close(s);
}

/* A file that is missing and one that exists, by each kind of call. */
static void look_at(const char *missing)
{
	struct stat status;
	struct statfs disk;
	FILE *file = fopen("/proc/self/stat", "r");

	if (file)
		fclose(file);
	open(missing, O_RDONLY);
	close(openat(AT_FDCWD, "/", O_RDONLY | O_DIRECTORY));
	stat(missing, &status);
	lstat("/", &status);
	fstatat(AT_FDCWD, missing, &status, 0);
	statfs("/", &disk);
}

/* Two processes write to one open file: each holds the mutex of its position for a megabyte. */
static void share_file(void)
{
	static char bytes[1 << 20];
	FILE *file = tmpfile();
	pid_t other = fork();

	for (int i = 0; file && i < 10; i++)
		if (lseek(fileno(file), 0, SEEK_SET) != 0 || write(fileno(file), bytes, sizeof(bytes)) < 0)
			break;
	if (other == 0)
		_exit(0);
	waitpid(other, NULL, 0);
	if (file)
		fclose(file);
}

static void act(const char *what, int i)
{
	char name[16];

	snprintf(name, sizeof(name), "pev-%d", i);
	if (!strcmp(what, "call"))
		syscall(SYS_getppid);
	else if (!strcmp(what, "rename"))
		prctl(PR_SET_NAME, name);
	else if (!strcmp(what, "packet"))
		send_packet();
	else if (!strcmp(what, "look"))
		look_at(name);
	else if (!strcmp(what, "share"))
		share_file();
	else if (!strcmp(what, "sleep"))
		doze();
	else if (!strcmp(what, "spin"))
		spin();
	else if (!strcmp(what, "signal"))
		kill(getppid(), SIGUSR1);
	else if (!strcmp(what, "bpf"))
		exit(load_bpf());
	else if (!strcmp(what, "fork") && fork() == 0)
		_exit(0);
	else if (!strcmp(what, "fork"))
		wait(NULL);
}

int main(int argc, char **argv)
{
	for (int i = 0; argc > 2 && i < atoi(argv[2]); i++)
		act(argv[1], i);
	return 0;
}
]]

local dir

local function perfl(...)
  return run { run.perfl, "-q", ... }
end

local function acts(what, times)
  return "--", dir .. "/acts", what, tostring(times)
end

-- perfl WORDS -- acts WHAT TIMES -> its output
local function output_of(words, what, times)
  local argv = table.move(words, 1, #words, 3, { run.perfl, "-q" })
  for _, word in ipairs { acts(what, times) } do argv[#argv + 1] = word end
  local r = run(argv)
  assert.equal(0, r.code, r.err)
  -- Linux before 6.12 has no inherited samples of these events.
  assert.equal("", (r.err:gsub("^perfl: [^\n]*: not in processes that come later, as this kernel [^\n]*\n", "")))
  return r.out
end

local function count(text, pattern)
  return select(2, text:gsub(pattern, ""))
end

local function readable(path, as)
  return run.capture(("%s test -r %s && echo yes"):format(as or "", path)) ~= nil
end

local function missing(tracepoints)
  if not run.have "cc" then return "no C compiler here" end
  if not tracepoints then return nil end
  if not run.root then return "tracepoints need root" end
  if not readable "/sys/kernel/tracing/events/sched/sched_switch/id" then
    return "no tracefs is mounted"
  end
end

local function on(what, tracepoints, test)
  it(what, function()
    local reason = missing(tracepoints)
    if reason then return pending(reason) end
    return test()
  end)
end

setup(function()
  if missing() then return end
  dir = run.tempdir()
  local r = run({ "cc", "-O1", "-x", "c", "-o", dir .. "/acts", "-" }, { stdin = program })
  assert.equal(0, r.code, r.err)
end)

teardown(function()
  if dir then run.remove(dir) end
end)

describe("syscount", function()
  on("counts each call of a command", true, function()
    local out = output_of({ "syscount" }, "call", 1234)
    assert.truthy(out:find("\ngetppid +1234\n"))
    assert.truthy(out:find("\nexit_group +1\n"))
    local sum, total = 0, tonumber(out:match("\ntotal +(%d+)\n"))
    for n in out:gmatch("(%d+)\n") do sum = sum + tonumber(n) end
    assert.equal(2 * total, sum)
  end)

  on("counts per process, and each call of a process", true, function()
    local out = output_of({ "syscount", "--per-process" }, "fork", 3)
    assert.equal(4, count(out, "\n +%d+ acts +%d+\n?%f[\n ]"))
    out = output_of({ "syscount", "-P", "-c" }, "fork", 3)
    assert.equal(4, count(out, " acts +exit_group +1\n"))
  end)

  on("shows the most frequent calls and the sum of the others", true, function()
    local out = output_of({ "syscount", "--top", "1" }, "call", 500)
    local first, others, total = out:match("^CALL +COUNT\n[%w_]+ +(%d+)\n%(%d+ others%) +(%d+)\ntotal +(%d+)\n$")
    assert.equal("500", first)
    assert.equal(tonumber(total), 500 + tonumber(others))
  end)
end)

-- Of JSON lines that of a key: how many there are.
local function count_of(out, key, value)
  local line = ("\n" .. out):match(("\n([^\n]*\"%s\":\"%s\"[^\n]*)"):format(key, value))
  return line and tonumber(line:match '"count":(%d+),"max"') or 0
end

describe("a script of latencies", function()
  -- COMMAND while on each CPU, once its file is there, something runs that never sleeps.
  local busy = [[
    for cpu in %s; do
      taskset -c $cpu sh -c ': > "$0"; while :; do :; done' "$0/$cpu" & all="$all $!"
      until [ -e "$0/$cpu" ]; do :; done
    done
    %s
    kill $all]]

  -- The words of a shell that runs COMMAND while no CPU idles, the last one its directory: perf does
  -- not always get the events in a CPU's idle task: the end of a disk request, or the switch to the woken task (seen
  -- on 6.18). Neither does perfl.
  local function while_busy(command)
    local allowed = core.slurp("/proc/self/status"):match "Cpus_allowed_list:%s*(%S+)"
    local cpus = table.concat(assert(units.list(allowed, "CPU list")), " ")
    return { "sh", "-c", busy:format(cpus, command), run.tempdir() }
  end

  -- Returns their output, perfl's included.
  local function output(words, dir_of_busy)
    local r = run(words)
    run.remove(dir_of_busy)
    assert.same({ 0, "" }, { r.code, r.err })
    return r.out
  end

  -- Returns the output of perfl WORDS -- COMMAND while no CPU idles.
  local function busy_output_of(words, command)
    local argv = table.move(words, 1, #words, 4, { run.perfl, "-q", "-a" })
    local shell = while_busy(command)
    argv[#argv + 1] = "--"
    return output(table.move(shell, 1, #shell, #argv + 1, argv), shell[#shell])
  end

  -- After each sleep the program is woken, waits for its CPU and gets it; perf sees most of these events.
  on("measures the waits for a CPU of a program that sleeps, and its time on the CPU", true, function()
    for name, field in pairs { runqlat = "args.next_comm", cpudist = "args.prev_comm" } do
      meets({ "fifty of acts" }, 50, function(times)
        local out = busy_output_of({ "-j", name, "--per", "comm" }, ("%s/acts sleep %d"):format(dir, times))
        return { ["fifty of acts"] = count_of(out, field, "acts") >= 50 }
      end)
    end
  end)

  on("selects one command, though the machine is watched", true, function()
    for name, field in pairs { runqlat = "args.next_comm", cpudist = "args.prev_comm" } do
      meets({ "fifty of acts" }, 50, function(times)
        local shell = while_busy(("%s -q -j %s --per comm %s/acts sleep %d"):format(run.quote(run.perfl), name, dir,
          times))
        local out = output(shell, shell[#shell])
        for comm in out:gmatch(('"%s":"([^"]*)"'):format(field)) do
          assert.is_true(comm == "acts" or comm == "perfl", comm) -- before its exec, the command has perfl's name
        end
        return { ["fifty of acts"] = count_of(out, field, "acts") >= 50 }
      end)
    end
  end)

  on("measures every call of a function", true, function()
    -- Without -q, which would leave out an aggregator that the script has not read.
    local out = run({ run.perfl, "funclatency", "uprobe:libc:syscall", "--per", "comm", acts("call", 50) }).out
    assert.matches("^libc:syscall\n@%[acts%] %(us%):\n[%[(].*|\navg = %d+ us, total: %d+ us, count: 50\n$", out)
  end)

  -- Sums by name of /proc/softirqs or /proc/interrupts: { ["NET_RX:"] = 12, ["36:"] = 5 }.
  local function interrupts_of(text)
    local sums = {}
    for name, numbers in text:gmatch "\n *([%w_]+:)([%d ]*)" do
      sums[name] = 0
      for n in numbers:gmatch "%d+" do sums[name] = sums[name] + n end
    end
    return sums
  end

  -- Runs the script while COMMAND runs. Checks its counts of these interrupts against the kernel's: not below those
  -- that the command sees, not above those around the run.
  local function check_interrupts(script, file, command, named)
    local before = interrupts_of(run.slurp(file))
    local inner = run.tempdir()
    local out = busy_output_of({ "-j", script }, ("cat %s > %s/1; %s; cat %s > %s/2"):format(file, inner, command,
      file, inner))
    local first, last = interrupts_of(run.slurp(inner .. "/1")), interrupts_of(run.slurp(inner .. "/2"))
    local after, enough = interrupts_of(run.slurp(file)), nil
    run.remove(inner)
    for line in out:gmatch "[^\n]+" do
      local name, n = named(line), tonumber(line:match '"count":(%d+)')
      if name and first[name] then
        assert.is_true(n <= after[name] - before[name], line)
        if last[name] > first[name] and enough ~= false then enough = n >= last[name] - first[name] end
      end
    end
    return enough or false
  end

  on("counts the soft interrupts of packets as the kernel does", true, function()
    meets({ "every packet" }, 100, function(times)
      local send = ("%s/acts packet %d"):format(dir, times)
      return { ["every packet"] = check_interrupts("softirqs", "/proc/softirqs", send,
        function(line) return line:find('"NET_RX"', 1, true) and "NET_RX:" end) }
    end)
  end)

  local function disk_of(path)
    return run.capture(("df --output=source %s | tail -1"):format(path)):match "^/dev/(%S+)"
  end

  on("measures writes to a disk", true, function()
    if not disk_of(dir) then return pending("the temporary directory is on no disk") end
    local function while_written(times, ...)
      local write = "dd if=/dev/zero of=%s/x bs=64k count=%d oflag=direct status=none"
      return busy_output_of({ ... }, write:format(dir, times))
    end
    -- Now and then perf misses the end of a request, even when no CPU idles.
    meets({ "four writes" }, 4, function(times)
      local out, bytes = while_written(times, "biosnoop"), 0
      for n in out:gmatch "\n[%d.]+ +dd +%d+ +%S+ +%u*W%u* +%d+ +(%d+) +[%d.]+%f[\n]" do bytes = bytes + n end
      return { ["four writes"] = bytes >= 4 << 16 }
    end)
    meets({ "an interrupt of each write" }, 4, function(times)
      local write = ("dd if=/dev/zero of=%s/x bs=64k count=%d oflag=direct status=none"):format(dir, times)
      return { ["an interrupt of each write"] = check_interrupts("hardirqs", "/proc/interrupts", write,
        function(line) return line:match '"handler":"(%d+:)' end) }
    end)
    meets({ "a write" }, 4, function(times)
      local told = while_written(times, "-j", "biolatency"):match '"count":(%d+),"max"'
      return { ["a write"] = (tonumber(told) or 0) >= 1 }
    end)
  end)
end)

describe("killsnoop", function()
  on("prints a line for each signal", true, function()
    local r = perfl("killsnoop", "--", "sh", "-c", "kill -0 $$; kill -9 99999999 2>/dev/null; kill -9 $$")
    local lines = {}
    for line in r.out:gmatch "[^\n]+" do lines[#lines + 1] = line:gsub("^ +[%d.]+ +%d+ +", "") end
    assert.matches("^sh +0 +%d+ 0$", lines[2])
    assert.matches("^sh +SIGKILL +99999999 ESRCH$", lines[3])
    assert.matches("^sh +SIGKILL +%d+ ", lines[4])
    assert.equal(4, #lines)
  end)
end)

describe("locks", function()
  on("counts the waits for a mutex as perf lock contention does in the same recording", true, function()
    if not readable "/sys/kernel/tracing/events/lock/contention_begin/id" then
      return pending "this kernel has no lock:contention_begin (Linux 5.19)"
    end
    local path = dir .. "/locks.data"
    if run({ "perf", "lock", "record", "-o", path, dir .. "/acts", "call", "1" }).code ~= 0 then
      return pending "no perf lock here"
    end
    meets({ "waits for a mutex" }, 1, function(times)
      assert.equal(0, run({ "perf", "lock", "record", "-o", path, dir .. "/acts", "share", tostring(times) }).code)
      local theirs, ours, callers = {}, {}, {}
      -- contended, total, longest and mean wait with their units, type, caller
      local r = run { "perf", "lock", "contention", "-i", path, "-E", "100000" }
      for number, kind in (r.out .. r.err):gmatch "\n +(%d+) +[%d.]+ %l+ +[%d.]+ %l+ +[%d.]+ %l+ +(%S+) +%S" do
        theirs[kind] = (theirs[kind] or 0) + number
      end
      for line in perfl("-j", "-i", path, "locks").out:gmatch "[^\n]+" do
        local row = json.decode(line)
        local kind, caller = row.lock:match "^(%S+) (.+)$"
        ours[kind] = (ours[kind] or 0) + row.value.count
        if kind == "mutex" then callers[caller] = true end
      end
      assert.same(theirs, ours)
      return { ["waits for a mutex"] = (ours.mutex or 0) >= 1 and callers.fdget_pos or callers.__fdget_pos }
    end)
  end)
end)

describe("a script that prints paths", function()
  -- { "PATH RESULT", … } of strace's lines for these calls, without those that have a descriptor.
  local function calls_of_strace(calls)
    local file = dir .. "/calls"
    local r = run { "strace", "-qq", "-s", "4096", "-o", file, "-e", "trace=" .. calls, dir .. "/acts", "look", "3" }
    assert.equal(0, r.code, r.err)
    local list = {}
    for line in run.slurp(file):gmatch "[^\n]+" do
      local path, number, name = line:match '^%l+%d*%([^"]*"([^"]*)".*%) += (-?%d+) ?(%u*)'
      if path and not line:find "AT_EMPTY_PATH" then
        list[#list + 1] = path .. " " .. (name ~= "" and name or number)
      end
    end
    return list
  end

  local function check(script, calls, least)
    on(("%s prints each call that strace sees, with its result"):format(script), true, function()
      if not run.have "strace" then return pending "no strace here" end
      local expected, list, named = calls_of_strace(calls), {}, 0
      for result, path in output_of({ script }, "look", 3):gmatch "\n *[%d.]+ +%d+ acts +(%S+) +(%S+)%f[\n]" do
        -- Without a path: of the dynamic linker, where the paths come from libc.
        local is_known = not path:find "^0x"
        list[#list + 1] = (is_known and path or (expected[#list + 1] or ""):match "^%S*") .. " " .. result
        if is_known then named = named + 1 end
      end
      assert.same(expected, list)
      assert.is_true(named >= least, named .. " have a path")
      local failed = output_of({ script, "-x" }, "look", 3)
      assert.is_true(count(failed, "ENOENT +pev%-[012]\n") >= 3, failed)
      assert.equal(count(failed, "\n"), 1 + count(failed, " E%u+ "))
    end)
  end

  check("opensnoop", "openat,?openat2,?open,?creat", 9)
  check("statsnoop", "?statx,?newfstatat,?stat,?lstat,statfs", 12)
end)

describe("cswlog", function()
  local function check(out)
    local ins, outs = count(out, "\n[^\n]+ in  [^\n]+"), 0
    outs = outs + count(out, "\n[^\n]+ out  [^\n]+") + count(out, "\n[^\n]+ preempted [^\n]+")
    local all, told_in, told_out = out:match("\n(%d+) switches: (%d+) in, (%d+) out %(%d+ of them preempted%)\n$")
    assert.same({ ins + outs, ins, outs }, { tonumber(all), tonumber(told_in), tonumber(told_out) })
    return outs
  end

  on("prints a line for each switch", false, function()
    assert.is_true(check(output_of({ "cswlog" }, "sleep", 50)) >= 50)
  end)

  on("names the other task if a CPU is watched", true, function()
    local out = output_of({ "-a", "cswlog" }, "sleep", 5)
    assert.is_true(check(out) >= 5)
    assert.truthy(out:find(" out +acts +%d+ %-> %d+\n"))
    assert.truthy(out:find(" in +acts +%d+ <%- %d+\n"))
  end)

  it("works for an ordinary user", function()
    if not run.root then return pending "only root becomes nobody" end
    local r = run({ run.perfl, "cswlog", "--", "true" }, { user = "nobody", cwd = "/" })
    assert.equal(0, r.code, r.err)
    assert.truthy(r.err:find("^perfl: %d+ records, 0 lost"), r.err)
    check(r.out)
  end)
end)

describe("execsnoop", function()
  local line = "^ *([%d.]+) +(%d+) +([%d?]+) +([^ ]+) *([^\n]*)$"

  local function programs_of(out)
    local list = {}
    for text in out:gmatch("[^\n]+") do
      local _, pid, ppid, comm, file = text:match(line)
      if pid then list[#list + 1] = { pid = pid, ppid = ppid, comm = comm, file = file } end
    end
    return list
  end

  on("shows each program, its parent and its file", true, function()
    local r = perfl("execsnoop", "--", "sh", "-c", "echo by $PPID; /bin/true; env true; :")
    assert.equal(0, r.code, r.err)
    local p = programs_of(r.out)
    assert.equal(4, #p, r.out)
    assert.same({ "sh", r.out:match "by (%d+)" }, { p[1].comm, p[1].ppid })
    p[2].file = p[2].file:gsub(" %[%?%]$", "") -- it has no arguments, or had ended
    assert.same({ pid = p[2].pid, ppid = p[1].pid, comm = "true", file = "/bin/true" }, p[2])
    assert.equal("env", p[3].comm)
    assert.truthy(p[3].file:find("/env true$") or p[3].file:find("/env %[%?%]$"), p[3].file)
    assert.truthy(p[4].file:find("/true$") or p[4].file:find("/true %[%?%]$"), p[4].file)
    assert.same({ p[3].pid, p[1].pid, "true" }, { p[4].pid, p[4].ppid, p[4].comm })
  end)

  on("shows ends with --ends", true, function()
    local r = perfl("execsnoop", "--ends", "--", "sh", "-c", "/bin/true; :")
    assert.equal(2, count(r.out, " ended after %d+%.%d+ s\n"))
  end)

  it("works for an ordinary user, without files", function()
    if not run.root then return pending "only root becomes nobody" end
    local r = run({ run.perfl, "-q", "execsnoop", "--", "sh", "-c", "/bin/true; :" },
      { user = "nobody", cwd = "/" })
    assert.equal(0, r.code, r.err)
    local p = programs_of(r.out)
    assert.same({ "sh", "true" }, { p[1].comm, p[2].comm })
    local shown = { ["/bin/true"] = true, ["[?]"] = true }
    assert.is_true(shown[p[2].file], r.out)
  end)
end)

describe("procmon", function()
  on("prints names, births and ends", false, function()
    local out = output_of({ "procmon", "comm", "fork", "exit" }, "rename", 7)
    assert.equal(1, count(out, " comm +exec acts\n"))
    assert.equal(7, count(out, " comm +renamed pev%-%d\n"))
    assert.equal(1, count(out, " pev%-6 +exit +process\n"))
    out = output_of({ "procmon", "fork", "exit" }, "fork", 5)
    assert.equal(5, count(out, " acts +fork +process %d+\n"))
    assert.equal(6, count(out, " acts +exit +process\n"))
  end)

  on("prints only the selected kinds", false, function()
    local out = output_of({ "procmon", "exit" }, "rename", 3)
    assert.equal(2, count(out, "\n"))
  end)

  on("prints namespaces on a CPU if no other kind is selected", true, function()
    local r = perfl("-a", "procmon", "namespaces", "--", "unshare", "--uts", "true")
    assert.equal(0, r.code, r.err)
    assert.truthy(r.out:find(" unshare +namespaces of %d+ mnt:%d+"), r.out)
  end)

  on("prints a BPF program from load to unload", true, function()
    if run({ dir .. "/acts", "bpf", "1" }).code ~= 0 then return pending "no BPF here" end
    local out = output_of({ "-a", "procmon", "bpf", "ksymbol" }, "bpf", 1)
    local id, tag = out:match(" acts +bpf +load (%d+) (%x+)\n")
    assert.truthy(id, out)
    assert.truthy(out:find(" bpf +unload " .. id .. " " .. tag .. "\n"), out)
    assert.truthy(out:find(" ksymbol +new %x+%+%d+ bpf_prog_" .. tag .. "_pevspec\n"), out)
  end)

  it("reports the kinds that an ordinary user cannot have, and continues", function()
    if not run.root then return pending "only root becomes nobody" end
    local r = run({ run.perfl, "-q", "procmon", "--", "true" }, { user = "nobody", cwd = "/" })
    assert.equal(0, r.code, r.err)
    assert.truthy(r.out:find("namespaces is not available here", 1, true), r.out)
    assert.truthy(r.out:find("exec true", 1, true), r.out)
  end)
end)

describe("tpoint", function()
  on("prints a line for each event, with the kernel's own text", true, function()
    local out = output_of({ "tpoint", "task:task_rename" }, "rename", 9)
    local names = {}
    for line in out:gmatch("[^\n]+") do
      assert.truthy(line:find("^ *[^ ]+%-%d+ +%[%d%d%d%] [.%w][.%w][.%w][.%w][.%w] +%d+%.%d%d%d%d%d%d: "
        .. "task_rename: .*oldcomm=[^ ]+ newcomm="), line)
      names[#names + 1] = line:match("newcomm=(pev%-%d)")
    end
    assert.same({ "pev-0", "pev-1", "pev-2", "pev-3", "pev-4", "pev-5", "pev-6", "pev-7", "pev-8" }, names)
  end)

  on("accepts several events, and a filter for them", true, function()
    local out = output_of({ "tpoint", "--filter", "common_pid == 0", "task:task_rename",
      "task:task_newtask" }, "rename", 9)
    assert.equal("", out)
    out = output_of({ "tpoint", "task:task_rename", "task:task_newtask" }, "fork", 2)
    assert.equal(2, count(out, ": task_newtask: "))
  end)

  -- The workload names itself, so the two can be laid side by side; comm is looked up by ftrace when
  -- it is read, the clock is read twice, and between the two a tick may ask for another task: the second flag.
  on("prints the same as ftrace: task, CPU, flags and text", true, function()
    local instance = "/sys/kernel/tracing/instances/pev-scripts-spec"
    local function setting(name, value)
      return run.capture(("echo '%s' > %s/%s && echo set"):format(value, instance, name))
    end
    if not run.capture("mkdir " .. instance .. " && echo made") then
      return pending "no ftrace instance can be made"
    end
    local function lines_of(text)
      local list = {}
      for pid, cpu, flags, rest in text:gmatch("%-(%d+) +(%[%d+%]) ([^ ]+) +[%d.]+: (task_rename: [^\n]*)\n") do
        if rest:find("newcomm=pev-", 1, true) then
          list[#list + 1] = table.concat({ pid, cpu, (flags:gsub("^(.).", "%1-")), rest }, " ")
        end
      end
      return list
    end
    local armed = setting("events/task/task_rename/filter", 'newcomm ~ "pev-*"')
      and setting("events/task/task_rename/enable", "1")
    local out = armed and output_of({ "tpoint", "task:task_rename" }, "rename", 20)
    setting("events/task/task_rename/enable", "0")
    local told = run.capture("cat " .. instance .. "/trace")
    run.capture("rmdir " .. instance)
    if not armed then return pending "ftrace does not take the filter" end
    assert.equal(20, #lines_of(out))
    assert.same(lines_of(told .. "\n"), lines_of(out))
  end)
end)

describe("a name with terminal control characters", function()
  -- As a comm, as a file that is executed, as a file that is mapped.
  local hostile, shown = "\27[31mr\ned", "\\x1b[31mr\\ned"

  local function check(words, tracepoints)
    on("is escaped by " .. table.concat(words, " "), tracepoints, function()
      local path = dir .. "/" .. hostile
      os.execute("cp " .. dir .. "/acts " .. run.quote(path))
      local argv = table.move(words, 1, #words, 3, { run.perfl, "-q" })
      for _, word in ipairs { "--", path, "sleep", "3" } do argv[#argv + 1] = word end
      local r = run(argv)
      assert.equal(0, r.code, r.err)
      assert.is_nil(r.out:find("[\0-\9\11-\31\127]"), r.out)
      assert.truthy(r.out:find(shown, 1, true), r.out)
    end)
  end

  check({ "syscount", "-P" }, true)
  check({ "cswlog" }, false)
  check({ "execsnoop", "--ends" }, true)
  check({ "procmon" }, false)
  check({ "tpoint", "sched:sched_process_exec" }, true)
  for _, example in ipairs { "comm", "mmap", "exit", "record" } do
    check({ "scripts/examples/" .. example .. ".lua" }, false)
  end
end)

describe("the example", function()
  local function check(name, words, what, times, pattern, tracepoints)
    on(name .. " runs", tracepoints, function()
      local argv = table.move(words, 1, #words, 1, {})
      argv[#argv + 1] = "scripts/examples/" .. name .. ".lua"
      local out = output_of(argv, what, times)
      if out:find "^this kernel writes no READ records" then return pending "this kernel writes no READ records" end
      assert.truthy(out:find(pattern), out)
    end)
  end

  check("sample", {}, "spin", 1, "^ *%d+%.%d %%  acts +%w+\n", true)
  check("comm", {}, "rename", 2, "^%d+ is acts now %(exec%)\n%d+ is pev%-0 now %(renamed%)\n")
  check("mmap", {}, "call", 1, "/acts\n")
  check("fork", {}, "fork", 1, "^process %d+, of %d+ acts\n$")
  check("exit", {}, "fork", 1, "^ *%d+ acts +ends after %d+%.%d+ s\n")
  check("switch", {}, "sleep", 5, "^ *%d+ +%d+%.%d+ ms\n$")
  check("throttle", {}, "call", 1, "^%d+ samples, stopped %d+ times\n$", true)
  check("cache", {}, "call", 1, "%d+ pages were missing\n$")
  check("raw", {}, "spin", 1, "^the last sample: acts at 0x%x+\n$")
  check("pmu", {}, "spin", 1, "^%d+ ticks in %d+%.%d+ ms on a CPU\n$")
  check("group", {}, "spin", 10, "^%d+ faults in %d+%.%d+ ms\n$")
  check("read", {}, "fork", 2, " acts +%d+ page faults\n", true)
  check("namespaces", {}, "fork", 1, "cgroup:%[%d+%].* uts:%[%d+%]\n$", true)
  check("record", {}, "sleep", 1, "\nswitch pid=%d+ .* out\n")
  check("tracepoint", { "-a" }, "sleep", 100, "^[^\n]* wakes [^\n]*\n\tcomm\t", true)
  check("software", {}, "call", 1, "^acts +%x+ wanted +%x+\n")
  check("signal", { "-a" }, "signal", 1, "^%d+ programs were started\n%d+ programs were started\n$", true)
  check("aux", { "-a" }, "call", 1, "^", true)
  check("itrace_start", { "-a" }, "call", 1, "^", true)
  check("aux_output_hw_id", { "-a" }, "call", 1, "^", true)
  check("callchain_deferred", {}, "call", 1, "^", true)
  check("text_poke", { "-a" }, "call", 1, "^", true)
  check("every", { "-a" }, "call", 1, "^", true)

  -- The kernel reports losses with the next record that fits, so it does not report the last losses.
  on("lost reports losses as perfl does: every sample is accounted for", true, function()
    local r = run { run.perfl, "-m", "4K", "scripts/examples/lost.lua", acts("call", 20000) }
    assert.equal(0, r.code, r.err)
    local came = r.out:match("^(%d+) samples came, %d+ were lost\n$")
    local lost = r.err:match("perfl: [%d,]+ records, ([%d,]+) lost"):gsub(",", "")
    assert.is_true(came + lost >= 20000, r.out .. r.err)
  end)

  on("pattern runs, and reports the number of tracepoints", true, function()
    local r = perfl("scripts/examples/pattern.lua", acts("fork", 1))
    assert.truthy(r.out:find("acts +sched:sched_process_fork\n"), r.out)
    assert.matches("^perfl: sched:sched_process_%*: %d+ tracepoints\n$", r.err)
  end)

  on("bpf and ksymbol report a BPF program", true, function()
    if run({ dir .. "/acts", "bpf", "1" }).code ~= 0 then return pending "no BPF here" end
    local out = output_of({ "-a", "scripts/examples/bpf.lua" }, "bpf", 1)
    -- Others may load some, too.
    assert.truthy(("\n" .. out):find("\nload   id (%d+) tag (%x+)\n.*%f[^\n]unload id %1 tag %2\n"), out)
    out = output_of({ "-a", "scripts/examples/ksymbol.lua" }, "bpf", 1)
    assert.truthy(("\n" .. out):find("\nnew  %x+ +%d+ bpf_prog_%x+_pevspec\n"), out)
  end)

  on("cgroup reports a new cgroup if no other event is requested", true, function()
    local root = run.capture "awk '$3 == \"cgroup2\" { print $2; exit }' /proc/mounts"
    if root == "" then return pending "no cgroup2 is mounted" end
    local path = root .. "/pev-scripts-spec"
    local r = perfl("-a", "scripts/examples/cgroup.lua", "--", "mkdir", path)
    os.execute("rmdir " .. path)
    if r.code ~= 0 then return pending "no cgroup can be made" end
    assert.truthy(("\n" .. r.out):find("\n%d+ /pev%-scripts%-spec, by mkdir\n"), r.out)
  end)

  local function alone(name, pattern)
    it(name .. " runs without perfl", function()
      local r = run({ "lua5.4", "scripts/examples/" .. name .. ".lua" }, { env = {
        LUA_PATH = "lua/?.lua;lua/?/init.lua;;", LUA_CPATH = "build/?.so;;" } })
      assert.equal(0, r.code, r.err)
      assert.truthy(r.out:find(pattern), r.out)
    end)
  end

  alone("records", "^%d+ sh\n%d+ env\n%d+ true\n%d+ records in all\n$")
  alone("self", "^1000000 numbers, %d%d%d+ page faults\n$")
end)
