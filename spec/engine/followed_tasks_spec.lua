-- Names of tasks: the session asks the kernel for them only if something may read them.

local perfev = require "perfev"
local sim = require "perfev.sim"

local MS = 1000000

-- Runs tell(k, s) with a session that watches all CPUs of a simulated machine.
local function simulated(opts, tell)
  local k = sim.new { cpus = "0", tasks = { [7] = "seven" } }
  return perfev.hooks.with(k.hooks, function()
    local s <close> = perfev.session(opts or {})
    return tell(k, s)
  end)
end

-- The number of events of this kernel that write the names of tasks.
local function followers(k)
  local n = 0
  for _, event in ipairs(k.events) do n = n + (event.attr.comm and event.attr.task and 1 or 0) end
  return n
end

local function event(spec)
  spec.type, spec.config, spec.sample_period = 1, 0, 1
  return spec
end

local function nothing() end

describe("names of tasks", function()
  for what, case in pairs {
    ["a callback gets a view"] = { 1, { sample = nothing } },
    ["a callback gets the name"] = { 1, { sample = nothing, fields = { "cpu", "comm" } } },
    ["a key is the name"] = { 1, { sample = perfev.count { by = "comm" } } },
    ["a condition may read the name"] = { 1, { sample = perfev.count { by = "cpu" }, where = { "comm", "==", "x" } } },
    ["the aggregator's condition does"] = { 1, { sample = perfev.count { where = { "comm", "==", "x" } } } },
    ["a line prints it"] = { 1, { sample = perfev.line "{comm}" } },
    ["the callback is of another record"] = { 1, { sample = perfev.count { by = "cpu" }, exit = nothing } },
    ["tasks are selected by it"] = { 1, { sample = perfev.count { by = "cpu" } }, { comm = "x", all_cpus = true } },
    ["a callback gets the thread"] = { 1, { sample = nothing, fields = { "tid" } } },
    ["a key is the process"] = { 1, { sample = perfev.count { by = "pid" } } },
    ["a callback gets other numbers of the record"] = { 0, { sample = nothing, fields = { "time", "cpu" } } },
    ["the keys are other numbers of the record"] = { 0, { sample = perfev.count { by = { "ip", "cpu" } } } },
  } do
    it(("are %s if %s"):format(case[1] == 1 and "followed" or "not followed", what), function()
      simulated(case[3], function(k, s)
        s:event(event(case[2]))
        assert(s:start())
        assert.equal(case[1], followers(k))
      end)
    end)
  end

  it("are followed if a loop reads views, or the name", function()
    for n, opts in pairs { [0] = { fields = { "cpu" } }, { fields = { "comm" } }, {} } do
      simulated({ duration = "10ms" }, function(k, s)
        s:event(event {})
        for _ in s:records(next(opts) and opts or nil) do error "a record" end
        assert.equal(math.min(n, 1), followers(k))
      end)
    end
  end)

  it("are followed from the first look at a task, from an event with a view, and from a loop on", function()
    local function later(follow)
      simulated({ duration = "500ms" }, function(k, s)
        s:event(event { sample = perfev.count { by = "cpu" } })
        assert(s:start())
        assert.equal(0, followers(k))
        follow(s, k)
        assert.equal(1, followers(k))
        assert.is_true(k.events[#k.events].enabled)
        k:ring(0):push { type = "comm", pid = 7, tid = 7, comm = "changed" }
        k.now = k.now + 200 * MS
        s:dispatch()
        assert.equal("changed", s:task(7).comm)
        assert.equal(1, followers(k))
      end)
    end
    later(function(s) assert.equal("seven", s:task(7).comm) end)
    later(function(s) assert(s:event(event { sample = nothing })) end)
  end)

  it("are followed if an event of a begin callback reads them", function()
    simulated({}, function(k, s)
      s:event(event { sample = perfev.count { by = "cpu" } })
      s:begin(function() s:event(event { sample = nothing }) end)
      assert(s:start())
      assert.equal(1, followers(k))
    end)
  end)

  it("are not followed, but the end of the tasks is noticed, if the only event has no records", function()
    simulated({ tid = 7 }, function(k, s)
      local a = perfev.count {}
      s:event { "page-faults", period = 1, sample = a }
      s:every("50ms", function() k:exit(7) end)
      assert(s:run())
      assert.is_nil(k.events[1].ring)
    end)
  end)
end)
