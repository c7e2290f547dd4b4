-- Facts of tasks on the real kernel: parent, program and start time, of existing and of new tasks.

local core = require "perfev.core"
local perfev = require "perfev"
local run = require "spec.support.run"

local MONOTONIC, BOOTTIME, TICK = 1, 7, 10000000

-- Returns the first match in a task's file of /proc.
local function of_proc(pid, file, pattern)
  return assert((core.slurp(("/proc/%d/%s"):format(pid, file)) or ""):match(pattern))
end

-- Returns the file of a program; `true` is also a shell builtin.
local function resolved(name) return run.capture(("readlink -f $(env which %s)"):format(name)) end

describe("a task on the real kernel", function()
  it("keeps its parent and start through an exec in place, and has its current program", function()
    local ends, execs, first = {}, {}, nil
    local s = perfev.session { command = { "sh", "-c", "env true; exec env sleep 0" } }
    s:event {
      comm = function(r) if r.exec then execs[#execs + 1] = r.task end end,
      exit = function(r) ends[#ends + 1] = { task = r.task, time = r.time, pid = r.pid } end,
      mmap = function(r) first = first or r.task end,
    }
    assert(s:run())
    assert.equal(2, #ends)
    local child, sh = ends[1], ends[2]
    assert.same({ sh.pid, core.pid() }, { child.task.ppid, sh.task.ppid })
    assert.same({ resolved "true", resolved "sleep" }, { child.task.exe, sh.task.exe })
    assert.same({ "true", "sleep" }, { child.task.comm, sh.task.comm })
    assert.same({ resolved "sh", sh.pid }, { first.exe, first.pid })
    local names = {}
    for i, task in ipairs(execs) do
      names[i] = task.comm
      assert.equal((task.pid == sh.pid and sh or child).task.start, task.start)
    end
    assert.same({ "sh", "env", "true", "env", "sleep" }, names)
    assert.is_true(sh.task.start < child.task.start and child.task.start < child.time)
  end)

  it("from before the session matches /proc: this process, its parent, the kernel's threads", function()
    local me = core.pid()
    local ours, theirs
    local s = perfev.session { pid = me, duration = "20ms" }
    s:event { comm = function() end }
    s:every("1ms", function() ours, theirs = s:task(me), s:task(2) end)
    assert(s:run())
    assert.equal(tonumber(of_proc(me, "status", "PPid:%s*(%d+)")), ours.ppid)
    assert.same({ me, me, core.readlink(("/proc/%d/exe"):format(me)) }, { ours.tid, ours.pid, ours.exe })
    -- Its age is the same by both clocks.
    local ticks = tonumber(of_proc(me, "stat", "^.*%) %S" .. (" %S+"):rep(18) .. " (%d+)"))
    local age = core.clock(BOOTTIME) - ticks * TICK
    assert.is_true(math.abs(age - (core.clock(MONOTONIC) - ours.start)) < 10e9, age)
    if theirs then assert.same({ 2, 0, nil }, { theirs.pid, theirs.ppid, theirs.exe }) end
  end)
end)
