-- The processes that -p, --uid and --comm select, and the directory of a cgroup.

local perfev = require "perfev"
local cgroups = require "perfev.event.cgroup"
local processes = require "perfev.event.processes"
local sim = require "perfev.sim"

local E = perfev.errno

local k
before_each(function()
  k = sim.new { world = "vm", tasks = { [50] = "nginx", [51] = "nginx", [52] = "nginx: a long n", [60] = "bash" } }
  k.files["/etc/passwd"] = "root:x:0:0::/:/bin/sh\nwww-data:x:33:33::/:/bin/sh\n"
  for pid, uid in pairs { [1] = 0, [42] = 0, [1000] = 0, [50] = 0, [51] = 33, [52] = 33, [60] = 33 } do
    -- Real, effective, saved, of the file system: the effective one counts.
    k.files[("/proc/%d/status"):format(pid)] = ("Name:\tx\nUid:\t7\t%d\t7\t7\n"):format(uid)
  end
  perfev.hooks.set(k.hooks)
end)
after_each(function() perfev.hooks.clear() end)

describe("processes", function()
  it("are found by effective user, by number or name, without the observer", function()
    assert.same({ 51, 52, 60 }, processes.select { uid = "www-data" })
    assert.same({ 51, 52, 60 }, processes.select { uid = 33 })
    assert.same({ 51, 52, 60 }, processes.select { uid = "33" })
    assert.same({ 1, 42, 50 }, processes.select { uid = 0 })
  end)

  it("are found by name or pattern, cut as the kernel cuts it", function()
    assert.same({ 50, 51 }, processes.select { comm = "nginx" })
    assert.same({ 50, 51, 52 }, processes.select { comm = "nginx*" })
    assert.same({ 60 }, processes.select { comm = "b?sh" })
    assert.same({ 52 }, processes.select { comm = "nginx: a long name" })
    assert.matches("no process named '%.%*'", (select(2, processes.select { comm = ".*" })))
  end)

  it("are limited by user and name together, and to those of -p", function()
    assert.same({ 51 }, processes.select { uid = 33, comm = "nginx" })
    assert.same({ 50, 60 }, processes.select { comm = "*", pid = { 50, 60 } })
    assert.same({ 60 }, processes.select { uid = 33, pid = { 50, 60 } })
    assert.same({ 0 }, processes.select { comm = "perfl", pid = { 0 } })
  end)

  it("that end meanwhile are left out", function()
    k.files["/proc/51/status"], k.files["/proc/51/comm"] = nil, nil
    assert.same({ 52, 60 }, processes.select { uid = 33 })
  end)

  it("that do not exist are reported with the nearest name and an errno", function()
    local pids, why, code = processes.select { comm = "ngnix", uid = 33 }
    assert.is_nil(pids)
    assert.equal("no process of the user 33, named 'ngnix' (did you mean 'nginx'?)\n  try: nginx", why)
    assert.equal(E.ESRCH, code)
    assert.matches("among those of pid\n", (select(2, processes.select { uid = 0, pid = { 60 } })))
  end)

  it("are watched by a session with all their threads, and it reports their number", function()
    k:task(51, "worker", 511)
    local said = {}
    local s = perfev.session { uid = "www-data", comm = "nginx", log = function(_, text) said[#said + 1] = text end }
    s:event { "cpu-clock", sample = function() end }
    assert.is_true(s:start())
    local seen = {}
    for _, event in ipairs(k.events) do seen[event.pid] = true end
    assert.same({ [51] = true, [511] = true }, seen)
    assert.equal("1 process of the user www-data, named 'nginx'", said[1])
    assert.same({ "target: processes of the user www-data, named 'nginx'" }, { s:clone():plan()[1] })
    s:close()
    assert.same({}, k:leaks())
  end)
end)

describe("a cgroup", function()
  before_each(function()
    k.files["/proc/mounts"] = "tmpfs /tmp tmpfs rw 0 0\ncgroup2 /sys/fs/c\\040group cgroup2 rw,nsdelegate 0 0\n"
    k.files["/sys/fs/c group/cgroup.procs"] = ""
    k.files["/sys/fs/c group/app.slice/a@1.service/cgroup.procs"] = ""
  end)

  it("is found below the root of cgroup2, with any spelling of its path", function()
    for _, path in ipairs { "app.slice/a@1.service", "/app.slice/a@1.service", "/app.slice/a@1.service/",
      "/sys/fs/c group/app.slice/a@1.service" } do
      assert.equal("/sys/fs/c group/app.slice/a@1.service", cgroups.find(path))
    end
    assert.equal("/sys/fs/c group", cgroups.find "/")
  end)

  it("of v1's perf_event hierarchy is found if that is mounted", function()
    k.files["/proc/mounts"] = k.files["/proc/mounts"] .. "cgroup /sys/fs/cg/perf_event cgroup rw,perf_event 0 0\n"
    k.files["/sys/fs/cg/perf_event/app/tasks"] = ""
    assert.equal("/sys/fs/cg/perf_event/app", cgroups.find "app")
    assert.matches("perf events use the hierarchy at /sys/fs/cg/perf_event, not this one",
      (select(2, cgroups.find "/sys/fs/c group/app.slice")))
  end)

  it("is refused outside of the hierarchy", function()
    for _, path in ipairs { "..", "app.slice/../..", "./app.slice", "a\nb", "a\27[m", "" } do
      local dir, why, code = cgroups.find(path)
      assert.is_nil(dir)
      assert.matches("below the cgroup root", why)
      assert.equal(E.EINVAL, code)
    end
  end)

  it("is watched CPU by CPU, without other tasks, and its directory is closed", function()
    k.cgroups = { [50] = "/sys/fs/c group/app.slice", [60] = "/sys/fs/c group/app.slice/a@1.service" }
    local seen = {}
    local s = perfev.session { cgroup = "app.slice/a@1.service", duration = "10ms" }
    s:event { "cpu-clock", sample = function(r) seen[#seen + 1] = r.pid end }
    k:after("1ms", function()
      for pid in pairs(k.cgroups) do k:ring(1):push { type = "sample", pid = pid, event = { type = 1, config = 0 } } end
    end)
    assert.is_true(s:run())
    assert.same({ 60 }, seen)
    local places = {}
    for i = 1, 2 do places[i] = ("%d %d %s %d"):format(k.events[i].pid, k.events[i].cpu, k.events[i].cgroup,
      k.events[i].flags & 4) end
    assert.same({ "-1 0 /sys/fs/c group/app.slice/a@1.service 4", "-1 1 /sys/fs/c group/app.slice/a@1.service 4" },
      places)
    assert.same({}, k:leaks())
  end)

  it("that cannot be opened is reported, and nothing stays open", function()
    for name, nth in pairs { directory = 1, perf_event_open = 2 } do
      k:fail(name, nth, E.EACCES)
      local s = perfev.session { cgroup = "app.slice" }
      s:event { "cpu-clock", sample = function() end }
      local ok, why, code = s:start()
      assert.is_nil(ok)
      assert.matches("app.slice", why)
      assert.equal(E.EACCES, code)
      assert.same({}, k:leaks())
    end
  end)
end)
