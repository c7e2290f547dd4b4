-- Threads that read the rings for aggregators: each record is counted once, or lost and counted as lost.
-- `make test-tsan` runs this file with a perfl that reports races on standard error.

local process = require "spec.support.process"
local run = require "spec.support.run"

local CALLS = 100000 -- of each of two commands, which keep two CPUs busy
local DD = ("dd if=/dev/zero of=/dev/null bs=1 status=none count=%d"):format(CALLS)
local dir, library, why_not

setup(function()
  dir = run.tempdir()
  library, why_not = process.build(dir)
end)
teardown(function() run.remove(dir) end)

local HEAD = [[
  local p = require "perfev"
  local WRITE = "syscalls:sys_enter_write"
  local function sum(a) local n = 0 for _, value in a:pairs() do n = n + value end return math.tointeger(n) end
]]

-- Runs the script on two commands that write CALLS times each -> what it prints, and its messages
local function output(words, script, command)
  if not run.root then pending "tracepoints need root" end
  local path = run.write_file(dir .. "/script.lua", HEAD .. script)
  command = command or ("'%s & %s; wait'"):format(DD, DD)
  local r = run(("%s -q %s %s -- sh -c %s"):format(run.perfl, words, path, command))
  assert.equal(0, r.code, r.err)
  assert.is_nil(r.err:find("ThreadSanitizer", 1, true), r.err)
  return r.out, r.err
end

local COUNTS = [[
  local all = p.count {}
  local by_pid = p.sum { by = "pid", value = "args.count" }
  local by_cpu = p.count { by = "cpu" }
  local ticked, follower, followed = 0, nil, p.sum { by = "pid", value = "args.count" }
  local function take()
    ticked = ticked + (all:delta():get() or 0)
    followed:merge(follower:delta())
  end
  p.begin(function()
    local exported = require "perfev.aggregate.exported"
    follower = exported.follow(exported.list()[2])
    assert(exported.list()[2].source == by_pid)
  end)
  p.event { WRITE, filter = "count == 1", sample = { all, by_pid, by_cpu } }
  p.every("1ms", take)
  p.done(function()
    take()
    local t, n = p.totals(), all:get()
    print(n + t.lost, t.delivered - n, ticked - n, sum(by_pid) - n, sum(by_cpu) - n, #by_pid, sum(followed) - n)
  end)
]]

describe("threads that read the rings", function()
  for _, readers in ipairs { 1, 2, 3 } do
    it(("count every record of two busy CPUs, as %d"):format(readers), function()
      assert.equal(("%d\t0\t0\t0\t0\t2\t0\n"):format(2 * CALLS),
        (output(("-m 4M --readers %d"):format(readers), COUNTS)))
    end)
  end

  it("count every record when the rings are too small for them", function()
    assert.equal(("%d\t0\t0\t0\t0\t2\t0\n"):format(2 * CALLS), (output("-m 4K --readers 2", COUNTS)))
  end)

  it("leave the names of tasks to the session", function()
    local out = output("--readers 2", [[
      local by_tid = p.count { by = "tid" }
      local s = p.session {}
      p.event { WRITE, filter = "count == 1", sample = by_tid }
      p.done(function() for tid in by_tid:pairs() do print(p.task(tid).comm) end end)
    ]])
    assert.equal("dd\ndd\n", out)
  end)

  it("stop and start again when an event is declared while they read", function()
    local fifo = dir .. "/go"
    assert.equal(0, run("mkfifo " .. fifo).code)
    assert.equal(("%d\ttrue\n"):format(2 * CALLS), (output("-m 4M --readers 2", ([[
      local all, more = p.count { by = "tid" }, nil
      p.event { WRITE, filter = "count == 1", sample = all }
      p.every("1ms", function()
        if more then return end
        more = assert(p.event { "syscalls:sys_enter_wait4", sample = p.count { by = "tid" } })
        io.open(%q, "w"):close()
      end)
      p.done(function() print(sum(all) + p.totals().lost, more ~= nil) end)
    ]]):format(fifo), ("'%s; cat %s; %s'"):format(DD, fifo, DD))))
  end)

  it("report the end of the last target", function()
    if not run.root then pending "tracepoints need root" end
    local path = dir .. "/ends.lua"
    run.write_file(path, [[
      local p = require "perfev"
      local pid = ...
      p.event { "syscalls:sys_enter_write", sample = p.count { by = "tid" } }
      p.every("1ms", function() if pid then os.execute("kill " .. pid) pid = nil end end)
      p.done(function() print "over" end)
    ]])
    local r = run(("sh -c 'mkfifo %s/fifo; cat <> %s/fifo & exec %s -q --readers 2 -p $! %s $!'"):format(
      dir, dir, run.perfl, path))
    assert.equal("over\n", r.out, r.err)
  end)

  it("go on in the parent when a timer's callback forks", function()
    if not library then pending(why_not) end
    -- gcc 12's AddressSanitizer: the child waits for ever for a lock that another thread of the parent had.
    if run.sanitized then pending "AddressSanitizer does not survive fork() beside threads" end
    assert.equal(("0\n%d\n"):format(2 * CALLS), (output("-m 4M --readers 2", ([[
      local process = assert(package.loadlib(%q, "luaopen_process"))()
      local all, child = p.count { by = "tid" }, nil
      p.event { WRITE, filter = "count == 1", sample = all }
      p.every("1ms", function()
        if child then return end
        child = process.fork()
        if child == 0 then os.exit(0, true) end
        print(process.wait(child))
      end)
      p.done(function() print(sum(all) + p.totals().lost) end)
    ]]):format(library))))
  end)

  it("are refused with the reason when a callback is a function", function()
    local out, said = output("--readers 2", "p.event { WRITE, filter = 'count == 1', sample = function() end }",
      "'true'")
    assert.equal("", out)
    assert.matches("readers 2: no other thread reads the rings: a callback is a function\n", said)
  end)

  it("are refused for a recording", function()
    local script = "p.event { WRITE, filter = 'count == 1', sample = p.count { by = 'tid' } }"
    local refusal = "readers 2: no other thread reads the rings: a recording is written\n"
    local _, said = output(("--readers 2 --record %s/perf.data"):format(dir), script, "'true'")
    assert.matches(refusal, said)
    script = "p.event { WRITE, filter = 'count == 1' }"
    _, said = output(("--readers 2 --record %s/perf.data"):format(dir), script, "'true'")
    assert.matches(refusal, said)
  end)

  it("are reported with -v", function()
    local script = "p.event { WRITE, filter = 'count == 1', sample = p.count { by = 'tid' } }"
    local _, said = output("-v --readers 2", script, "'true'")
    assert.matches("the rings are read without order of time, on %d threads?\n", said)
    _, said = output("-v", script, "'true'")
    assert.matches("the rings are read without order of time\n", said)
    _, said = output("-v -n 1000", script, "'true'")
    assert.matches("the rings are read in the order of time: the number of records is limited\n", said)
  end)
end)
