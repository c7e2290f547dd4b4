-- The simulated kernel behaves like the kernel: rings, wakeups, refusals, tasks, worlds.

local core = require "perfev.core"
local perfev = require "perfev"
local run = require "spec.support.run"
local sim = require "perfev.sim"

local E = perfev.errno
local PAGE, HEAD, TAIL = 4096, 1024, 1032
local RW, READ_ONLY = 3, 1
local POLLIN, POLLHUP = 1, 16
local IDS = { "identifier", "tid", "time", "cpu" }

local k

-- An event of k's, opened through its hooks as perfev would -> event, fd | nil, errno
local function open(fields, pid, cpu, group_fd, flags)
  local attr = core.attr_parse(core.attr_new(fields):bytes())
  local fd, errno = k.hooks.perf_event_open(attr, pid or -1, cpu or 0, group_fd or -1, flags or 0)
  if not fd then return nil, errno end
  return k.fds[fd], fd
end

local function clock(more)
  local fields = { type = 1, config = 0, sample_period = 1000, sample_type = IDS, sample_id_all = true }
  for name, value in pairs(more or {}) do fields[name] = value end
  return fields
end

-- One with a ring of so many pages.
local function mapped(fields, pages, prot)
  local event, fd = open(fields)
  assert(event, E[fd])
  assert(k.hooks.mmap(PAGE * (1 + (pages or 1)), prot or RW, fd, 0))
  return event, fd
end

-- A record of that size; its type is the sample's (9) or that of a comm (3).
local function record(size, number)
  return string.pack("=I4I2I2", number or 9, 0, size) .. ("x"):rep(size - 8)
end

local function head(event) return event.ring.memory:u64(HEAD) end
local function read_all(event) event.ring.memory:u64(TAIL, head(event)) end

local function refused(errno, fields, ...)
  local event, got = open(fields, ...)
  assert.is_nil(event)
  assert.equal(E[errno], E[got] and got)
end

before_each(function() k = sim.new() end)
after_each(function() perfev.hooks.clear() end)

describe("a simulated ring", function()
  it("keeps one byte free, so that 170 records of 24 bytes fit in a page", function()
    local event = mapped(clock())
    for _ = 1, 170 do assert.is_true(k:push(event, record(24))) end
    assert.is_false(k:push(event, record(24)))
    assert.equal(4080, head(event))
  end)

  it("counts lost records, and reports them before the next record with room", function()
    local event = mapped(clock())
    for _ = 1, 173 do k:push(event, record(24)) end
    assert.equal(3, event.lost)
    read_all(event)
    local before = head(event)
    assert.is_true(k:push(event, record(24)))
    local told = event.ring.memory:read(PAGE + before % PAGE, 16) .. event.ring.memory:read(PAGE, 16)
    assert.equal(2, string.unpack("=I4", told)) -- PERF_RECORD_LOST
    assert.equal(0, event.ring.lost)
  end)

  it("counts records as lost while output is paused", function()
    local event, fd = mapped(clock())
    assert.equal(0, k.hooks.ioctl(fd, "PAUSE_OUTPUT", 1))
    assert.is_false(k:push(event, record(24)))
    assert.equal(0, head(event))
    k.hooks.ioctl(fd, "PAUSE_OUTPUT", 0)
    assert.is_true(k:push(event, record(24)))
    assert.equal(1, event.lost)
  end)

  it("that is mapped read-only ignores the tail", function()
    local event = mapped(clock(), 1, READ_ONLY)
    for _ = 1, 300 do assert.is_true(k:push(event, record(24))) end
    assert.equal(7200, head(event))
    assert.equal(0, event.lost)
  end)

  it("that is written backward counts down from 0, with the newest record at head", function()
    local event = mapped(clock { write_backward = true }, 1, READ_ONLY)
    for i = 1, 3 do k:push(event, record(24, 60 + i)) end
    assert.equal(-72, head(event))
    local at = PAGE + (head(event) & (PAGE - 1))
    assert.equal(63, (string.unpack("=I4", event.ring.memory:read(at, 4))))
    assert.equal(61, (string.unpack("=I4", event.ring.memory:read(at + 48, 4))))
  end)

  it("can split a record at its end, but not a header", function()
    local event = mapped(clock())
    for _ = 1, 4 do
      k:push(event, record(1016))
      read_all(event)
    end
    k:push(event, string.pack("=I4I2I2", 9, 0, 64) .. ("ab"):rep(28))
    assert.equal(record(32):sub(1, 8):sub(1, 4), event.ring.memory:read(PAGE + 4064, 4))
    assert.equal(("ab"):rep(16), event.ring.memory:read(PAGE, 32))
  end)
end)

-- Table: when is the ring signalled? [attr fields] -> after which of 10 records of 408 bytes.
describe("a simulated ring's reader is woken", function()
  local function wakeups(fields, number, size)
    local event, woken = mapped(clock(fields)), {}
    for i = 1, 10 do
      k:push(event, record(size or 408, number))
      if event.ring:poll() then woken[#woken + 1] = i end
    end
    return woken
  end

  it("at half the ring without any setting", function()
    assert.same({ 6 }, wakeups {})
    assert.same({ 6 }, wakeups { watermark = true })
  end)

  it("after a number of samples, not counting side-band records", function()
    assert.same({ 4, 8 }, wakeups({ wakeup_events = 4 }, 9, 24))
    assert.same({}, wakeups({ wakeup_events = 1 }, 3, 24))
  end)

  it("after a number of bytes, at most the ring's", function()
    assert.same({ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 }, wakeups { watermark = true, wakeup_watermark = 1 })
    assert.same({ 3, 5, 8, 10 }, wakeups { watermark = true, wakeup_watermark = 1000 })
    assert.same({}, wakeups { watermark = true, wakeup_watermark = 1 << 20 })
  end)

  it("by a flag that is cleared when it is read", function()
    local event, fd = mapped(clock { watermark = true, wakeup_watermark = 1 })
    local epfd = k.hooks.epoll_create()
    k.hooks.epoll_ctl(epfd, 1, fd, POLLIN, 77)
    k:push(event, record(24))
    assert.same({ { POLLIN, 77 } }, k.hooks.epoll_wait(epfd, 8, 0))
    assert.same({}, k.hooks.epoll_wait(epfd, 8, 0))
  end)

  it("by a hangup without POLLIN when the task ends, or at once without a ring", function()
    local event, fd = open(clock(), 42, 0)
    local epfd = k.hooks.epoll_create()
    k.hooks.epoll_ctl(epfd, 1, fd, POLLIN, 1)
    assert.same({ { POLLHUP, 1 } }, k.hooks.epoll_wait(epfd, 8, 0))
    k.hooks.mmap(2 * PAGE, RW, fd, 0)
    k:push(event, record(3000))
    k:exit(42)
    for _ = 1, 2 do assert.same({ { POLLHUP, 1 } }, k.hooks.epoll_wait(epfd, 8, 0)) end
  end)
end)

describe("a simulated mapping", function()
  it("is 1 + 2^n pages, or only the page", function()
    local _, fd = open(clock())
    for _, len in ipairs { 0, 100, PAGE + 100, 4 * PAGE, 1 << 13 | 1 } do
      assert.same({ nil, E.EINVAL }, { k.hooks.mmap(len, RW, fd, 0) })
    end
    assert.is_truthy(k.hooks.mmap(PAGE, RW, fd, 0))
    _, fd = open(clock())
    assert.is_truthy(k.hooks.mmap(9 * PAGE, RW, fd, 0))
  end)

  it("is refused for redirected output, for an inherited event on any CPU, and beyond mlock", function()
    local _, owner = mapped(clock())
    local _, fd = open(clock())
    k.hooks.ioctl(fd, "SET_OUTPUT", owner)
    assert.same({ nil, E.EBUSY }, { k.hooks.mmap(2 * PAGE, RW, fd, 0) })
    _, fd = open(clock { inherit = true }, 42, -1)
    assert.same({ nil, E.EINVAL }, { k.hooks.mmap(2 * PAGE, RW, fd, 0) })
    k.mlock = PAGE
    _, fd = open(clock())
    assert.same({ nil, E.EPERM }, { k.hooks.mmap(3 * PAGE, RW, fd, 0) })
  end)

  it("of an AUX area has the reader's offset, and wraps", function()
    k = sim.new { world = "intel_hybrid" }
    local event, fd = open({ type = 9, sample_type = IDS, sample_id_all = true }, 42, 0)
    local page = k.hooks.mmap(2 * PAGE, RW, fd, 0)
    assert.same({ nil, E.EINVAL }, { k.hooks.mmap(PAGE, RW, fd, 2 * PAGE) })
    page:u64(1072, 2 * PAGE)
    page:u64(1080, PAGE)
    local area = assert(k.hooks.mmap(PAGE, RW, fd, 2 * PAGE))
    assert.is_true(k:aux(event, ("a"):rep(PAGE - 2)))
    page:u64(1064, PAGE - 2)
    assert.is_true(k:aux(event, "wxyz"))
    assert.equal("wx", area:read(PAGE - 2, 2))
    assert.equal("yz", area:read(0, 2))
    assert.equal(PAGE + 2, page:u64(1056))
    assert.is_true(head(event) > 0)
  end)
end)

describe("a simulated event", function()
  it("redirects its output to an event of the same CPU, clock and direction, and back", function()
    local owner, to = mapped(clock())
    local event, fd = open(clock())
    assert.equal(0, k.hooks.ioctl(fd, "SET_OUTPUT", to))
    assert.equal(0, k.hooks.ioctl(fd, "SET_OUTPUT", to)) -- again is no fault
    assert.equal(owner.ring, event.ring)
    assert.equal(0, k.hooks.ioctl(fd, "SET_OUTPUT", -1))
    assert.is_nil(event.ring)
    local function wrong(fields, cpu)
      local _, other = open(fields, -1, cpu)
      return { k.hooks.ioctl(other, "SET_OUTPUT", to) }
    end
    assert.same({ nil, E.EINVAL }, wrong(clock(), 1))
    assert.same({ nil, E.EINVAL }, wrong(clock { use_clockid = true, clockid = 1 }))
    assert.same({ nil, E.EINVAL }, wrong(clock { write_backward = true }))
    assert.same({ nil, E.EINVAL }, { k.hooks.ioctl(to, "SET_OUTPUT", fd) }) -- it has a ring of its own
    assert.same({ nil, E.EINVAL }, { k.hooks.ioctl(fd, "SET_OUTPUT", fd) })
    assert.same({ nil, E.EBADF }, { k.hooks.ioctl(fd, "SET_OUTPUT", 99) })
  end)

  it("counts while it is enabled, and measures the time", function()
    local format = { "total_time_enabled", "total_time_running", "id" }
    local event, fd = open(clock { read_format = format, disabled = true })
    k:advance_to(k.now + 5)
    k.hooks.ioctl(fd, "ENABLE", 0)
    k:advance_to(k.now + 70)
    k:count(event, 3)
    event.share = 0.5
    k.hooks.ioctl(fd, "DISABLE", 0)
    k:advance_to(k.now + 1000)
    k:count(event, 100)
    assert.equal(string.pack("=I8I8I8I8", 3, 70, 35, event.id), k.hooks.read(fd, 32))
    assert.same({ nil, E.ENOSPC }, { k.hooks.read(fd, 24) })
    event.failed = true -- pinned, and no counter was free
    assert.equal("", k.hooks.read(fd, 32))
  end)

  it("is read together with its group, and enabled with it", function()
    local format = { read_format = { "group", "id" } }
    local leader, fd = open(clock(format))
    local member = open(clock(format), -1, 0, fd)
    leader.value, member.value = 7, 8
    assert.equal(string.pack("=I8I8I8I8I8", 2, 7, leader.id, 8, member.id), k.hooks.read(fd, 64))
    k.hooks.ioctl(fd, "DISABLE", 1)
    assert.is_false(member.enabled)
    k.hooks.ioctl(fd, "RESET", 1)
    assert.equal(0, member.value)
    refused("EINVAL", clock(), -1, 1, fd) -- on another CPU
    refused("EINVAL", clock(), -1, 0, member.fd) -- a member is not a leader
    refused("EBADF", clock(), -1, 0, 99)
  end)

  it("stops after the number of samples in REFRESH", function()
    local event, fd = mapped(clock { disabled = true })
    assert.equal(0, k.hooks.ioctl(fd, "REFRESH", 2))
    for _ = 1, 3 do k:emit(event, "sample", {}) end
    assert.is_false(event.enabled)
    assert.equal(2, event.value)
    local _, counting = open { type = 1, config = 0 }
    assert.same({ nil, E.EINVAL }, { k.hooks.ioctl(counting, "REFRESH", 2) })
    assert.same({ nil, E.EINVAL }, { k.hooks.ioctl(fd, "PERIOD", 0) })
    assert.same({ nil, E.EINVAL }, { k.hooks.ioctl(counting, "PERIOD", 5) })
    assert.same({ nil, E.EINVAL }, { k.hooks.ioctl(counting, "PAUSE_OUTPUT", 1) })
    assert.same({ nil, E.ENOTTY }, { k.hooks.ioctl(fd, "?", 1) })
    assert.same({ nil, E.EBADF }, { k.hooks.ioctl(99, "ENABLE", 0) })
  end)

  it("accepts one filter and one program", function()
    local _, fd = open { type = 2, config = 5 }
    k.programs = { [30] = 4711 }
    assert.equal(0, k.hooks.ioctl(fd, "SET_FILTER", "a > 1"))
    assert.same({ nil, E.EEXIST }, { k.hooks.ioctl(fd, "SET_FILTER", "a > 2") })
    assert.same({ nil, E.EBADF }, { k.hooks.ioctl(fd, "SET_BPF", 31) })
    assert.same({}, k.hooks.ioctl(fd, "QUERY_BPF", 8))
    assert.equal(0, k.hooks.ioctl(fd, "SET_BPF", 30))
    assert.same({ nil, E.EEXIST }, { k.hooks.ioctl(fd, "SET_BPF", 30) })
    assert.same({ 4711 }, k.hooks.ioctl(fd, "QUERY_BPF", 8))
    assert.same({ nil, E.EOPNOTSUPP }, { k.hooks.ioctl(fd, "MODIFY_ATTRIBUTES", core.attr_new { type = 2 }) })
  end)
end)

describe("a simulated world", function()
  before_each(function() k = sim.new { world = "vm", cpus = "0-1,4" } end)

  it("refuses the same calls as the kernel", function()
    refused("EINVAL", clock(), -1, -1)
    refused("EINVAL", clock(), -1, 5)
    refused("EINVAL", clock(), 42, -5)
    refused("ENODEV", clock(), -1, 3)
    refused("ESRCH", clock(), -2, 0)
    refused("ESRCH", clock(), 4711, 0)
    refused("EINVAL", clock(), -1, 0, -1, 1 << 7)
    refused("EINVAL", clock(), 42, -1, -1, 4) -- PID_CGROUP
    refused("ENOENT", { type = 42 })
    refused("ENOENT", { type = 0, config = 0 }) -- no PMU in this machine
    refused("ENOENT", { type = 1, config = 4711 })
    refused("EINVAL", { type = 2, config = 9999 })
    refused("EINVAL", { type = 1, freq = true, sample_freq = 100001 })
    refused("EINVAL", clock { sample_type = { "weight", "weight_struct" } })
    refused("EOPNOTSUPP", clock { sample_type = { "branch_stack" }, branch_sample_type = { "any", "user" } })
    refused("EOVERFLOW", clock { sample_type = { "callchain" }, sample_max_stack = 128 })
    refused("EINVAL", clock { sample_type = { "stack_user" }, sample_stack_user = 65536 })
    assert.is_truthy(open(clock(), 42, -1))
    assert.is_truthy(open(clock { pinned = true }))
  end)

  it("has four breakpoints per CPU", function()
    local breakpoint = { type = 5, bp_type = 2, bp_addr = 0x1000, bp_len = 8 }
    for _ = 1, 4 do assert.is_truthy(open(breakpoint)) end
    refused("ENOSPC", breakpoint)
    assert.is_truthy(open(breakpoint, -1, 1))
  end)

  it("of an older release refuses newer features, and reports its attr's size", function()
    k = sim.new { world = "vm", release = "5.4" }
    refused("E2BIG", { type = 1, config3 = 7 })
    refused("EINVAL", clock { sample_type = { "cgroup" } })
    refused("EINVAL", { type = 1, read_format = { "lost" } })
    refused("EINVAL", { type = 1, build_id = true, mmap2 = true, mmap = true })
    assert.is_truthy(open(clock { sample_type = { "phys_addr" } }))
  end)

  it("applies kernel.perf_event_paranoid to a user without capabilities", function()
    k = sim.new { world = "unprivileged" }
    refused("EACCES", clock(), 0, -1)
    assert.is_truthy(open(clock { exclude_kernel = true }, 0, -1))
    refused("EACCES", clock { exclude_kernel = true }) -- a whole CPU
    refused("EACCES", clock { exclude_kernel = true }, 42, 0) -- another session's
    refused("EACCES", clock { exclude_kernel = true, namespaces = true }, 0, -1)
    k = sim.new { world = "locked_down" }
    refused("EACCES", clock { exclude_kernel = true }, 0, -1)
    assert.same({ nil, E.EACCES }, { k.hooks.list "/sys/kernel/tracing/events" })
  end)

  it("exists for several machines, with their PMUs", function()
    assert.same({ "amd", "arm64", "intel_hybrid", "locked_down", "s390x", "unprivileged", "vm" }, sim.worlds)
    local pmus = {}
    for _, name in ipairs(sim.worlds) do
      k = sim.new { world = name }
      pmus[name] = table.concat(k.hooks.list "/sys/bus/event_source/devices", " ")
      assert.is_truthy(k.files["/proc/sys/kernel/perf_event_paranoid"])
    end
    assert.equal("breakpoint software tracepoint", pmus.vm)
    assert.matches("cpu_atom cpu_core intel_pt power", pmus.intel_hybrid)
    assert.matches("amd_df breakpoint cpu ibs_fetch ibs_op", pmus.amd)
    assert.matches("arm_spe_0 armv8_cortex_a55 armv8_cortex_a76", pmus.arm64)
    assert.matches("cpum_cf cpum_sf pai_crypto", pmus.s390x)
    k = sim.new { world = "intel_hybrid" }
    assert.is_truthy(open { type = 0, config = 0 })
    refused("EOPNOTSUPP", { type = 23, config = 2, sample_period = 1 }) -- RAPL has no interrupt
    refused("EINVAL", { type = 23, config = 2 }, 42, 0)
  end)

  it("refuses unknown options", function()
    assert.error_matches(function() sim.new { cpu = "0" } end, "unknown option 'cpu' %(did you mean 'cpus'%?%)")
    assert.error_matches(function() sim.new {}:fail("mmpa", 1, 12) end, "no call is named 'mmpa' %(did you mean 'mmap'")
    assert.error_matches(function() sim.new { world = "vn" } end, "no world is called 'vn' %(did you mean 'vm'%?%)")
  end)
end)

describe("in a simulated kernel", function()
  local got

  local function listen(spec, opts)
    got = {}
    perfev.hooks.set(k.hooks)
    opts = opts or {}
    opts.duration, opts.buffer = "200ms", "16K"
    local s = perfev.session(opts)
    for _, name in ipairs { "sample", "comm", "switch", "mmap", "fork", "exit" } do
      if spec[name] then
        spec[name] = function(r, args) got[#got + 1] = { r.type, r.cpu, r.tid, args = args, r = r:copy() } end
      end
    end
    s:event(spec)
    return s
  end

  it("a record reaches every event that requests it, on its CPU", function()
    local s = listen { "dummy", comm = true, switch = true }
    k:after("10ms", function()
      assert.is_true(k:ring(1):push { type = "comm", pid = 7, comm = "cat" } > 0)
      assert.equal(1, k:ring(0):push { type = "switch", pid = 8, out = true })
      assert.equal(0, k:ring(0):push { type = "mmap", pid = 8, addr = 0, len = 1, pgoff = 0, filename = "x" })
    end)
    assert(s:run())
    assert.equal(2, #got)
    assert.same({ "switch", 0, 8 }, { got[1][1], got[1][2], got[1][3] })
    assert.is_true(got[1].r.out)
    assert.same({ "comm", 1, 7 }, { got[2][1], got[2][2], got[2][3] })
    assert.equal("cat", got[2].r.comm)
  end)

  it("a tracepoint's payload is packed from named fields", function()
    k = sim.new { world = "vm", tracepoints = {
      ["fs:opened"] = { 900, "char who[8]; u64 ino; __data_loc char[] name; short flags" } } }
    local seen
    perfev.hooks.set(k.hooks)
    local s = perfev.session { duration = "100ms", buffer = "16K" }
    s:event { "fs:opened", sample = function(r, a)
      seen = { r.pid, a.who, a.ino, a.name, a.flags, a.common_pid }
    end }
    k:after("10ms", function()
      local args = { who = "me", ino = 77, name = "/etc/passwd", flags = -2 }
      assert.equal(1, k:ring(1):push { type = "sample", event = "fs:opened", pid = 9, args = args })
      assert.equal(0, k:ring(1):push { type = "sample", event = "fs:closed", pid = 9 })
      assert.error_matches(function()
        k:ring(1):push { type = "sample", event = "fs:opened", args = { whom = 1 } }
      end, "tracepoint fs:opened has no field 'whom'")
    end)
    assert(s:run())
    assert.same({ 9, "me", 77, "/etc/passwd", -2, 9 }, seen)
  end)

  it("a record must have a known type", function()
    assert.error_matches(function() k:ring(0):push { type = "comn" } end, "no record is called 'comn'")
  end)

  it("a record is lost if a ring is full, and the session counts it", function()
    local s = listen({ "dummy", comm = true }, { cpus = { 0 } })
    k:after("10ms", function()
      for i = 1, 1000 do k:ring(0):push { type = "comm", pid = i, comm = "c" } end
    end)
    k:after("150ms", function() k:ring(0):push { type = "comm", pid = 1, comm = "last" } end)
    assert(s:run())
    local stats = s:totals()
    assert.is_true(stats.lost > 0)
    assert.equal(1001, #got + stats.lost)
  end)

  it("a command of the session can push records", function()
    local argv
    k.command = function(child)
      argv = child.argv
      k:after("20ms", function() k:ring(0):push { type = "comm", pid = child.pid, comm = "x" } end)
      k:after("30ms", function() k:end_child(child.pid, 3 << 8) end)
    end
    local s = listen({ "dummy", comm = true }, { command = { "make", "all" } })
    assert(s:run())
    assert.same({ "make", "all" }, argv)
    assert.equal(1, #got)
    assert.same({ exit = 3 }, s.command_status)
    assert.same({}, k:leaks())
  end)

  it("an hour passes at once", function()
    k:with(function()
      local n = 0
      local s = perfev.session { duration = "1h", buffer = "16K" }
      s:event { "dummy" }
      s:every("1m", function() n = n + 1 end)
      assert(s:run())
      assert.is_true(n >= 59)
    end)
  end)

  it("open resources are listed as leaks", function()
    local s = k:with(function()
      local s = perfev.session { buffer = "16K", cpus = { 0 }, command = { "x" } }
      s:event { "dummy" }
      assert(s:start())
      return s
    end)
    local leaks = table.concat(k:leaks(), " ")
    for _, kind in ipairs { "event", "epoll", "mapping of", "child 5001", "timer" } do assert.matches(kind, leaks) end
    s:close()
    assert.same({}, k:leaks())
  end)

  it("the n-th call can be made to fail, with the size for E2BIG", function()
    local sizes, real = {}, k.hooks.perf_event_open
    k.hooks.perf_event_open = function(attr, ...)
      local fd, errno = real(attr, ...)
      sizes[#sizes + 1] = attr.size
      return fd, errno
    end
    k:fail("perf_event_open", 2, E.E2BIG, 112)
    k:with(function()
      local s = perfev.session { buffer = "16K" }
      s:event { "dummy" }
      local ok, why, errno = s:start()
      assert.is_nil(ok)
      assert.equal(E.E2BIG, errno)
      assert.matches("cannot open dummy on cpu 1", why)
    end)
    assert.same({}, k:leaks())
    assert.equal(3, k.counts.perf_event_open) -- two, and one more to find out why
  end)
end)

describe("perfl --sim", function()
  local dir
  before_each(function() dir = run.tempdir() end)
  after_each(function() run.remove(dir) end)

  local function file(name, text)
    return run.write_file(dir .. "/" .. name, text)
  end

  local world = [[
    local sim = require "perfev.sim"
    local k = sim.new { world = "vm" }
    k:every("10ms", 3, function(i)
      local args = { comm = "task" .. i, pid = i }
      k:ring(i % 2):push { type = "sample", event = "sched:sched_wakeup", pid = i, args = args }
    end)
    return k]]

  it("runs a user's script unchanged on a world from a file", function()
    local script = file("woken.lua", [[
      local perfev = require "perfev"
      perfev.event { "sched:sched_wakeup", sample = function(r, a) print(r.cpu, a.comm, a.pid) end }
      perfev.done(function() print "done" end)]])
    local r = run({ run.perfl, "--sim", file("world.lua", world), "-a", script })
    assert.equal("1\ttask1\t1\n0\ttask2\t2\n1\ttask3\t3\ndone\n", r.out, r.err)
    assert.equal(0, r.code)
    assert.matches("3 records, 0 lost", r.err)
  end)

  it("ends, with its command, when no more records are due", function()
    local text = 'event { "dummy", comm = print } done(function() print "done" end)'
    local r = run({ run.perfl, "--sim", "vm", "-e", text, "--", "sleep", "1000" })
    assert.equal("done\n", r.out, r.err)
    assert.equal(0, r.code)
  end)

  it("runs stat, which counts each of its -e events", function()
    local r = run { run.perfl, "-q", "--sim", "vm", "-a", "-d", "1s", "stat", "-x,", "-e", "cs", "-e", "faults,dummy" }
    assert.equal(0, r.code, r.err)
    assert.matches("^[^\n]*,cs,[^\n]*\n[^\n]*,faults,[^\n]*\n[^\n]*,dummy,[^\n]*\n$", r.out)
  end)

  it("runs stat, which prints its target", function()
    for words, whose in pairs { ["-a"] = "'system wide'", ["-C 0"] = "'sleep 9'", [""] = "'sleep 9'" } do
      local r = run(("%s -q --sim vm -d 1s %s stat -e cs -- sleep 9"):format(run.quote(run.perfl), words))
      assert.matches("^\n Performance counter stats for " .. whose .. ":\n", r.out)
    end
  end)

  it("refuses like the simulated kernel, with the cause", function()
    local r = run({ run.perfl, "--sim", "locked_down", "-a", "-e", 'event { "cpu-clock", sample = print }' })
    assert.equal(1, r.code)
    assert.matches("cannot open cpu%-clock on cpu 0: Permission denied %(EACCES%)\n"
      .. "  kernel.perf_event_paranoid is 4", r.err)
  end)

  it("reports a mistake in the file of a world", function()
    local function said(text)
      return run({ run.perfl, "--sim", file("w.lua", text), "-a", "-e", "event { 'dummy' }" }).err
    end
    assert.matches("w.lua:1: boom", said "error 'boom'")
    assert.matches("does not return a simulated kernel", said "return 5")
    assert.matches("unknown option 'cpuss'", said "return { cpuss = '0' }")
    assert.matches("w.lua:1:", said "return {")
    local none = run({ run.perfl, "--sim", "no-such", "-a", "-e", "" }).err
    assert.matches("perfl: %-%-sim no%-such: cannot read.*No such file.*\n  built%-in worlds: amd, ", none)
  end)
end)

describe("perfl --trace-sys", function()
  it("prints every call and its result on standard error, like strace", function()
    local r = run { run.perfl, "--sim", "vm", "--trace-sys", "-a", "-e", "event { 'cpu-clock', freq = 99 }" }
    assert.equal(0, r.code, r.err)
    assert.matches("\nperf_event_open%({type=1, size=96, config=0x0, sample_freq=99, sample_type=0x%x+, .-freq=1, .-}, "
      .. "pid=%-1, cpu=0, group_fd=%-1, flags=0x8%) = %d+\n", r.err)
    assert.matches("\nioctl%(%d+, ENABLE, 0%) = 0\n", r.err)
    assert.matches("\nmmap%(2101248, prot=3, fd=%d+, offset=0%) = 0\n", r.err)
    assert.matches('slurp%("/sys/devices/system/cpu/online"%) = 0\n', r.err)
  end)
end)

describe("doc/testing.md", function()
  -- Every ```lua block that begins with a comment naming a file is that file.
  local function blocks()
    local f = assert(io.open "doc/testing.md")
    local text, files = f:read "a", {}
    f:close()
    for block in text:gmatch "```lua\n(.-)```" do
      local name = block:match "^%-%- ([%w_]+%.lua)"
      if name then files[name] = block end
    end
    return files
  end

  it("has a complete working example: script, world and spec", function()
    local files, dir = blocks(), run.tempdir()
    for name, text in pairs(files) do
      run.write_file(dir .. "/" .. name, text)
    end
    for _, name in ipairs { "switchcount.lua", "switches.lua", "world.lua", "switches_spec.lua",
      "order_spec.lua" } do
      assert.is_truthy(files[name], name)
    end
    local r = run({ run.perfl, "--sim", dir .. "/world.lua", "-a", dir .. "/switches.lua" })
    assert.equal(0, r.code, r.err)
    assert.equal("editor 2\nshell 1\n", r.out)
    local tried, failures, path = 0, {}, package.path
    package.path = dir .. "/?.lua;" .. path
    local busted = setmetatable({
      describe = function(_, f) f() end,
      it = function(name, f)
        tried = tried + 1
        local ok, why = pcall(f)
        if not ok then failures[#failures + 1] = name .. ": " .. tostring(why) end
      end,
    }, { __index = _G })
    for _, name in ipairs { "switches_spec.lua", "order_spec.lua" } do
      assert(loadfile(dir .. "/" .. name, "t", busted))()
    end
    package.path = path
    run.remove(dir)
    assert.same({}, failures)
    assert.equal(4, tried)
  end)
end)
