-- The engine on the real kernel: every event arrives, or is counted as lost; targets and
-- commands end at any time. Needs root and tracefs.

local perfev = require "perfev"
local core = require "perfev.core"
local run = require "spec.support.run"

local E = perfev.errno
local PRCTL = "syscalls:sys_enter_prctl"
local PR_GET_NAME = 16 -- prctl(2); its start-up code, libc and the loader never call it with this

local events = "/sys/kernel/tracing/events/"
local why_not = not run.root and "not root"
  or not core.slurp(events .. "syscalls/sys_enter_prctl/id") and "no tracefs with syscall tracepoints"
  or not run.have(os.getenv "CC" or "gcc") and "no C compiler"

local dir, programs

-- prctl N, a thread-spawning loop, and one that exits at once.
local sources = {
  prctls = [[
#include <stdlib.h>
#include <sys/prctl.h>
int main(int argc, char **argv)
{
	char name[16];
	for (long n = argc > 1 ? atol(argv[1]) : 1; n > 0; n--)
		prctl(PR_GET_NAME, name, 0, 0, 0);
	return 0;
}
]],
  threads = [[
#include <pthread.h>
#include <unistd.h>
static void *idle(void *arg) { usleep(200); return arg; }
int main(void)
{
	for (;;) {
		pthread_t t[4];
		for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, idle, NULL);
		for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
	}
}
]],
  naps = [[
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv)
{
	struct timespec ns = { 0, 1 };
	for (long n = argc > 1 ? atol(argv[1]) : 1; n > 0; n--)
		nanosleep(&ns, NULL);
	return 0;
}
]],
}

local function build(name)
  local path = dir .. "/" .. name
  run.write_file(path .. ".c", sources[name])
  local r = run { os.getenv "CC" or "gcc", "-O1", "-pthread", "-o", path, path .. ".c" }
  assert.equal(0, r.code, r.err)
  return path
end

setup(function()
  if why_not then return end
  dir = run.tempdir()
  programs = setmetatable({}, { __index = function(t, name)
    t[name] = build(name)
    return t[name]
  end })
end)
teardown(function() if dir then run.remove(dir) end end)
local it = require "spec.support.skip"(it, function() if why_not then pending(why_not) end end)

local function prctl_session(count, opts, sample, more)
  opts.command = { programs.prctls, tostring(count) }
  local s = perfev.session(opts)
  local spec = more or {}
  spec[1], spec.filter, spec.sample = PRCTL, "option == " .. PR_GET_NAME, sample
  s:event(spec)
  return s
end

describe("exactly N records for N events:", function()
  for _, pages in ipairs { 1, 4, 64 } do
    it(("100 calls of a held child are 100 samples, in a ring of %d pages"):format(pages), function()
      local n, last = 0, 0
      local s = prctl_session(100, { buffer = pages * perfev.hooks.real.pagesize() .. "B" }, function(r, args)
        n = n + 1
        -- A ring that is nearly full is drained at once, in order or not.
        assert(pages == 1 or r.time >= last)
        last = r.time
        assert(args.option == PR_GET_NAME and r.comm == "prctls")
      end)
      assert(s:run())
      -- One page holds about forty records: the kernel counts the others as lost.
      assert.equal(100, n + s:totals().lost)
      if pages > 1 then assert.equal(100, n) end
      assert.same({ exit = 0 }, s.command_status)
    end)
  end

  it("100 calls are 100 samples with a wakeup for each", function()
    local n = 0
    local s = prctl_session(100, {}, function() n = n + 1 end, { wakeup_events = 1 })
    assert(s:run())
    assert.equal(100, n)
  end)

  it("100 calls are one sample per period", function()
    local n = 0
    local s = prctl_session(100, {}, function() n = n + 1 end, { period = 10 })
    assert(s:run())
    assert.equal(10, n)
  end)

  it("100,000 calls pass through a ring of four pages while it is read", function()
    local n = 0
    local s = prctl_session(100000, { buffer = "16K" }, function() n = n + 1 end)
    assert(s:run())
    assert.equal(100000, n + s:totals().lost)
    assert.is_true(n > 100, n)
    assert.equal(0, s:totals().corrupt)
    assert.equal(0, s:totals().malformed)
  end)
end)

describe("a ring that overflows", function()
  it("reports LOST, and read plus lost is the number of calls; the run continues", function()
    local n, told, after = 0, 0, 0
    local asleep, awake = dir .. "/asleep", dir .. "/awake"
    -- The first calls happen while the reader sleeps, the second after it has drained the ring: into the same ring.
    -- In order of time, the first records would wait in memory until one of them is old enough.
    local script = ("%s 5000; echo > %s; read go < %s; %s 50; %s 5"):format(programs.prctls, asleep, awake,
      programs.prctls, programs.prctls)
    assert(os.execute(("mkfifo %s %s"):format(asleep, awake)))
    local s = perfev.session { command = { "taskset", "-c", core.slurp("/proc/self/status")
      :match "Cpus_allowed_list:%s*(%d+)", "sh", "-c", script }, buffer = "8K", ordered = false }
    s:event { PRCTL, filter = "option == " .. PR_GET_NAME, sample = function()
      n = n + 1
      if told > 0 then after = after + 1 end
      if n > 1 then return end
      local file <close> = io.open(asleep)
      file:read "a" -- until the writer has come and gone
    end, lost = function(r) told = told + r.lost end }
    s:every("1ms", function()
      if n == 0 or not awake then return end
      local file <close> = io.open(awake, "w")
      file:write "go\n"
      awake = nil
    end)
    assert(s:run())
    assert.equal(5055, n + s:totals().lost)
    assert.is_true(told > 4000, told) -- and of our own records, too
    assert.is_true(after > 0)
    assert.same({ exit = 0 }, s.command_status)
  end)

  it("accounts for every call in 20 of 20 runs, at any pace of the reader", function()
    for i = 1, 20 do
      local n = 0
      local s = prctl_session(1000 + i, { buffer = "4K" }, function() n = n + 1 end)
      assert(s:run())
      assert.equal(1000 + i, n + s:totals().lost)
    end
  end)
end)

describe("a target", function()
  local function background(command)
    return math.tointeger(tonumber((run.capture(command .. " >/dev/null 2>&1 & echo $!"))))
  end

  it("that exits while its records are unread has all of them delivered, without spinning", function()
    local n, go = 0, dir .. "/go"
    assert(os.execute("rm -f " .. go .. " && mkfifo " .. go))
    local pid = background(("sh -c 'read x < %s; exec %s 60'"):format(go, programs.prctls))
    local s = perfev.session { pid = pid }
    s:event { PRCTL, filter = "option == " .. PR_GET_NAME, sample = function() n = n + 1 end }
    assert(s:start())
    assert(os.execute(("echo > %s; while kill -0 %d 2>/dev/null; do sleep 0.01; done"):format(go, pid)))
    assert(s:run())
    assert.equal(60, n)
    assert.is_true(s:totals().wakeups < 20, s:totals().wakeups)
  end)

  it("that idles costs nothing while perfev waits", function()
    local s = perfev.session { command = { "sleep", "2" } }
    s:event { switch = function() end }
    assert(s:run())
    -- One wakeup per tick of 100 ms; a busy loop would have one every few microseconds.
    assert.is_true(s:totals().wakeups < 1000, s:totals().wakeups)
  end)

  it("that does not exist is reported with the cause and a remedy", function()
    local pid = background "true"
    assert(os.execute(("while kill -0 %d 2>/dev/null; do sleep 0.01; done"):format(pid)))
    for _, opts in ipairs { { pid = pid }, { tid = pid } } do
      local s = perfev.session(opts)
      s:event { "task-clock" }
      local ok, why, code = s:run()
      assert.is_nil(ok)
      assert.equal(E.ESRCH, code)
      assert.matches("^cannot [^\n]+ pid " .. pid .. "[^\n]*: No such process %(ESRCH%)\n  [^\n]+\n  try: ", why)
    end
  end)

  it("with threads that start and end is watched in 200 of 200 runs", function()
    local pid = background(programs.threads)
    local failed, records = {}, 0
    for i = 1, 200 do
      local s = perfev.session { pid = pid, duration = i % 20 == 0 and "50ms" or "1ms", buffer = "16K" }
      s:event { switch = function() end }
      local ok, why = s:run()
      if not ok then failed[#failed + 1] = why end
      records = records + s:totals().records
    end
    os.execute("kill " .. pid)
    assert.same({}, failed)
    assert.is_true(records > 0)
  end)
end)

describe("a command", function()
  it("that does not exist has status 127, and an error with the cause", function()
    local s = perfev.session { command = { "no-such-program" } }
    s:event { switch = function() end }
    local ok, why, code = s:run()
    assert.is_nil(ok)
    assert.equal(E.ENOENT, code)
    assert.matches("^cannot run 'no%-such%-program': No such file or directory %(ENOENT%)\n  try: ", why)
    assert.same({ exit = 127 }, s.command_status)
  end)

  it("that is killed before its exec fails the run with this cause", function()
    local s = perfev.session { command = { "sleep", "10" } }
    s:event { switch = function() end }
    s:begin(function() s.child:kill(9) end)
    local ok, why = s:run()
    assert.is_nil(ok)
    assert.matches("'sleep' ended before it could be started", why)
  end)

  it("counts its own calls, but no calls of perfev", function()
    local pids = {}
    local s = prctl_session(3, {}, function(r) pids[r.pid] = (pids[r.pid] or 0) + 1 end)
    assert(s:run())
    local _, n = next(pids)
    assert.equal(3, n)
    assert.is_nil(next(pids, (next(pids))))
  end)

  it("may open as many files as its caller, however many perfev's events need", function()
    local words = { run.perfl, "-q", "-e", 'event{"dummy"}', "--", "sh", "-c", "ulimit -Sn" }
    local r = run("ulimit -Sn 100 && " .. run.show(words))
    assert.equal("100\n", r.out, r.err)
  end)

  it("leaves no descriptor, child or thread of perfev behind", function()
    local function open_fds() return #core.list "/proc/self/fd" end
    collectgarbage()
    local before = open_fds()
    for _ = 1, 20 do
      local s = prctl_session(1, { duration = "5s" }, function() end)
      s:every("1s", function() end)
      s:signal("USR1", function() end)
      assert(s:run())
    end
    assert.equal(before, open_fds())
  end)
end)

describe("system calls", function()
  -- How many a run of N records takes, by strace -c -f of the reader alone.
  local function calls_for(count)
    local script = dir .. "/reader.lua"
    run.write_file(script, ([[
local perfev = require "perfev"
local n = 0
perfev.event { "%s", filter = "option == %d", sample = function(r) n = n + 1 return r.time > 0 and nil end }
perfev.done(function() io.stderr:write("records ", n, "\n") end)
]]):format(PRCTL, PR_GET_NAME))
    local log = dir .. "/strace"
    -- The ring has room for all records: no record is lost while other tasks have the CPU.
    local r = run { "strace", "-c", "-o", log, run.perfl, "-q", "-m", "16M", script, "--", programs.prctls,
      tostring(count) }
    if r.err:find "ptrace" then pending("strace may not trace here: " .. r.err) end
    assert.equal(0, r.code, r.err)
    assert.equal(tostring(count), r.err:match "records (%d+)", r.err)
    local text = assert(io.open(log)):read "a"
    local total = 0
    -- % time, seconds, usecs/call, calls, [errors,] syscall
    for calls, name in text:gmatch "\n%s*[%d.]+%s+[%d.]+%s+%d+%s+(%d+)%s+%d*%s*(%l[%w_]*)" do
      if name ~= "total" then total = total + tonumber(calls) end
    end
    assert.is_true(total > 50, text)
    return total
  end

  it("are not made per record: 1,000 records and 10,000 take the same number", function()
    if not run.have "strace" then pending "no strace(1)" end
    if run.sanitized then pending "strace and LeakSanitizer do not go together" end
    local few, many = calls_for(1000), calls_for(10000)
    -- The longer run may have some more ticks.
    assert.is_true(many - few < (10000 - 1000) / 10, ("%d and %d"):format(few, many))
  end)
end)

describe("memory", function()
  it("is freed to the last byte according to valgrind", function()
    if not run.have "valgrind" then pending "no valgrind(1)" end
    if run.sanitized then pending "valgrind and AddressSanitizer do not go together" end
    local r = run({ "valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=definite,indirect,possible",
      "--errors-for-leak-kinds=definite,indirect,possible", "--error-exitcode=99", "--track-fds=yes",
      "lua5.4", "spec/support/mocked_session.lua" })
    assert.equal(0, r.code, r.err)
    assert.equal("ok\n", r.out)
  end)
end)
