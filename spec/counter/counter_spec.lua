-- Counters and groups on the simulated kernel: every read_format, their targets, their system calls, and no leak when
-- they are closed.

local core = require "perfev.core"
local sim = require "perfev.sim"
local perfev = require "perfev"
local wire = require "spec.support.wire"

local E = perfev.errno
local GROUP, ID, ENABLED, RUNNING, LOST = 8, 4, 1, 2, 16
local PID_CGROUP = 4

local k, asked

-- The bytes that read(2) returns for an event that counts `value`; nil, ENOSPC if len is too small.
local function counted(fd, len)
  local event = k.fds[fd]
  if not event or event.kind ~= "event" then return nil, E.EBADF end
  if event.failed then return "" end
  local format = event.attr.read_format
  local function of(e) return { value = e.counted or 0, id = e.id, lost = e.missed or 0 } end
  local read = of(event)
  read.time_enabled, read.time_running = event.on or 100, event.ran or 100
  if format & GROUP ~= 0 then
    read.values = { of(event) }
    for _, other in ipairs(k.events) do
      if other.group_fd == fd and k.fds[other.fd] == other then read.values[#read.values + 1] = of(other) end
    end
    for _ = 1, k.strangers or 0 do table.insert(read.values, 2, { value = 7, id = 1, lost = 0 }) end
  end
  local bytes = wire.read_values(format, read)
  if #bytes > len then return nil, E.ENOSPC end
  return bytes
end

-- The kernel of spec/support, and the requests a counter makes.
local function counting(opts)
  k = sim.new(opts)
  asked = {}
  local ioctl, read = k.hooks.ioctl, k.hooks.read
  k.hooks.read = function(fd, len)
    if k.fds[fd] and k.fds[fd].kind ~= "event" then return read(fd, len) end
    k.reads = (k.reads or 0) + 1
    return counted(fd, len)
  end
  k.hooks.ioctl = function(fd, request, arg)
    if request ~= "ID" then asked[#asked + 1] = { fd = fd, request = request, arg = arg } end
    local answer = k.answers and k.answers[request]
    if type(answer) == "number" then return nil, answer end
    if answer then return answer end
    if request == "RESET" then
      local event = k.fds[fd]
      event.counted = event.left_by_children or 0
      return 0
    end
    if request == "ENABLE" or request == "DISABLE" or request == "ID" then return ioctl(fd, request, arg) end
    return 0
  end
  k.hooks.prctl = function(option)
    asked[#asked + 1] = { request = "prctl", arg = option }
    return 0
  end
  k.hooks.pagesize = function() return 4096 end
  perfev.hooks.set(k.hooks)
end

before_each(function() counting() end)
after_each(function() perfev.hooks.clear() end)

local function set(event, value, enabled, running, lost)
  event.counted, event.on, event.ran, event.missed = value, enabled, running, lost
end

local function places()
  local list = {}
  for i, e in ipairs(k.events) do list[i] = ("%d/%d"):format(e.pid, e.cpu) end
  return table.concat(list, " ")
end

local function requests()
  local list = {}
  for i, a in ipairs(asked) do list[i] = ("%s %s %s"):format(a.request, a.fd or "-", a.arg) end
  return list
end

describe("a reading", function()
  local function each_format(f)
    for format = 0, 31 do f(format) end
  end

  it("has the same values in every read_format", function()
    each_format(function(format)
      for _, make in ipairs { perfev.counter, perfev.group } do
        counting()
        local c = assert(make { "page-faults", "context-switches", tid = 7, read_format = format })
        set(k.events[1], 11, 100, 100, 3)
        set(k.events[2], 22, 100, 100, 4)
        local r = assert(c:read())
        assert.same({ ["page-faults"] = 11, ["context-switches"] = 22 }, r.raw)
        assert.equal(11, r["page-faults"])
        assert.equal(22, r["context-switches"])
        assert.equal(format & LOST ~= 0 and 4 or nil, r.counts["context-switches"].lost)
        assert.equal(format & ENABLED ~= 0 and 100 or nil, r.time_enabled)
        assert.equal(format & RUNNING ~= 0 and 100 or nil, r.time_running)
        assert.equal(format & (ENABLED | RUNNING) == 3 and 1.0 or nil, r.running_ratio)
        c:close()
        assert.same({}, k:leaks())
        perfev.hooks.clear()
      end
    end)
  end)

  it("requests the times by default, and the ids for a group", function()
    assert(perfev.counter { "page-faults", tid = 7 })
    assert(perfev.group { "page-faults", tid = 7 })
    assert(perfev.group { "page-faults", tid = 7, lost = true })
    assert.equal(ENABLED | RUNNING, k.events[1].attr.read_format)
    assert.equal(ENABLED | RUNNING | GROUP | ID, k.events[2].attr.read_format)
    assert.equal(31, k.events[3].attr.read_format)
  end)

  it("has the value scaled, and as it was counted", function()
    local c = perfev.counter { "page-faults", tid = 7 }
    set(k.events[1], 1000, 100, 25)
    local r = c:read()
    assert.equal(4000, r["page-faults"])
    assert.equal(1000, r.raw["page-faults"])
    assert.equal(0.25, r.running_ratio)
  end)

  it("is nil for an event that was enabled and never ran", function()
    local c = perfev.counter { "page-faults", tid = 7 }
    set(k.events[1], 0, 100, 0)
    local r = c:read()
    assert.is_nil(r["page-faults"])
    assert.equal(0, r.raw["page-faults"])
    assert.equal(0.0, r.running_ratio)
    assert.equal(1, r.counts["page-faults"].silent)
  end)

  it("is 0 for an event that was never enabled", function()
    local c = perfev.counter { "page-faults", tid = 7, disabled = true }
    set(k.events[1], 0, 0, 0)
    assert.equal(0, c:read()["page-faults"])
  end)

  it("scales with intermediate results beyond 64 bits", function()
    local c = perfev.counter { "page-faults", tid = 7 }
    set(k.events[1], 1 << 60, 6000000000, 3000000000)
    assert.equal(1 << 61, c:read()["page-faults"])
    set(k.events[1], 1 << 60, 1 << 40, 1)
    assert.equal(-1, c:read()["page-faults"]) -- more than 64 bits can hold: all bits set
  end)

  it("rounds to the nearest", function()
    local c = perfev.counter { "page-faults", tid = 7 }
    set(k.events[1], 2, 10, 6)
    assert.equal(3, c:read()["page-faults"])
  end)

  it("has the running ratio of the member that ran least", function()
    local c = perfev.counter { "page-faults", "context-switches", tid = 7 }
    set(k.events[1], 1, 100, 100)
    set(k.events[2], 1, 100, 40)
    local r = c:read()
    assert.equal(0.4, r.running_ratio)
    assert.equal(40, r.time_running)
    assert.equal(1.0, r.counts["page-faults"].running_ratio)
  end)

  it("sums over CPUs, each scaled by its own times", function()
    local c = perfev.counter { "page-faults", all_cpus = true }
    set(k.events[1], 100, 100, 100)
    set(k.events[2], 10, 100, 10)
    local r = c:read()
    assert.equal(200, r["page-faults"])
    assert.equal(110, r.raw["page-faults"])
    assert.equal(200, r.time_enabled)
    assert.equal(0.55, r.running_ratio)
  end)

  it("reports on how many CPUs an event never ran", function()
    local c = perfev.counter { "page-faults", all_cpus = true }
    set(k.events[1], 100, 100, 100)
    set(k.events[2], 0, 100, 0)
    local r = c:read()
    assert.equal(100, r["page-faults"])
    assert.equal(1, r.counts["page-faults"].silent)
  end)

  it("does not scale a task's count on chosen CPUs, because its times go on elsewhere", function()
    local c = perfev.counter { "page-faults", tid = 7, cpus = "1" }
    set(k.events[1], 10, 100, 20)
    local r = c:read()
    assert.equal(10, r["page-faults"])
    assert.same({ 100, 20 }, { r.time_enabled, r.time_running })
    assert.is_nil(r.running_ratio) -- and is no estimate
  end)

  it("reports the error state of a pinned event, and reads the others", function()
    local c = perfev.counter { { "page-faults", pinned = true }, "context-switches", tid = 7 }
    k.events[1].failed = true
    set(k.events[2], 5, 100, 100)
    local r = c:read()
    assert.is_nil(r["page-faults"])
    assert.is_nil(r.raw["page-faults"])
    assert.matches("^page%-faults: pinned, in error state.-\n  .-\n  try: ", r.errors["page-faults"])
    assert.equal(5, r["context-switches"])
    local none, why, code = c:member("page-faults"):read()
    assert.is_nil(none)
    assert.matches("in error state", why)
    assert.equal(E.EIO, code)
    local other = c:member("context-switches")
    other:close()
    none, why, code = other:read()
    assert.same({ nil, "context-switches: it is closed", E.EBADF }, { none, why, code })
  end)

  it("reports the error state of a whole group", function()
    local g = perfev.group { "page-faults", "context-switches", tid = 7 }
    k.events[1].failed = true
    local r = g:read()
    assert.matches("in error state", r.errors["page-faults"])
    assert.matches("in error state", r.errors["context-switches"])
  end)

  it("grows its buffer for a group with members of other owners", function()
    local g = perfev.group { "page-faults", "context-switches", tid = 7 }
    set(k.events[1], 1, 100, 100)
    k.events[2].counted = 2
    k.strangers = 500
    k.reads = 0
    assert.equal(2, g:read()["context-switches"])
    assert.is_true(k.reads > 1)
    k.reads = 0
    assert.equal(1, g:read()["page-faults"])
    assert.equal(1, k.reads)
  end)

  it("fails if the kernel always asks for a larger buffer", function()
    local g = perfev.group { "page-faults", tid = 7 }
    k.hooks.read = function() return nil, E.ENOSPC end
    local r, why, code = g:read()
    assert.is_nil(r)
    assert.matches("^cannot read page%-faults: ", why)
    assert.equal(E.ENOSPC, code)
  end)

  it("refuses bytes that are not a reading", function()
    local c = perfev.counter { "page-faults", tid = 7 }
    k.hooks.read = function() return "12345678" end
    local r, _, code = c:read()
    assert.is_nil(r)
    assert.equal(E.EBADMSG, code)
  end)
end)

describe("a delta", function()
  it("is the difference from the last delta", function()
    local c = perfev.counter { "page-faults", tid = 7 }
    set(k.events[1], 10, 100, 100)
    assert.equal(10, c:delta()["page-faults"])
    set(k.events[1], 17, 200, 200)
    local d = c:delta()
    assert.equal(7, d["page-faults"])
    assert.equal(100, d.time_enabled)
    assert.equal(17, c:read()["page-faults"])
    assert.equal(0, c:delta()["page-faults"])
  end)

  it("scales the delta, not the total", function()
    local c = perfev.counter { "page-faults", tid = 7 }
    set(k.events[1], 1000, 100, 100)
    c:delta()
    set(k.events[1], 1050, 200, 125)
    local d = c:delta()
    assert.equal(200, d["page-faults"])
    assert.equal(50, d.raw["page-faults"])
    assert.equal(0.25, d.running_ratio)
  end)

  it("is nil if the event did not run since the last, and 0 if it was not enabled", function()
    local c = perfev.counter { "page-faults", tid = 7 }
    set(k.events[1], 10, 100, 50)
    c:delta()
    set(k.events[1], 10, 200, 50)
    assert.is_nil(c:delta()["page-faults"])
    assert.equal(0, c:delta()["page-faults"])
  end)

  it("starts at 0 after a reset, which keeps the times", function()
    local c = perfev.counter { "page-faults", tid = 7, inherit = false }
    set(k.events[1], 10, 100, 100)
    c:delta()
    set(k.events[1], 15, 150, 150)
    assert.is_true(c:reset())
    set(k.events[1], 2, 200, 200)
    local d = c:delta()
    assert.equal(2, d["page-faults"])
    assert.equal(100, d.time_enabled)
  end)

  it("leaves out the counts of children that ended before a reset", function()
    local c = perfev.counter { "page-faults", tid = 7 }
    set(k.events[1], 10, 100, 100)
    k.events[1].left_by_children = 4
    c:reset()
    k.events[1].counted = 9
    assert.equal(5, c:delta()["page-faults"])
  end)
end)

describe("a group", function()
  it("is opened on its leader, which alone is disabled until all members are open", function()
    perfev.group { "page-faults", "context-switches", "cpu-clock", tid = 7 }
    assert.equal(-1, k.events[1].group_fd)
    assert.equal(k.events[1].fd, k.events[2].group_fd)
    assert.equal(k.events[1].fd, k.events[3].group_fd)
    assert.is_true(k.events[1].attr.disabled)
    assert.is_false(k.events[2].attr.disabled)
    assert.same({ ("ENABLE %d 1"):format(k.events[1].fd) }, requests())
  end)

  it("is read with one read of its leader on every CPU", function()
    local g = perfev.group { "page-faults", "context-switches", all_cpus = true }
    k.reads = 0
    for i, e in ipairs(k.events) do e.counted = 10 ^ i // 1 | 0 end
    local r = g:read()
    assert.equal(2, k.reads)
    assert.equal(10 + 100, r["page-faults"])
    assert.equal(1000 + 10000, r["context-switches"])
  end)

  it("is still read after a member is closed", function()
    for _, format in ipairs { GROUP, GROUP | ID } do
      counting()
      local g = perfev.group { "page-faults", "context-switches", "cpu-clock", tid = 7, read_format = format }
      for i, e in ipairs(k.events) do e.counted = i end
      g:close("context-switches")
      local r = g:read()
      assert.same({ ["page-faults"] = 1, ["cpu-clock"] = 3 }, r.raw)
      assert.same({ "page-faults", "cpu-clock" }, g:names())
      perfev.hooks.clear()
    end
  end)

  it("accepts members later, also under the name of a closed one", function()
    local g = perfev.group { "page-faults", "context-switches", tid = 7 }
    g:close("context-switches")
    assert(g:add "cpu-clock")
    assert(g:add { "context-switches", exclude_user = true })
    for i, e in ipairs(k.events) do e.counted = i end
    assert.same({ ["page-faults"] = 1, ["cpu-clock"] = 3, ["context-switches"] = 4 }, g:read().raw)
    assert.equal(k.events[1].fd, k.events[4].group_fd)
  end)

  it("accepts one member at a time, not a list or a pattern", function()
    local c = perfev.counter { "page-faults", tid = 7 }
    for _, several in ipairs { "cpu-clock,task-clock", "{cpu-clock,task-clock}" } do
      local m, why, code = c:add(several)
      assert.is_nil(m)
      assert.equal(("event '%s': several events, but add() takes one\n  they are cpu-clock, task-clock\n"
        .. "  try: add() for each of them"):format(several), why)
      assert.equal(perfev.errno.EINVAL, code)
    end
    assert.same({ "page-faults" }, c:names())
    assert.equal(1, #k.events)
  end)

  it("reads the members one by one after the leader is closed, and accepts no more", function()
    local g = perfev.group { "page-faults", "context-switches", "cpu-clock", tid = 7 }
    for i, e in ipairs(k.events) do e.counted = i end
    g:close("page-faults")
    assert.same({ ["context-switches"] = 2, ["cpu-clock"] = 3 }, g:read().raw)
    local m, why = g:add "dummy"
    assert.is_nil(m)
    assert.matches("leader, page%-faults, is closed", why)
  end)

  it("can have a leader that counts nothing and is hidden", function()
    local g = perfev.group { "page-faults", tid = 7, leader = "dummy" }
    assert.equal(9, k.events[1].attr.config)
    set(k.events[2], 5, 1, 1)
    assert.same({ ["page-faults"] = 5 }, g:read().raw)
    assert.same({ "page-faults" }, g:names())
  end)

  it("reports a member that is missing in a reading", function()
    local g = perfev.group { "page-faults", "context-switches", tid = 7 }
    k.events[2].id = 999999
    local r = g:read()
    assert.is_nil(r["context-switches"])
    assert.is_nil(r.raw["context-switches"])
    assert.equal(1, r.counts["context-switches"].absent)
  end)
end)

describe("switching", function()
  it("is one call for a group, and one for each event of a counter", function()
    local g = perfev.group { "page-faults", "context-switches", tid = 7, disabled = true }
    local c = perfev.counter { "page-faults", "context-switches", tid = 7, disabled = true }
    local fds = {}
    for i, e in ipairs(k.events) do fds[i] = e.fd end
    assert.same({}, asked)
    for _, verb in ipairs { "enable", "disable", "reset" } do
      asked = {}
      assert.is_true(g[verb](g))
      assert.is_true(c[verb](c))
      local name = verb:upper()
      assert.same({ ("%s %d 1"):format(name, fds[1]), ("%s %d 0"):format(name, fds[3]),
        ("%s %d 0"):format(name, fds[4]) }, requests())
    end
  end)

  it("reaches every member of a group with a closed leader", function()
    local g = perfev.group { "page-faults", "context-switches", "cpu-clock", tid = 7 }
    local two, three = k.events[2].fd, k.events[3].fd
    g:close("page-faults")
    asked = {}
    g:disable()
    assert.same({ ("DISABLE %d 0"):format(two), ("DISABLE %d 0"):format(three) }, requests())
  end)

  it("affects one event if it is named, or its group", function()
    local g = perfev.group { "page-faults", "context-switches", tid = 7, disabled = true }
    local one, two = k.events[1].fd, k.events[2].fd
    g:disable("context-switches")
    g:enable("context-switches", true)
    g:reset(nil, false)
    g:member("page-faults"):enable()
    assert.same({ ("DISABLE %d 0"):format(two), ("ENABLE %d 1"):format(two), ("RESET %d 0"):format(one),
      ("RESET %d 0"):format(two), ("ENABLE %d 0"):format(one) }, requests())
  end)

  it("reports why it failed", function()
    local c = perfev.counter { "page-faults", tid = 7 }
    k.answers = { DISABLE = E.EINVAL }
    local ok, why, code = c:disable()
    assert.is_nil(ok)
    assert.matches("^cannot disable the counter: ", why)
    assert.equal(E.EINVAL, code)
  end)

  it("all events of the process is a call of prctl", function()
    assert.is_true(perfev.task_disable())
    assert.is_true(perfev.task_enable())
    assert.same({ "prctl - 31", "prctl - 32" }, requests())
    k.hooks.prctl = function() return nil, E.EINVAL end
    local ok, why, code = perfev.task_enable()
    assert.is_nil(ok)
    assert.matches("^cannot enable this task's events: ", why)
    assert.equal(E.EINVAL, code)
  end)
end)

describe("a counter's target", function()
  it("can be a thread on any CPU", function()
    perfev.counter { "page-faults", tid = { 7, 8 } }
    assert.equal("7/-1 8/-1", places())
    assert.is_true(k.events[1].attr.inherit)
    assert.equal(8, k.events[1].flags) -- close-on-exec
  end)

  it("can be a process with all its threads", function()
    counting { files = { ["/proc/50/task/50"] = "", ["/proc/50/task/51"] = "" } }
    perfev.counter { "page-faults", pid = 50 }
    assert.equal("50/-1 51/-1", places())
  end)

  it("can be this process, which is the default", function()
    perfev.counter { "page-faults", pid = "self" }
    perfev.counter { "page-faults" }
    perfev.counter { "page-faults", tid = "self" }
    assert.equal("0/-1 0/-1 0/-1", places())
  end)

  it("can be all online CPUs, or some", function()
    counting { cpus = "0,2" }
    perfev.counter { "page-faults", all_cpus = true }
    perfev.counter { "page-faults", cpus = "2" }
    assert.equal("-1/0 -1/2 -1/2", places())
    assert.is_false(k.events[1].attr.inherit)
  end)

  it("can be a cgroup's descriptor, on every CPU", function()
    k.files["/sys/fs/cgroup/app/cgroup.procs"] = ""
    local fd = k.hooks.directory "/sys/fs/cgroup/app"
    perfev.counter { "page-faults", cgroup = fd }
    assert.equal("-1/0 -1/1", places())
    assert.equal(PID_CGROUP, k.events[1].flags & PID_CGROUP)
    assert.equal("/sys/fs/cgroup/app", k.events[2].cgroup)
  end)

  it("can be a cgroup's path; its directory is closed after opening", function()
    k.files["/proc/mounts"] = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
    k.files["/sys/fs/cgroup/app/cgroup.procs"] = ""
    local c = perfev.counter { "page-faults", "task-clock", cgroup = "/app" }
    assert.equal("-1/0 -1/1 -1/0 -1/1", places())
    for _, event in ipairs(k.events) do assert.equal("/sys/fs/cgroup/app", event.cgroup) end
    for _, file in pairs(k.fds) do assert.not_equal("directory", file.kind) end
    c:close()
    assert.same({}, k:leaks())
  end)

  it("can be a command, which is held until it is started, and counted from its exec on", function()
    local c = perfev.counter { "page-faults", command = { "ls" } }
    assert.equal("5001/-1", places())
    assert.is_true(k.events[1].attr.enable_on_exec)
    local later = perfev.counter { "cs", command = { "true" }, disabled = true }
    assert.is_false(k.events[2].attr.enable_on_exec)
    later:close()
    assert.is_true(k.events[1].attr.disabled)
    assert.same({}, asked)
    assert.is_false(k.events[1].enabled)
    assert.is_true(c:start())
    assert.is_true(k.events[1].enabled)
    k:end_child(5001, 3 << 8)
    assert.same({ exit = 3 }, c:wait())
    c:close()
    assert.same({}, k:leaks())
  end)

  it("cannot be a command that cannot be run", function()
    k.exec = function() return E.ENOENT end
    local c = perfev.counter { "page-faults", command = { "lsx" } }
    local status, why, code = c:run()
    assert.is_nil(status)
    assert.matches("^cannot run 'lsx'", why)
    assert.equal(E.ENOENT, code)
    c:close()
    assert.same({}, k:leaks())
  end)

  it("excludes ended threads and offline CPUs, while others remain", function()
    counting { gone = { [8] = true }, cpus = "0" }
    k.last_cpu = 3
    local c = perfev.counter { "page-faults", tid = { 7, 8 } }
    local looks = 0
    k.files["/sys/devices/system/cpu/online"] = function() -- cpu 3 goes while the first event is opened
      looks = looks + 1
      return looks == 1 and "0,3\n" or "0\n"
    end
    local w = perfev.group { "page-faults", "context-switches", all_cpus = true }
    assert.equal("7/-1 -1/0 -1/0", places())
    assert.equal(0, c:read()["page-faults"])
    assert.equal(0, w:read()["context-switches"])
  end)

  it("cannot be a CPU that is named and not online", function()
    local c, why, code = perfev.counter { "page-faults", cpus = "0,3" }
    assert.is_nil(c)
    assert.matches("^cannot count cpu 3: No such device %(ENODEV%)\n  this machine has no CPU 3 .+\n  try: ", why)
    assert.equal(E.ENODEV, code)
    assert.same({}, k:leaks())
  end)

  it("cannot be threads that have all ended", function()
    k.gone = { [7] = true, [8] = true }
    local c, why, code = perfev.counter { "page-faults", tid = { 7, 8 } }
    assert.is_nil(c)
    assert.matches("^cannot count page%-faults of pid 8: ", why)
    assert.equal(E.ESRCH, code)
    assert.same({}, k:leaks())
  end)
end)

describe("opening", function()
  it("leaks nothing, whichever call fails", function()
    local injected = 0
    for _, call in ipairs { "perf_event_open", "spawn" } do
      for nth = 1, 8 do
        for _, errno in ipairs { E.EINVAL, E.ENOENT, E.EMFILE, E.EACCES, E.ENOMEM } do
          for _, make in ipairs { perfev.counter, perfev.group } do
            counting()
            k:fail(call, nth, errno)
            local c, why, code = make { "page-faults", { "cpu-clock", exclude_kernel = true }, cpus = "0-1",
              all_cpus = true, command = { "true" } }
            if not c then
              injected = injected + 1
              assert.equal(errno, code)
              assert.matches("^cannot %a+ ", why)
            else
              c:close()
            end
            assert.same({}, k:leaks())
            perfev.hooks.clear()
          end
        end
      end
    end
    assert.is_true(injected >= 40, injected)
  end)

  it("leaks nothing if an id cannot be read", function()
    for nth = 1, 4 do
      local seen = 0
      counting()
      local ioctl = k.hooks.ioctl
      k.hooks.ioctl = function(fd, request, arg)
        seen = seen + (request == "ID" and 1 or 0)
        if request == "ID" and seen == nth then return nil, E.ENOTTY end
        return ioctl(fd, request, arg)
      end
      perfev.hooks.set(k.hooks)
      local c = perfev.counter { "page-faults", "cpu-clock", all_cpus = true }
      assert.is_nil(c)
      assert.same({}, k:leaks())
      perfev.hooks.clear()
    end
  end)

  it("leaves out optional events and reports them", function()
    local said = {}
    k.refuse = function(attr) return attr.config == 2 and E.ENOENT or nil end
    local c = assert(perfev.counter { { "page-faults", optional = true }, "cpu-clock", tid = 7,
      log = function(_, text) said[#said + 1] = text end })
    assert.same({ "cpu-clock" }, c:names())
    assert.matches("^left out: cannot count page%-faults of pid 7", said[1])
    assert.matches("cannot count", c:member("page-faults").error)
    assert.same({ { name = "page-faults", error = c:member("page-faults").error }, { name = "cpu-clock" } }, c:events())
    local r = c:read()
    assert.is_nil(r["page-faults"])
    assert.equal(0, r["cpu-clock"])
  end)

  it("makes the first available event the leader of a group", function()
    k.refuse = function(attr) return attr.config == 2 and E.ENOENT or nil end
    local g = assert(perfev.group { { "page-faults", optional = true }, "cpu-clock", "dummy", tid = 7 })
    assert.is_true(k.events[1].attr.disabled)
    assert.equal(k.events[1].fd, k.events[2].group_fd)
    assert.equal(0, g:read()["dummy"])
  end)

  it("falls back to the user side if the kernel side is not permitted, and reports it", function()
    local said = {}
    k.refuse = function(attr) return not attr.exclude_kernel and E.EACCES or nil end
    local c = assert(perfev.counter { "page-faults", tid = 7, log = function(_, text) said[#said + 1] = text end })
    assert.is_true(c:member().user_only)
    assert.is_true(k.events[1].attr.exclude_kernel)
    assert.matches("^page%-faults: user side only", said[1])
    local none, _, code = perfev.counter { { "page-faults", exclude_kernel = false }, tid = 7 }
    assert.is_nil(none)
    assert.equal(E.EACCES, code)
  end)

  it("applies modifiers, and attr fields of all events and of one", function()
    perfev.counter { "page-faults:u", { "cpu-clock", pinned = true, name = "ticks" }, tid = 7, exclude_hv = true }
    assert.is_true(k.events[1].attr.exclude_kernel)
    assert.is_false(k.events[1].attr.pinned)
    assert.is_true(k.events[2].attr.pinned)
    assert.is_true(k.events[2].attr.exclude_hv)
  end)

  it("raises for programming mistakes", function()
    local mistakes = {
      [{ "page-faults", pidd = 1 }] = "unknown option 'pidd' %(did you mean 'pid'%?%)",
      [{ "page-faults", "page-faults" }] = "'page%-faults' is there already",
      [{ { "page-faults", name = "raw" } }] = "'raw' is the name of a reading's field",
      [{}] = "no event is named",
      [{ "page-faults", pid = -2 }] = "pid must be a number from 0 to",
      [{ "page-faults", cgroup = true }] = "cgroup must be a path, or a descriptor",
      [{ "page-faults", cgroup = 3, pid = 4 }] = "a cgroup is a target by itself",
      [{ "page-faults", all_cpus = true, pid = 4 }] = "counter: all_cpus and pid at once",
      [{ 42 }] = "element 1 must be an event: a string or a table, not 42",
      [{ {} }] = "an event string, or type= and config=",
      [{ { "page-faults", filter = 3 } }] = "filter must be a string",
      [{ "page-faults", leader = "dummy" }] = "leader is an option of a group",
    }
    for spec, text in pairs(mistakes) do
      local ok, why = pcall(perfev.counter, spec)
      assert.is_false(ok)
      assert.matches(text, why)
    end
    assert.same({}, k.events)
    local c = perfev.counter { "page-faults", tid = 7 }
    assert.error_matches(function() c:member("page-fault") end, "did you mean 'page%-faults'")
    assert.error_matches(function() c:enable("x") end, "no event 'x'")
    assert.error_matches(function() c:start() end, "no command")
  end)

  it("is undone by close(), which can be repeated; later calls fail with EBADF", function()
    local c = perfev.counter { "page-faults", tid = 7 }
    c:close()
    c:close()
    assert.same({}, k:leaks())
    local r, why, code = c:read()
    assert.is_nil(r)
    assert.equal("counter: it is closed", why)
    assert.equal(E.EBADF, code)
    assert.same({ nil, "page-faults: it is closed", E.EBADF }, { c:member():period(3) })
    do
      local _ <close> = perfev.counter { "page-faults", tid = 7 }
    end
    perfev.counter { "page-faults", tid = 7 }
    collectgarbage()
    collectgarbage()
    assert.same({}, k:leaks())
  end)
end)

describe("a request to one event", function()
  local c, m, fd
  before_each(function()
    c = perfev.counter { { "page-faults", period = 100 }, tid = 7 }
    m, fd = c:member(), k.events[1].fd
    asked = {}
  end)

  local function last()
    local a = asked[#asked]
    assert.equal(fd, a.fd)
    return a.request, a.arg
  end

  it("has the argument that the kernel expects", function()
    assert.equal(100, k.events[1].attr.sample_period)
    assert.is_true(m:period(1 << 40))
    assert.same({ "PERIOD", 1 << 40 }, { last() })
    assert.is_true(m:refresh(3))
    assert.same({ "REFRESH", 3 }, { last() })
    assert.is_true(m:filter("pid == 3"))
    assert.same({ "SET_FILTER", "pid == 3" }, { last() })
    assert.is_true(m:pause_output(true))
    assert.same({ "PAUSE_OUTPUT", 1 }, { last() })
    assert.is_true(m:pause_output(false))
    assert.same({ "PAUSE_OUTPUT", 0 }, { last() })
    assert.is_true(m:bpf(9))
    assert.same({ "SET_BPF", 9 }, { last() })
  end)

  it("redirects its output to another event's ring, or back with -1", function()
    local other = perfev.counter { "cpu-clock", tid = 7 }
    assert.is_true(m:output(other:member()))
    assert.same({ "SET_OUTPUT", k.events[2].fd }, { last() })
    assert.is_true(m:output(55))
    assert.same({ "SET_OUTPUT", 55 }, { last() })
    assert.is_true(m:output(nil))
    assert.same({ "SET_OUTPUT", -1 }, { last() })
  end)

  it("redirects the output on each CPU to the ring of the same CPU", function()
    local a = perfev.counter { "page-faults", all_cpus = true }
    local b = perfev.counter { "cpu-clock", all_cpus = true }
    asked = {}
    assert.is_true(a:member():output(b:member()))
    assert.same({ ("SET_OUTPUT %d %d"):format(k.events[2].fd, k.events[4].fd),
      ("SET_OUTPUT %d %d"):format(k.events[3].fd, k.events[5].fd) }, requests())
    assert.same(E.EINVAL, select(3, a:member():output(m)))
  end)

  local function told_of(f)
    local told, fcntl = {}, k.hooks.fcntl
    k.hooks.fcntl = function(at, command, arg)
      assert.equal(fd, at)
      told[#told + 1] = ("%s %d"):format(command, arg)
      return fcntl(at, command, arg)
    end
    assert.is_true(f())
    k.hooks.fcntl = fcntl
    return told
  end

  it("sends a signal at each overflow, queued if it is a real-time signal, and marks the last one", function()
    local O_RDWR, O_ASYNC, USR1, QUEUED = 2, 0x2000, 10, core.signals.RTMIN + 1
    local POLL_IN, POLL_HUP = 1, 6
    local heard = k.hooks.signalfd(1 << USR1 - 1 | 1 << QUEUED - 1)
    local function next_one()
      local info = k.hooks.read(heard, 128)
      if info then return { string.unpack("=I4i4i4I4I4i4", info) } end
    end
    assert.same({ "GETFL 0", "SETOWN " .. k.pid, "SETSIG 10", "SETFL " .. (O_RDWR | O_ASYNC) },
      told_of(function() return m:send_signal "USR1" end))
    k:emit(k.events[1], "sample")
    k:emit(k.events[1], "sample")
    assert.same({ USR1, 0, POLL_IN, 0, 0, fd, 25 }, next_one())
    assert.is_nil(next_one()) -- the two were one
    assert.is_true(m:send_signal "SIGRTMIN+1")
    k.events[1].limit = 3 -- as of refresh(3)
    for _ = 1, 5 do k:emit(k.events[1], "sample") end
    for _, code in ipairs { POLL_IN, POLL_IN, POLL_HUP } do
      assert.same({ QUEUED, 0, code, 0, 0, fd, 25 }, next_one())
    end
    assert.is_nil(next_one())
    assert.is_true(m:enable())
    assert.same({ "GETFL 0", "SETFL " .. O_RDWR }, told_of(function() return m:send_signal(nil) end))
    assert.is_true(m:send_signal(false))
    k:emit(k.events[1], "sample")
    assert.is_nil(next_one())
    k.hooks.close(heard)
  end)

  it("refuses an unknown signal, and reports a refusal by the kernel", function()
    local ok, why = pcall(function() m:send_signal "USR3" end)
    assert.is_false(ok)
    assert.matches("^spec/counter/counter_spec.lua:%d+: "
      .. "send_signal: unknown signal 'USR3' %(did you mean 'USR[12]'%?%)$",
      why)
    for _, wrong in ipairs { "RTMIN+31", "RTMIN+", 10, true } do
      assert.error_matches(function() m:send_signal(wrong) end, "send_signal: unknown signal '" .. tostring(wrong)
        :gsub("%+", "%%+"))
    end
    for _, step in ipairs { "GETFL", "SETOWN", "SETSIG", "SETFL" } do
      k.hooks.fcntl = function(_, command)
        if command == step then return nil, E.EPERM end
        return 2
      end
      local done, refusal, code = m:send_signal "USR1"
      assert.is_nil(done)
      assert.equal(E.EPERM, code)
      assert.matches("^page%-faults: cannot have it send a signal: [^\n]+\n  [^\n]+\n  try: [^\n]+$", refusal)
    end
  end)

  it("lists the BPF programs and their number", function()
    k.answers = { QUERY_BPF = { 11, 12, 13 } }
    assert.same({ { 11, 12, 13 }, 3 }, { m:query_bpf() })
    assert.same({ { 11, 12 }, 3 }, { m:query_bpf(2) })
    assert.same({ {}, 3 }, { m:query_bpf(0) })
  end)

  it("changes an attr", function()
    local seen
    k.answers = { MODIFY_ATTRIBUTES = 0 }
    local ioctl = k.hooks.ioctl
    k.hooks.ioctl = function(at, request, arg)
      if request == "MODIFY_ATTRIBUTES" then
        seen = arg.config2
        return 0
      end
      return ioctl(at, request, arg)
    end
    perfev.hooks.set(k.hooks)
    m = perfev.counter({ { type = 5, bp_type = 1, bp_addr = 4096, bp_len = 4 }, tid = 7 }):member()
    assert.is_true(m:modify { bp_len = 8 })
    assert.equal(8, seen)
    assert.equal(8, m.attr.bp_len)
    assert.error_matches(function() m:modify { bp_lenn = 8 } end, "no attr field is called 'bp_lenn'")
    perfev.hooks.clear()
  end)

  it("returns the ids and descriptors", function()
    assert.same({ k.events[1].id }, m:ids())
    assert.same({ { fd = fd, id = k.events[1].id, pid = 7, cpu = -1 } }, m:fds())
  end)

  it("fails with operation, cause and remedy", function()
    local refusals = {
      { "REFRESH", E.EINVAL, function() return m:refresh(1) end, "takes no samples" },
      { "PERIOD", E.EINVAL, function() return m:period(1) end, "the period is 0" },
      { "SET_FILTER", E.EINVAL, function() return m:filter("x") end, "not a tracepoint" },
      { "SET_FILTER", E.EEXIST, function() return m:filter("x") end, "has one already" },
      { "SET_OUTPUT", E.EINVAL, function() return m:output(3) end, "no ring" },
      { "SET_OUTPUT", E.EBADF, function() return m:output(3) end, "not a descriptor of a perf event" },
      { "SET_BPF", E.EEXIST, function() return m:bpf(3) end, "has one already" },
      { "SET_BPF", E.EINVAL, function() return m:bpf(3) end, "of a type" },
      { "SET_BPF", E.EBADF, function() return m:bpf(3) end, "not a descriptor of a BPF program" },
      { "QUERY_BPF", E.EINVAL, function() return m:query_bpf() end, "only tracepoints" },
      { "PAUSE_OUTPUT", E.EINVAL, function() return m:pause_output(true) end, "no ring" },
      { "MODIFY_ATTRIBUTES", E.EOPNOTSUPP, function() return m:modify { bp_len = 8 } end, "only breakpoints" },
      { "MODIFY_ATTRIBUTES", E.EINVAL, function() return m:modify { bp_len = 8 } end, "not all of an attr" },
    }
    for _, case in ipairs(refusals) do
      k.answers = { [case[1]] = case[2] }
      local ok, why, code = case[3]()
      assert.is_nil(ok)
      assert.equal(case[2], code)
      local first, second, third = why:match("^(page%-faults: cannot [^\n]+)\n  ([^\n]+)\n  (try: [^\n]+)$")
      assert.truthy(first and second and third, why)
      assert.truthy(second:find(case[4], 1, true), second)
    end
  end)

  it("raises if an argument has the wrong type", function()
    assert.error_matches(function() m:period("fast") end, "period: a whole number from 1 on")
    assert.error_matches(function() m:refresh(1.5) end, "refresh: a whole number")
    assert.error_matches(function() m:filter(3) end, "filter: a string")
    assert.error_matches(function() m:pause_output(1) end, "pause_output: true or false")
    assert.error_matches(function() m:bpf(-1) end, "bpf: a whole number")
    assert.error_matches(function() m:output("x") end, "output: a whole number")
  end)
end)

describe("the counter page", function()
  local RDPMC, TIME, SHORT = 4, 8, 32
  local page, pmc, tsc, on_pmc

  local function hardware(fields)
    return perfev.counter { { type = 0, config = 1 }, tid = "self", inherit = false,
      page = fields and fields.page }
  end
  local name = "{type=0, config=1}"

  before_each(function()
    page = perfev.hooks.memory(4096)
    pmc, tsc, on_pmc = 500, 1000, function() end
    k.hooks.mmap = function(len, prot)
      assert.equal(4096, len)
      assert.equal(1, prot)
      return page
    end
    k.hooks.munmap = function() k.unmapped = true return 0 end
    k.hooks.rdpmc = function(index)
      k.index = index
      on_pmc()
      return pmc
    end
    k.hooks.rdtsc = function() return tsc end
    perfev.hooks.set(k.hooks)
    page:u64(16, 10000) -- offset
    page:u64(24, 70)    -- time_enabled
    page:u64(32, 60)    -- time_running
    page:u64(40, RDPMC | TIME)
    page:write(12, string.pack("=I4", 3)) -- index
    page:write(48, string.pack("=I2I2I4", 48, 4, 32)) -- pmc_width, time_shift, time_mult
    page:u64(56, 9) -- time_offset
  end)
  after_each(function() perfev.hooks.clear() end)

  it("is read without a system call: the count and both times, up to now", function()
    local c = hardware()
    k.reads = 0
    local r = c:read()
    assert.equal(0, k.reads)
    assert.equal(2, k.index)
    local delta = 9 + (1000 >> 4) * 32 + ((1000 & 15) * 32 >> 4)
    assert.equal(10500, r.raw[name])
    assert.equal(70 + delta, r.time_enabled)
    assert.equal(60 + delta, r.time_running)
    c:close()
    assert.is_true(k.unmapped)
  end)

  it("extends the sign of a counter from its width", function()
    pmc = (1 << 47) | 5
    assert.equal(10000 - (1 << 47) + 5, hardware():read().raw[name])
  end)

  it("extends a short clock", function()
    page:u64(40, RDPMC | TIME | SHORT)
    page:u64(80, 5000) -- time_cycles
    page:u64(88, 0xfff)
    tsc = 0x1388 + 16 & 0xfff -- the low bits only
    local delta = 9 + (5016 >> 4) * 32 + ((5016 & 15) * 32 >> 4)
    assert.equal(70 + delta, hardware():read().time_enabled)
  end)

  it("is read again if the kernel has changed it meanwhile", function()
    local tries = 0
    on_pmc = function()
      tries = tries + 1
      if tries == 1 then
        page:write(8, string.pack("=I4", 2))
        page:u64(16, 20000)
      end
    end
    assert.equal(20500, hardware():read().raw[name])
    assert.equal(2, tries)
  end)

  it("falls back to read(2) if the kernel does not allow it", function()
    local ways = {
      function() page:u64(40, TIME) end,
      function() page:u64(40, RDPMC) end,
      function() page:write(12, string.pack("=I4", 0)) end,
      function() page:write(8, string.pack("=I4", 1)) end, -- being written, for ever
      function() k.hooks.rdpmc = function() return nil, E.EOPNOTSUPP end end,
      function() k.hooks.rdtsc = function() return nil, E.EOPNOTSUPP end end,
      function() k.hooks.mmap = function() return nil, E.EPERM end end,
    }
    for _, way in ipairs(ways) do
      way()
      perfev.hooks.set(k.hooks)
      local c = hardware()
      set(k.events[#k.events], 77, 100, 100)
      assert.equal(77, c:read().raw[name])
      perfev.hooks.clear()
    end
  end)

  it("is mapped only for the caller's own hardware event, unless page = false", function()
    k.hooks.mmap = function() error("mapped") end
    perfev.hooks.set(k.hooks)
    assert(perfev.counter { { type = 0, config = 1 }, tid = 7, inherit = false })
    assert(perfev.counter { "page-faults", tid = "self", inherit = false })
    assert(perfev.counter { { type = 0, config = 1 }, tid = "self" })
    assert(hardware { page = false })
    perfev.hooks.clear()
  end)
end)

describe("measure", function()
  it("returns f's results, and the counts as the last one", function()
    local a, b, r = perfev.measure({ "page-faults", "cpu-clock" }, function(x, y)
      assert.is_true(k.events[1].enabled)
      set(k.events[1], 5, 200, 200)
      set(k.events[2], 6, 200, 200)
      return x + y, nil
    end, 1, 2)
    assert.equal(3, a)
    assert.is_nil(b)
    assert.equal(5, r["page-faults"])
    assert.equal(6, r["cpu-clock"])
    assert.same({ "ENABLE 3 1", "DISABLE 3 1" }, requests())
    assert.equal("0/-1 0/-1", places())
    assert.is_false(k.events[1].attr.inherit)
    assert.same({}, k:leaks())
  end)

  it("returns only the counts if f returns nothing", function()
    assert.equal(0, (perfev.measure({ "page-faults" }, function() end))["page-faults"])
  end)

  it("raises f's error, and closes the counter", function()
    local object = {}
    local ok, why = pcall(perfev.measure, { "page-faults" }, function() error(object) end)
    assert.is_false(ok)
    assert.equal(object, why)
    assert.equal("DISABLE 3 1", requests()[2])
    assert.same({}, k:leaks())
  end)

  it("does not call f when the events cannot be opened", function()
    k.refuse = function() return E.ENOENT end
    local called = false
    local r, why, code = perfev.measure({ "page-faults" }, function() called = true end)
    assert.is_nil(r)
    assert.matches("^cannot count page%-faults of this thread: ", why)
    assert.equal(E.ENOENT, code)
    assert.is_false(called)
  end)

  it("falls back to single events if they do not fit in one group", function()
    k.refuse = function(attr) return attr.read_format & GROUP ~= 0 and E.EINVAL or nil end
    local r = perfev.measure({ "page-faults", "cpu-clock" }, function() end)
    assert.equal(0, r["cpu-clock"])
    assert.same({}, k:leaks())
  end)

  it("can be repeated with an open counter", function()
    local c = perfev.counter { "page-faults", tid = "self", inherit = false, disabled = true }
    local total = 0
    for i = 1, 3 do
      local r = c:measure(function()
        total = total + i
        set(k.events[1], total, total, total)
      end)
      assert.equal(i, r["page-faults"])
    end
  end)

  it("reports that f closed the counter", function()
    local c = perfev.counter { "page-faults", tid = "self", inherit = false, disabled = true }
    local r, why, code = c:measure(function() c:close() end)
    assert.same({ "counter: it is closed", perfev.errno.EBADF }, { why, code, r })
  end)

  it("raises for invalid arguments", function()
    assert.error_matches(function() perfev.measure({ "page-faults" }, 3) end, "a function expected")
    assert.error_matches(function() perfev.measure("page-faults", print) end, "a list of events")
    assert.error_matches(function() perfev.measure({ "page-faults", pid = 3 }, print) end, "the calling thread")
  end)
end)

describe("a session's counter", function()
  local function run_with(opts, make)
    local s = perfev.session(opts)
    local c = s[make or "counter"](s, { "page-faults", "context-switches" })
    return s, c
  end

  it("is opened at the start on the session's targets, and can be read after its end", function()
    local s, c = run_with { all_cpus = true, duration = "1s" }
    assert.same({}, k.events)
    assert.matches("has not started", select(2, c:read()))
    assert.equal(1, s:declared())
    local seen
    s:every("300ms", function()
      if not seen then
        for _, e in ipairs(k.events) do e.counted = 4 end
        seen = c:delta()["page-faults"]
      end
    end)
    assert(s:run())
    assert.equal(8, seen)
    assert.equal(8, c:read()["page-faults"])
    assert.is_nil(c:delta())
    assert.same({}, k:leaks())
  end)

  it("counts the command from its exec on, with its children", function()
    local s, c = run_with({ command = { "ls" } }, "group")
    s:begin(function()
      local leader = c:member("page-faults"):fds()[1]
      local event = k.fds[leader.fd]
      assert.equal(5001, event.pid)
      assert.equal(-1, event.cpu)
      assert.is_true(event.attr.enable_on_exec)
      assert.is_true(event.attr.inherit)
      k:after(1e6, function() k:end_child(5001, 0) end)
    end)
    assert(s:run())
    assert.equal(0, c:read()["page-faults"])
    assert.same({}, k:leaks())
  end)

  it("makes the start fail when it cannot be opened", function()
    k.refuse = function(attr) return attr.config == 3 and E.ENOENT or nil end
    local s = run_with { all_cpus = true }
    local ok, why, code = s:run()
    assert.is_nil(ok)
    assert.matches("^cannot count context%-switches on cpu 0: ", why)
    assert.equal(E.ENOENT, code)
    assert.same({}, k:leaks())
  end)

  it("returns each CPU's counts, also after the session's end", function()
    local s, c = run_with { all_cpus = true, duration = "1s" }
    assert.same({}, c:cpus())
    assert.matches("has not started", select(2, c:read(0)))
    s:begin(function()
      for _, e in ipairs(k.events) do e.counted = 10 + e.cpu end
      assert.equal(11, c:delta(1)["page-faults"])
    end)
    s:done(function()
      for _, e in ipairs(k.events) do e.counted = 20 + 5 * e.cpu end
      assert.same({ 14, 20, 0 }, { c:delta(1)["page-faults"], c:delta(0)["page-faults"], c:delta()["page-faults"] })
    end)
    assert(s:run())
    assert.same({ 0, 1 }, c:cpus())
    assert.same({ 20, 25, 45 }, { c:read(0)["page-faults"], c:read(1)["page-faults"], c:read()["page-faults"] })
    for _, cpu in ipairs { 2, -1, 1.0, "1" } do
      assert.error_matches(function() c:read(cpu) end, "it does not count on cpu .- by itself\n  try: one of 0, 1$")
    end
    local own = perfev.counter { "page-faults", tid = 7 }
    assert.error_matches(function() own:delta(0) end, "delta: .* cpu 0 by itself\n  try: all_cpus or cpus, where it")
    own:close()
  end)

  it("refuses a target of its own", function()
    local s = perfev.session { all_cpus = true }
    assert.error_matches(function() s:counter { "page-faults", pid = 3 } end, "has the session's targets")
  end)

  it("can be added while the session runs", function()
    local s, c = perfev.session { all_cpus = true, duration = "500ms" }, nil
    s:event { type = 1, config = 0, sample_period = 1 }
    s:every("100ms", function() c = c or assert(s:counter { "page-faults" }) end)
    assert(s:run())
    assert.equal(0, c:read()["page-faults"])
    assert.same({}, k:leaks())
  end)

  it("is part of the plan, but not of a clone", function()
    local s = run_with { all_cpus = true, duration = "1s" }
    assert.equal("counter page-faults,context-switches", s:plan()[2])
    local twin = s:clone()
    assert.equal(0, twin:declared())
    assert.equal(s.opts.duration, twin.opts.duration)
  end)
end)

describe("the core's counter", function()
  it("checks its arguments", function()
    assert.is_false(pcall(core.counter, 3))
    assert.is_false(pcall(core.counter, { pids = {}, cpus = { 0 } }))
    local c = core.counter { pids = { 7 }, cpus = { -1 } }
    assert.is_false(pcall(c.remove, c, 1))
    assert.is_false(pcall(c.ioctl, c, 1, "PERIOD", 3))
    assert.is_false(pcall(c.switch, c, nil, "NOTHING"))
    assert.same({}, c:read(false, -1))
    c:close()
    assert.is_false(pcall(c.read, c))
  end)
end)

describe("a ring or page that the kernel would refuse with EINVAL", function()
  local function refused(text, got, why, code)
    assert.is_nil(got)
    assert.equal(text, why)
    assert.equal(E.EINVAL, code)
  end

  local function session_add(ring_bytes, cpus, inherit)
    local s = assert(core.session { ring_bytes = ring_bytes })
    local attr = core.attr_new { type = 1, config = 9, inherit = inherit }
    local results = table.pack(s:add { attr = attr, name = "dummy", pids = { 7 }, cpus = cpus })
    s:close()
    assert.equal(0, k.counts.mmap or 0)
    return table.unpack(results, 1, results.n)
  end

  it("is a ring of a size other than 2^n pages", function()
    for _, bytes in ipairs { 4095, 12288, 5000 } do
      refused(("cannot map a ring of %d bytes for dummy: a ring is 1, 2, 4, 8, ... pages of 4096 bytes"):format(bytes),
        session_add(bytes, { 0 }, false))
    end
  end)

  it("is a ring of a task and its children on any CPU", function()
    refused("cannot map a ring for dummy: children inherit it, so a ring needs one CPU, not any (-1)",
      session_add(4096, { -1 }, true))
    assert.equal(0, #k.events)
  end)

  local function two()
    local c = assert(core.counter { pids = { 0 }, cpus = { -1 } })
    for i, name in ipairs { "one", "two" } do assert.equal(i, c:add(core.attr_new { type = 0, config = i }, name)) end
    return c
  end

  it("is a second mapping of an event", function()
    local c = two()
    assert(c:map(1))
    refused("cannot map the page of one: it is mapped already", c:map(1))
    assert.equal(1, k.counts.mmap)
    refused("cannot set the output of one: its own page is mapped; open it with page = false", c:output(1, c, 2))
    c:close()
    assert.same({}, k:leaks())
  end)

  it("is a mapping of an event with output to another event's ring", function()
    local c = two()
    assert(c:output(1, c, 2))
    refused("cannot map the page of one: its output goes to another event's ring", c:map(1))
    assert.equal(0, k.counts.mmap or 0)
    c:close()
  end)
end)
