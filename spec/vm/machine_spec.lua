-- Specs that need a machine to themselves: they unplug a CPU, set every level of perf_event_paranoid, make a cgroup
-- without controllers, and request features that this kernel lacks.

local core = require "perfev.core"
local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

local E = perfev.errno
local PARANOID = "/proc/sys/kernel/perf_event_paranoid"

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:setvbuf "no"
  local ok, why = file:write(text)
  file:close()
  assert(ok, why)
end

-- ---- this kernel's age ----

local beside = {
  sigtrap = { remove_on_exec = true }, inherit_thread = { inherit = true },
  branch_sample_type = { sample_type = { "branch_stack" } }, inherit = { sample_type = { "read", "tid" } },
}
-- Features that need more than one attr: AUX groups, and words with several uses.
local unfit = { aux_sample_size = true, aux_action = true, aux_output = true, aux_start_paused = true,
                aux_pause = true, aux_resume = true, kprobe_func = true, uprobe_path = true, kprobe_addr = true,
                probe_offset = true, sample_max_stack = true, branch_sample_type = true }

-- Flags and bits newer than this kernel: name, since, spec.
local function newer()
  local release, list = requires.release(), {}
  local function add(name, since, field, value)
    if requires.version(since) <= release or unfit[field] then return end
    local spec = { "cpu-clock", freq = 99, sample = function() end, [field] = value }
    for word, more in pairs(beside[field] or {}) do spec[word] = more end
    list[#list + 1] = { name = name, since = since, spec = spec }
  end
  for _, field in ipairs(core.attr_fields()) do
    if field.width == 1 then add(field.name, field.since, field.name, true) end
    for i, bit in ipairs(field.bits or {}) do
      if bit ~= "aux" then add(field.name .. " " .. bit, field.bits_since[i], field.name, { bit }) end
    end
  end
  add("sample_type read of an inherited event", "6.12", "inherit", true)
  return list
end

local function opened(spec)
  local notes = {}
  local s <close> = perfev.session { tid = "self", log = function(level, text)
    if level <= 1 then notes[#notes + 1] = text end
  end }
  s:event(spec)
  local ok, why = s:start()
  return ok, why, notes
end

describe("this kernel", function()
  it("opens basic events with one note at most", function()
    requires("perf")
    for _, event in ipairs { "cpu-clock", "page-faults", "dummy" } do
      local ok, why, notes = opened { event, sample = function() end, mmap = function() end }
      assert.is_truthy(ok, why)
      assert.is_true(#notes <= 1, notes[2])
    end
  end)

  it("refuses each unknown bit, and the message names the bit and its kernel", function()
    requires("perf", "guest")
    -- distributions backport some of these
    for _, one in ipairs(newer()) do
      local ok, why = opened(one.spec)
      if not ok then
        assert.matches(one.name, why, 1, true)
        assert.matches("came with Linux " .. one.since, why, 1, true)
      end
    end
  end)
end)

-- ---- rights ----

describe("kernel.perf_event_paranoid", function()
  for _, level in ipairs { 3, 4 } do
    it(("%d is named by the error and by doctor"):format(level), function()
      requires("guest", "perf", "root", "nobody")
      local before = assert(core.slurp(PARANOID)):match "%d+"
      write(PARANOID, level)
      local r = run({ run.perfl, "-q", "-e", 'event { "cpu-clock:u", sample = print }', "--", "true" },
        { user = "nobody", cwd = "/" })
      local doctor = run({ run.perfl, "doctor" }, { user = "nobody", cwd = "/" })
      write(PARANOID, before)
      assert.matches(("perf_event_paranoid[^\n]*%d"):format(level), doctor.out)
      if r.code == 0 then pending "this kernel knows no level above 2" end
      assert.matches(("kernel.perf_event_paranoid is %d, and this kernel then refuses all events"):format(level), r.err,
        1, true)
      assert.matches("sysctl kernel.perf_event_paranoid=2", r.err, 1, true)
      assert.matches(("paranoid %d refuses all"):format(level), doctor.out, 1, true)
    end)
  end
end)

-- ---- CPUs ----

describe("a CPU that goes offline while a session runs", function()
  local ONLINE = "/sys/devices/system/cpu/cpu1/online"

  -- Runs a session in which away() unplugs CPU 1 after a sample there, and which continues for ten ticks
  -- -> its output, samples of each CPU, polls after the unplug
  local function without_cpu1(away)
    requires("guest", "perf", "root", "cpus 2")
    if not core.slurp(ONLINE) then pending "cpu 1 cannot be taken away" end
    local said, seen, ticks, polls = {}, {}, 0, 0
    local s = perfev.session { all_cpus = true, log = function(_, text) said[#said + 1] = text end }
    s:event { "cpu-clock", freq = 99, sample = function(r) seen[r.cpu] = (seen[r.cpu] or 0) + 1 end }
    local gone
    s:every("50ms", function()
      ticks = ticks + 1
      if not gone and (seen[1] or 0) > 0 then
        away()
        gone, polls = ticks, 0
        perfev.hooks.log(function(name) if name:find "poll" then polls = polls + 1 end end)
      end
      if gone and ticks == gone + 10 or ticks == 2000 then return false end
    end)
    local ok, why = s:run()
    perfev.hooks.log(nil)
    write(ONLINE, "1")
    assert.is_truthy(ok, why)
    assert.is_truthy(gone, "cpu 1 took no sample")
    return table.concat(said, "\n"), seen, polls
  end

  it("is reported; earlier records are kept, and the session does not spin", function()
    local said, _, polls = without_cpu1(function() write(ONLINE, "0") end)
    assert.is_true(polls < 200, polls)
    assert.matches("cpu 1 went offline: its records until then are included", said, 1, true)
  end)

  it("and comes back is reported as well: its events do not come back", function()
    local said, seen = without_cpu1(function()
      write(ONLINE, "0")
      write(ONLINE, "1")
    end)
    assert.is_true(seen[0] > 0)
    assert.matches("cpu 1 went offline and came back: its later records are missing", said, 1, true)
  end)
end)

-- ---- cgroups ----

describe("a cgroup2 below a root that enables no controller", function()
  it("is refused with a remedy that works", function()
    requires("guest", "perf", "root")
    local root = "/sys/fs/cgroup"
    local control = core.slurp(root .. "/cgroup.subtree_control")
    if not control or control:find "%w" then pending "no cgroup2, or it has a controller on" end
    os.execute(("mkdir -p %s/app"):format(root))
    local function open()
      local s <close> = perfev.session { cgroup = "app" }
      s:event { "cpu-clock", freq = 99, sample = function() end }
      local ok, why, code = s:start()
      return ok, why, code
    end
    local ok, why, code = open()
    if ok then pending "this kernel needs none" end
    assert.equal(E.ENOENT, code)
    -- The controller stays on for the later specs: with "-pids" cgroups are seen as well.
    local what, path = why:match "try: echo (%S+) | sudo tee (%S+)"
    assert.equal(root .. "/cgroup.subtree_control", path, why)
    write(path, what)
    assert(open())
  end)
end)

-- ---- probes ----

describe("a probe of the kernel's function", function()
  local FUNCTION, TIMES = "do_sys_openat2", 25
  -- An offset at which an instruction begins and that every call passes: after the tracers' prologue, and after POWER's
  -- 8 bytes that only distant callers execute.
  local OFFSETS = { 12, 9, 6, 5, 4 }

  local function open_files()
    local real = perfev.hooks.real
    for _ = 1, TIMES do real.close(assert(real.open("/dev/null", 0))) end
  end

  -- f(event) of the first event that the kernel accepts
  local function first(events, f)
    local all = {}
    for i, event in ipairs(events) do
      local it, why = f(event)
      if it then return it, event end
      all[i] = why
    end
    error(table.concat(all, "\n"))
  end

  local behind = {}
  for i, offset in ipairs(OFFSETS) do behind[i] = ("kprobe:%s+%d"):format(FUNCTION, offset) end
  local places = { { "at its begin", { "kprobe:" .. FUNCTION } }, { "at an offset", behind },
                   { "at its return", { "kretprobe:" .. FUNCTION } } }

  for _, place in ipairs(places) do
    local where, events = place[1], place[2]

    it("counts each call " .. where, function()
      requires("guest", "perf", "root", "pmu kprobe")
      local counter <close>, event = first(events, function(event)
        return perfev.counter { event, tid = "self", inherit = false }
      end)
      open_files()
      assert.equal(TIMES, counter:delta()[event])
    end)

    it("samples each call " .. where, function()
      requires("guest", "perf", "root", "pmu kprobe")
      local samples, ips = 0, {}
      local session = first(events, function(event)
        local s = perfev.session { tid = "self", log = function() end }
        s:event { event, inherit = false, sample = function(r)
          samples = samples + 1
          ips[r.ip] = true
        end }
        local ok, why = s:start()
        if not ok then s:close() end
        return ok and s, why
      end)
      open_files()
      session:stop()
      assert(session:run())
      assert.is_true(samples >= TIMES, samples)
      if where ~= "at its return" then assert.is_nil(next(ips, next(ips))) end
    end)
  end
end)

describe("sigtrap", function()
  it("on a watchpoint of arm64 is refused, because it would signal for ever", function()
    requires("perf")
    if core.machine ~= "aarch64" then pending "not on arm64" end
    local ok, why = opened { "mem:0x1000/4:w", sigtrap = true, remove_on_exec = true, sample = function() end }
    assert.is_falsy(ok)
    assert.matches("signals for ever", why, 1, true)
  end)
end)
