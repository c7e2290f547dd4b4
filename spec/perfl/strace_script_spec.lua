-- The script strace on the simulated kernel: each kind of line.

local json = require "spec.support.json"
local run = require "spec.support.run"

local machine = require "spec.support.worlds" [[
local sim = require "perfev.sim"
local k = sim.new { world = "vm", cpus = "0-1", tasks = { [7] = "app", [8] = "helper" } }
local function format(name, fields)
  local place = "/sys/kernel/tracing/events/syscalls/sys_enter_" .. name
  local text = "name: sys_enter\nformat:\n\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;\n"
  for field in (fields .. ";"):gmatch " *([^;]+);" do
    text = text .. "\tfield:" .. field .. ";\toffset:0;\tsize:8;\n"
  end
  k.files[place .. "/id"], k.files[place .. "/format"] = "900\n", text
end
format("openat", "int dfd; const char * filename; int flags; umode_t mode")
format("read", "unsigned int fd; char * buf; size_t count")
format("close", "unsigned int fd")
format("mmap", "unsigned long addr; unsigned long len; unsigned long prot; unsigned long flags; unsigned long fd; "
  .. "unsigned long off")
format("kill", "pid_t pid; int sig")
format("socket", "int family; int type; int protocol")
format("fcntl", "unsigned int fd; unsigned int cmd; unsigned long arg")
format("lseek", "unsigned int fd; off_t offset; unsigned int whence")
format("exit_group", "int error_code")
k:tracepoint("signal:signal_deliver", 902, "int sig; int errno; int code; unsigned long sa_handler; "
  .. "unsigned long sa_flags")
k:tracepoint("signal:signal_generate", 903, "int sig; int errno; int code; char comm[16]; pid_t pid; int group; "
  .. "int result")
local numbers = { read = 0, close = 3, mmap = 9, lseek = 8, socket = 41, fcntl = 72, openat = 257, kill = 62,
  exit_group = 231, rt_sigreturn = 15 }
function at(us, pid, record)
  k:after(us * 1000, function()
    record.pid, record.tid, record.type = pid, pid, record.type or "sample"
    k:ring(0):push(record)
  end)
end
local function enter(us, pid, name, ...)
  local values = { ... }
  for i = 1, 6 do values[i] = values[i] or 0 end
  at(us, pid, { event = "raw_syscalls:sys_enter", args = { id = numbers[name], args = values } })
end
local function leave(us, pid, name, ret)
  at(us, pid, { event = "raw_syscalls:sys_exit", args = { id = numbers[name], ret = ret } })
end
local function call(us, pid, ret, name, ...)
  enter(us, pid, name, ...)
  leave(us + 2, pid, name, ret)
end
local function deliver(us, pid, sig, code, handler)
  at(us, pid, { event = "signal:signal_deliver", args = { sig = sig, errno = 0, code = code, sa_handler = handler,
    sa_flags = 0 } })
end
local function finish(us, pid) at(us, pid, { type = "exit", ppid = 1, ptid = 1 }) end
]]

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function lines_of(events, ...)
  local lines = {}
  for line in machine.output(dir, events, "strace", ...):gmatch "[^\n]+" do lines[#lines + 1] = line end
  return lines
end

local AT_FDCWD = "0xffffff9c"

describe("strace", function()
  it("prints arguments by their types, with the names of flags, and results", function()
    assert.same({
      "openat(AT_FDCWD, 0x1000, O_RDONLY|O_CLOEXEC) = 3",
      "openat(AT_FDCWD, 0x1000, O_WRONLY|O_CREAT|O_TRUNC, 0644) = -1 EACCES (Permission denied)",
      "read(3, 0x2000, 832)                    = 832",
      "mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f0000000000",
      "mmap(0x7f0000000000, 4096, PROT_NONE, MAP_SHARED|MAP_FIXED|0x800000, 3, 0x1000) = 0x7f0000000000",
      "lseek(3, -1, SEEK_END)                  = -1 EINVAL (Invalid argument)",
      "socket(AF_INET, SOCK_STREAM|SOCK_CLOEXEC, 0) = 4",
      "fcntl(3, F_GETFL)                       = 0x8000 (flags O_RDONLY|O_LARGEFILE)",
      "fcntl(3, F_DUPFD_CLOEXEC, 10)           = 10",
      "kill(-7, SIGTERM)                       = 0",
      "close(3)                                = 0",
      "rt_sigreturn()                          = 0",
    }, lines_of([[
      call(10, 7, 3, "openat", ]] .. AT_FDCWD .. [[, 0x1000, 0x80000)
      call(20, 7, -13, "openat", ]] .. AT_FDCWD .. [[, 0x1000, 0x241, 0x1a4)
      call(30, 7, 832, "read", 3, 0x2000, 832)
      call(40, 7, 0x7f0000000000, "mmap", 0, 8192, 3, 0x22, 0xffffffff, 0)
      call(50, 7, 0x7f0000000000, "mmap", 0x7f0000000000, 4096, 0, 0x800011, 3, 0x1000)
      call(60, 7, -22, "lseek", 3, -1, 2)
      call(70, 7, 4, "socket", 2, 0x80001, 0)
      call(80, 7, 0x8000, "fcntl", 3, 3, 77)
      call(90, 7, 10, "fcntl", 3, 1030, 10)
      call(100, 7, 0, "kill", -7 & 0xffffffff, 15)
      call(110, 7, 0, "close", 3)
      call(120, 7, 0, "rt_sigreturn")]]))
  end)

  it("prints the time of a call with -T, and only failed calls with -Z", function()
    local calls = [[call(10, 7, 832, "read", 3, 0x2000, 832) call(20, 7, -9, "read", 9, 0x2000, 832)]]
    assert.same({ "read(3, 0x2000, 832)                    = 832 <0.000002>",
      "read(9, 0x2000, 832)                    = -1 EBADF (Bad file descriptor) <0.000002>" }, lines_of(calls, "-T"))
    assert.same({ "read(9, 0x2000, 832)                    = -1 EBADF (Bad file descriptor)" }, lines_of(calls, "-Z"))
    assert.same({ call = "read", unit = "ns", time = 2000, calls = 1, errors = 1 },
      json.decode((machine.output(dir, calls, "-j", "strace", "-c", "-Z"))))
  end)

  it("prints a call that another task interrupts in two parts, as strace -f", function()
    assert.same({ "[pid     7] read(3, 0x2000, 832 <unfinished ...>", "[pid     8] close(5)                    = 0",
      "[pid     7] <... read resumed>)         = 1" }, lines_of [[
      enter(10, 7, "read", 3, 0x2000, 832) call(20, 8, 0, "close", 5) leave(30, 7, "read", 1)]])
  end)

  it("prints signals, restarted calls, and how a task ends", function()
    assert.same({ "read(3, 0x2000, 832)                    = ? ERESTARTSYS (To be restarted if SA_RESTART is set)",
      "--- SIGUSR1 {si_signo=SIGUSR1, si_code=SI_USER} ---", "exit_group(3)                           = ?",
      "+++ exited with 3 +++" }, lines_of [[
      call(10, 7, -512, "read", 3, 0x2000, 832) deliver(20, 7, 10, 0, 0x4000)
      enter(30, 7, "exit_group", 3) finish(40, 7)]])
  end)

  it("names the fatal signal that the kernel delivers as SIGKILL", function()
    local killed = [[enter(10, 7, "kill", 7, 15)
      at(11, 7, { event = "signal:signal_generate", args = { sig = 15, errno = 0, code = 0, comm = "app", pid = 7,
        group = 1, result = 0 } })
      leave(12, 7, "kill", 0) deliver(13, 7, 9, 0, 0) finish(20, 7)]]
    assert.same({ "kill(7, SIGTERM)                        = 0", "--- SIGTERM {si_signo=SIGTERM, si_code=SI_USER} ---",
      "+++ killed by SIGTERM +++" }, lines_of(killed))
    assert.same({ "close(3)                                = 0", "+++ killed +++" },
      lines_of [[call(10, 7, 0, "close", 3) deliver(13, 7, 9, 0, 0) finish(20, 7)]])
  end)

  it("selects calls by name, by class, and by what they are not", function()
    local calls = [[call(10, 7, 3, "openat", 5, 0x1000, 0) call(20, 7, 0, "read", 3, 0, 1) call(30, 7, 0, "close", 3)
      call(40, 7, 4, "socket", 2, 1)]]
    local function names_of(...)
      local names = {}
      for i, line in ipairs(lines_of(calls, ...)) do names[i] = line:match "^%l+" end
      return table.concat(names, " ")
    end
    assert.equal("openat read", names_of("-e", "trace=openat,read"))
    assert.equal("openat", names_of("-e", "%file"))
    assert.equal("openat read close", names_of("-e", "trace=%desc"))
    assert.equal("openat read socket", names_of("-e", "!close"))
    assert.equal("close", names_of("--trace=close,?no_such_call"))
    local r = run { run.perfl, "--sim", machine.path(dir, calls), "-a", "strace", "-e", "trace=opne" }
    assert.same({ 2, "strace: -e trace=opne: 'opne' is not a system call or one of %desc, %file, %ipc, %memory, "
      .. "%network, %process, %signal\n  try: -e open\n" }, { r.code, r.err })
    r = run { run.perfl, "--sim", machine.path(dir, calls), "-a", "strace", "-e", "network" }
    assert.matches("\n  try: %-e %%network\n$", r.err)
    r = run { run.perfl, "--sim", machine.path(dir, calls), "-a", "strace", "-e", "!" }
    assert.same({ 2, "strace: -e: it names no system call\n  try: -e open,read\n" }, { r.code, r.err })
  end)

  it("prints the begin of a call that is older than the run as resumed", function()
    assert.same({ "<... read resumed>)                     = 5" }, lines_of [[leave(10, 7, "read", 5)]])
  end)

  it("adds up the calls with -c", function()
    local calls = [[call(10, 7, 1, "read", 3, 0, 1) call(20, 7, -9, "read", 9, 0, 1) call(30, 7, 0, "close", 3)]]
    assert.same({ "% time     seconds  usecs/call     calls    errors syscall",
      "------ ----------- ----------- --------- --------- ----------------",
      " 66.67    0.000004           2         2         1 read",
      " 33.33    0.000002           2         1           close",
      "------ ----------- ----------- --------- --------- ----------------",
      "100.00    0.000006           2         3         1 total" }, lines_of(calls, "-c"))
    local first = json.decode(machine.output(dir, calls, "-j", "strace", "-c"):match "^[^\n]*")
    assert.same({ call = "read", unit = "ns", time = 4000, calls = 2, errors = 1 }, first)
  end)
end)

describe("strace -y", function()
  local link = 'k.links = k.links or {} k.links["/proc/7/fd/%d"] = "%s" '

  it("prints the files of descriptors, as long as they are known to be those of the call", function()
    assert.same({ "read(5</etc/passwd>, 0x2000, 1)         = 1", "close(5</etc/passwd>)                   = 0",
      "openat(3<?>, 0x1000, O_RDONLY)          = 5<?>", "read(5<?>, 0x2000, 1)                   = 1" },
      lines_of(link:format(5, "/etc/passwd") .. [[
        call(10, 7, 1, "read", 5, 0x2000, 1) call(20, 7, 0, "close", 5)
        k:after(21000, function() k.links["/proc/7/fd/5"] = nil end)
        call(30, 7, 5, "openat", 3, 0x1000, 0) call(40, 7, 1, "read", 5, 0x2000, 1)]], "-y"))
  end)

  -- All records are read at once, when descriptor 5 is another file than in the first two calls.
  it("does not show the file of a descriptor that changed before it was looked up", function()
    assert.same({ "read(5<?>, 0x2000, 1)                   = 1", "close(5<?>)                             = 0",
      "openat(3<?>, 0x1000, O_RDONLY)          = 5</etc/group>", "read(5</etc/group>, 0x2000, 1)          = 1" },
      lines_of(link:format(5, "/etc/group") .. [[
        local real = at
        at = function(us, pid, record)
          record.time = k.now + us * 1000
          real(100, pid, record)
        end
        call(10, 7, 1, "read", 5, 0x2000, 1) call(20, 7, 0, "close", 5)
        call(30, 7, 5, "openat", 3, 0x1000, 0) call(40, 7, 1, "read", 5, 0x2000, 1)]], "-y"))
  end)

  it("does not show the file of a call that was read late", function()
    assert.same({ "read(5<?>, 0x2000, 1)                   = 1" }, lines_of(link:format(5, "/etc/group") .. [[
      local real = at
      at = function(_, pid, record)
        record.time = k.now
        real(6000, pid, record)
      end
      call(10, 7, 1, "read", 5, 0x2000, 1)]], "-y"))
  end)
end)
