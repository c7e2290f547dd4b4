-- Who is who: the name a record's task had when the record was written.

local perfev = require "perfev"
local sim = require "perfev.sim"

local MS = 1000000

local k
before_each(function()
  k = sim.new { cpus = "0-1" }
  perfev.hooks.set(k.hooks)
end)
after_each(function() perfev.hooks.clear() end)

-- Run a story of { type, fields } records, a ms apart -> the comm that each sample saw.
local function comms(story, pid)
  local seen = {}
  local s = perfev.session { duration = (#story + 300) .. "ms", pid = pid, buffer = "1M" }
  s:event { type = 1, config = 0, sample_period = 1, comm = true, task = true,
            sample = function(r) seen[#seen + 1] = r.comm end }
  for i, step in ipairs(story) do
    k:after(i * MS, function() assert(k:emit(k.events[step.cpu or 1], step[1], step[2])) end)
  end
  assert(s:run())
  return seen, s
end

local function sample(tid, pid) return { "sample", { pid = pid or tid, tid = tid } } end
local function comm(tid, name, pid) return { "comm", { pid = pid or tid, tid = tid, comm = name } } end
local function fork(tid, parent, pid)
  return { "fork", { pid = pid or tid, ppid = parent, tid = tid, ptid = parent, time = 1 } }
end
local function exit(tid) return { "exit", { pid = tid, ppid = 1, tid = tid, ptid = 1, time = 1 } } end

describe("a task's name", function()
  it("follows COMM records, but not before they arrive", function()
    assert.same({ ":7", "one", "two" }, (comms { sample(7), comm(7, "one"), sample(7), comm(7, "two"), sample(7) }))
  end)

  it("is its parent's after a FORK, until its own COMM", function()
    assert.same({ "sh", "ls", "sh" },
      (comms { comm(7, "sh"), fork(8, 7), sample(8), comm(8, "ls"), sample(8), sample(7) }))
  end)

  it("is separate for each thread", function()
    assert.same({ "main", "main", "worker", "main" },
      comms { comm(7, "main"), sample(7), fork(8, 7, 7), sample(8, 7), comm(8, "worker", 7), sample(8, 7), sample(7) })
  end)

  it("remains for records after its EXIT", function()
    assert.same({ "gone" }, (comms { comm(7, "gone"), exit(7), sample(7) }))
  end)

  it("changes when its tid is reused", function()
    assert.same({ "old", "new", "newer" }, comms {
      comm(7, "old"), comm(9, "new"), sample(7), exit(7), fork(7, 9), sample(7), comm(7, "newer"), sample(7),
    })
  end)

  it("follows the order of time across CPUs: a sample before a COMM has the old name", function()
    local story = { comm(7, "old"), sample(7), comm(7, "new"), sample(7) }
    for i, step in ipairs(story) do step.cpu = i % 2 + 1 end
    assert.same({ "old", "new" }, comms(story))
  end)

  it("is swapper for the idle task, and :TID for an unknown one", function()
    assert.same({ "swapper", ":4711", ":-1" }, (comms { sample(0), sample(4711), sample(-1) }))
  end)

  it("is read from /proc without a record, before the run and during it", function()
    k.files["/proc/70/task/70/comm"] = "daemon\n"
    k.files["/proc/70/task/71/comm"] = "helper\n"
    assert.same({ "daemon", "helper" }, (comms { sample(70), sample(71, 70) }))
    k.events = {}
    k.files["/proc/88/task/88/comm"] = nil
    k:after(MS, function() k.files["/proc/88/task/88/comm"] = "late\n" end)
    assert.same({ "late" }, (comms { sample(88) }))
  end)

  it("is a kworker's without the current work, which only /proc shows", function()
    k.files["/proc/70/task/70/comm"] = "kworker/u8:3-events_unbound\n"
    k.files["/proc/71/task/71/comm"] = "kworker/1:0H+kblockd\n"
    k.files["/proc/72/task/72/comm"] = "kworker/R-netns\n"
    assert.same({ "kworker/u8:3", "kworker/1:0H", "kworker/R-netns" },
      (comms { sample(70), sample(71), sample(72) }))
  end)

  it("may contain any byte except NUL, and has at most 15 bytes", function()
    assert.same({ "a b\n\27[31m\xff", "fifteen bytes !" },
      comms { comm(7, "a b\n\27[31m\xff"), sample(7), comm(7, "fifteen bytes !"), sample(7) })
  end)

  it("of a child with an unknown parent is read from /proc, too", function()
    k:after(MS, function() k.files["/proc/8/task/8/comm"] = "child\n" end)
    assert.same({ "child" }, (comms { fork(8, 7), sample(8) }))
  end)

  it("is looked up only once if unknown", function()
    local story = {}
    for i = 1, 50 do story[i] = sample(4711) end
    comms(story)
    local n = 0
    for _, line in ipairs(k.log) do n = n + (line:find("slurp(/proc/4711/", 1, true) and 1 or 0) end
    assert.is_true(n <= 1, n)
  end)

  it("is part of every record with a tid, and a COMM record has its own", function()
    local seen = {}
    local s = perfev.session { duration = "300ms" }
    s:event { switch = function(r) seen[#seen + 1] = r.comm end, comm = function(r) seen[#seen + 1] = r.comm end,
              exit = function(r) seen[#seen + 1] = r.comm end }
    k:after(MS, function()
      local event = k.events[1]
      k:emit(event, "comm", { pid = 7, tid = 7, comm = "name", sample_id = { pid = 7, tid = 7 } })
      k:emit(event, "switch", { sample_id = { pid = 7, tid = 7 } })
      k:emit(event, "exit", { pid = 7, tid = 7 })
    end)
    assert(s:run())
    assert.same({ "name", "name", "name" }, seen)
  end)

  it("is kept for the last 4,096 tasks that exited, and for no more", function()
    local seen, forgotten = {}, {}
    local s = perfev.session { duration = "1s", buffer = "4M", cpus = { 0 } }
    s:event { type = 1, config = 0, sample_period = 1, comm = true, task = true, sample = function(r)
      if r.comm == ":" .. r.tid then forgotten[#forgotten + 1] = r.tid else seen[#seen + 1] = r.tid end
    end }
    k:after(MS, function()
      local event = k.events[1]
      for tid = 1, 5000 do
        k:emit(event, "comm", { pid = tid, tid = tid, comm = "t" .. tid })
        k:emit(event, "exit", { pid = tid, tid = tid })
      end
      for tid = 5000, 1, -1 do k:emit(event, "sample", { pid = tid, tid = tid }) end
    end)
    assert(s:run())
    assert.equal(5000 - 4096, #forgotten)
    assert.equal(4096, #seen)
    assert.equal(904, forgotten[1])
    assert.equal(905, seen[4096])
  end)

  it("is right after a hundred thousand starts, exits and renamings of few tids", function()
    math.randomseed(1)
    local names, wrong, n = {}, 0, 0
    local s = perfev.session { duration = "1s", buffer = "32M", cpus = { 0 } }
    s:event { type = 1, config = 0, sample_period = 1, comm = true, task = true, sample = function(r)
      n = n + 1
      if r.comm ~= "c" .. r.period then wrong = wrong + 1 end
    end }
    k:after(MS, function()
      local event = k.events[1]
      for i = 1, 50000 do
        local tid = math.random(1, 6000)
        local what = math.random(4)
        if what == 1 or not names[tid] then
          names[tid] = i
          k:emit(event, "comm", { pid = tid, tid = tid, comm = "c" .. i })
        elseif what == 2 then
          k:emit(event, "exit", { pid = tid, tid = tid })
          names[tid] = nil
        elseif what == 3 then
          local child = math.random(1, 6000)
          k:emit(event, "fork", { pid = child, tid = child, ppid = tid, ptid = tid })
          names[child] = names[tid]
        else
          k:emit(event, "sample", { pid = tid, tid = tid, period = names[tid] })
        end
      end
    end)
    assert(s:run())
    assert.is_true(n > 3000, n)
    assert.equal(0, wrong)
  end)
end)
