-- Hardware counters with repeatable values: the guest's time is its number of instructions (-icount), so that an
-- instruction takes 4 ns and cycles run at 1 GHz. On machines with a real PMU the specs assert less.

local core = require "perfev.core"
local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local E = perfev.errno

local function own(spec)
  spec.tid, spec.inherit = "self", false
  return assert(perfev.counter(spec))
end

local function work(times)
  local x = 0
  for i = 1, times do x = x ~ i end
  return x
end

-- Not the PMU that QEMU makes for POWER: it never interrupts, and its cycles do not follow time.
local function interrupts()
  if core.machine == "powerpc" and os.getenv "VM" then pending "QEMU's PMU of POWER does not interrupt" end
end

-- The cycles of each instruction in these guests.
local CYCLES = 4

describe("cycles and instructions", function()
  it("are counted, and half of the work gives half of the count", function()
    requires("hardware", "hardware instructions")
    local c <close> = own { "instructions:u" }
    local function spent(times)
      local before = c:read()["instructions:u"]
      work(times)
      return c:read()["instructions:u"] - before
    end
    spent(1000)
    local half, whole = spent(50000), spent(100000)
    assert.is_true(half > 50000, half)
    assert.is_true(math.abs(whole / half - 2) < 0.1, whole / half)
  end)

  it("may form a group, at the machine's rate", function()
    requires("guest", "hardware", "hardware instructions")
    interrupts()
    local c <close> = own { "{cycles,instructions}" }
    work(1000)
    local before = c:read()
    work(200000)
    local after = c:read()
    local cycles, instructions = after.cycles - before.cycles, after.instructions - before.instructions
    assert.equal(1.0, after.running_ratio)
    assert.is_true(math.abs(cycles / instructions - CYCLES) < CYCLES * 0.15, cycles / instructions)
  end)

  it("are scaled if forty events share the PMU, and are never inf or nan", function()
    requires("hardware", "hardware instructions")
    local list = {}
    for i = 1, 40 do list[i] = { i % 2 == 0 and "cycles:u" or "instructions:u", name = "e" .. i } end
    list.tid, list.inherit = "self", false
    local c <close> = assert(perfev.counter(list))
    local r
    for _ = 1, 200 do
      work(20000)
      r = c:read()
      if r.running_ratio > 0 and r.running_ratio < 1 then break end
    end
    assert.is_true(r.running_ratio > 0 and r.running_ratio < 1, r.running_ratio)
    for name, one in pairs(r.counts) do
      if one.value then
        assert.is_true(one.value == one.value and one.value < math.huge and one.value >= one.raw, name)
        assert.is_true(one.running_ratio >= 0 and one.running_ratio <= 1, name)
      else
        assert.equal(0, one.time_running, name)
      end
    end
  end)
end)

describe("a counter's mapped page", function()
  local ACCESS = "/proc/sys/kernel/perf_user_access"
  -- The limit for three readings from Lua without an interruption.
  local INSTRUCTIONS = 50000
  local FORMAT = 3 -- TOTAL_TIME_ENABLED and _RUNNING

  -- arm64 needs a sysctl and a bit of the event (5.17); on x86 user-space reads are on by default. Set it only while
  -- no event is open: the kernel revokes the right at once, but the pages still grant it.
  local function allow(level)
    requires("hardware", "hardware instructions")
    if core.machine == "x86_64" then return end
    if core.machine ~= "aarch64" then pending "read in user space on x86 and arm64 alone" end
    requires("guest", "root")
    if not core.slurp(ACCESS) then pending "Linux before 5.17 lets nobody read counters of arm64" end
    local file <close> = assert(io.open(ACCESS, "w"))
    assert(file:write(level))
  end

  local function asking(event)
    return own { event, read_format = FORMAT, config1 = core.machine == "aarch64" and 2 or nil } -- format/rdpmc
  end

  -- The system calls of a reading. A counter keeps the hooks that it was opened with.
  local function calls_of(event)
    local calls, reading = {}, false
    perfev.hooks.log(function(text) if reading then calls[#calls + 1] = text:match "^%w+" end end)
    local c <close> = asking(event)
    reading = true
    local r = c:read()
    reading = false
    perfev.hooks.log(nil)
    assert.is_true(r[event] > 0)
    return calls
  end

  for _, event in ipairs { "instructions:u", "cycles:u", "cycles" } do
    it(("has for %s the value of read(2) before and after, including times"):format(event), function()
      local most = INSTRUCTIONS * (event:find "cycles" and CYCLES or 1)
      allow "1"
      local calls = calls_of(event)
      local c = asking(event)
      local fd = c:member():fds()[1].fd
      local function by_read() return string.unpack("=i8i8i8", assert(perfev.hooks.real.read(fd, 24))) end
      local readings = {}
      for i = 1, 20 do
        work(1000)
        local before = table.pack(by_read())
        local one = c:read().counts[event]
        readings[i] = { before, { one.raw, one.time_enabled, one.time_running }, table.pack(by_read()) }
      end
      c:close()
      allow "0"
      assert.same({}, calls)
      local least = math.huge
      for _, r in ipairs(readings) do
        for i = 1, 3 do
          assert.is_true(r[1][i] <= r[2][i] and r[2][i] <= r[3][i], ("%d %d %d"):format(r[1][i], r[2][i], r[3][i]))
        end
        least = math.min(least, r[3][1] - r[1][1])
      end
      assert.is_true(least < most, least)
    end)
  end

  it("is replaced by read(2) if users may not read counters", function()
    if core.machine ~= "aarch64" then pending "not on arm64" end
    allow "0"
    assert.same({ "read" }, calls_of "instructions:u")
  end)
end)

describe("sampling of the PMU", function()
  -- A shell that loops and does not fork.
  local LOOP = { "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done" }

  it("by a fixed period takes the number of samples that the period predicts", function()
    requires("sampling cycles")
    interrupts()
    local PERIOD, n, value = 5000000, 0, 0 -- QEMU checks for an overflow of instructions once a tick
    local s = perfev.session { command = LOOP }
    s:event { "cycles:u", period = PERIOD, inherit = false, sample_type = { "read" }, sample = function(r)
      n, value = n + 1, r.read.value
    end }
    assert(s:run())
    local expected = value // PERIOD
    assert.is_true(expected > 5, expected)
    assert.equal(0, s:totals().lost)
    assert.is_true(math.abs(n - expected) <= 2, ("%d samples, %d periods"):format(n, expected))
  end)

  it("by frequency adjusts its period, and the periods sum to the count", function()
    requires("sampling cycles")
    interrupts()
    local periods, values = {}, {}
    local s = perfev.session { command = LOOP }
    s:event { "cycles:u", freq = 997, inherit = false, sample_type = { "read", "period" }, sample = function(r)
      periods[#periods + 1], values[#values + 1] = r.period, r.read.value
    end }
    assert(s:run())
    assert.is_true(#periods > 10, #periods)
    assert.is_true(periods[#periods] > periods[1])
    -- The period starts at 1, so many periods pass before the first overflow is noticed.
    local first, sum, longest = #periods // 2, 0, 0
    for i = first + 1, #periods do
      sum, longest = sum + periods[i], math.max(longest, periods[i])
    end
    local counted = values[#values] - values[first]
    -- QEMU checks once a tick. Events counted between an overflow and its late detection belong to no period.
    local most = counted // 50 + 2 * longest
    assert.is_true(math.abs(counted - sum) <= most, ("%d counted, %d in periods"):format(counted, sum))
  end)

  it("is refused for more precision than the PMU has, with a remedy", function()
    requires("sampling cycles")
    interrupts()
    local s <close> = perfev.session { tid = "self" }
    s:event { "cycles:uppp", period = 100000, sample = function() end }
    local ok, why, code = s:start()
    assert.is_nil(ok)
    assert.is_true(code == E.EOPNOTSUPP or code == E.EINVAL or code == E.ENOENT, why)
    assert.matches("precise_ip = 3 (:ppp)", why, 1, true)
    assert.matches("\n%s+try: ", why)
  end)

  it("with P uses the PMU's best precision, and takes samples", function()
    requires("sampling cycles")
    interrupts()
    local n = 0
    local s = perfev.session { command = LOOP }
    s:event { "cycles:uP", period = 5000000, sample = function() n = n + 1 end }
    assert(s:run())
    assert.is_true(n > 5, n)
  end)
end)

describe("perfl on the PMU,", function()
  it("stat: counts hardware events, and reports none as unsupported", function()
    requires("hardware", "hardware instructions")
    local r = run { run.perfl, "stat", "-x,", "--events", "cycles:u,instructions:u", "--", "true" }
    assert.equal(0, r.code, r.err)
    local text = r.out .. r.err
    for _, name in ipairs { "cycles:u", "instructions:u" } do
      assert.is_true((tonumber(text:match("(%d+),[^,\n]*," .. name)) or 0) > 10000, text)
    end
  end)

  it("profile: stacks of cycles", function()
    requires("sampling cycles")
    interrupts()
    local r = run { run.perfl, "profile", "--event", "cycles:u", "-f", "folded", "--", "sh", "-c",
      "i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done" }
    assert.equal(0, r.code, r.err)
    assert.matches("^sh[^\n]* %d+", r.out)
  end)

  it("list: the events of the PMU itself", function()
    requires("hardware")
    local r = run { run.perfl, "list" }
    assert.equal(0, r.code, r.err)
    assert.matches("cycles", r.out)
    if (run.capture "uname -m") == "aarch64" then assert.matches("armv8%S*/[%w_]+", r.out) end
  end)
end)
