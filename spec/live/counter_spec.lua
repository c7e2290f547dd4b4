-- Counters on the real kernel: it accepts each request, and counts a known number of events.

local perfev = require "perfev"
local process, no_poll = require("spec.support.process").load()
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local E = perfev.errno
local PAGE = perfev.hooks.real.pagesize()

local function own(spec)
  spec.tid, spec.inherit = "self", false
  local c, why = perfev.counter(spec)
  if not c then pending(why) end
  return c
end

-- As many pages written to for the first time: shared ones, which no allocator has had before.
local function touch(pages)
  local fd = assert(perfev.hooks.real.open("/dev/zero", 2)) -- O_RDWR
  local memory = assert(perfev.hooks.real.mmap(pages * PAGE, 3, fd, 0))
  for i = 0, pages - 1 do memory:u64(i * PAGE, 1) end
  perfev.hooks.real.munmap(memory, pages * PAGE)
  perfev.hooks.real.close(fd)
end

local function needs_root()
  if not run.root then pending("needs root") end
end

local function needs_tracefs()
  needs_root()
  if not run.capture "test -r /sys/kernel/tracing/events/raw_syscalls/sys_enter/id && echo yes" then
    pending("no tracefs is mounted")
  end
end

describe("a counter of this thread", function()
  it("counts page faults, and the same in every read_format", function()
    local formats, cs = {}, {}
    for format = 0, 31 do
      local spec = { "page-faults", read_format = format, disabled = true }
      spec.tid, spec.inherit = "self", false
      local c, why, code = perfev.counter(spec)
      if c then
        formats[#formats + 1], cs[#cs + 1] = format, c
      else
        assert.equal(16, format & 16, why) -- FORMAT_LOST is of 6.0
        assert.equal(E.EINVAL, code)
      end
    end
    perfev.task_enable()
    touch(100)
    perfev.task_disable()
    local first = cs[1]:read()["page-faults"]
    assert.is_true(first >= 100, first)
    for i, c in ipairs(cs) do
      assert.equal(first, c:read().raw["page-faults"], "read_format " .. formats[i])
      c:close()
    end
  end)

  it("runs during all of the time that it is enabled", function()
    local c = own { "task-clock", "page-faults" }
    touch(10)
    local r = c:read()
    assert.equal(1.0, r.running_ratio)
    assert.is_true(r["task-clock"] > 0)
    c:close()
  end)

  it("gives deltas that add up to the total", function()
    local c = own { "page-faults" }
    local sum = 0
    for _ = 1, 5 do
      touch(10)
      sum = sum + c:delta()["page-faults"]
    end
    c:disable()
    sum = sum + c:delta()["page-faults"]
    assert.equal(sum, c:read()["page-faults"])
    c:close()
  end)

  it("is set to 0 by a reset, which keeps the time", function()
    local c = own { "page-faults" }
    touch(50)
    c:disable()
    local before = c:read()
    assert.is_true(before["page-faults"] >= 50)
    assert.is_true(c:reset())
    local after = c:read()
    assert.equal(0, after["page-faults"])
    assert.equal(before.time_enabled, after.time_enabled)
    c:close()
  end)

  it("stops and goes on", function()
    local c = own { "page-faults", disabled = true }
    touch(20)
    assert.equal(0, c:read()["page-faults"])
    c:enable()
    touch(20)
    c:disable()
    local n = c:read()["page-faults"]
    touch(20)
    assert.is_true(n >= 20)
    assert.equal(n, c:read()["page-faults"])
    c:close()
  end)
end)

describe("a group", function()
  it("shrinks and grows, and is read as a whole", function()
    local g = perfev.group { "page-faults", "minor-faults", "major-faults", "task-clock", tid = "self",
      inherit = false }
    touch(30)
    local r = g:read()
    -- 5.10 counts pages of shared memory as neither kind
    local kinds = r["minor-faults"] + r["major-faults"]
    if requires.release() >= 6000 then assert.equal(r["page-faults"], kinds) end
    assert.is_true(r["page-faults"] >= 30)
    g:close("minor-faults")
    r = g:read()
    assert.is_nil(r["minor-faults"])
    assert.is_true(r["task-clock"] > 0)
    assert(g:add { "minor-faults", name = "later" })
    touch(30)
    assert.is_true(g:read()["later"] < g:read()["page-faults"])
    g:close("page-faults")
    r = g:read()
    assert.is_nil(r["page-faults"])
    assert.is_true(r["task-clock"] > 0)
    g:close()
  end)

  it("stops at once", function()
    local g = perfev.group { "page-faults", "minor-faults", tid = "self", inherit = false }
    g:disable()
    local before = g:read()
    touch(10)
    assert.same(before.raw, g:read().raw)
    g:close()
  end)

  it("reports the count of FORMAT_LOST", function()
    local g, _, code = perfev.group { "page-faults", tid = "self", lost = true }
    if not g and code == E.EINVAL then pending("PERF_FORMAT_LOST is of 6.0") end
    assert.equal(0, g:read().counts["page-faults"].lost)
    g:close()
  end)
end)

describe("a group larger than one read may return", function()
  it("is refused with this cause, not with an old kernel as the cause", function()
    local most = (16384 - 8) // 16
    local spec = { tid = "self", read_format = { "group", "id" } }
    for i = 1, most + 1 do spec[i] = { "dummy", name = "d" .. i, exclude_kernel = true } end
    local limit = perfev.hooks.real.raise_nofile()
    if limit < most + 100 then pending "too few descriptors are allowed" end
    local g, why, code = perfev.group(spec)
    assert.is_nil(g)
    if code == E.EINVAL then pending "the kernel's limit is another" end
    assert.equal(E.E2BIG, code)
    assert.matches("a reading of its group exceeds the kernel's limit of 16 KiB\n"
      .. "  try: fewer members", why)
    spec[most + 1] = nil
    assert(perfev.group(spec)):close()
  end)
end)

describe("requests", function()
  it("are refused where the kernel refuses them", function()
    local m = own({ "page-faults" }):member()
    for _, case in ipairs {
      { E.EINVAL, m:refresh(1) }, { E.EINVAL, m:period(5) }, { E.EINVAL, m:filter("common_pid == 1") },
      { E.EBADF, m:output(0) }, { E.EINVAL, m:query_bpf() }, { E.EOPNOTSUPP, m:modify { bp_len = 4 } },
    } do
      assert.is_nil(case[2])
      assert.equal(case[1], case[4], case[3])
      assert.matches("^page%-faults: cannot [^\n]+\n  [^\n]+\n  try: ", case[3])
    end
    assert.is_true(m:output(nil)) -- a long -1: to have no output is always had
    m:close()
  end)

  it("set a sampling event's period and its limit", function()
    local m = own({ { "page-faults", period = 1000000 } }):member()
    assert.is_true(m:period(2000000))
    assert.is_true(m:refresh(1))
    m:close()
  end)

  it("allow a number of overflows, and send a signal for each", function()
    local core, real = require "perfev.core", perfev.hooks.real
    local POLL_IN, POLL_HUP = 1, 6
    local QUEUED = core.signals.RTMIN + 3
    local set = 1 << QUEUED - 1
    local blocked = assert(real.sigblock(set, 1))
    local heard = assert(real.signalfd(set))
    local function codes(fd)
      local list = {}
      for info in function() return (real.read(heard, 128)) end do
        local number, _, code, _, _, from = string.unpack("=I4i4i4I4I4i4", info)
        assert.same({ QUEUED, fd }, { number, from })
        list[#list + 1] = code
      end
      return list
    end
    local m = own({ { "page-faults", period = 1, exclude_kernel = true } }):member()
    local fd = m:fds()[1].fd
    local zero = assert(real.open("/dev/zero", 2))
    local memory = assert(real.mmap(20 * PAGE, 3, zero, 0))
    local polled = assert(real.epoll_create())
    real.epoll_ctl(polled, 1, heard, 1, 1)
    -- On around each write only: other first accesses overflow, too (a sanitizer's shadow, for example).
    local function write(page)
      m:enable()
      memory:u64(page * PAGE, 1)
      m:disable()
    end
    write(19)
    assert.is_true(m:send_signal "RTMIN+3")
    local before = m:read().value
    assert.is_true(m:refresh(5))
    m:disable()
    -- An interrupt (irq_work) stops the event and sends the signal. It may be late, so the spec waits for each.
    local list = codes(fd)
    for page = 0, 4 do
      local before_it = #list
      if before_it == 5 then break end
      write(page)
      for _ = 1, 100 do
        if #list > before_it then break end
        real.epoll_wait(polled, 1, 1000) -- or EINTR, after a stop and SIGCONT
        table.move(codes(fd), 1, 5, #list + 1, list)
      end
    end
    assert.same({ POLL_IN, POLL_IN, POLL_IN, POLL_IN, POLL_HUP }, list)
    assert.equal(before + 5, m:read().value)
    memory:u64(5 * PAGE, 1)
    assert.equal(before + 5, m:read().value)
    assert.is_true(m:send_signal(nil))
    assert.is_true(m:refresh(2))
    for page = 6, 7 do memory:u64(page * PAGE, 1) end
    assert.same({}, codes(fd))
    assert.equal(before + 7, m:read().value)
    m:close()
    for _, one in ipairs { heard, polled, zero } do real.close(one) end
    real.munmap(memory, 20 * PAGE)
    if blocked ~= 0 then real.sigblock(set, 0) end
  end)

  it("send a signal that a session handles, one for each wakeup", function()
    if not process then pending(no_poll) end
    local s <close> = perfev.session { tid = "self" }
    local samples, heard, fd = 0, 0, nil
    local ev = s:event { "page-faults", period = 1, exclude_kernel = true, inherit = false,
      sample = function() samples = samples + 1 end }
    s:signal("RTMIN+4", function(info)
      assert.same({ 1, fd or info.fd }, { info.code, info.fd })
      heard, fd = heard + 1, info.fd
    end)
    local ok, why = s:start()
    if not ok then pending(why) end
    ev:disable()
    assert.is_true(ev:send_signal "RTMIN+4")
    -- Samples before the interrupt that wakes (irq_work) share one wakeup, so the loop waits for each. The event is
    -- disabled meanwhile, because it would also sample the dispatch.
    for nr = 1, 20 do
      ev:enable()
      touch(1)
      ev:disable()
      for _ = 1, 100 do
        if heard >= nr then break end
        process.poll(s:fd(), 1000)
        s:dispatch()
      end
    end
    s:dispatch()
    s:stop()
    s:run()
    assert.is_true(heard >= 20 and heard <= samples, heard)
  end)

  it("filter a tracepoint once, and list its programs", function()
    needs_tracefs()
    local c = assert(perfev.counter { { "raw_syscalls:sys_enter", filter = "id == -12345" }, tid = "self",
      inherit = false })
    local m = c:member()
    for _ = 1, 10 do io.open("/dev/null"):close() end
    assert.equal(0, c:read()["raw_syscalls:sys_enter"])
    local ok, why, code = m:filter "id == 1"
    assert.is_nil(ok)
    assert.equal(E.EEXIST, code)
    assert.matches("it has one already", why)
    assert.same({ {}, 0 }, { m:query_bpf() })
    c:close()
  end)

  it("change a breakpoint", function()
    local c = perfev.counter { { type = 5, bp_type = 2, bp_addr = 0x1000, bp_len = 4 }, tid = "self",
      inherit = false, exclude_kernel = true }
    if not c then pending("no breakpoints here") end
    assert.is_true(c:member():modify { bp_addr = 0x2000 })
    assert.equal(0x2000, c:member().attr.bp_addr)
    c:close()
  end)
end)

describe("targets", function()
  it("a command: the same count each time it does the same", function()
    needs_tracefs()
    local counts = {}
    for i = 1, 3 do
      local c = assert(perfev.counter { "raw_syscalls:sys_enter", command = { "sh", "-c", "true | cat" } })
      assert.same({ exit = 0 }, c:run())
      counts[i] = c:read()["raw_syscalls:sys_enter"]
      c:close()
    end
    -- A shell may wait for its children in one call or in two; no more than that is not decided.
    assert.is_true(counts[1] > 50 and math.abs(counts[1] - counts[2]) < 10 and math.abs(counts[1] - counts[3]) < 10)
  end)

  it("all CPUs count at least the events of this thread", function()
    needs_root()
    local all = assert(perfev.counter { "page-faults", all_cpus = true })
    local one = own { "page-faults" }
    touch(200)
    one:disable()
    local n = one:read()["page-faults"]
    assert.is_true(n >= 200)
    assert.is_true(all:read()["page-faults"] >= n)
    all:close()
    one:close()
  end)

  it("a process with its threads, and with children that it had before", function()
    local c = assert(perfev.counter { "page-faults", pid = "self" })
    os.execute "true"
    assert.is_true(c:read()["page-faults"] > 20)
    c:close()
  end)

  it("a cgroup, by its descriptor", function()
    needs_root()
    local c, why, code = perfev.counter { "page-faults", cgroup = 0 }
    assert.is_nil(c)
    assert.equal(E.EBADF, code, why)
    assert.matches("^cannot count page%-faults in the cgroup of descriptor 0 on cpu 0: ", why)
  end)

  it("a process that does not exist", function()
    local c, why, code = perfev.counter { "page-faults", tid = 4194303 }
    assert.is_nil(c)
    assert.equal(E.ESRCH, code, why)
  end)
end)

describe("measure", function()
  it("returns results and counts, and measures little more than f", function()
    local a, b, r = perfev.measure({ "page-faults", "task-clock" }, function()
      touch(100)
      return "a", nil
    end)
    assert.equal("a", a)
    assert.is_nil(b)
    assert.is_true(r["page-faults"] >= 100)
    local c = perfev.counter { "task-clock", "page-faults", tid = "self", inherit = false, disabled = true }
    -- The median of many.
    local function usual(f, times)
      local clocks, faults = {}, {}
      for i = 1, times do
        local counts = c:measure(f)
        clocks[i], faults[i] = counts["task-clock"], counts["page-faults"]
      end
      table.sort(clocks)
      table.sort(faults)
      return clocks[times // 2 + 1], faults[times // 2 + 1]
    end
    local nothing, faulted = usual(function() end, 201)
    local something = usual(function() for _ = 1, 1000000 do end end, 21)
    assert.is_true(run.sanitized or faulted == 0, faulted)
    assert.is_true(nothing < something / 10, ("%d and %d ns"):format(nothing, something))
  end)
end)
