-- What a call is made of: the states of its thread between start and stop, from made-up records.

local collectors = require "perfev.calls.collector"

local STACK = { id = 1 }
local function stack_of() return STACK end

-- Returns the calls that a collector kept, each as { took, kind -> ns or number }.
local function calls_of(c)
  local list = {}
  for i, call in ipairs(c:complete().sample) do
    local sums = { took = call.took }
    for what, value in pairs(call.sums) do
      local kind = c.whats[what].kind
      sums[kind] = (sums[kind] or 0) + value
    end
    list[i] = sums
  end
  return list
end

local function new(opt)
  return collectors.new { key = opt.key or false, is_function = opt.is_function or false, kept = 1000 }
end

describe("a collector of calls", function()
  it("divides a call's time into CPU, preempted, blocked and woken, which add up", function()
    local c = new {}
    c:start(100, 7, 0, "app")
    c:leave(110, 7, 0, true, nil, "other")
    c:enter(130, 7, 1)
    c:leave(135, 7, 1, false, stack_of)
    c:leave(136, 7, 1, false) -- the second record of the same switch
    c:wake(175, 7)
    c:enter(180, 7, 0)
    c:count("sample", 181, 7, 0, stack_of)
    c:count("minor", 182, 7, 0)
    c:stop(190, 7, 0)
    assert.same({ { took = 90, cpu = 25, preempted = 20, blocked = 40, woken = 5, block = 1, sample = 1, minor = 1 } },
      calls_of(c))
  end)

  it("ignores what threads do outside of calls", function()
    local c = new {}
    c:count("sample", 5, 7, 0, function() error "its stack is not needed" end)
    c:leave(6, 7, 0, false, function() error "nor this one" end)
    c:enter(8, 7, 0)
    c:start(10, 7, 0, "app")
    c:stop(20, 7, 0)
    c:stop(30, 7, 0)
    assert.same({ { took = 10, cpu = 10 } }, calls_of(c))
    assert.equal(1, c.unstarted)
  end)

  it("ends a call whose nested calls are more than the kernel has return events for", function()
    local c = new { is_function = true }
    for i = 1, 100 do c:start(i, 7, 0, "app") end
    for i = 1, 64 do c:stop(100 + i, 7, 0) end -- MAX_URETPROBE_DEPTH
    assert.same({ { took = 163, cpu = 163 } }, calls_of(c))
  end)

  it("counts the outermost call of a function that calls itself", function()
    local c = new { is_function = true }
    c:start(10, 7, 0, "app") c:start(12, 7, 0, "app") c:start(13, 7, 0, "app")
    c:stop(14, 7, 0) c:stop(15, 7, 0) c:stop(20, 7, 0)
    c:start(30, 7, 0, "app") c:stop(31, 7, 0)
    assert.same({ { took = 10, cpu = 10 }, { took = 1, cpu = 1 } }, calls_of(c))
  end)

  it("leaves out calls during which the thread ends, and those without an end", function()
    local c = new {}
    c:start(10, 7, 0, "app")
    c:forget(7)
    c:stop(50, 7, 0) -- of a new thread with that number
    c:start(60, 8, 0, "app")
    assert.same({}, calls_of(c))
    assert.same({ 1, 1, 1 }, { c.ended, c.unstarted, c.open_at_end })
  end)

  it("leaves out the calls that a loss may concern: in progress, or ended since that CPU's last record", function()
    local c = new {}
    c:start(10, 7, 0, "app") c:stop(20, 7, 0) -- before the last record of CPU 1
    c:enter(25, 9, 1)
    c:start(30, 7, 0, "app") c:stop(40, 7, 0)
    c:start(50, 8, 0, "app")
    c:lost(3, 1)
    c:lost(9) -- at an unknown time
    c:stop(70, 8, 0)
    c:start(80, 8, 0, "app") c:stop(85, 8, 0)
    assert.same({ { took = 10, cpu = 10 }, { took = 5, cpu = 5 } }, calls_of(c))
    assert.same({ 2, 1, 9 }, { c.incomplete, c.unstarted, c.lost_at_end })
  end)

  it("calls time unaccounted if no switches are collected", function()
    local c = new {}
    c.has_switches = false
    c:start(10, 7, 0, "app") c:stop(30, 7, 0)
    assert.same({ { took = 20, unknown = 20 } }, calls_of(c))
  end)

  it("joins threads by a key: the time in the queue, then what the second thread does", function()
    local c = new { key = true }
    c:enter(1, 8, 1)
    c:start(10, 7, 0, "front", 1)
    c:start(12, 7, 0, "front", 2)
    c:leave(20, 8, 1, false, stack_of)
    c:enter(50, 8, 1)
    c:stop(60, 8, 1, 1)
    c:leave(61, 8, 1, true)
    c:enter(65, 8, 1)
    c:stop(70, 8, 1, 2)
    c:stop(80, 8, 1, 3)
    assert.same({ { took = 50, cpu = 20, blocked = 30, block = 1 },
      { took = 58, queued = 48, cpu = 6, preempted = 4 } }, calls_of(c))
    assert.equal(1, c.unstarted)
  end)

  it("keeps a bounded number of distinct stacks and of sums of a call", function()
    local c = new {}
    c:start(0, 7, 0, "app")
    for i = 1, 70000 do c:count("sample", i, 7, 0, function() return { id = i } end) end
    c:stop(70001, 7, 0)
    assert.is_true(#c.whats <= (1 << 16) + 4)
    local call = c:complete().sample[1]
    assert.is_true(call.nr_sums <= 70)
    assert.equal(70000, calls_of(c)[1].sample)
  end)
end)
