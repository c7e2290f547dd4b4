-- perfev.budget on the simulated kernel: what counts, what is refused, what a failure says.

local core = require "perfev.core"
local perfev = require "perfev"
local sim = require "perfev.sim"

local OPENAT, READ, MMAP, RESTART, BRK = 257, 0, 9, 219, 12
local ERESTARTSYS, RESTART_BLOCK = -512, -516

local k
before_each(function()
  perfev.budget.close()
  k = sim.new { world = "vm", tasks = { [7] = "spec" }, pid = 7 }
  k:install()
end)
after_each(function()
  perfev.budget.close()
  perfev.hooks.clear()
  assert.same({}, k:leaks())
end)

-- The simulated clock advances with each action.
local function push(event, args, fields)
  k:advance_to(k.now + 10)
  local record = { type = "sample", event = event, pid = 7, tid = 7, args = args }
  for name, value in pairs(fields or {}) do record[name] = value end
  k:ring(0):push(record)
end
local function enter(id, ...) push("raw_syscalls:sys_enter", { id = id, args = { ... } }) end
local function interrupted(ret) push("raw_syscalls:sys_exit", { id = READ, ret = ret }) end

local function rows_of(one)
  local rows = {}
  for _, row in ipairs(one.rows) do rows[row.name] = row.count or row.why or "?" end
  return rows
end

local x86 = require "perfev.core".machine == "x86_64"
local it = require "spec.support.skip"(it, function()
  if not x86 then pending "the numbers of system calls are those of x86_64" end
end)

describe("a budget", function()
  it("counts system calls by name and together, and returns the function's results", function()
    local b = perfev.budget { syscalls = "<= 3", ["syscalls:openat"] = 1, stacks = false }
    local one, a, n = b:measure(function(x)
      enter(OPENAT)
      enter(READ)
      enter(READ)
      return x, nil
    end, "value")
    assert.same({ syscalls = 3, ["syscalls:openat"] = 1 }, rows_of(one))
    assert.same({ true, "value", nil }, { one.ok, a, n })
    assert.same({ openat = 1, read = 2 }, one.calls)
  end)

  it("leaves out calls for the heap's memory, but not mmap of files", function()
    local one = perfev.budget { syscalls = 1, ["syscalls:mmap"] = 2, stacks = false }:measure(function()
      enter(BRK)
      enter(MMAP, 0, 4096, 3, 0x22, -1, 0)
      enter(MMAP, 0, 4096, 1, 0x2, 3, 0)
    end)
    assert.same({ syscalls = 1, ["syscalls:mmap"] = 2 }, rows_of(one))
  end)

  it("counts a call that signals interrupt once", function()
    local one = perfev.budget { syscalls = 2, stacks = false }:measure(function()
      enter(READ)
      interrupted(ERESTARTSYS)
      enter(READ)
      enter(READ)
      interrupted(RESTART_BLOCK)
      enter(RESTART)
    end)
    assert.same({ read = 2 }, one.calls)
  end)

  it("counts nothing of an empty function, nor what happens around it", function()
    local b = perfev.budget { syscalls = 0, ["page-faults"] = 0, stacks = false }
    for _ = 1, 3 do
      assert.is_true(b:measure(function() end).ok)
      enter(READ)
      push({ type = 1, config = 2 })
    end
  end)

  it("opens events at the first measurement, and none at the next, of the same events with other limits", function()
    perfev.budget { syscalls = 0, ["page-faults"] = 0 }:measure(function() end)
    local opened, closed = k.counts.perf_event_open, k.counts.close or 0
    for limit = 1, 3 do
      perfev.budget { syscalls = limit, ["page-faults"] = "any" }:measure(function() end)
    end
    assert.equal(opened, k.counts.perf_event_open)
    assert.equal(closed, k.counts.close or 0)
  end)

  it("raises the function's error as it is, and works afterwards", function()
    local b, object = perfev.budget { syscalls = 0, stacks = false }, { code = 5 }
    local ok, raised = pcall(b.measure, b, function() error(object) end)
    assert.same({ false, object }, { ok, raised })
    assert.equal(object, raised)
    assert.is_true(collectgarbage "isrunning")
    assert.is_true(b:measure(function() end).ok)
  end)

  it("stops the collector of garbage during the function, unless it shall run", function()
    for how, runs in pairs { stop = false, run = true } do
      local is_running
      perfev.budget { syscalls = "any", gc = how }:measure(function() is_running = collectgarbage "isrunning" end)
      assert.equal(runs, is_running)
    end
  end)

  it("calls the function once before with warm, and refuses a measurement within a measurement", function()
    local calls = 0
    perfev.budget { syscalls = "any", warm = true }:measure(function() calls = calls + 1 end)
    assert.equal(2, calls)
    local b = perfev.budget { syscalls = "any" }
    assert.has_error(function() b:measure(function() b:measure(function() end) end) end,
      "budget: a function that is measured measures another one\n  try: one budget with all limits")
    b:measure(function() end)
  end)

  it("refuses a measurement within one of other options, and works afterwards", function()
    local b = perfev.budget { syscalls = "any" }
    for _, opts in ipairs { { stacks = false }, { children = true }, { gc = "run" } } do
      opts["page-faults"] = "any"
      local other = perfev.budget(opts)
      assert.error_matches(function() b:measure(other.measure, other, print) end, "measures another one")
      assert.error_matches(function() other:measure(b.measure, b, print) end, "measures another one")
    end
    assert.is_true(collectgarbage "isrunning")
    assert.is_true(b:measure(function() end).ok)
  end)

  it("raises if the function yields: a coroutine that nobody resumes leaves nothing behind", function()
    local b = perfev.budget { syscalls = 0, stacks = false }
    assert.error_matches(coroutine.wrap(function() b:measure(coroutine.yield) end), "attempt to yield")
    assert.is_true(collectgarbage "isrunning")
    assert.is_true(b:measure(function() end).ok)
  end)

  it("raises in the child if the function forks and returns there, and leaves the parent's events alone", function()
    local b, process = perfev.budget { syscalls = 0, stacks = false }, core.process
    b:measure(function() end)
    local ioctls = k.counts.ioctl
    assert.error_matches(function()
      b:measure(function()
        ioctls = k.counts.ioctl
        core.process = function() return process() + 1 end -- luacheck: ignore 122
      end)
    end, "has forked, and returned in the child")
    assert.equal(ioctls, k.counts.ioctl)
    core.process = process -- luacheck: ignore 122
    assert.is_true(b:measure(function() end).ok)
  end)

  it("raises if a function has closed the descriptors of the events, and opens them again", function()
    local b = perfev.budget { syscalls = 1, stacks = false }
    b:measure(function() end)
    local function closes() k:fail("ioctl", 1, perfev.errno.EBADF) end
    assert.error_matches(function() b:measure(closes) end, "has closed the descriptors.*\n  try: ")
    assert.is_true(b:measure(function() enter(READ) end).ok)
    assert.is_false(b:measure(function()
      enter(READ)
      enter(READ)
    end).ok)
  end)

  it("refuses what is not a command or not a result", function()
    local b = perfev.budget { syscalls = 1, baseline = "/nonexistent", name = "f" }
    for _, argv in ipairs { false, "true", {}, { 1 } } do
      assert.error_matches(function() b:measure_command(argv or nil) end, "measure_command: a list of strings expected")
    end
    assert.error_matches(function() b:save {} end, "save: a result of measure%(%) expected")
  end)

  it("fails a row whose records were lost, whatever its limit", function()
    local b = perfev.budget { syscalls = "any", stacks = false, buffer = "4K" }
    local one = b:measure(function()
      for _ = 1, 200 do enter(READ) end
    end)
    assert.is_false(one.ok)
    assert.matches("%d+ records were lost; try: a larger buffer", one.rows[1].why)
  end)

  it("skips what this machine cannot count and says why; strict makes it fail", function()
    k:fail("perf_event_open", 1, perfev.errno.ENOENT)
    local one = perfev.budget { ["instructions:u"] = 5 }:measure(function() end)
    assert.same({ true, true }, { one.ok, one.rows[1].skipped })
    assert.matches("instructions:u: not counted: .*instructions:u", tostring(one))
    perfev.budget.close()
    k:fail("perf_event_open", 1, perfev.errno.ENOENT)
    assert.is_false(perfev.budget { ["instructions:u"] = 5, strict = true }:measure(function() end).ok)
  end)

  it("skips what a BPF program of another process may hide, even if the limit holds", function()
    local ioctl = k.hooks.ioctl
    k.hooks.ioctl = function(fd, request, arg)
      if request == "QUERY_BPF" then return { 77 } end
      return ioctl(fd, request, arg)
    end
    perfev.hooks.set(k.hooks)
    local one = perfev.budget { syscalls = 1, ["page-faults"] = 0, stacks = false }:measure(function() enter(READ) end)
    assert.same({ true, true, nil }, { one.ok, one.rows[2].skipped, one.rows[1].skipped })
    assert.matches("a BPF program is attached to raw_syscalls:sys_enter, and may hide its events", one.rows[2].why)
    perfev.budget.close()
    k.hooks.ioctl = ioctl
    perfev.hooks.set(k.hooks)
  end)

  it("names the calls that are new against its baseline, the most frequent first", function()
    local path = os.tmpname()
    os.remove(path)
    finally(function() os.remove(path) end)
    local function b(limit)
      return perfev.budget { syscalls = limit, stacks = false, baseline = path, name = "f" }
    end
    local first = b "any"
    assert(first:save((first:measure(function() enter(READ) end))))
    local one = b "<= 1":measure(function()
      enter(OPENAT)
      for _ = 1, 4 do enter(READ) end
    end)
    assert.equal("budget of f: exceeded\n  syscalls: 5, limit <= 1\n    read: 4, was 1\n    openat: 1, was 0",
      tostring(one))
    assert.same({ "read", "openat" }, { one.rows[1].new[1].name, one.rows[1].new[2].name })
    one = b(0):measure(function() enter(READ) end)
    assert.equal("budget of f: exceeded\n  syscalls: 1, limit 0\n    read: 1", tostring(one))
  end)

  it("refuses counts that depend on the load, with the reason, unless they are asked for", function()
    for name, why in pairs { ["cpu-migrations"] = "scheduler", ["task-clock"] = "a time", ["cycles:u"] = "caches",
                             ["sched:sched_switch"] = "all tasks", ["major-faults"] = "page cache" } do
      local ok, message = pcall(perfev.budget, { [name] = 1 })
      assert.is_false(ok)
      assert.matches("event '" .. name:gsub("%p", "%%%0") .. "'\n  its count depends on the load of the machine: .*"
        .. why .. ".*\n  try: .*unstable = true", message)
      assert.truthy(perfev.budget { [name] = 1, unstable = true })
    end
    assert.has_error(function() perfev.budget { instructions = 1 } end)
  end)

  it("refuses invalid words with the nearest valid one", function()
    local cases = {
      { { sycalls = 1 }, "event 'sycalls'", "did you mean 'syscalls'" },
      { { ["page-falts"] = 1 }, "event 'page%-falts'", "did you mean 'page%-faults'" },
      { { ["syscalls:opneat"] = 1 }, "event 'syscalls:opneat'", "did you mean 'openat'" },
      { { syscalls = "=< 3" }, "syscalls: limit '=< 3'", "try: \"<= 3\"" },
      { { syscalls = 1, warm = 3 }, "warm must be true or false, not 3", "" },
      { { syscalls = 1, gc = "off" }, "gc must be one of stop, run, not 'off'", "" },
      { { "syscalls" }, "not 'syscalls' alone", "" }, { {}, "no event has a limit", "try: {" },
      { { ["minor-faults,major-faults"] = 1, unstable = true }, "several events", "a line for each" },
    }
    for _, case in ipairs(cases) do
      local ok, message = pcall(perfev.budget, case[1])
      assert.is_false(ok)
      assert.matches("budget: .*" .. case[2], message)
      assert.matches(case[3], message)
    end
    assert.has_error(function() perfev.budget(12) end)
    assert.has_error(function() perfev.budget { syscalls = 1 }:measure(12) end,
      "measure: a function expected, not a number")
    assert.has_error(function() perfev.budget { syscalls = 1 }:save {} end)
  end)
end)
