-- A session from its first system call to its last, on the simulated kernel.

local perfev = require "perfev"
local sim = require "perfev.sim"
local wire = require "spec.support.wire"

local E = perfev.errno
local MS = 1000000
local STALE = "record used after its callback; keep r:copy()"

local k
before_each(function()
  k = sim.new()
  perfev.hooks.set(k.hooks)
end)
after_each(function() perfev.hooks.clear() end)

-- A software event that also follows tasks, so that the session opens no event of its own.
local function clock_event(spec)
  spec.type, spec.config, spec.sample_period, spec.comm, spec.task = 1, 0, 1, spec.comm or true, true
  return spec
end

local function new(opts, spec)
  local s = perfev.session(opts or {})
  s:event(clock_event(spec or {}))
  return s
end

local function emit(n, type, fields)
  return k:emit(k.events[n], type or "sample", fields)
end

local function emit_many(count, n)
  for i = 1, count do emit(n or 1, "sample", { period = i }) end
end

local function calls_of(name)
  local n = 0
  for _, line in ipairs(k.log) do n = n + (line:find(name .. "(", 1, true) == 1 and 1 or 0) end
  return n
end

describe("opening and closing", function()
  it("makes exactly these system calls", function()
    k = sim.new { cpus = "0" }
    perfev.hooks.set(k.hooks)
    local s = perfev.session { buffer = "8K" }
    s:event { "dummy", comm = function() end }
    s:event { switch = function() end }
    assert(s:start())
    s:close()
    assert.same({
      "raise_nofile() = 1024",
      "slurp(/proc/meminfo) = ENOENT",
      "clock(1) = 1000000000000",
      "epoll_create() = 3",
      "slurp(/sys/devices/system/cpu/online) = 0\n",
      "perf_event_open(_, -1, 0, -1, 8) = 4",
      "ioctl(4, ID, nil) = 101",
      "mmap(12288, 3, 4, 0) = _",
      "epoll_ctl(3, 1, 4, 1, 4294967296) = 0",
      "perf_event_open(_, -1, 0, -1, 8) = 5",
      "ioctl(5, ID, nil) = 102",
      "ioctl(5, SET_OUTPUT, 4) = 0",
      "perf_event_open(_, -1, 0, -1, 8) = 6", -- facts about tasks: no event requested both comm and task
      "ioctl(6, ID, nil) = 103",
      "ioctl(6, SET_OUTPUT, 4) = 0",
      "list(/proc) = ENOENT",
      "timerfd(100000000, 100000000) = 7",
      "epoll_ctl(3, 1, 7, 1, 8589934592) = 0",
      "ioctl(4, ENABLE, 0) = 0",
      "ioctl(5, ENABLE, 0) = 0",
      "ioctl(6, ENABLE, 0) = 0",
      "list(/proc) = ENOENT", -- who began meanwhile
      -- the closing: counts, then everything in reverse
      "read(4, 40) = " .. wire.read_values(23, { id = 101 }),
      "read(5, 40) = " .. wire.read_values(23, { id = 102 }),
      "read(6, 40) = " .. wire.read_values(23, { id = 103 }),
      "munmap(_, 12288) = 0",
      "close(6) = 0",
      "close(5) = 0",
      "close(4) = 0",
      "close(7) = 0",
      "close(3) = 0",
    }, k.log)
    assert.same({}, k:leaks())
  end)

  it("sets in every event the fields that the session requires", function()
    local s = perfev.session { clock = "boottime" }
    s:event { "cpu-clock", freq = 99 }
    assert(s:start())
    for _, event in ipairs(k.events) do
      local attr = event.attr
      for _, name in ipairs { "identifier", "time", "tid", "cpu" } do assert.is_true(wire.has(attr, name), name) end
      assert.is_true(attr.sample_id_all and attr.disabled and attr.use_clockid and attr.watermark)
      assert.equal(7, attr.clockid)
      assert.equal(1 | 2 | 4 | 16, attr.read_format)
      assert.equal((2 << 20) // 4, attr.wakeup_watermark)
      assert.is_false(attr.inherit) -- the whole machine is watched
    end
    s:close()
  end)

  it("opens one event per CPU, one ring per CPU, the rest routed into it", function()
    k = sim.new { cpus = "0-2,5" }
    perfev.hooks.set(k.hooks)
    local s = new()
    s:event { "page-faults", sample = function() end }
    assert(s:start())
    local cpus = {}
    for i, event in ipairs(k.events) do cpus[i] = event.cpu end
    assert.same({ 0, 1, 2, 5, 0, 1, 2, 5 }, cpus)
    for i = 1, 4 do assert.equal(k.events[i].ring, k.events[i + 4].ring) end
    assert.equal(4, s:totals().rings)
    s:close()
  end)

  it("opens every thread of a process on every CPU, inherited by its children", function()
    for _, tid in ipairs { 70, 71 } do k.files["/proc/70/task/" .. tid .. "/comm"] = "app\n" end
    local s = new { pid = 70 }
    assert(s:start())
    local seen = {}
    for i, event in ipairs(k.events) do
      seen[i] = event.pid .. "/" .. event.cpu
      assert.is_true(event.attr.inherit)
      assert.is_false(event.attr.enable_on_exec)
    end
    assert.same({ "70/0", "71/0", "70/1", "71/1" }, seen)
    s:close()
  end)

  it("opens a target once that is named twice, as a process and as its thread", function()
    for _, tid in ipairs { 70, 71 } do k.files["/proc/70/task/" .. tid .. "/comm"] = "app\n" end
    local s = new { pid = { 70, 70 }, tid = { 72, 71, 72 }, cpus = { 1, 1 } }
    local c = s:counter { "page-faults" }
    assert(s:start())
    local seen = {}
    for i, event in ipairs(k.events) do seen[i] = event.pid .. "/" .. event.cpu end
    assert.same({ "70/1", "71/1", "72/1", "70/1", "71/1", "72/1" }, seen) -- the event's, the counter's
    assert.equal(3, #c:member():fds())
    s:close()
  end)

  it("leaves out threads that have ended meanwhile, and reports it", function()
    local said = {}
    for _, tid in ipairs { 70, 71, 72 } do k.files["/proc/70/task/" .. tid .. "/comm"] = "app\n" end
    k.gone = { [71] = true, [72] = true }
    local s = new { pid = 70, log = function(_, text) said[#said + 1] = text end }
    assert(s:start())
    assert.equal(2, #k.events)
    assert.matches("2 threads had ended already", said[1])
    s:close()
  end)

  it("fails if all of them have ended", function()
    for _, tid in ipairs { 70, 71 } do k.files["/proc/70/task/" .. tid .. "/comm"] = "app\n" end
    k.gone = { [70] = true, [71] = true }
    local ok, why, errno = new({ pid = 70 }):start()
    assert.is_nil(ok)
    assert.equal(E.ESRCH, errno)
    assert.matches("No such process", why)
    assert.same({}, k:leaks())
  end)

  it("fails for a pid that does not exist, with cause and remedy", function()
    local ok, why, errno = new({ pid = 4711 }):run()
    assert.is_nil(ok)
    assert.equal(E.ESRCH, errno)
    assert.matches("^cannot watch pid 4711: No such process %(ESRCH%)\n  .+\n  try: .+$", why)
    assert.same({}, k:leaks())
  end)

  local ONLINE = "/sys/devices/system/cpu/online"

  it("leaves out a CPU that goes offline during the opening, and reports it", function()
    local said, looks = {}, 0
    local s = new { log = function(_, text) said[#said + 1] = text end }
    k.last_cpu = 7
    k.files[ONLINE] = function()
      looks = looks + 1
      return looks <= 2 and "0-1,3\n" or "0-1\n"
    end
    assert(s:start())
    assert.equal(2, #k.events)
    assert.matches("1 CPUs are not online", said[1])
    s:close()
    assert.same({}, k:leaks())
  end)

  it("refuses a CPU that is named and not online", function()
    for _, cpus in ipairs { { 3 }, { 0, 3 }, "0,3" } do
      local ok, why, errno = new({ cpus = cpus }):start()
      assert.is_nil(ok)
      assert.equal(E.ENODEV, errno)
      assert.equal("cannot watch cpu 3: No such device (ENODEV)\n  this machine has no CPU 3 (0-1 are online)\n"
        .. "  try: -C 0-1", why)
    end
    assert.same({}, k:leaks())
  end)

  it("keeps records of a CPU that goes offline, and reports it at the end", function()
    local said, got = {}, {}
    local s = new({ log = function(level, text) if level == 0 then said[#said + 1] = text end end },
      { sample = function(r) got[#got + 1] = r.period end })
    assert(s:start())
    emit(2, "sample", { period = 20 })
    k.events[2].hup = true
    k.files[ONLINE] = "0,2\n"
    s:dispatch()
    emit(1, "sample", { period = 10 })
    local _, on = s:dispatch()
    assert.is_true(on)
    s:stop()
    while on do _, on = s:dispatch() end
    table.sort(got)
    assert.same({ 10, 20 }, got)
    assert.same({ "cpu 1 went offline: its records until then are included",
      "cpu 2 came online meanwhile and was not watched" }, said)
    assert.same({}, k:leaks())
  end)

  -- perf_event_exit_cpu() takes the events off the CPU, and they stay off. Time passes while the spec checks.
  local function stalls(which, pulled)
    local said, read = {}, k.hooks.read
    k.hooks.read = function(...)
      k.now = k.now + 1
      return read(...)
    end
    perfev.hooks.set(k.hooks)
    local s = new { log = function(level, text) if level == 0 then said[#said + 1] = text end end }
    assert(s:start())
    for _, n in ipairs(which) do k.events[n].enabled = false end
    s:stop()
    if pulled then
      for _ in s:records() do error "of whom?" end
    else
      repeat local _, on = s:dispatch() until not on
    end
    assert.same({}, k:leaks())
    return said
  end

  it("reports a CPU that went offline and came back, because its events are lost", function()
    assert.same({ "cpu 1 went offline and came back: its later records are missing" }, stalls { 2 })
  end)

  it("reports it after records() as well", function() assert.equal(1, #stalls({ 2 }, true)) end)

  it("reports no CPU if the events of all CPUs continue", function() assert.same({}, stalls {}) end)

  it("reports no CPU if the events of all CPUs have stopped", function()
    assert.same({}, stalls { 1, 2 })
  end)

  it("drops optional bits that an older kernel refuses, and reports it", function()
    local said = {}
    k.refuse = function(attr) return attr.read_format & 16 ~= 0 and E.EINVAL end
    local s = new { log = function(level, text) said[#said + 1] = level .. " " .. text end }
    assert(s:start())
    assert.equal(7, k.events[1].attr.read_format)
    assert.matches("^1 .*without read_format lost", said[1])
    s:close()
    assert.equal(0, s:totals().lost)
    assert.same({}, k:leaks())
  end)

  it("drops its clock if a PMU has its own, and reports it", function()
    local said = {}
    k.refuse = function(attr) return attr.use_clockid and E.EINVAL end
    local s = new { log = function(_, text) said[#said + 1] = text end }
    assert(s:start())
    assert.is_false(k.events[1].attr.use_clockid)
    assert.matches("keeps its own clock", said[1])
    s:close()
    assert.same({}, k:leaks())
  end)

  it("drops no bit that the user asked for", function()
    k.refuse = function(attr) return attr.read_format & 16 ~= 0 and E.EINVAL end
    local ok, why, errno = new({}, { read_format = { "lost" } }):start()
    assert.is_nil(ok)
    assert.equal(E.EINVAL, errno)
    assert.matches("^cannot open .* on cpu 0: Invalid argument", why)
  end)

  it("falls back to a smaller ring if memory may not be locked, and reports it", function()
    k.files["/proc/sys/kernel/perf_event_mlock_kb"] = "516\n"
    k.mlock = 512 << 10
    local said = {}
    local s = new { log = function(level, text) if level == 1 then said[#said + 1] = text end end }
    assert(s:start())
    assert.equal(512 << 10, k.events[1].ring.size)
    assert.equal(512 << 10, s:totals().ring_bytes)
    assert.equal(1, #said)
    assert.matches("ring on cpu 0: 512 KiB instead of 2048 KiB", said[1])
    s:close()
    assert.same({}, k:leaks())
  end)

  it("halves the ring until it fits, and fails below one page, with cause and remedy", function()
    k.mlock = 8 << 10
    local s = new {}
    assert(s:start())
    assert.equal(8 << 10, s:totals().ring_bytes)
    s:close()
    k.mlock = 100
    local ok, why, errno = new({}):start()
    assert.is_nil(ok)
    assert.equal(E.EPERM, errno)
    assert.matches("^cannot map a ring of .*\n  over the memory that may be locked.*\n  try: ", why)
    assert.same({}, k:leaks())
  end)

  it("wakes up in time for a ring that is smaller than requested", function()
    k.mlock = 4096
    local s = new {}
    assert(s:start())
    for _, event in pairs(k.fds) do -- those that are open now: earlier ones may have been for a larger one
      if event.kind == "event" then assert.is_true(event.attr.wakeup_watermark <= 2048) end
    end
    s:close()
  end)

  local steps = {
    raise_nofile = 1, clock = 1, epoll_create = 1, perf_event_open = 4, ["ioctl ID"] = 4, mmap = 2,
    ["ioctl SET_OUTPUT"] = 2, epoll_ctl = 6, timerfd = 3, ["ioctl ENABLE"] = 4, spawn = 1, release = 1,
    signalfd = 1, sigblock = 1, slurp = 3, list = 1, pidfd_open = 1, read = 2, ["ioctl DISABLE"] = 2,
    epoll_wait = 2, munmap = 2, close = 4, wait = 1, ["ioctl SET_FILTER"] = 1, getpid = 1,
  }
  local errnos = { "EMFILE", "EACCES", "ENOMEM", "EINVAL", "EPERM", "ESRCH", "EBUSY", "EIO", "ENOSYS", "E2BIG",
                   "ENODEV", "EOPNOTSUPP", "ENOSPC", "ENOENT" }

  it("releases everything if any call fails with any errno", function()
    local failed = 0
    for name, nth_most in pairs(steps) do
      for _, errno in ipairs(errnos) do
        for nth = 1, nth_most do
          k = sim.new()
          k.files["/proc/1/task/1/comm"] = "init\n"
          perfev.hooks.clear()
          perfev.hooks.set(k.hooks)
          local s = perfev.session { command = { "true" }, duration = "1s", all_cpus = true, buffer = "4K" }
          s:event(clock_event { sample = function() end })
          s:event { "dummy", filter = name == "ioctl SET_FILTER" and "x" or nil, switch = function() end }
          s:every("100ms", function() end)
          s:signal("USR1", function() end)
          k:fail(name, nth, E[errno])
          k:after(300 * MS, function()
            for pid in pairs(k.children) do k:end_child(pid, 0) end
          end)
          local ok, why, code = s:run()
          local place = ("%s %d %s: %s"):format(name, nth, errno, tostring(why))
          if not ok then
            failed = failed + 1
            assert.equal("string", type(why), place)
            assert.is_true(code == nil or code == E[errno], place)
            if name == "perf_event_open" then
              assert.matches(nth % 2 == 1 and "on cpu 0" or "on cpu 1", why, 1, false)
              assert.matches(nth < 3 and "{type=1, config=0}" or "dummy", why, 1, true)
            end
          end
          local left = k:leaks()
          -- A descriptor or mapping that close or munmap refuses cannot be released.
          if name ~= "close" and name ~= "munmap" and name ~= "sigblock" and name ~= "wait" then
            assert.same({}, left, place)
          end
        end
      end
    end
    assert.is_true(failed > 200, failed)
  end)

  it("has nothing open after a failed start(), and cannot be reused", function()
    k:fail("mmap", 2, E.EINVAL)
    local s = new()
    assert.is_nil((s:start()))
    assert.same({}, k:leaks())
    assert.error_matches(function() s:run() end, "it has ended; make a new one")
  end)

  it("has nothing open, and has ended, after an error of its log at the start", function()
    local s = perfev.session { tid = 7, log = function() error("log's") end }
    s:event { "no:such", optional = true }
    s:event(clock_event {})
    assert.error_matches(function() s:start() end, "log's")
    assert.same({}, k:leaks())
    assert.error_matches(function() s:run() end, "it has ended; make a new one")
  end)

  it("leaks nothing if it is dropped without close()", function()
    for _ = 1, 3 do
      local s = new { command = { "x" }, duration = "1s" }
      assert(s:start())
    end
    collectgarbage()
    collectgarbage()
    local left = {}
    for _, leak in ipairs(k:leaks()) do
      if not leak:find("^blocked") then left[#left + 1] = leak end
    end
    assert.same({}, left)
  end)

  it("unblocks the signals of a session that is dropped", function()
    do
      local s = new { duration = "1s" }
      s:signal("USR1", function() end)
      assert(s:start())
      assert.equal(1 << 9, k.blocked)
    end
    collectgarbage()
    collectgarbage()
    assert.equal(0, k.blocked)
  end)

  it("is closed by <close>, and by close() twice", function()
    do
      local s <close> = new()
      assert(s:start())
    end
    assert.same({}, k:leaks())
    local s = new()
    assert.same({ false, false }, { s.started, s.finished })
    assert(s:start())
    assert.same({ true, false }, { s.started, s.finished })
    s:close()
    s:close()
    assert.same({ true, true }, { s.started, s.finished })
    assert.same({}, k:leaks())
  end)

  it("opens nothing to print its plan", function()
    local s = new { pid = 7 }
    local plan = table.concat(s:plan(), "\n")
    assert.matches("^target: pid 7\nevent {type=1, config=0}\n", plan)
    s:event { "cpu-clock,page-faults" }
    s:event { "cs|faults" }
    plan = table.concat(s:plan(), "\n")
    assert.matches("\nevent cpu%-clock\n.*\nevent page%-faults\n", plan)
    assert.matches("\nevent cs|faults\n  event 'cs|faults': '|faults' is not understood here\n    | cs|faults\n", plan)
    assert.same({}, k.fds)
    assert.equal(0, calls_of("perf_event_open"))
  end)

  it("refuses options in the wrong place, with the line of the caller", function()
    local function refused(pattern, fn)
      local ok, why = pcall(fn) -- error_matches() takes the place away
      assert.is_false(ok)
      assert.matches("^[^:]*spec/engine/session_spec.lua:%d+: " .. pattern, why)
    end
    local s = new { pid = 7 }
    refused("session: comm", function() perfev.session { comm = "" } end)
    refused("session: unknown option", function() perfev.session { durations = 1 } end)
    refused("session: cgroup and pid", function() perfev.session { pid = 1, cgroup = "x" } end)
    refused("session: buffer: size 'x'", function() s:configure { buffer = "x" } end)
    refused("records: fields must be a list", function() s:records { fields = "x" } end)
    refused("event: sample_period = 'x': must be", function() s:event { "cs", period = "x" } end)
    refused("line: unpaired brace", function() perfev.line "{" end)
    refused("line: {nope}: no record", function() perfev.line "{nope}" end)
  end)

  it("refuses unknown options, with the nearest name, and invalid values", function()
    local function refused(opts, pattern)
      assert.error_matches(function() perfev.session(opts) end, pattern)
    end
    refused({ command = { "x" }, durations = "1s" }, "unknown option 'durations' %(did you mean 'duration'%?%)")
    refused({ pid = "x" }, "pid must be a number")
    refused({ pid = -1 }, "pid must be a number")
    refused({ pid = {} }, "the list is empty")
    refused({ command = {} }, "command: the list is empty")
    refused({ command = "ls" }, "command must be a list")
    refused({ command = { "ls", 1 } }, "element 2 must be a string, not 1")
    refused({ buffer = "1K" }, "between 4K and 2G")
    refused({ duration = "x" }, "duration")
    refused({ clock = "sun" }, "clock must be one of")
    refused({ count = 0 }, "count")
    for word, value in pairs { pid = 1, tid = 1, uid = 0, cgroup = "x" } do
      refused({ all_cpus = true, [word] = value }, "all_cpus and " .. word .. " at once")
    end
    refused("x", "a table expected")
  end)

  it("is configured as a whole, or stays unchanged", function()
    local s = perfev.session { tid = 7, count = 3 }
    assert.error_matches(function() s:configure { count = 5, cgroup = "x" } end, "cgroup and tid at once")
    assert.error_matches(function() s:configure { count = 5, duration = "x" } end, "duration 'x'")
    assert.same({ 3, nil, nil }, { s.opts.count, s.opts.cgroup, s.opts.duration })
    s:configure { count = 5 }
    assert.same({ 5, { 7 } }, { s.opts.count, s.opts.tid })
  end)

  it("rounds a ring up to a valid size", function()
    local s = new { buffer = "5000" }
    assert(s:start())
    assert.equal(8192, s:totals().ring_bytes)
    s:close()
  end)
end)

describe("the event \"*\"", function()
  it("expands to each event of the session's option, under its own name", function()
    local s <close>, seen = perfev.session { events = { "cs:u", "{page-faults,cpu-clock}" } }, {}
    local ev = s:event { "*", sample = function(r) seen[#seen + 1] = r.event.name end }
    assert(s:start())
    local names = {}
    for i, member in ipairs(ev.members) do names[i] = member.name end
    assert.same({ "cs:u", "page-faults", "cpu-clock" }, names)
    local one <close> = perfev.session { events = "cs" }
    local alone = one:event { "*", sample = print }
    assert(one:start())
    assert.equal("cs", alone.name)
  end)

  it("is refused if the session has no such option", function()
    local s = perfev.session {}
    s:event { "*", sample = print }
    local ok, why, code = s:start()
    assert.is_nil(ok)
    assert.matches("event '%*': of a recording it is every event.*\n  try: perfl %-e EVENT SCRIPT", why)
    assert.equal(E.EINVAL, code)
    for wrong, said in pairs { [7] = "events must be event strings, not 7", [{}] = "events: the list is empty",
      [{ "cs", "a | b" }] = "alternatives must be one string" } do
      assert.error_matches(function() perfev.session { events = wrong } end, said)
    end
  end)
end)

describe("the life of a run", function()
  it("ends after its duration, the last records delivered", function()
    local times = {}
    local s = new({ duration = "500ms" }, { sample = function(r) times[#times + 1] = r.time end })
    for ms = 50, 450, 100 do k:after(ms * MS, function() emit(1) end) end
    local start = k.now
    assert.is_true((s:run()))
    assert.equal(start + 500 * MS, k.now)
    assert.equal(5, #times)
    assert.same({}, k:leaks())
  end)

  it("starts its duration when all events are enabled, even if begin takes long", function()
    local n = 0
    local s = new({ duration = "500ms" }, { sample = function() n = n + 1 end })
    s:begin(function() k:advance_to(k.now + 700 * MS) end)
    k:after(1100 * MS, function() emit(1) end)
    local start = k.now
    assert.is_true((s:run()))
    assert.same({ 1, start + 1200 * MS }, { n, k.now })
  end)

  it("ends after a number of records", function()
    for _, count in ipairs { 1, 2, 10 } do
      local n = 0
      local s = new({ count = count }, { sample = function() n = n + 1 end })
      k.events = {}
      k:after(MS, function() emit_many(10) end)
      k:after(2000 * MS, function() emit_many(10) end)
      assert(s:run())
      assert.equal(count, n)
      assert.equal(count, s:totals().delivered)
    end
  end)

  it("ends when a callback returns false, with that record as the last", function()
    local seen = {}
    local s = new({}, { sample = function(r)
      seen[#seen + 1] = r.period
      return r.period ~= 3
    end })
    k:after(MS, function() emit_many(10) end)
    assert(s:run())
    assert.same({ 1, 2, 3 }, seen)
    assert.equal(10, s:totals().records)
    assert.same({}, k:leaks())
  end)

  it("continues if a callback returns nil or another value", function()
    local n = 0
    local s = new({ duration = "1s" }, { sample = function()
      n = n + 1
      return ({ nil, 0, "false", {} })[n]
    end })
    k:after(MS, function() emit_many(4) end)
    assert(s:run())
    assert.equal(4, n)
  end)

  it("looks at the first of a callback's results alone", function()
    for _, fields in ipairs { false, { "cpu" }, { "comm" } } do
      local n = 0
      local s = new({ duration = "1s" }, { fields = fields or nil, sample = function()
        n = n + 1
        if n < 300 then return nil, false, n end
        return false, true
      end })
      k.events = {}
      k:after(MS, function() emit_many(400) end)
      assert(s:run())
      assert.equal(300, n)
    end
  end)

  it("ends when a callback calls stop(), with that record as the last", function()
    local n = 0
    local s
    s = new({}, { sample = function()
      n = n + 1
      if n == 4 then s:stop() end
    end })
    k:after(MS, function() emit_many(10) end)
    assert(s:run())
    assert.equal(4, n)
    assert.same({}, k:leaks())
  end)

  it("ends when a timer calls stop() or returns false, all records delivered", function()
    for _, how in ipairs { "stop", "false" } do
      local n = 0
      local s = new({}, { sample = function() n = n + 1 end })
      s:every("250ms", function()
        if how == "false" then return false end
        s:stop()
      end)
      k.events = {}
      k:after(249 * MS, function() emit_many(7) end)
      assert(s:run())
      assert.equal(7, n)
      assert.same({}, k:leaks())
    end
  end)

  it("starts its intervals after all events are enabled", function()
    local s = new({}, { sample = function() end })
    s:every("250ms", function() return false end)
    assert(s:run())
    local order = {}
    for _, line in ipairs(k.log) do
      local what = line:match "^timerfd%(250000000" or line:match "^list%(/proc%)" or line:match "ENABLE"
      if what and what ~= order[#order] then order[#order + 1] = what end
    end
    assert.same({ "list(/proc)", "ENABLE", "list(/proc)", "timerfd(250000000" }, order)
  end)

  it("calls the function of after once, that time after the events are enabled or after its declaration", function()
    local story = {}
    local function say(word) return function() story[#story + 1] = word .. " " .. (k.now - 1000000000000) // MS end end
    local s = new({ duration = "1s" }, { sample = function() end })
    s:after("100ms", function()
      say "first" ()
      s:after("250ms", say "second")
    end)
    s:after("400ms", say "third")
    assert(s:run())
    assert.same({ "first 100", "second 350", "third 400" }, story)
    assert.has_error(function() s:after("1s", print) end, "session: it has ended; make a new one")
  end)

  it("refuses an invalid time and an argument that is not a function, with the name of after", function()
    local s <close> = perfev.session {}
    assert.has_error(function() s:after("soon", print) end,
      "after: duration 'soon': expected a number with ns, us, ms, s, m or h, as in 500ms")
    assert.has_error(function() s:after(1, "print") end, "after: a function expected, not a string")
  end)

  it("calls begin, timers, signals and done in this order, at the right times", function()
    local story = {}
    local function say(word) return function() story[#story + 1] = word .. " " .. (k.now - 1000000000000) // MS end end
    local s = new({ duration = "350ms" })
    s:begin(say "begin")
    s:every("100ms", say "tick")
    s:signal("USR1", say "signal")
    s:signal("SIGUSR2", say "other")
    s:done(say "done")
    k:after(150 * MS, function() k:signal(10) end)
    k:after(160 * MS, function() k:signal(12) end)
    assert(s:run())
    assert.same({ "begin 0", "tick 100", "signal 150", "other 160", "tick 200", "tick 300", "done 350" }, story)
    assert.equal(0, k.blocked)
  end)

  it("starts a timer that a begin callback declares", function()
    local n, s = 0, new { duration = "350ms" }
    s:begin(function() s:every("100ms", function() n = n + 1 end) end)
    assert(s:run())
    assert.equal(3, n)
    assert.same({}, k:leaks())
  end)

  it("handles a signal declared in begin, with the function that was set last", function()
    local heard, s = {}, new { duration = "350ms" }
    local function hear(word) return function(info) heard[#heard + 1] = word .. info.number end end
    s:begin(function()
      s:signal("USR1", hear "first ")
      s:signal("USR1", hear "last ")
    end)
    k:after(150 * MS, function() k:signal(10) end)
    assert(s:run())
    assert.same({ "last 10" }, heard)
    assert.equal(0, k.blocked)
    assert.same({}, k:leaks())
  end)

  it("starts a timer that a callback declares", function()
    local at
    local s
    s = new({ duration = "1s" }, { sample = function()
      s:every("100ms", function()
        at = at or k.now
        return nil
      end)
    end })
    k:after(MS, function() emit(1) end)
    assert(s:run())
    assert.equal(1000000000000 + 200 * MS, at) -- delivered at the first tick
  end)

  it("watches a descriptor of the caller", function()
    local n = 0
    k.outside[77] = 0
    local s = new { duration = "1s", watch = { 77, function()
      n = n + 1
      k.outside[77] = 0
    end } }
    k:after(10 * MS, function() k.outside[77] = 1 end)
    assert(s:run())
    assert.equal(1, n)
  end)

  it("asks the runner once per wakeup whether to keep going", function()
    local asked = 0
    local s = new({}, { sample = function() end })
    s._keep_going = function()
      asked = asked + 1
      return asked < 4 or "enough"
    end
    for i = 0, 5 do k:after((100 * i + 50) * MS, function() emit(1) end) end
    assert(s:run())
    assert.equal(4, asked)
    assert.equal(4, calls_of("epoll_wait"))
  end)

  it("continues after an interrupting signal", function()
    k:fail("epoll_wait", 1, E.EINTR)
    local n = 0
    local s = new({ duration = "300ms" }, { sample = function() n = n + 1 end })
    k:after(MS, function() emit(1) end)
    assert(s:run())
    assert.equal(1, n)
  end)

  it("reports that waiting failed", function()
    k:fail("epoll_wait", 1, E.EBADF)
    local ok, why = new({ duration = "1s" }):run()
    assert.is_nil(ok)
    assert.matches("cannot wait for events: Bad file descriptor", why)
    assert.same({}, k:leaks())
  end)

  it("declares and opens an event inside a callback, and closes one there", function()
    local first, second = 0, 0
    local s, ev
    s = perfev.session { duration = "1s" }
    ev = s:event(clock_event { sample = function()
      first = first + 1
      if first == 1 then
        s:event { "page-faults", sample = function() second = second + 1 end }
        ev:close()
      end
    end })
    k:after(MS, function() emit_many(3) end)
    k:after(500 * MS, function()
      assert.equal(2, k.events[3].attr.config)
      k:emit(k.events[3], "sample")
      assert.is_false(emit(1)) -- disabled
    end)
    assert(s:run())
    assert.equal(1, first)
    assert.equal(1, second)
    assert.same({}, k:leaks())
  end)

  it("returns the error to a callback that cannot open its new event", function()
    local result
    local s
    s = new({ duration = "1s" }, { sample = function()
      k:fail("perf_event_open", 2, E.EMFILE)
      result = table.pack(s:event { "page-faults" })
    end })
    k:after(MS, function() emit(1) end)
    assert(s:run())
    assert.is_nil(result[1])
    assert.matches("^cannot open page%-faults on cpu 1: Too many open files %(EMFILE%)", result[2])
    assert.equal(E.EMFILE, result[3])
    assert.same({}, k:leaks())
  end)

  it("keeps events off that are declared disabled or disabled before the start", function()
    local samples = {}
    local function counted(name) return function() samples[name] = (samples[name] or 0) + 1 end end
    local s = new { duration = "100ms" }
    local off = s:event { type = 1, config = 1, disabled = true, sample = counted "off" }
    local before = s:event { type = 1, config = 2, sample = counted "before" }
    s:event { type = 1, config = 3, sample = counted "on" }
    s:begin(function() assert(before:disable()) end)
    s:every("20ms", function() assert(off:enable()) end)
    for _, ms in ipairs { 10, 30 } do
      k:after(ms * MS, function()
        for _, event in ipairs(k.events) do
          if event.attr.config <= 3 and event.cpu == 0 then k:emit(event, "sample", { pid = 7, tid = 7 }) end
        end
      end)
    end
    assert(s:run())
    assert.same({ off = 1, on = 2 }, samples)
  end)

  it("waits for a command that loses its events, as a set-uid program does", function()
    local said = {}
    local s = new { command = { "x" }, log = function(level, text) said[#said + 1] = level == 0 and text or nil end }
    s:event { type = 1, config = 1, sample = function() end }
    assert(s:start())
    local pid = next(k.children)
    k.files[("/proc/%d/stat"):format(pid)] = ("%d (a) b) S 1 %d %d 0 -1 4194304 88"):format(pid, pid, pid)
    k:exit(pid)
    for _ = 1, 2 do assert.is_true((select(2, s:dispatch()))) end
    assert.equal(1, #said)
    assert.matches("^the command is no longer watched: .* set%-uid .*\n  try: as root", said[1])
    k:end_child(pid, 3 << 8)
    assert.is_false((select(2, s:dispatch())))
    assert.same({ exit = 3 }, s.command_status)
    assert.same({}, k:leaks())
  end)

  it("reports a process that loses its events while it runs, and ends", function()
    local said = {}
    local s = new { pid = 42, log = function(level, text) said[#said + 1] = level == 0 and text or nil end }
    s:event { type = 1, config = 1, sample = function() end }
    k:task(42, "app")
    assert(s:start())
    k.files["/proc/42/stat"] = "42 (app) S 1 42 42 0 -1 4194304 88"
    k:exit(42)
    while select(2, s:dispatch()) do end -- one event that hangs up after the other
    assert.equal(1, #said)
    assert.matches("^process 42 is no longer watched: ", said[1])
  end)

  it("sends SIGTERM to a command at the end, and continues a stopped one", function()
    local s = new { command = { "x" }, duration = "100ms" }
    s:event { type = 1, config = 1, sample = function() end }
    assert(s:run())
    local signals = {}
    for _, call in ipairs(k.log) do signals[#signals + 1] = call:match "^kill%(%d+, (%d+)%)" end
    assert.same({ "15", "18" }, { signals[1], signals[2] })
  end)

  it("reports nothing if a command's events end with it", function()
    local said = 0
    local s = new { command = { "x" }, log = function(level) said = said + (level == 0 and 1 or 0) end }
    s:event { type = 1, config = 1, sample = function() end }
    assert(s:start())
    local pid = next(k.children)
    for _, stat in ipairs { "S 1 7 7 0 -1 4194308 88", "Z 1 7 7 0 -1 4194304 88" } do
      k.files[("/proc/%d/stat"):format(pid)] = ("%d (x) %s"):format(pid, stat)
      k:exit(pid)
      assert.is_true((select(2, s:dispatch())))
    end
    k:end_child(pid, 0)
    assert.is_false((select(2, s:dispatch())))
    assert.equal(0, said)
  end)

  it("reports the processes that do not exist, and watches the others", function()
    local said = {}
    k:task(42, "app")
    local s <close> = new {
      pid = { 42, 4321 }, log = function(level, text) said[#said + 1] = level == 0 and text or nil end,
    }
    s:event { type = 1, config = 1, sample = function() end }
    assert(s:start())
    assert.same({ "process 4321 does not exist (any more): the others are watched" }, said)
  end)

  it("of a whole machine reports processes that a pid namespace makes indistinguishable", function()
    local said = {}
    local function open(opts)
      opts.log = function(level, text) said[#said + 1] = level == 0 and text or nil end
      local s <close> = new(opts)
      s:event { type = 1, config = 1, sample = function() end }
      assert(s:start())
    end
    open { all_cpus = true }
    k.links["/proc/self/ns/pid"] = "pid:[4026532178]"
    open { command = { "x" } }
    assert.same({}, said)
    open { all_cpus = true }
    assert.equal(1, #said)
    assert.matches("^in a pid namespace, .* have pid 0, .*\n  try: ", said[1])
  end)

  it("enables no disabled event at exec, and refuses to disable the others before it", function()
    local s <close> = new { command = { "x" } }
    s:event { type = 1, config = 1, disabled = true, sample = function() end }
    local other = s:event { type = 1, config = 3, sample = function() end }
    local answer
    s:begin(function() answer = { other:disable() } end)
    assert(s:start())
    assert.is_nil(answer[1])
    assert.matches("the command's exec enables it, also after this call\n  try: disabled", answer[2], nil, true)
    for _, event in ipairs(k.events) do
      assert.equal(event.attr.config ~= 1, event.attr.enable_on_exec)
      assert.equal(event.attr.config ~= 1, event.enabled)
    end
    assert.is_true(other:disable())
  end)

  it("delivers no record of an event that failed at the last step, and forgets it", function()
    local heard, before = 0, nil
    local s = new { duration = "100ms" }
    s:begin(function()
      before = #k.events
      k:fail("ioctl SET_FILTER", 1, E.EINVAL)
      local ev, why = s:event { type = 2, config = 77, filter = "x == 1", sample = function() heard = heard + 1 end }
      assert.is_nil(ev)
      assert.matches("filter", why)
    end)
    k:after(MS, function()
      for i = before + 1, #k.events do
        assert.is_false(k.events[i].enabled)
        k:emit(k.events[i], "sample", { pid = 7, tid = 7 })
      end
    end)
    assert(s:run())
    assert.equal(0, heard)
    assert.same({}, k:leaks())
  end)

  it("opens a hundred events inside one callback", function()
    local n = 0
    local s
    s = new({ duration = "1s" }, { sample = function(r)
      for i = 1, 100 do assert(s:event { type = 1, config = 0, name = "e" .. i, sample = function() n = n + 1 end }) end
      return r.time > 0
    end })
    k:after(MS, function() emit(1) end)
    k:after(600 * MS, function() for i = 3, #k.events do k:emit(k.events[i], "sample") end end)
    assert(s:run())
    assert.equal(200, n)
    assert.same({}, k:leaks())
  end)

  it("passes no callback another event's payload", function()
    k.files["/sys/kernel/tracing/events/a/b/id"] = "300\n"
    k.files["/sys/kernel/tracing/events/a/b/format"] = "name: b\nID: 300\nformat:\n"
      .. "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n"
      .. "\tfield:int x;\toffset:8;\tsize:4;\tsigned:1;\n\nprint fmt: \"x=%d\", REC->x\n"
    k.refuse = function(attr) return attr.type == 2 and E.EPERM end
    local seen
    local s = perfev.session { duration = "1s" }
    s:event { "a:b", optional = true, sample = function() end }
    s:event(clock_event { sample_type = { "raw" }, sample = function(...)
      seen = table.pack((select("#", ...)), (...).args)
    end })
    k:after(MS, function() emit(1, "sample", { raw = "12345678" }) end)
    assert(s:run())
    assert.equal(1, seen[1])
    assert.is_nil(seen[2])
  end)
end)

describe("a callback", function()
  for _, strict in ipairs { true, false } do
    it(("that raises at the k-th of 64 records: each is delivered once (%s)"):format(
      strict and "strict: up to that one" or "not strict: all"), function()
      for at = 1, 64 do
        k = sim.new()
        perfev.hooks.clear()
        perfev.hooks.set(k.hooks)
        local seen, told = {}, {}
        local function on_error(text, where) told[#told + 1] = where .. text end
        local s = new({ duration = "1s", strict = strict, on_error = on_error }, { sample = function(r)
          seen[#seen + 1] = r.period
          if r.period >= at then error("at " .. r.period) end
        end })
        k:after(MS, function() emit_many(64) end)
        local ok, why = s:run()
        local wanted = {}
        for i = 1, strict and at or 64 do wanted[i] = i end
        assert.same(wanted, seen)
        assert.equal(1, #told)
        assert.matches("^sample of .*at " .. at .. "\nstack traceback:", told[1])
        assert.equal(strict and 1 or 65 - at, s:totals().callback_errors)
        assert.equal(64, s:totals().records)
        assert.equal(#wanted, s:totals().delivered)
        if strict then
          assert.is_nil(ok)
          assert.matches("at " .. at .. "\nstack traceback:", why)
        else
          assert.is_true(ok)
        end
        assert.same({}, k:leaks())
      end
    end)
  end

  it("that raises keeps no record from the callbacks behind it", function()
    for _, fields in ipairs { false, { "tid" }, { "comm" } } do
      local seen, told = {}, {}
      k.events = {}
      local s = perfev.session { strict = false, duration = "1s",
        on_error = function(text) told[#told + 1] = text:match "record %d" end }
      for event = 1, 2 do
        s:event(clock_event { fields = fields or nil, sample = function()
          seen[#seen + 1] = event
          if #seen == 3 or #seen == 4 then error("record " .. #seen) end
        end })
      end
      k:after(MS, function() for i = 1, 5 do emit(i == 4 and 3 or 1) end end)
      assert(s:run())
      assert.same({ 1, 1, 1, 2, 1 }, seen)
      assert.same({ "record 3", "record 4" }, told)
      assert.equal(2, s:totals().callback_errors)
    end
  end)

  it("is called in its own place after another one has declared an event", function()
    local seen = {}
    local s
    s = new({ duration = "1s" }, { sample = function()
      seen[#seen + 1] = "first"
      if #seen > 1 then return end
      s:event(clock_event { sample = function() seen[#seen + 1] = "second" end })
      emit(3)
      emit(1)
    end })
    k:after(MS, function() emit_many(2) end)
    assert(s:run())
    table.sort(seen)
    assert.same({ "first", "first", "first", "second" }, seen)
  end)

  it("that raises is reported once for each callback, regardless of the event's name", function()
    local told = 0
    local s = perfev.session { strict = false, duration = "1s", on_error = function() told = told + 1 end }
    for _ = 1, 2 do s:event { switch = function() error "x" end, comm = function() error "y" end } end
    k:after(MS, function()
      for _ = 1, 3 do
        for _, n in ipairs { 1, 3 } do
          emit(n, "switch")
          emit(n, "comm", { comm = "z", pid = 9, tid = 9 })
        end
      end
    end)
    assert(s:run())
    assert.equal(12, s:totals().callback_errors)
    assert.equal(4, told)
  end)

  local raisers = {
    ["a string"] = function() error("word") end,
    ["a table"] = function() error({}) end,
    ["nil"] = function() error(nil) end,
    ["a table whose __tostring raises"] = function()
      error(setmetatable({}, { __tostring = function() error("inner") end }))
    end,
    ["a table whose __tostring gives no string"] = function()
      error(setmetatable({}, { __tostring = function() return 1 end }))
    end,
    ["a yield"] = function() coroutine.yield() end,
  }
  for name, raise in pairs(raisers) do
    it("that raises " .. name .. " ends a strict run with it, but no other run", function()
      for _, from in ipairs { "sample", "every", "begin", "done", "signal" } do
        for _, strict in ipairs { true, false } do
          k = sim.new()
          perfev.hooks.clear()
          perfev.hooks.set(k.hooks)
          local s = perfev.session { duration = "1s", strict = strict }
          s:event(clock_event { sample = from == "sample" and raise or nil })
          if from == "every" then s:every("100ms", raise) end
          if from == "begin" then s:begin(raise) end
          if from == "done" then s:done(raise) end
          if from == "signal" then s:signal("USR1", raise) end
          k:after(MS, function()
            emit(1)
            k:signal(10)
          end)
          -- In a coroutine, because yield needs a caller.
          local co = coroutine.create(function() return s:run() end)
          local ran, ok, why = coroutine.resume(co)
          assert.is_true(ran, from .. ": " .. tostring(ok))
          assert.equal("dead", coroutine.status(co))
          if strict then
            assert.is_nil(ok, from)
            assert.equal(name:find "table" and "table" or "string", type(why))
          else
            assert.is_true(ok, from)
          end
          assert.is_true(s:totals().callback_errors > 0)
          assert.same({}, k:leaks())
        end
      end
    end)
  end

  it("that overflows the stack is an error like any other", function()
    local function deeper() return 1 + deeper() end
    -- An object collected while the stack is full loses its __gc; objects of other specs must not.
    collectgarbage "stop"
    finally(function() collectgarbage "restart" end)
    local s = new({ duration = "1s" }, { sample = deeper })
    k:after(MS, function() emit(1) end)
    local ok, why = s:run()
    assert.is_nil(ok)
    assert.matches("stack overflow", why)
    assert.same({}, k:leaks())
  end)

  it("with an error handler that raises does no harm", function()
    for _, from in ipairs { "sample", "every" } do
      k = sim.new()
      perfev.hooks.clear()
      perfev.hooks.set(k.hooks)
      local s = perfev.session { strict = false, duration = "1s", on_error = function() error("handler") end }
      s:event(clock_event { sample = from == "sample" and function() error("x") end or nil })
      if from == "every" then s:every("100ms", function() error("x") end) end
      k:after(MS, function() emit_many(3) end)
      pcall(s.run, s)
      s:close()
      assert.same({}, k:leaks())
    end
  end)

  -- Everything a callback may do to its own session, from every kind of callback.
  local actions = {
    stop = function(s) s:stop() end,
    close = function(s) s:close() end,
    ["close twice"] = function(s) s:close() s:close() end,
    ["close and stop"] = function(s) s:close() s:stop() end,
    ["collect garbage"] = function() collectgarbage() end,
    ["close its event"] = function(_, ev) ev:close() end,
    ["close its event twice"] = function(_, ev) ev:close() ev:close() end,
    ["disable its event"] = function(_, ev) ev:disable() end,
    ["open an event"] = function(s) s:event { "page-faults", sample = function() end } end,
    ["open and close an event"] = function(s)
      local ev = s:event { "page-faults", sample = function() end }
      if ev then ev:close() end
    end,
    ["close, then open an event"] = function(s) s:close() pcall(s.event, s, { "page-faults" }) end,
    ["close, then collect garbage"] = function(s) s:close() collectgarbage() end,
    ["ask for stats"] = function(s) assert(s:totals().records) end,
    ["dispatch"] = function(s) pcall(s.dispatch, s) end,
    ["run"] = function(s) pcall(s.run, s) end,
    ["start"] = function(s) s:start() end,
    ["pull records"] = function(s) pcall(function() s:records()() end) end,
    ["make a timer"] = function(s) s:every("10ms", function() end) end,
    ["clear the hooks"] = function() perfev.hooks.clear() end,
    ["run another session"] = function()
      local other = new { duration = "10ms" }
      other:run()
    end,
  }
  local places = { "sample", "record", "comm", "fork", "exit", "switch", "lost", "mmap", "throttle", "read", "ksymbol",
                   "bpf", "namespaces", "cgroup", "text_poke", "aux", "itrace_start", "aux_output_hw_id",
                   "every", "signal", "begin", "done" }
  local kinds = { -- callback -> record type and fields
    comm = { "comm", { comm = "x" } }, fork = { "fork", {} }, exit = { "exit", {} }, switch = { "switch", {} },
    lost = { "lost_samples", { lost = 3 } }, mmap = { "mmap", { filename = "f" } }, throttle = { "throttle", {} },
    read = { "read", { read = {} } }, ksymbol = { "ksymbol", { len = 1, ksym_type = 1, flags = 0, name = "n" } },
    bpf = { "bpf_event", { bpf_type = 1, flags = 0, id = 1, tag = "12345678" } },
    namespaces = { "namespaces", { namespaces = {} } }, cgroup = { "cgroup", { path = "/" } },
    text_poke = { "text_poke", { old_bytes = "a", new_bytes = "b" } }, aux = { "aux", {} },
    itrace_start = { "itrace_start", {} }, aux_output_hw_id = { "aux_output_hw_id", {} },
    record = { "switch", {} }, sample = { "sample", {} },
  }

  for action, act in pairs(actions) do
    it("can " .. action .. " in any place", function()
      for _, place in ipairs(places) do
        k = sim.new()
        perfev.hooks.clear()
        perfev.hooks.set(k.hooks)
        local s = perfev.session { duration = "1s", strict = true }
        local ev
        local called = 0
        local function callback()
          called = called + 1
          act(s, ev)
        end
        local kind = kinds[place]
        ev = s:event(clock_event { [kind and place or "sample"] = kind and callback or nil })
        if place == "every" then s:every("100ms", callback) end
        if place == "signal" then s:signal("USR1", callback) end
        if place == "begin" then s:begin(callback) end
        if place == "done" then s:done(callback) end
        k:after(MS, function()
          k:signal(10)
          for _ = 1, kind and 20 or 0 do
            local fields = {}
            for name, value in pairs(kind[2]) do fields[name] = value end
            if k.events[1].enabled then k:emit(k.events[1], kind[1], fields) end
          end
        end)
        local ran, why = pcall(s.run, s)
        assert.is_true(ran, place .. ": " .. tostring(why))
        assert.is_true(called > 0, place)
        s:close()
        assert.same({}, k:leaks(), place)
      end
    end)
  end

  it("that calls close() suppresses `done`", function()
    for _, place in ipairs { "sample", "every" } do
      local done = 0
      local s
      s = new({ duration = "1s" }, { sample = place == "sample" and function() s:close() end or nil })
      if place == "every" then s:every("100ms", function() s:close() end) end
      s:done(function() done = done + 1 end)
      k.events = {}
      k:after(MS, function() emit_many(3) end)
      s:run()
      assert.equal(0, done, place)
    end
  end)

  it("is not called again after it has closed the session", function()
    local n = 0
    local s
    s = new({}, { sample = function()
      n = n + 1
      s:close()
    end })
    k:after(MS, function() emit_many(10) end)
    s:run()
    assert.equal(1, n)
    assert.same({}, k:leaks())
  end)
end)

describe("a record kept after its callback", function()
  local function stale(r)
    for _, use in ipairs {
      function() return r.time end, function() return r.type end, function() return pairs(r) end,
      function() return tostring(r) end, function() return r:copy() end, function() return r.nonsense end,
    } do
      assert.error_matches(use, STALE, 1, true)
    end
  end

  it("raises in the next callback, and in those after it", function()
    local kept, checked = nil, 0
    local s = new({ duration = "1s" }, { sample = function(r)
      if kept then
        stale(kept)
        checked = checked + 1
      end
      if not kept then kept = r end
    end })
    k:after(MS, function() emit_many(7) end)
    assert(s:run())
    assert.equal(6, checked)
  end)

  it("raises in a timer, in done, and after the run", function()
    local kept, checked = nil, 0
    local function check()
      if not kept then return end
      stale(kept)
      checked = checked + 1
    end
    local s = new({ duration = "1s" }, { sample = function(r) kept = kept or r end })
    s:every("100ms", check)
    s:done(check)
    k:after(MS, function() emit_many(2) end)
    assert(s:run())
    check()
    collectgarbage()
    check()
    assert.is_true(checked > 5)
  end)

  it("raises after a callback that raised", function()
    local kept
    local s = new({ duration = "1s", strict = false }, { sample = function(r)
      kept = r
      error("x")
    end })
    s:every("300ms", function() stale(kept) end)
    k:after(MS, function() emit(1) end)
    assert(s:run())
    assert.equal(1, s:totals().callback_errors)
  end)

  it("raises in its iterator and in its copy method", function()
    local step, state, copy
    local s = new({ duration = "1s" }, { sample = function(r)
      step, state = pairs(r)
      copy = r.copy
      step(state)
    end })
    k:after(MS, function() emit(1) end)
    assert(s:run())
    assert.error_matches(function() step(state) end, STALE, 1, true)
    assert.error_matches(function() copy(state) end, STALE, 1, true)
  end)

  it("is a plain table when it was copied", function()
    local kept = {}
    local s = new({ duration = "1s" }, { sample = function(r) kept[#kept + 1] = r:copy() end })
    k:after(MS, function() emit_many(3) end)
    assert(s:run())
    for i, r in ipairs(kept) do
      assert.is_nil(getmetatable(r))
      assert.equal(i, r.period)
    end
  end)

  it("raises in the loop's next round when it was pulled", function()
    local kept
    local s = new({ duration = "1s" })
    k:after(MS, function() emit_many(3) end)
    for r in s:records() do
      if kept then stale(kept) end
      kept = r
    end
    stale(kept)
  end)
end)

describe("a target that ends", function()
  local function two_threads()
    for _, tid in ipairs { 70, 71 } do k.files["/proc/70/task/" .. tid .. "/comm"] = "app\n" end
  end

  it("hangs up without IN, its records unread: all are delivered, and nothing spins", function()
    k.files["/proc/70/task/70/comm"] = "app\n"
    local n = 0
    local s = new({ pid = 70 }, { sample = function() n = n + 1 end })
    k:after(MS, function()
      emit_many(50, 1)
      emit_many(50, 2)
      k:exit(70)
    end)
    assert(s:run())
    assert.equal(100, n)
    assert.is_true(calls_of("epoll_wait") <= 3, calls_of("epoll_wait"))
    assert.same({}, k:leaks())
  end)

  it("reports a permanent error with unread records: all are delivered, without spinning", function()
    k.files["/proc/70/task/70/comm"] = "app\n"
    local n = 0
    local s = new({ pid = 70 }, { sample = function() n = n + 1 end })
    k:after(MS, function()
      emit_many(50, 1)
      for _, event in ipairs(k.events) do event.failed = true end -- poll(2) says POLLERR from now on
    end)
    assert(s:run())
    assert.equal(50, n)
    assert.is_true(calls_of("epoll_wait") <= 3, calls_of("epoll_wait"))
    assert.same({}, k:leaks())
  end)

  it("is polled for by another thread's descriptor when the first has ended", function()
    two_threads()
    local n = 0
    local s = new({ pid = 70, cpus = { 0 } }, { sample = function() n = n + 1 end })
    k:after(MS, function()
      emit_many(5, 1)
      k:exit(70)
    end)
    k:after(2000 * MS, function() emit_many(5, 2) end)
    k:after(2001 * MS, function() k:exit(71) end)
    local start = k.now
    assert(s:run())
    assert.equal(10, n)
    assert.equal(2001 * MS, k.now - start)
    assert.is_true(calls_of("epoll_wait") <= 2 + 20 + 2, calls_of("epoll_wait")) -- the ticks, and two ends
  end)

  it("ends the run once the last of many threads has ended, in any order", function()
    for tid = 70, 89 do k.files["/proc/70/task/" .. tid .. "/comm"] = "app\n" end
    local s = new({ pid = 70 })
    for i, tid in ipairs { 75, 70, 89, 71, 72, 73, 74, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88 } do
      k:after(i * MS, function() k:exit(tid) end)
    end
    local start = k.now
    assert(s:run())
    assert.equal(20 * MS, k.now - start)
    assert.is_true(calls_of("epoll_wait") < 50, calls_of("epoll_wait"))
    assert.same({}, k:leaks())
  end)

  it("keeps the ring when the event that owns it is closed", function()
    two_threads()
    local n = 0
    local s = perfev.session { pid = 70, cpus = { 0 }, duration = "1s" }
    local first = s:event(clock_event {})
    s:event { "page-faults", sample = function() n = n + 1 end }
    s:every("100ms", function() first:close() end)
    k:after(500 * MS, function() k:emit(k.events[3], "sample") end)
    assert(s:run())
    assert.equal(1, n)
    assert.same({}, k:leaks())
  end)
end)

describe("a group that is read by its leader", function()
  it("has a sample of each event with a larger count, and the growth as its period", function()
    local s = perfev.session { cpus = { 0 }, duration = "1s" }
    local seen, ev = {}, nil
    ev = s:event { "{cpu-clock,page-faults}:S", period = 100, sample = function(r)
      seen[#seen + 1] = ("%s %d %d"):format(r.event == ev.members[1] and "leader" or r.event == ev.members[2]
        and "member" or "?", r.period, r.ip)
    end }
    k:after(MS, function()
      for i, counts in ipairs { { 100, 2 }, { 200, 2 }, { 300, 7 } } do
        local values = {}
        for n = 1, 2 do values[n] = { id = k.events[n].id, value = counts[n] } end
        emit(1, "sample", { ip = i, period = 100, read = { values = values } })
      end
    end)
    assert(s:run())
    assert.same({ "leader 100 1", "member 2 1", "leader 100 2", "leader 100 3", "member 5 3" }, seen)
    assert.equal(5, s:totals().delivered)
  end)
end)

describe("a snapshot", function()
  it("reports that the kernel does not resume the output, after its records were delivered", function()
    k = sim.new { cpus = "0" }
    perfev.hooks.set(k.hooks)
    local periods = {}
    local s <close> = new({ overwrite = true, buffer = "4K" },
      { sample = function(r) periods[#periods + 1] = r.period end })
    assert(s:start())
    emit_many(3)
    assert.equal(3, s:snapshot())
    k:fail("ioctl PAUSE_OUTPUT", 2, E.EINTR)
    local n, why, code = s:snapshot()
    assert.is_nil(n)
    assert.matches("cannot resume the output of a backward ring", why, 1, true)
    assert.equal(E.EINTR, code)
    assert.same({ 1, 2, 3, 1, 2, 3 }, periods)
  end)
end)

describe("loss", function()
  it("of the session's own records is counted apart", function()
    local s = perfev.session { buffer = "4K", cpus = { 0 }, duration = "1s" }
    local read = 0
    s:event { type = 1, config = 0, sample_period = 1, sample = function() read = read + 1 end }
    k:after(MS, function()
      emit_many(100)
      for i = 1, 7 do emit(2, "exit", { pid = i, tid = i }) end
    end)
    assert(s:run())
    assert.equal(100, read + s:totals().lost)
    assert.equal(7, s:totals().lost_own)
  end)

  it("is reported by LOST to `lost` and counted: read and lost records add up to all", function()
    local read, told = 0, 0
    local s = new({ buffer = "4K" }, {
      sample = function() read = read + 1 end, lost = function(r) told = told + r.lost end,
    })
    assert(s:start())
    for _ = 1, 5 do
      emit_many(100)
      s:dispatch()
      k:advance_to(k.now + 50 * MS)
    end
    k:advance_to(k.now + 500 * MS)
    emit_many(1)
    for _ = 1, 3 do
      k:advance_to(k.now + 50 * MS)
      s:dispatch()
    end
    assert.equal(501, k.events[1].value)
    assert.is_true(told > 0)
    assert.equal(501, read + told)
    assert.equal(told, s:totals().lost)
    s:close()
  end)

  it("is known at the end if no later record reports it", function()
    local read = 0
    local s = new({ buffer = "4K" }, { sample = function() read = read + 1 end })
    assert(s:start())
    emit_many(100)
    s:close()
    local stats = s:totals()
    assert.is_true(stats.lost > 0)
    s = new({ buffer = "4K", duration = "1s" }, { sample = function() read = read + 1 end })
    k.events = {}
    k:after(MS, function() emit_many(100) end)
    assert(s:run())
    assert.equal(100, read + s:totals().lost)
  end)

  it("is counted for an event that was closed before the end", function()
    local s = new({ buffer = "4K" }, {})
    local ev = s:event { "page-faults", sample = function() end }
    assert(s:start())
    emit_many(100, 3)
    ev:close()
    assert.equal(100, s:totals().lost + k.events[3].ring.memory:u64(1024) // 64)
    s:close()
  end)

  it("is reported to every `lost` callback, even if the record is another event's", function()
    local told = 0
    local s = perfev.session { buffer = "4K", duration = "1s" }
    s:event(clock_event {})
    s:event { "dummy", lost = function(r) told = told + r.lost end }
    k:after(MS, function() emit_many(100) end)
    k:after(500 * MS, function() emit_many(1) end)
    assert(s:run())
    assert.equal(s:totals().lost, told)
    assert.is_true(told > 0)
  end)

  it("is reported even if the session's own process writes the next record", function()
    local told = 0
    local s = perfev.session { buffer = "4K", duration = "1s", exclude_self = true, cpus = { 0 } }
    s:event(clock_event { lost = function(r) told = told + (r.at_end and 0 or r.lost) end })
    k:after(MS, function() emit_many(100) end)
    k:after(500 * MS, function() k:emit(k.events[1], "sample", { pid = k.pid, tid = k.pid }) end)
    assert(s:run())
    assert.is_true(told > 0)
    assert.equal(s:totals().lost, told)
  end)

  it("adds up over events with and without a lost count of their own", function()
    -- Under SAMPLE_READ nothing is added to read_format: its losses are known from LOST alone.
    local s = perfev.session { buffer = "4K", duration = "1s", cpus = { 0 } }
    local read = 0
    s:event(clock_event { sample = function() read = read + 1 end })
    s:event { type = 1, config = 0, sample_type = { "read" }, sample = function() read = read + 1 end }
    k:after(MS, function() emit_many(100, 1) end)
    k:after(500 * MS, function() emit_many(100, 2) end)
    k:after(800 * MS, function() emit_many(1, 1) end)
    assert(s:run())
    assert.equal(201, read + s:totals().lost)
  end)

  it("without a record is reported to `lost` at the end, so that its sum is the total", function()
    local told, ends = 0, {}
    local s = perfev.session { buffer = "4K", cpus = { 0 }, duration = "1s" }
    s:event { type = 1, config = 0, sample_period = 1, sample = function() end, lost = function(r)
      told = told + r.lost
      if r.at_end then ends[#ends + 1] = { r.type, r.lost, r.tid, r.time == k.now } end
    end }
    k:after(MS, function()
      emit_many(100)
      for i = 1, 7 do emit(2, "exit", { pid = i, tid = i }) end
    end)
    assert(s:run())
    local stats = s:totals()
    assert.equal(7, stats.lost_own)
    assert.is_true(stats.lost > 0)
    assert.same({ { "lost", stats.lost + stats.lost_own, 0, true } }, ends)
    assert.equal(stats.lost + stats.lost_own, told)
  end)

  it("without a record is the last record of a loop over all", function()
    local s = perfev.session { buffer = "4K", cpus = { 0 }, duration = "1s" }
    s:event(clock_event {})
    k:after(MS, function() emit_many(100) end)
    local last, told = nil, 0
    for r in s:records() do
      last = r.type
      if r.type == "lost" then told = told + r.lost end
    end
    assert.equal("lost", last)
    assert.equal(s:totals().lost, told)
  end)

  it("is not reported at the end of a session that a callback ended", function()
    local told = 0
    local s = perfev.session { buffer = "4K", cpus = { 0 }, duration = "1s" }
    s:event(clock_event { sample = function() return false end, lost = function(r) told = told + r.lost end })
    k:after(MS, function() emit_many(100) end)
    assert(s:run())
    assert.is_true(s:totals().lost > 0)
    assert.equal(0, told)
  end)

  it("of samples in the hardware is counted apart", function()
    local told
    local s = new({ duration = "1s" }, { lost = function(r) told = r.type .. r.lost end })
    k:after(MS, function() emit(1, "lost_samples", { lost = 5 }) end)
    assert(s:run())
    assert.equal("lost_samples5", told)
    assert.equal(5, s:totals().lost_samples)
    assert.equal(0, s:totals().lost)
  end)

  it("is counted if a callback sleeps: read and lost records add up to all", function()
    local read = 0
    local s = new({ buffer = "4K", duration = "5s" }, { sample = function()
      read = read + 1
      k:advance_to(k.now + 30 * MS)
    end })
    local sent = 0
    for ms = 1, 3000, 10 do k:after(ms * MS, function() emit_many(2) sent = sent + 2 end) end
    assert(s:run())
    assert.equal(600, sent)
    assert.equal(600, read + s:totals().lost)
    assert.is_true(s:totals().lost > 0)
  end)
end)

describe("the caller's own loop", function()
  it("has a descriptor, and dispatch() delivers at most its argument", function()
    local n = 0
    local s = new({ ordered = false }, { sample = function() n = n + 1 end })
    assert.error_matches(function() s:fd() end, "start%(%) it first")
    assert.error_matches(function() s:dispatch() end, "start%(%) it first")
    assert(s:start())
    assert.equal("epoll", k.fds[s:fd()].kind)
    emit_many(10)
    assert.same({ 3, true }, { s:dispatch(3) })
    assert.equal(3, n)
    assert.same({ 3, true }, { s:dispatch(3) })
    assert.same({ 4, true }, { s:dispatch() })
    assert.same({ 0, true }, { s:dispatch() })
    s:close()
    assert.same({ 0, false }, { s:dispatch() })
  end)

  it("finds its descriptor readable while dispatch() leaves records behind", function()
    local s <close> = new({ ordered = false }, { sample = function() end })
    assert(s:start())
    local function is_readable() return #k.hooks.epoll_wait(s:fd(), 8, 1) > 0 end
    emit_many(10)
    for _ = 1, 3 do
      assert.same({ 3, true }, { s:dispatch(3) })
      assert.is_true(is_readable())
    end
    assert.same({ 1, true }, { s:dispatch(3) })
    assert.is_false(is_readable())
    s:close()
    assert.same({}, k:leaks())
  end)

  it("gets false when the session has ended, and everything is closed by then", function()
    local s = new({ ordered = false }, { sample = function(r) return r.period < 3 end })
    assert(s:start())
    emit_many(10)
    assert.same({ 3, false }, { s:dispatch() })
    assert.same({}, k:leaks())
    assert.same({ 0, false }, { s:dispatch() })
  end)

  it("gets the object that a callback raised, from each function that reports it", function()
    local object = setmetatable({ code = 5 }, { __tostring = function() return "five" end })
    local told = {}
    local function on_error(...) told = { ... } end
    local function fail() error(object) end
    local s = new({ on_error = on_error }, { sample = fail })
    k:after(MS, function() emit_many(2) end)
    local ok, why = s:run()
    assert.is_nil(ok)
    assert.is_true(rawequal(object, why))
    assert.is_true(rawequal(object, told[1]))
    assert.matches("^sample of ", told[2])
    assert.matches("^stack traceback:\n.*session_spec", told[3])

    for verb, where in pairs { done = "done", begin = "begin", every = "every" } do
      s = new({ on_error = on_error, duration = "20ms" }, {})
      if verb == "every" then s:every("5ms", fail) else s[verb](s, fail) end
      assert.is_true(rawequal(object, select(2, s:run())), verb)
      assert.same({ where, "string" }, { told[2], type(told[3]) })
    end
  end)

  it("gets the object from dispatch()", function()
    local object = { code = 5 }
    local s = new({ ordered = false }, { sample = function() error(object) end })
    assert(s:start())
    emit_many(2)
    assert.is_true(rawequal(object, select(2, s:dispatch())))
    assert.same({}, k:leaks())
  end)

  it("gets a text if a callback raised nil or false, which would read as success", function()
    for _, object in ipairs { "nil", "false" } do
      local s = new({ duration = "20ms" }, {})
      s:every("5ms", function() error(load("return " .. object)()) end)
      local ok, why = s:run()
      assert.is_nil(ok)
      assert.matches("^%(error object is a %l+ value%)\nstack traceback:", why)
    end
  end)

  it("gets the error of a strict callback", function()
    local s = new({ ordered = false }, { sample = function() error("mine") end })
    assert(s:start())
    emit_many(2)
    local n, why = s:dispatch()
    assert.is_nil(n)
    assert.matches("mine\nstack traceback", why)
    assert.same({}, k:leaks())
  end)

  it("cannot be entered again from its callbacks", function()
    local texts = {}
    local s
    s = new({ ordered = false, duration = "1s" }, { sample = function()
      for _, f in ipairs { s.dispatch, s.run, s.records } do
        local ok, why = pcall(f, s)
        assert.is_false(ok)
        texts[#texts + 1] = why
      end
    end })
    assert(s:start())
    emit(1)
    local waits = calls_of("epoll_wait")
    s:dispatch()
    assert.equal(3, #texts)
    for _, text in ipairs(texts) do assert.matches("callback", text) end
    assert.equal(waits + 1, calls_of("epoll_wait")) -- the ring was empty
    s:close()
  end)

  it("runs timers and signals in dispatch()", function()
    local n = 0
    local s = new()
    s:every("50ms", function() n = n + 1 end)
    assert(s:start())
    k:advance_to(k.now + 60 * MS)
    s:dispatch()
    assert.equal(1, n)
    s:close()
  end)
end)

describe("records()", function()
  it("returns all records of the declared events in order, and closes at the loop's end", function()
    local s = perfev.session { duration = "1s" }
    s:event(clock_event { name = "one" })
    s:event { switch = function() error("no callback is called") end }
    local seen = {}
    k:after(2 * MS, function() emit(1, "sample", { period = 1 }) end)
    k:after(1 * MS, function() emit(3, "switch") end)
    k:after(700 * MS, function() emit(2, "comm", { comm = "x", pid = 8, tid = 8 }) end)
    for r in s:records() do seen[#seen + 1] = r.type .. " of " .. r.event.name end
    assert.same({ "switch of dummy", "sample of one", "comm of one" }, seen)
    assert.same({}, k:leaks())
    assert.equal(3, s:totals().delivered)
  end)

  it("closes when the loop is left by break, return or an error", function()
    for _, leave in ipairs { "break", "error" } do
      local s = new { duration = "1s" }
      k.events = {}
      k:after(MS, function() emit_many(5) end)
      pcall(function()
        for r in s:records() do
          if leave == "error" then error("x") end
          if r then break end
        end
      end)
      assert.same({}, k:leaks())
      assert.is_true(s.finished)
    end
  end)

  it("ends after a number of records, and when all targets have ended", function()
    local s, n = new { count = 3 }, 0
    k:after(MS, function() emit_many(5) end)
    for _ in s:records() do n = n + 1 end
    assert.equal(3, n)
    k.files["/proc/70/task/70/comm"] = "app\n"
    s, n, k.events = new { pid = 70 }, 0, {}
    k:after(MS, function()
      emit_many(5)
      k:exit(70)
    end)
    for _ in s:records() do n = n + 1 end
    assert.equal(5, n)
    assert.same({}, k:leaks())
  end)

  it("can be stopped, and closed, inside its loop", function()
    for _, how in ipairs { "stop", "close" } do
      local s, n = new { duration = "1s" }, 0
      k.events = {}
      k:after(MS, function() emit_many(5) end)
      for _ in s:records() do
        n = n + 1
        s[how](s)
      end
      assert.is_true(n >= 1)
      assert.same({}, k:leaks())
    end
  end)

  it("can be closed by a timer", function()
    local s = new { duration = "1s" }
    s:every("100ms", function() s:close() end)
    for _ in s:records() do error("no record was sent") end
    assert.same({}, k:leaks())
  end)

  it("refuses to be read again inside its loop, and loses no record", function()
    local s, n = new { duration = "1s" }, 0
    k:after(MS, function() emit_many(5) end)
    for _ in s:records() do
      n = n + 1
      for _, verb in ipairs { "dispatch", "run", "records" } do
        assert.error_matches(function() s[verb](s) end, verb .. "%(%) within a loop over its records")
      end
    end
    assert.equal(5, n)
  end)

  it("raises the error of the start", function()
    k:fail("perf_event_open", 1, E.EACCES)
    k:fail("perf_event_open", 2, E.EACCES)
    assert.error_matches(function() for _ in new():records() do error() end end, "Permission denied")
    assert.same({}, k:leaks())
  end)

  it("raises when waiting fails, and does not spin", function()
    local waits = 0
    k.hooks.epoll_wait = function()
      waits = waits + 1
      if waits > 100 then error("spins") end
      return nil, E.EBADF
    end
    local ok, why = pcall(function() for _ in new({ duration = "1s" }):records() do error() end end)
    assert.is_false(ok)
    assert.matches("Bad file descriptor", why)
  end)

  it("raises the error of a strict timer", function()
    local s = new { duration = "1s" }
    s:every("100ms", function() error("timer's") end)
    assert.error_matches(function() for _ in s:records() do error("none") end end, "timer's")
    assert.same({}, k:leaks())
  end)
end)

describe("accounting", function()
  it("costs no system call per record", function()
    local function calls(count)
      k = sim.new()
      perfev.hooks.clear()
      perfev.hooks.set(k.hooks)
      local s = new({ duration = "1s" }, { sample = function(r) return r.time and nil end })
      k:after(MS, function() emit_many(count) end)
      assert(s:run())
      assert.equal(count, s:totals().delivered)
      return #k.log
    end
    local few, many = calls(10), calls(10000)
    assert.is_true(many - few < 5, many - few) -- it takes a wakeup more
  end)

  it("costs no system call per record for tasks without a known name", function()
    local s = new({ duration = "1s" }, { sample = function(r) assert.equal(":77", r.comm) end })
    k:after(MS, function()
      for _ = 1, 100 do emit(1, "sample", { pid = 77, tid = 77 }) end
    end)
    assert(s:run())
    assert.is_true(calls_of("slurp") < 10, calls_of("slurp"))
  end)

  it("allocates nothing for a record without listeners", function()
    local s = new({ ordered = false })
    assert(s:start())
    emit_many(100)
    s:dispatch()
    emit_many(10000)
    collectgarbage()
    collectgarbage("stop")
    local before = collectgarbage("count")
    s:dispatch()
    local spent = collectgarbage("count") - before
    collectgarbage("restart")
    assert.is_true(spent < 20, spent) -- the cost of the hooks' log
    s:close()
  end)

  it("counts unassigned, malformed and throttle records, and continues", function()
    local n = 0
    local s = new({ duration = "1s" }, { sample = function() n = n + 1 end })
    k:after(MS, function()
      emit(1)
      emit(1, "sample", { identifier = 4711 })
      k:push(k.events[1], wire.frame(9, 0, string.pack("=I8", k.events[1].id)))
      emit(1, "throttle", { time = 1, id = 1, stream_id = 1 })
      emit(1)
    end)
    assert(s:run())
    local stats = s:totals()
    assert.equal(2, n)
    assert.same({ 5, 2, 1, 1, 1 },
      { stats.records, stats.delivered, stats.unknown_id, stats.malformed, stats.throttled })
  end)

  -- perf_event_ksymbol_output() and the like: the record of the second event that receives it, and of later ones.
  it("reads a record with too large a size up to the end of its content", function()
    local seen = {}
    local function note(r) seen[#seen + 1] = { r.type, r.name or r.id or r.new_bytes, r.time, r.cpu, r.tid } end
    local function other() error("it is not this one's") end
    local s = perfev.session { ordered = false }
    s:event { "dummy", ksymbol = other, bpf = other, text_poke = other, name = "first" }
    s:event { "dummy", ksymbol = note, bpf = note, text_poke = note, name = "second" }
    assert(s:start())
    local first, second = k.events[1], k.events[3]
    assert.equal(0, second.cpu)
    local codec = { attr = second.attr }
    -- Old bytes in the ring: the end of an earlier record of the first event.
    local stale = string.pack("=i4i4I8I4I4I8", 1, 1, 5, 1, 0, first.id)
    local records = {
      { type = "ksymbol", addr = -4096, len = 64, ksym_type = 1, flags = 0, name = "bpf_prog_1_x" },
      { type = "ksymbol", addr = -4096, len = 64, ksym_type = 1, flags = 0, name = "bpf_prog_1_seven" },
      { type = "bpf_event", bpf_type = 1, flags = 0, id = 7, tag = "12345678" },
      { type = "text_poke", addr = -8192, old_bytes = "abc", new_bytes = "defgh" },
    }
    for i, record in ipairs(records) do
      record.sample_id = { pid = 42, tid = 42, time = 1000 + i, cpu = 0, identifier = second.id }
      local bytes = perfev.encode(codec, record)
      k:push(second, bytes:sub(1, 6) .. string.pack("=I2", #bytes + #stale) .. bytes:sub(9) .. stale)
    end
    s:dispatch()
    s:close()
    assert.same({
      { "ksymbol", "bpf_prog_1_x", 1001, 0, 42 }, { "ksymbol", "bpf_prog_1_seven", 1002, 0, 42 },
      { "bpf_event", 7, 1003, 0, 42 }, { "text_poke", "defgh", 1004, 0, 42 },
    }, seen)
    local stats = s:totals()
    assert.same({ 0, 0, 0 }, { stats.unknown_id, stats.late, stats.malformed })
  end)

  it("leaves the observer's own records out with exclude_self", function()
    local seen = {}
    local s = new({ duration = "1s", exclude_self = true }, { sample = function(r) seen[#seen + 1] = r.pid end })
    k:after(MS, function()
      emit(1, "sample", { pid = 1000, tid = 1001 })
      emit(1, "sample", { pid = 5, tid = 5 })
    end)
    assert(s:run())
    assert.same({ 5 }, seen)
    assert.equal(1, s:totals().excluded)
  end)

  it("leaves out tasks with a name that does not match comm at the time of the record", function()
    local seen = {}
    local s = perfev.session { duration = "1s", all_cpus = true, comm = "work*,mine", buffer = "4K" }
    local function show(r) seen[#seen + 1] = r.type .. r.tid end
    local lost = 0
    s:event(clock_event { sample = show, comm = show, exit = show,
                          lost = function(r) lost = lost + r.lost end })
    k:after(MS, function()
      emit(1, "sample", { pid = 70, tid = 70 })
      emit(1, "comm", { pid = 70, tid = 70, comm = "worker" })
      emit(1, "sample", { pid = 70, tid = 70 })
      emit(1, "fork", { pid = 71, tid = 71, ppid = 70, ptid = 70 })
      emit(1, "sample", { pid = 71, tid = 71 })
      emit(1, "comm", { pid = 71, tid = 71, comm = "other" })
      emit(1, "sample", { pid = 71, tid = 71 })
      emit(1, "exit", { pid = 70, tid = 70, ppid = 1, ptid = 1 })
      emit(1, "exit", { pid = 71, tid = 71, ppid = 1, ptid = 1 })
      for _ = 1, 100 do emit(1, "sample", { pid = 72, tid = 72 }) end
    end)
    assert(s:run())
    assert.same({ "comm70", "sample70", "sample71", "exit70" }, seen)
    local stats = s:totals()
    assert.is_true(stats.lost > 0 and stats.lost == lost)
    assert.equal(stats.records, #seen + stats.excluded + 1) -- the FORK, that has no callback
    assert.same({}, k:leaks())
  end)

  it("refuses to limit counters and recordings of all tasks to names", function()
    local s = perfev.session { all_cpus = true, comm = "x" }
    s:counter { "page-faults" }
    local ok, why, code = s:start()
    assert.same({ false, perfev.errno.EINVAL }, { ok == true, code })
    assert.matches("^counters of whole CPUs count every process, and cannot be limited to names\n  try: ", why)
    assert.same({}, k:leaks())
    assert.error_matches(function() perfev.session { all_cpus = true, comm = "x", record = "y" } end,
      "record, all_cpus and comm at once")
    assert.same({ "target: all tasks named x" }, { perfev.session { all_cpus = true, comm = "x" }:plan()[1] })
  end)

  it("is zero before the start and stays after the end", function()
    local s = new({ duration = "1s" }, { sample = function() end })
    assert.equal(0, s:totals().records)
    k:after(MS, function() emit_many(5) end)
    assert(s:run())
    assert.equal(5, s:totals().records)
    assert.equal(2, s:totals().rings)
  end)
end)

describe("the fields of samples that aggregators read", function()
  local RAW, TID, TIME, CPU = 1 << 10, 1 << 1, 1 << 2, 1 << 7

  -- The bits of sample_type, without that of the id, of an event with this callback.
  local function asked(sample, opts, loop)
    local s = new(opts, { sample = sample })
    if loop then
      s:stop()
      for _ in s:records() do error "a record" end
    else
      assert(s:start())
    end
    local bits = k.events[1].attr.sample_type
    if not s.finished then s:close() end
    return bits & ~(1 << 16)
  end

  for _, case in ipairs {
    { "a count", function() return perfev.count {} end, 0 },
    { "a key of the record", function() return perfev.count { by = { "tid", "cpu" } } end, TID | CPU },
    { "a list of aggregators", function() return { perfev.count { by = "tid" }, perfev.sum { value = "cpu" } } end,
      TID | CPU },
    { "a name, which depends on the order", function() return perfev.count { by = "comm" } end, TID | TIME },
    { "a condition, which may read a name", function() return perfev.count { where = { "tid", ">", 1 } } end,
      TID | TIME },
    { "the largest keys, which depend on the order", function() return perfev.top { by = "tid" } end, TID | TIME },
  } do
    it("are requested alone: " .. case[1], function() assert.equal(case[3], asked(case[2]())) end)
  end

  it("include all others if the sample starts or stops a span", function()
    local into = perfev.quantile { where = { "cpu", "==", 0 } }
    local bits = asked(perfev.span { start = true, stop = true, by = "tid", into = into }.stop)
    assert.equal(TID | TIME | CPU, bits & (TID | TIME | CPU))
  end)

  it("include the time if the session ends after a number of samples", function()
    assert.equal(TIME, asked(perfev.count {}, { count = 5 }))
  end)

  it("include all others if a loop or a callback in Lua reads the records", function()
    local whole = asked(function() end)
    assert.equal(TID | TIME | CPU, whole & (TID | TIME | CPU))
    assert.equal(whole, asked(perfev.count {}, {}, true))
    assert.equal(0, whole & RAW)
  end)

  it("are delivered at once without the time, and never count as late", function()
    k = sim.new { cpus = "0-1" }
    perfev.hooks.set(k.hooks)
    local a, times = perfev.count { by = "cpu" }, 0
    local s = new({}, { sample = a })
    s:event(clock_event { sample = function() times = times + 1 end })
    assert(s:start())
    for _, n in ipairs { 3, 4, 1, 2 } do emit(n) end
    k.now = k.now + 200 * MS
    emit(4)
    emit(1)
    s:dispatch()
    assert.same({ 2, 1 }, { a:get(0), a:get(1) })
    s:stop()
    while select(2, s:dispatch()) do end -- luacheck: ignore 542
    assert.same({ 3, 0 }, { times, s:totals().late })
  end)
end)
