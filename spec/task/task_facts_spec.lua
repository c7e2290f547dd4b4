-- Facts about tasks: process, parent, program and start, from /proc and from records.

local sim = require "perfev.sim"
local perfdata = require "spec.support.perfdata"
local perfev = require "perfev"

local MS = 1000000

local k
before_each(function()
  k = sim.new { cpus = "0" }
  perfev.hooks.set(k.hooks)
end)
after_each(function() perfev.hooks.clear() end)

-- /proc of a process that began so many ticks after the machine; threads: { tid = comm }.
local function proc(pid, comm, ppid, ticks, exe, threads)
  k:task(pid, comm)
  for tid, name in pairs(threads or {}) do k:task(pid, name, tid) end
  local zeros = ("0 "):rep(17)
  k.files[("/proc/%d/task/%d/stat"):format(pid, pid)] =
    ("%d (%s) S %d %s%d 0 0\n"):format(pid, comm, ppid, zeros, ticks)
  k.links[("/proc/%d/exe"):format(pid)] = exe
end

local function sample(tid, pid) return { "sample", { pid = pid or tid, tid = tid } } end
local function exec(tid, name) return { "comm", { pid = tid, tid = tid, comm = name, exec = true } } end
local function comm(tid, name) return { "comm", { pid = tid, tid = tid, comm = name } } end
local function fork(tid, parent, time, pid)
  return { "fork", { pid = pid or tid, ppid = parent, tid = tid, ptid = parent, time = time } }
end
local function exit(tid) return { "exit", { pid = tid, ppid = 1, tid = tid, ptid = 1, time = 1 } } end
local function mmap(pid, addr, path)
  return { "mmap2", { pid = pid, tid = pid, addr = addr, len = 0x1000, pgoff = 0, prot = 5, flags = 2,
                      filename = path, ino = 7 } }
end

-- Run a story of { type, fields } records, a ms apart, or f -> the task that each sample saw.
local function tasks(story, spec)
  local seen = {}
  local s = perfev.session { duration = (#story + 300) .. "ms", all_cpus = true }
  local event = { type = 1, config = 0, sample_period = 1, comm = true, task = true,
                  sample = function(r) seen[#seen + 1] = r.task end }
  for name, value in pairs(spec or {}) do event[name] = value end
  s:event(event)
  for i, step in ipairs(story) do
    k:after(i * MS, type(step) == "function" and function() step(s) end
      or function() assert(k:emit(k.events[1], step[1], step[2])) end)
  end
  assert(s:run())
  return seen, s
end

describe("a task", function()
  it("from before the session has the facts in /proc", function()
    proc(70, "dae mon)", 1, 500, "/usr/sbin/daemon", { [71] = "helper" })
    assert.same({
      { tid = 70, pid = 70, ppid = 1, comm = "dae mon)", exe = "/usr/sbin/daemon", start = 5000 * MS },
      { tid = 71, pid = 70, ppid = 1, comm = "helper", exe = "/usr/sbin/daemon" },
    }, (tasks { sample(70), sample(71, 70) }))
  end)

  it("that is forked has a parent, a start and its parent's program", function()
    proc(70, "sh", 1, 500, "/bin/sh")
    assert.same({ { tid = 80, pid = 80, ppid = 70, comm = "sh", exe = "/bin/sh", start = 12345 } },
      (tasks { fork(80, 70, 12345), sample(80) }))
  end)

  it("that is a thread has its process's parent and program, and its own start", function()
    proc(70, "server", 1, 500, "/bin/server")
    assert.same({ { tid = 72, pid = 70, ppid = 1, comm = "server", exe = "/bin/server", start = 99 } },
      (tasks { fork(72, 70, 99, 70), sample(72, 70) }))
  end)

  it("that executes another program keeps parent and start; the first mapping names it", function()
    proc(70, "sh", 1, 500, "/bin/sh")
    assert.same({
      { tid = 80, pid = 80, ppid = 70, comm = "ls", start = 9 },
      { tid = 80, pid = 80, ppid = 70, comm = "ls", exe = "/bin/ls", start = 9 },
    }, (tasks { fork(80, 70, 9), exec(80, "ls"), sample(80), mmap(80, 0x1000, "/bin/ls"), mmap(80, 0x9000, "/ld.so"),
        sample(80) }))
  end)

  it("that executes has the program in /proc, unless its name has changed again", function()
    proc(70, "sh", 1, 500, "/bin/sh")
    local function is(name, exe)
      return function() k.files["/proc/80/comm"], k.links["/proc/80/exe"] = name .. "\n", exe end
    end
    local seen = tasks { fork(80, 70, 9), exec(80, "env"), is("ls", "/bin/ls"), sample(80), exec(80, "ls"), sample(80) }
    assert.same({ "env" }, { seen[1].comm, seen[1].exe })
    assert.same({ "ls", "/bin/ls" }, { seen[2].comm, seen[2].exe })
  end)

  it("is not confused with an earlier task of the same number", function()
    proc(70, "sh", 1, 500, "/bin/sh")
    proc(90, "old", 1, 700, "/bin/old")
    assert.same({ "old 1 /bin/old", "old 1 /bin/old", "sh 70 /bin/sh" }, (function()
      local list = {}
      for i, t in ipairs((tasks { sample(90), exit(90), sample(90), fork(90, 70, 3), sample(90) })) do
        list[i] = ("%s %d %s"):format(t.comm, t.ppid, t.exe)
      end
      return list
    end)())
  end)

  it("keeps parent and start where another of its threads executes: the first one exits", function()
    proc(70, "many", 1, 500, "/bin/many", { [71] = "many" })
    local seen = tasks { exit(70), exec(70, "one"), sample(70) }
    assert.same({ tid = 70, pid = 70, ppid = 1, comm = "one", start = 5000 * MS }, seen[1])
  end)

  it("that begins while /proc is read, or before its first record, is found", function()
    proc(70, "sh", 1, 500, "/bin/sh")
    local first, lists = k.hooks.list, 0
    k.hooks.list = function(path)
      if path == "/proc" then
        lists = lists + 1
        if lists == 2 then proc(81, "second", 70, 600) elseif lists == 4 then proc(82, "later", 70, 601) end
      end
      return first(path)
    end
    perfev.hooks.set(k.hooks)
    local seen = tasks {
      function() for _, pid in ipairs { 81, 82 } do k.files[("/proc/%d/task/%d/comm"):format(pid, pid)] = nil end end,
      sample(81), sample(82),
    }
    assert.same({ "second", 70, "later", 70 }, { seen[1].comm, seen[1].ppid, seen[2].comm, seen[2].ppid })
  end)

  it("is found by its number, and is nil if unknown", function()
    proc(70, "sh", 1, 500, "/bin/sh")
    local idle, sh, nobody, early
    local s = perfev.session { duration = "10ms", all_cpus = true }
    early = s:task(70)
    s:event { switch = function() end }
    s:every("1ms", function() idle, sh, nobody = s:task(0), s:task(70), s:task(4711) end)
    assert(s:run())
    assert.same({ tid = 0, pid = 0, comm = "swapper" }, idle)
    assert.same({ tid = 70, pid = 70, ppid = 1, comm = "sh", exe = "/bin/sh", start = 5000 * MS }, sh)
    assert.is_nil(nobody)
    assert.is_nil(early)
    assert.has_error(function() s:task "70" end, "task: the number of a thread")
  end)

  it("without a record is looked up once, also a thread by its number alone", function()
    local thread
    local s = perfev.session { duration = "10ms", all_cpus = true }
    s:event { switch = function() end }
    s:every("2ms", function()
      proc(70, "sh", 1, 500, "/bin/sh", { [71] = "worker" })
      k.files["/proc/71/task/71/comm"] = "worker\n"
      k.files["/proc/71/status"] = k.files["/proc/70/status"]
      thread = s:task(71)
    end)
    assert(s:run())
    assert.same({ tid = 71, pid = 70, ppid = 1, comm = "worker", exe = "/bin/sh" }, thread)
  end)

  it("without any facts has its numbers and the name of r.comm", function()
    assert.same({ { tid = 4712, pid = 4711, comm = ":4712" } }, (tasks { sample(4712, 4711) }))
  end)

  it("is a separate table, and cannot be a key of an aggregator", function()
    local seen = tasks { sample(7), comm(7, "new"), sample(7) }
    assert.same({ ":7", "new" }, { seen[1].comm, seen[2].comm })
    local s = perfev.session { all_cpus = true }
    assert.error_matches(function() s:event { "cpu-clock", sample = perfev.count { by = "task" } } end,
      "'task' is neither a number nor a string")
  end)
end)

describe("a recording's task", function()
  it("has the facts in its records, and nothing is looked up on this machine", function()
    perfev.hooks.clear()
    local b, time = perfdata.new { events = { { ids = { 1 }, attr = {
      type = 1, config = 0, sample_type = { "tid", "time", "identifier" }, sample_id_all = true, comm = true,
      task = true, mmap2 = true } } } }, 0
    for _, step in ipairs {
      { "fork", { pid = 70, ppid = 1, tid = 70, ptid = 1, time = 0, fork_exec = true } },
      comm(70, "sh"), mmap(70, 0x1000, "/bin/sh"), mmap(70, 0x9000, "/lib/libc.so"), sample(70),
      fork(80, 70, 9), exec(80, "ls"), mmap(80, 0x1000, "/bin/ls"), sample(80), sample(1),
    } do
      local fields = step[2]
      time = time + 10
      fields.type = step[1]
      if step[1] == "sample" then
        fields.time, fields.identifier = time, 1
      else
        fields.sample_id = { pid = fields.pid, tid = fields.tid, time = time, identifier = 1 }
      end
      b:add(fields)
    end
    local path = os.tmpname()
    local file <close> = assert(io.open(path, "wb"))
    file:write(b:file())
    file:close()
    local seen = {}
    local s = perfev.session { input = path }
    s:event { type = 1, config = 0, sample = function(r) seen[#seen + 1] = r.task end }
    assert(s:run())
    local rec = perfev.open(path)
    for _ in rec:records() do end -- luacheck: ignore 542
    local after = rec:task(80)
    rec:close()
    os.remove(path)
    assert.same({
      { tid = 70, pid = 70, ppid = 1, comm = "sh", exe = "/bin/sh" },
      { tid = 80, pid = 80, ppid = 70, comm = "ls", exe = "/bin/ls", start = 9 },
      { tid = 1, pid = 1, comm = ":1" },
    }, seen)
    assert.same({ tid = 80, pid = 80, ppid = 70, comm = "ls", exe = "/bin/ls", start = 9 }, after)
    assert.is_nil(rec:task(80))
  end)
end)
