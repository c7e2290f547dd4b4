-- Every call of fourteen sessions fails once, with every errno its man page has.
--
-- A session runs on the simulated kernel, once as it should; then again for each call that it
-- made and each errno, with this call failing. In every case: no descriptor stays open, no error is raised, and each
-- refusal has a message with the failure and its cause.

local core = require "perfev.core"
local perfev = require "perfev"
local run_support = require "spec.support.run"
local sim = require "perfev.sim"

local E = perfev.errno
-- Under sanitizers a part: 7 divides no number of errnos, so that all of them are in it.
local STEP = run_support.sanitized and 7 or 1

-- From the manual pages; open(2), read(2) and execve(2) for entries that cover several calls. EINTR is only in the list
-- of epoll_wait, because src/base/sys.c retries the other calls.
local manual = {
  perf_event_open = "E2BIG EACCES EBADF EBUSY EFAULT EINTR EINVAL EMFILE ENODEV ENOENT ENOMEM ENOSPC ENOSYS "
    .. "EOPNOTSUPP EOVERFLOW EPERM ESRCH",
  mmap = "EACCES EAGAIN EBADF EINVAL ENFILE ENODEV ENOMEM EOVERFLOW EPERM",
  munmap = "EINVAL ENOMEM",
  read = "EAGAIN EBADF EFAULT EINVAL EIO ENOSPC",
  close = "EBADF EINTR EIO ENOSPC EDQUOT",
  epoll_create = "EINVAL EMFILE ENFILE ENOMEM",
  epoll_ctl = "EBADF EEXIST EINVAL ELOOP ENOENT ENOMEM ENOSPC EPERM",
  epoll_wait = "EBADF EFAULT EINTR EINVAL",
  clock = "EFAULT EINVAL EPERM",
  timerfd = "EINVAL EMFILE ENFILE ENODEV ENOMEM EPERM",
  signalfd = "EBADF EINVAL EMFILE ENFILE ENODEV ENOMEM",
  sigblock = "EFAULT EINVAL",
  spawn = "EAGAIN EMFILE ENFILE ENOMEM ENOSYS",
  release = "E2BIG EACCES ECHILD EFAULT EINVAL EIO EISDIR ELOOP EMFILE ENAMETOOLONG ENFILE ENOENT ENOEXEC ENOMEM "
    .. "ENOTDIR EPERM ETXTBSY",
  pidfd_open = "EINVAL EMFILE ENFILE ENODEV ENOMEM ENOSYS ESRCH",
  wait = "ECHILD",
  kill = "EINVAL EPERM ESRCH",
  slurp = "EACCES EIO ELOOP EMFILE ENAMETOOLONG ENFILE ENOENT ENOMEM ENOTDIR EPERM",
  list = "EACCES EIO ELOOP EMFILE ENAMETOOLONG ENFILE ENOENT ENOMEM ENOTDIR",
  append = "EACCES EAGAIN EBUSY EEXIST EINVAL EIO ELOOP EMFILE ENFILE ENOENT ENOMEM ENOSPC ENOTDIR EPERM EROFS",
  resume = "EPERM ESRCH",
  readlink = "EACCES EINVAL EIO ELOOP ENAMETOOLONG ENOENT ENOMEM ENOTDIR",
  fstat = "EBADF EFAULT ENOMEM EOVERFLOW",
  stat = "EACCES EFAULT ELOOP ENAMETOOLONG ENOENT ENOMEM ENOTDIR EOVERFLOW",
  open = "EACCES EIO ELOOP EMFILE ENAMETOOLONG ENFILE ENOENT ENOMEM ENOTDIR ENXIO EPERM",
  pread = "EFAULT EINVAL EIO EISDIR ENXIO EOVERFLOW ESPIPE",
  raise_nofile = "EFAULT EINVAL EPERM",
}
-- perf_event_open(2), "perf_event ioctl calls", and kernel/events/core.c for errnos that it omits.
local ioctl_errnos = "EBADF EFAULT EINVAL ENODEV ENOMEM ENOTTY"
local more_of = { ["ioctl SET_FILTER"] = " EEXIST EACCES", ["ioctl SET_OUTPUT"] = " EBUSY" }
-- Those cannot fail.
local never = { getpid = true, pagesize = true }

local function errnos_of(name)
  local text = manual[name] or name:find("^ioctl ") and ioctl_errnos .. (more_of[name] or "")
  local list = {}
  for word in text:gmatch("%S+") do list[#list + 1] = assert(E[word], word) end
  return list
end

local function nothing() end

-- Something of everything, on both CPUs.
local function happenings(k)
  k:every("30ms", 3, function(i)
    for cpu = 0, 1 do
      k:ring(cpu):push { type = "sample", pid = 11, ip = i }
      k:ring(cpu):push { type = "comm", pid = 11, comm = "c" .. i }
      k:ring(cpu):push { type = "fork", pid = 12, ppid = 11, tid = 12, ptid = 11 }
      k:ring(cpu):push { type = "switch", pid = 11, out = true }
      k:ring(cpu):push { type = "mmap2", pid = 11, addr = 0x1000, len = 0x1000, pgoff = 0, maj = 8, min = 1, ino = 5,
                         ino_generation = 0, prot = 5, flags = 2, filename = "/bin/true" }
    end
  end)
end

local function child_that_ends(k)
  k.command = function(child)
    happenings(k)
    k:after("150ms", function() k:end_child(child.pid, 0) end)
  end
end

-- A program with a symbol and a variable, and tracefs to define a probe in it.
local program = assert(io.open "spec/fuzz/seeds/elf/shared"):read "a"
local function with_program(k)
  k.files["/bin/app"] = program
  k.files["/sys/kernel/tracing/uprobe_events"], k.files["/sys/kernel/tracing/kprobe_events"] = "", ""
end

-- The sessions: `with` prepares the kernel, `of` makes the session, `drive` runs it.
local sessions = {
  { "samples of all CPUs", with = happenings, of = function()
    local s = perfev.session { duration = "150ms", buffer = "16K" }
    s:event { "cpu-clock", freq = 99, sample = nothing, comm = nothing }
    return s
  end },
  { "two threads", with = function(k)
    happenings(k)
    k:after("150ms", function() k:exit(11) k:exit(12) end)
  end, of = function()
    local s = perfev.session { tid = { 11, 12 }, buffer = "16K" }
    s:event { "task-clock", period = 1000000, sample = nothing }
    return s
  end },
  { "a command", with = child_that_ends, of = function()
    local s = perfev.session { command = { "true" }, buffer = "16K" }
    s:event { "page-faults", period = 1, sample = nothing, fork = nothing, exit = nothing }
    return s
  end },
  { "a command that has to be ended", with = child_that_ends, of = function()
    local s = perfev.session { command = { "sleep" }, buffer = "16K", duration = "80ms" }
    s:event { "page-faults", period = 1, sample = nothing }
    return s
  end },
  { "a tracepoint with a filter", with = function(k)
    k:every("30ms", 3, function(i)
      k:ring(0):push { type = "sample", event = "sched:sched_wakeup", pid = 11, args = { comm = "a", pid = i } }
    end)
  end, of = function()
    local s = perfev.session { duration = "150ms", buffer = "16K" }
    s:event { "sched:sched_wakeup", filter = "pid > 1", sample = nothing }
    return s
  end },
  { "side-band records alone", with = happenings, of = function()
    local s = perfev.session { duration = "150ms", buffer = "16K" }
    s:event { comm = nothing, mmap = nothing, fork = nothing, exit = nothing, switch = nothing }
    return s
  end },
  { "timers and signals", with = function(k)
    happenings(k)
    k:after("70ms", function() k:signal(10) end)
  end, of = function()
    local s = perfev.session { duration = "300ms", buffer = "16K", tid = 11 }
    s:event { "dummy", comm = nothing }
    s:every("50ms", nothing)
    s:every("70ms", nothing)
    s:signal("USR1", nothing)
    s:done(nothing)
    return s
  end },
  { "records pulled", with = happenings, of = function()
    local s = perfev.session { duration = "150ms", buffer = "16K" }
    s:event { "cpu-clock", freq = 99 }
    return s
  end, drive = function(s)
    local ok, why = pcall(function()
      for r in s:records() do assert(r.type) end
    end)
    if ok then return true end
    return nil, why
  end },
  { "many events in one ring", with = happenings, of = function()
    local s = perfev.session { duration = "100ms", buffer = "16K", cpus = { 0 } }
    for i = 1, 8 do s:event { "cpu-clock", freq = 9 + i, name = "clock " .. i, sample = nothing } end
    return s
  end },
  { "a ring that has to shrink", with = function(k)
    happenings(k)
    k.mlock = 8192
  end, of = function()
    local s = perfev.session { duration = "100ms", buffer = "64K" }
    s:event { "cpu-clock", freq = 99, sample = nothing, comm = nothing }
    return s
  end },
  { "a flight recorder", with = happenings, of = function()
    local s = perfev.session { duration = "150ms", buffer = "16K", overwrite = true }
    s:event { "cpu-clock", freq = 99, sample = nothing }
    s:every("60ms", function() s:snapshot() end)
    return s
  end },
  { "a probe that tracefs defines", with = function(k)
    with_program(k)
    k:after("50ms", function() k:exit(11) end)
  end, of = function()
    local s = perfev.session { tid = 11, buffer = "16K" }
    s:event { "uprobe:/bin/app:work", name = "uprobe work", args = { "n:int", "s:string" }, sample = nothing }
    return s
  end },
  { "a breakpoint in a command", with = function(k)
    with_program(k)
    child_that_ends(k)
    k.at_exec = function(child)
      k.files[("/proc/%d/maps"):format(child.pid)] =
        "550000000000-550000001000 r-xp 00000000 fe:00 7                          /bin/app\n"
    end
  end, of = function()
    local s = perfev.session { command = { "app" }, buffer = "16K" }
    s:event { "mem:/bin/app:counter:w", name = "mem counter", sample = nothing }
    return s
  end },
  { "a group of counters", with = happenings, of = nothing, drive = function()
    local c, why = perfev.group { "task-clock", "page-faults", "context-switches", pid = 11 }
    if not c then return nil, why end
    local ok, wrong = c:read()
    c:close()
    return ok and true, wrong
  end },
}

local function new_kernel(with)
  local k = sim.new { world = "vm", tasks = { [11] = "eleven", [12] = "twelve" } }
  if with then with(k) end
  return k
end

-- -> true | nil, message; raised errors are marked
local function run(case, k)
  return k:with(function()
    local ok, result, why = pcall(function()
      local s <close> = case.of()
      if case.drive then return case.drive(s) end
      return s:run()
    end)
    if not ok then return nil, "RAISED: " .. tostring(result), true end
    return result, why
  end)
end

local function calls_of(k)
  local list = {}
  for name, n in pairs(k.counts) do
    if name ~= "ioctl" and not never[name] then list[#list + 1] = { name, n } end
  end
  table.sort(list, function(a, b) return a[1] < b[1] end)
  return list
end

-- For a missing or unreadable file of procfs or tracefs the message names the consequence.
local function tells(name, why, errno)
  if why:find(E[errno], 1, true) or why:find(core.strerror(errno), 1, true) then return true end
  if name ~= "slurp" and name ~= "list" then return false end
  if errno == E.EACCES then return why:find("cannot be read by this user", 1, true) end
  return (errno == E.ENOENT or errno == E.ENOTDIR)
    and (why:find("no such event", 1, true) or why:find("No such process", 1, true)
      or why:find("no tracefs is mounted", 1, true) or why:find("this kernel has no uprobes", 1, true))
end

-- The mistake in a refusal's words, or nil.
local function blame(name, why, errno)
  if not tells(name, why, errno) then return "does not say " .. E[errno] end
  if name == "perf_event_open" then
    if not (why:find("cpu %d") or why:find("pid %d")) then return "names no CPU, no task" end
    local named = why:find "cannot open [%w:_%- ]+ " or why:find "cannot count [%w:_%-]+ "
    if not named then return "names no event" end
  end
  local ring_named = why:find "cannot map a ring of %d+ KiB for %S"
  if name == "mmap" and not ring_named then return "names neither ring nor event" end
end

local injections, refused = 0, 0

-- One failure -> nil, or the mistake
local function inject(case, name, nth, errno)
  local k = new_kernel(case.with)
  k:fail(name, nth, errno, name == "perf_event_open" and errno == E.E2BIG and 112 or nil)
  injections = injections + 1
  local ok, why, raised = run(case, k)
  if injections % 64 == 0 then collectgarbage() end -- many: a step of each would walk the whole suite's heap
  -- A blocked signal cannot be unblocked if unblocking itself fails.
  if name == "sigblock" then k.blocked = 0 end
  local leaks = k:leaks()
  local wrong
  if raised then
    wrong = why
  elseif #leaks > 0 then
    wrong = "leaves " .. table.concat(leaks, ", ")
  elseif not ok then
    refused = refused + 1
    wrong = type(why) ~= "string" and "refused without a word" or blame(name, why, errno)
    wrong = wrong and wrong .. ": " .. tostring(why)
  end
  return wrong and ("%s no. %d, %s: %s"):format(name, nth, E[errno], wrong)
end

describe("if any one call fails, nothing stays open and the cause is reported:", function()
  for _, case in ipairs(sessions) do
    it(case[1], function()
      local k = new_kernel(case.with)
      local ok, why = run(case, k)
      assert.is_true(ok, why)
      assert.same({}, k:leaks())
      local wrong, number = {}, 0
      for _, call in ipairs(calls_of(k)) do
        for nth = 1, call[2] do
          for _, errno in ipairs(errnos_of(call[1])) do
            number = number + 1
            if number % STEP == 0 then wrong[#wrong + 1] = inject(case, call[1], nth, errno) end
          end
        end
      end
      assert.same({}, wrong)
    end)
  end

  it("in at least 1,000 injections", function()
    print(("%d injections, %d of them refused a session"):format(injections, refused))
    assert.is_true(injections >= 1000)
  end)
end)
