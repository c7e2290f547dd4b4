-- Clocks on the real kernel: a record's time is from the requested clock.

local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local E = perfev.errno
local ids = { realtime = 0, monotonic = 1, monotonic_raw = 4, boottime = 7, tai = 11 }
local clock = perfev.hooks.real.clock

describe("a session's clock", function()
  for name, id in pairs(ids) do
    it(name .. " is the clock of its records", function()
      -- The distance from a clock that cannot be set. If it changed meanwhile, the measurement is repeated.
      local function distance() return clock(id) - clock(ids.monotonic_raw) end
      local times, before, after, began
      repeat
        local s = perfev.session { command = { "true" }, clock = name }
        times, before, began = {}, clock(id), distance()
        local ev, why = s:event { comm = function(r) times[#times + 1] = r.time end }
        if not ev then pending(why) end
        local ok, failed = s:run()
        if not ok then pending(failed) end
        after = clock(id)
      until math.abs(distance() - began) < 1000000
      assert.is_true(#times > 0)
      for _, time in ipairs(times) do
        assert.is_true(before <= time and time <= after, ("%d <= %d <= %d"):format(before, time, after))
      end
    end)
  end

  it("and the time of day differ by a constant, which a recording keeps", function()
    local dir <close> = setmetatable({ path = run.tempdir() }, { __close = function(d) run.remove(d.path) end })
    local function distances(opts)
      local seen, began = {}, clock(ids.realtime)
      local s = perfev.session(opts)
      s:event { comm = function(r) seen[#seen + 1] = r.walltime - r.time end }
      local ok, failed = s:run()
      if not ok then pending(failed) end
      assert.is_true(#seen > 0)
      for _, one in ipairs(seen) do assert.equal(seen[1], one) end
      return seen[1], began, clock(ids.realtime)
    end
    local path, time, walltime = dir.path .. "/clock.data", nil, nil
    local recorded = perfev.session { command = { "true" }, record = path }
    recorded:event { comm = function(r) time, walltime = r.time, r.walltime end }
    local began = clock(ids.realtime)
    local ok, failed = recorded:run()
    if not ok then pending(failed) end
    local ended = clock(ids.realtime)
    assert.is_true(math.type(time) == "integer" and began - 1000000 <= walltime and walltime <= ended + 1000000)
    local data = perfev.open(path).header.clock_data
    assert.equal(data.wall - data.clock, (distances { input = path }))
    assert.equal(0, (distances { command = { "true" }, clock = "realtime" }))
  end)

  it("is the kernel's own for tracepoints if it is realtime, and they have no time of day", function()
    requires "tracefs"
    local seen = {}
    local s = perfev.session { command = { "true" }, clock = "realtime" }
    s:event { "sched:sched_process_exec", sample = function(r) seen[#seen + 1] = r.walltime or "none" end }
    local ok, failed = s:run()
    if not ok then pending(failed) end
    assert.equal("none", seen[1])
  end)

  it("in a time namespace is the kernel's clock, and its offset does not delay records", function()
    requires("root", "program unshare")
    for _, off in ipairs { "-1000", "1000" } do
      if run({ "unshare", "--time", "--monotonic", off, "true" }).code ~= 0 then pending "no time namespaces" end
      local r = run { "unshare", "--time", "--monotonic", off, run.perfl, "-n", "1", "-e",
        "event { 'page-faults', period = 1, sample = function() end }", "--", "sleep", "9" }
      assert.equal(143, r.code, r.err) -- it was asked to end
      assert.matches("1 records, 0 lost, 0 late", r.err)
    end
  end)

  it("is never a clock of CPU time, because these differ between tasks", function()
    for _, name in ipairs { "process_cputime", "thread_cputime", "PROCESS_CPUTIME_ID", 2, 3 } do
      assert.error_matches(function() perfev.session { clock = name } end,
        "clock must be one of boottime, monotonic, monotonic_raw, realtime, tai, not '?" .. name)
    end
  end)

  it("is refused as an event's clockid by the kernel, and by perfev in advance", function()
    for _, id in ipairs { 2, 3 } do
      local s <close> = perfev.session { tid = "self" }
      local ok, why, code = s:event { "dummy", use_clockid = true, clockid = id, comm = function() end }
      if ok then ok, why, code = s:start() end
      assert.is_nil(ok)
      assert.equal(E.EINVAL, code)
      assert.matches("clockid", why)
    end
  end)
end)
