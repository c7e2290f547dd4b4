-- Early events: their records are delivered when they are read, before their place in the order of time.

local perfev = require "perfev"
local sim = require "perfev.sim"

local MS = 1000000
local EVENT = "sched:sched_process_exec"

local k
before_each(function()
  k = sim.new { world = "vm", cpus = "0-1", tasks = { [7] = "app" } }
  k:tracepoint(EVENT, 901, "pid_t pid")
  perfev.hooks.set(k.hooks)
end)
after_each(function() perfev.hooks.clear() end)

local function exec(ms, cpu, pid)
  k:after(ms * MS, function()
    k:ring(cpu):push { type = "sample", pid = pid, tid = pid, event = EVENT, args = { pid = pid } }
  end)
end

local function session(opts)
  opts = opts or {}
  opts.all_cpus, opts.duration = true, opts.duration or "1s"
  return perfev.session(opts)
end

describe("an early event", function()
  it("keeps a fact that is gone when the record is delivered in the order of time", function()
    local s, early, late = session(), {}, {}
    local function fact() return k.files["/proc/7/cmdline"] or "gone" end
    k.files["/proc/7/cmdline"] = "ls\0-l\0"
    exec(1, 0, 7)
    k:after(3 * MS, function() k.files["/proc/7/cmdline"] = nil end)
    s:event { EVENT, early = true, sample = function(r) early[#early + 1] = fact() .. r.pid end }
    s:event { EVENT, sample = function(r) late[#late + 1] = fact() .. r.pid end }
    assert(s:run())
    assert.same({ { "ls\0-l\0" .. 7 }, { "gone7" } }, { early, late })
  end)

  it("is called at once, in the order of each CPU, while others wait for their order", function()
    local s, seen = session(), {}
    local function note(kind)
      return function(r)
        seen[#seen + 1] = ("%s %d %s"):format(kind, r.pid, k.now - r.time < 5 * MS and "soon" or "later")
      end
    end
    exec(1, 1, 11)
    exec(2, 0, 12)
    exec(3, 1, 13)
    s:event { EVENT, early = true, sample = note "early" }
    s:event { EVENT, sample = note "ordered" }
    assert(s:run())
    assert.same({ "early 11 soon", "early 12 soon", "early 13 soon", "ordered 11 later", "ordered 12 later",
      "ordered 13 later" }, seen)
    assert.equal(0, s:totals().late)
  end)

  it("is delivered before older records of others, also at the end", function()
    local s, seen = session { duration = "2ms" }, {}
    s:event { EVENT, early = true, sample = function() seen[#seen + 1] = "early" end }
    s:event { EVENT, sample = function() seen[#seen + 1] = "ordered" end }
    exec(1, 0, 7)
    exec(1, 0, 7)
    assert(s:run())
    assert.same({ "early", "early", "ordered", "ordered" }, seen)
  end)

  it("does not rename a task before its time", function()
    local s, names = session(), {}
    s:event { EVENT, sample = function(r) names[#names + 1] = r.comm end }
    s:event { early = true, comm = function() end }
    exec(1, 0, 7)
    k:after(2 * MS, function() k:ring(0):push { type = "comm", pid = 7, tid = 7, comm = "renamed" } end)
    exec(3, 0, 7)
    assert(s:run())
    assert.same({ "app", "renamed" }, names)
  end)

  it("refuses an AUX area and a backward ring", function()
    local s = session()
    assert.error_matches(function() s:event { EVENT, early = true, aux_buffer = true } end,
      "early and aux_buffer at once")
    assert.error_matches(function() s:event { EVENT, early = true, write_backward = true } end,
      "early and write_backward at once")
  end)
end)

describe("early facts", function()
  it("belong to the record of the same time, also if some records were lost", function()
    local taken, kept = {}, {}
    local early_facts = require "perfev.live.early_facts"
    local default = perfev.default_session()
    local declared = {}
    local real = default.event
    default.event = function(_, spec) declared[#declared + 1] = spec end
    finally(function() default.event = real end)
    local take = early_facts({ EVENT }, function(r) return "fact " .. r.time end)
    assert.is_true(declared[1].early)
    for _, time in ipairs { 100, 200, 400 } do declared[1].sample { tid = 7, time = time } end
    for _, time in ipairs { 101, 399 } do taken[#taken + 1] = take(7, time) end
    kept[1] = take(7, 500)
    assert.same({ { "fact 100", "fact 400" }, {} }, { taken, kept })
    declared[1].sample { tid = 7, time = 600 }
    declared[2].exit { tid = 7 }
    assert.is_nil(take(7, 601))
  end)
end)
