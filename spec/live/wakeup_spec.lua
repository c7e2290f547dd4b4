-- When poll(2) finds a ring ready: every setting of wakeup_events and wakeup_watermark, on this kernel and on the
-- simulated one, after each record. The table is that of __perf_output_begin() and perf_output_sample().

local core = require "perfev.core"
local perfev = require "perfev"
local process, no_poll = require("spec.support.process").load()
local requires = require "spec.support.requires"(function(why) pending(why) end)
local sim = require "perfev.sim"

local real = perfev.hooks.real
local CALL = "syscalls:sys_enter_getpid"
local PAGE, HEAD, TAIL = perfev.hooks.real.pagesize(), 1024, 1032
local RECORD = 16 -- header and tid
local POLLIN = 1

local function call_id()
  return math.tointeger(tonumber((real.slurp "/sys/kernel/tracing/events/syscalls/sys_enter_getpid/id")))
end

-- epoll on the simulated kernel; here poll(2), which reads the state that the record has set: epoll would wait for
-- the interrupt (irq_work) that wakes, which may be late.
local function readiness_of(kernel, fd)
  if kernel == real then return function() return process.revents(fd) & POLLIN ~= 0 end end
  local epoll = assert(kernel.epoll_create())
  assert(kernel.epoll_ctl(epoll, 1, fd, POLLIN, 0))
  return function() return #kernel.epoll_wait(epoll, 1, 0) == 1 end
end

-- Opens a ring of one page with these attr fields; `happen(what)` writes one record.
local function ring_on(kernel, fields, happen)
  local attr = core.attr_parse(core.attr_new(fields):bytes())
  local fd = assert(kernel.perf_event_open(attr, 0, -1, -1, 8))
  local memory = assert(kernel.mmap(2 * PAGE, 3, fd, 0))
  local ring = { ready = readiness_of(kernel, fd) }
  function ring.step(what) happen(what, fd) end
  function ring.drain() memory:u64(TAIL, memory:u64(HEAD)) end
  function ring.head() return memory:u64(HEAD) end
  function ring.close()
    kernel.munmap(memory, 2 * PAGE)
    kernel.close(fd)
  end
  return ring
end

local function fields_of(setting)
  local fields = { type = 2, config = call_id(), sample_period = 1, sample_type = { "tid" }, exclude_hv = true,
                   sample_id_all = true, comm = setting.comm }
  for name, value in pairs(setting.attr) do fields[name] = value end
  return fields
end

-- f(ring) on this kernel and on the simulated one; returns both results.
local function on_both(setting, f)
  local k = sim.new { world = "vm", tracepoints = { [CALL] = { call_id(), "int __syscall_nr" } }, pid = real.getpid() }
  local kernels = {
    { real, function(what)
      if what == "sample" then return real.getpid() end
      local file = assert(io.open("/proc/self/comm", "w"))
      file:write "busted"
      file:close()
    end },
    { k.hooks, function(what, fd)
      k:emit(k.fds[fd], what, what == "comm" and { pid = 1, comm = "busted" } or {})
    end },
  }
  local results = {}
  for i, one in ipairs(kernels) do
    local ring = ring_on(one[1], fields_of(setting), one[2])
    local ok, result = pcall(f, ring)
    ring.close()
    assert(ok, result)
    results[i] = result
  end
  return results[1], results[2]
end

-- Lists those of n records after which the ring is ready.
local function readiness(n, what, keep)
  return function(ring)
    local list = {}
    for i = 1, n do
      ring.step(what)
      if ring.ready() then
        list[#list + 1] = i
        assert(not ring.ready()) -- the latch is cleared by asking
        if not keep then ring.drain() end
      end
    end
    return list
  end
end

local function every(step, n)
  local list = {}
  for i = step, n, step do list[#list + 1] = i end
  return list
end

-- Wakeup by bytes: ready when more bytes than the watermark were written since the last mark.
local function past(watermark, n)
  local list, mark = {}, 0
  for i = 1, n do
    if i * RECORD - mark > watermark then
      mark = mark + watermark
      list[#list + 1] = i
    end
  end
  return list
end

-- Wakeup by samples, and by half a ring regardless of wakeup_events. Both move one mark: a wakeup by samples adds 1
-- to rb->wakeup, which counts bytes (perf_output_sample()).
local function samples(step, n)
  local list, mark = {}, 0
  for i = 1, n or 300 do
    local ready = i * RECORD - mark > PAGE // 2
    if ready then mark = mark + PAGE // 2 end
    if i % step == 0 then ready, mark = true, mark + 1 end
    if ready then list[#list + 1] = i end
  end
  return list
end

local function need()
  requires("perf", "root", "tracepoint " .. CALL)
  if not process then pending(no_poll) end
end

local settings = {
  { "neither setting: half a ring", {}, past(PAGE // 2, 300) },
  { "wakeup_events 1", { wakeup_events = 1 }, samples(1) },
  { "wakeup_events 2", { wakeup_events = 2 }, samples(2) },
  { "wakeup_events 4", { wakeup_events = 4 }, samples(4) },
  { "wakeup_events 100", { wakeup_events = 100 }, samples(100) },
  { "watermark 1", { watermark = true, wakeup_watermark = 1 }, every(1, 300) },
  { "watermark of three records", { watermark = true, wakeup_watermark = 3 * RECORD }, past(3 * RECORD, 300) },
  { "watermark between two records", { watermark = true, wakeup_watermark = 100 }, past(100, 300) },
  { "watermark of the ring", { watermark = true, wakeup_watermark = PAGE }, {} }, -- it is full before
  { "watermark beyond the ring", { watermark = true, wakeup_watermark = 1 << 20 }, {} },
  { "watermark 0: half a ring", { watermark = true, wakeup_watermark = 0 }, past(PAGE // 2, 300) },
}

describe("a ring becomes ready, here and on the simulated kernel,", function()
  for _, setting in ipairs(settings) do
    it("by " .. setting[1], function()
      need()
      local here, there = on_both({ attr = setting[2] }, readiness(300, "sample"))
      assert.same(here, there)
      assert.same(setting[3], here)
    end)
  end

  it("only for samples, by wakeup_events", function()
    need()
    local here, there = on_both({ comm = true, attr = { wakeup_events = 1 } }, function(ring)
      local seen = {}
      for _, what in ipairs { "comm", "comm", "comm", "sample", "comm" } do
        local before = ring.head()
        ring.step(what)
        seen[#seen + 1] = { ring.head() > before, ring.ready() }
      end
      return seen
    end)
    assert.same({ { true, false }, { true, false }, { true, false }, { true, true }, { true, false } }, here)
    assert.same(here, there)
  end)

  it("for a record of any kind, by a watermark of 1", function()
    need()
    local here, there = on_both({ comm = true, attr = { watermark = true, wakeup_watermark = 1 } },
      readiness(10, "comm"))
    assert.same(every(1, 10), here)
    assert.same(here, there)
  end)

  it("never again after it is full and not read", function()
    need()
    local here, there = on_both({ attr = { wakeup_events = 50 } }, readiness(400, "sample", true))
    assert.same(here, there)
    assert.same(samples(50, 255), here) -- 255 records of 16 bytes, and a byte that stays free
  end)
end)
