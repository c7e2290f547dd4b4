-- Declarations: the attr that the session requests, the refused options, and the methods of events.

local perfev = require "perfev"
local sim = require "perfev.sim"
local wire = require "spec.support.wire"

local E = perfev.errno

local FORMAT = [[
name: sched_switch
ID: 316
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:char prev_comm[16];	offset:8;	size:16;	signed:0;
	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;

print fmt: "prev_comm=%s prev_pid=%d", REC->prev_comm, REC->prev_pid
]]

local k
before_each(function()
  k = sim.new { cpus = "0" }
  local events = "/sys/kernel/tracing/events/"
  k.files[events .. "sched/sched_switch/id"] = "316\n"
  k.files[events .. "sched/sched_switch/format"] = FORMAT
  k.files[events .. "sched/sched_wakeup/id"] = "317\n"
  k.files[events .. "sched/sched_wakeup/format"] = FORMAT:gsub("316", "317"):gsub("sched_switch", "sched_wakeup")
  perfev.hooks.set(k.hooks)
end)
after_each(function() perfev.hooks.clear() end)


-- The attr that the kernel sees of a declaration.
local function first_attr(spec, opts)
  k.events = {}
  local s <close> = perfev.session(opts or {})
  s:event(spec)
  assert(s:start())
  return k.events[1].attr
end

local function f() end

describe("an event string", function()
  local software = {
    ["cpu-clock"] = 0, ["task-clock"] = 1, ["page-faults"] = 2, faults = 2, ["context-switches"] = 3, cs = 3,
    ["cpu-migrations"] = 4, migrations = 4, ["minor-faults"] = 5, ["major-faults"] = 6, ["alignment-faults"] = 7,
    ["emulation-faults"] = 8, dummy = 9, ["bpf-output"] = 10, ["cgroup-switches"] = 11,
  }
  it("can be any of the kernel's software events and of perf's aliases", function()
    for name, config in pairs(software) do
      local attr = first_attr { name }
      assert.equal(1, attr.type, name)
      assert.equal(config, attr.config, name)
    end
  end)

  it("can select user or kernel side", function()
    for modifier, sides in pairs {
      [""] = { false, false }, [":u"] = { false, true }, [":k"] = { true, false }, [":uk"] = { false, false },
    } do
      local attr = first_attr { "cpu-clock" .. modifier }
      assert.same(sides, { attr.exclude_user, attr.exclude_kernel }, modifier)
    end
  end)

  it("names a tracepoint with a colon, with a slash, or by its number", function()
    for _, text in ipairs { "sched:sched_switch", "sched/sched_switch", "316" } do
      local attr = first_attr { text, sample = f }
      assert.same({ 2, 316, 1 }, { attr.type, attr.config, attr.sample_period }, text)
      assert.is_true(wire.has(attr, "raw"))
      assert.is_false(attr.exclude_kernel)
      assert.is_false(attr.freq)
    end
    assert.is_true(first_attr { "sched:sched_switch:u" }.exclude_kernel)
  end)

  it("that is misspelt is refused with the nearest name", function()
    for text, near in pairs {
      ["cpu-clocks"] = "cpu%-clock", ["sched:sched_swich"] = "sched:sched_switch",
      ["shed:sched_switch"] = "sched:sched_switch",
    } do
      local s = perfev.session {}
      s:event { text }
      local ok, why, code = s:start()
      assert.is_nil(ok)
      assert.matches("'" .. text:gsub("%-", "%%-") .. "'.*did you mean '" .. near .. "'%?", why)
      assert.equal(E.ENOENT, code)
    end
  end)

  it("cannot lead out of tracefs", function()
    for _, text in ipairs { "sched:../../../etc/passwd", "..:..", "a:b/../c", ".:x" } do
      local s = perfev.session {}
      s:event { text }
      assert.is_nil((s:start()))
      for _, line in ipairs(k.log) do assert.is_nil(line:find("slurp(/etc", 1, true)) end
    end
  end)

  it("finds tracefs below debugfs if it is mounted only there", function()
    for path, text in pairs(require("perfev.base.options").copy(k.files)) do
      if path:find("^/sys/kernel/tracing") then
        k.files[path], k.files[path:gsub("kernel/tracing", "kernel/debug/tracing")] = nil, text
      end
    end
    assert.equal(316, first_attr({ "sched:sched_switch" }).config)
  end)

  it("suggests a remedy if tracefs is not mounted or not readable", function()
    for path in pairs(k.files) do if path:find("^/sys/kernel/tracing") then k.files[path] = nil end end
    local s = perfev.session {}
    s:event { "sched:sched_switch" }
    local _, why = s:start()
    assert.matches("no tracefs is mounted.*\n  try: mount %-t tracefs", why)
    local list = k.hooks.list
    k.hooks.list = function(path)
      if path:find("tracing") then return nil, E.EACCES end
      return list(path)
    end
    s = perfev.session {}
    s:event { "sched:sched_switch" }
    local _, refused, code = s:start()
    assert.equal(E.EACCES, code)
    assert.matches("cannot be read by this user.*\n  try: .*CAP_PERFMON", refused)
    assert.equal(316, first_attr({ "316" }).config)
  end)
end)

describe("a declaration", function()
  it("without an event carries side-band records, without access to the kernel side", function()
    local attr = first_attr { switch = f }
    assert.same({ 1, 9 }, { attr.type, attr.config })
    assert.is_true(attr.context_switch and attr.exclude_kernel and attr.exclude_hv)
  end)

  it("requests the records that have a callback from the kernel", function()
    for name, bits in pairs {
      comm = { "comm", "comm_exec" }, mmap = { "mmap", "mmap2" }, fork = { "task" }, exit = { "task" },
      switch = { "context_switch" }, ksymbol = { "ksymbol" }, bpf = { "bpf_event" }, namespaces = { "namespaces" },
      cgroup = { "cgroup" }, text_poke = { "text_poke" }, read = { "inherit_stat" },
    } do
      local with, without = first_attr { [name] = f }, first_attr { "dummy" }
      for _, bit in ipairs(bits) do
        assert.is_true(with[bit], bit)
        assert.is_false(without[bit], bit)
      end
    end
  end)

  it("prefers the user's options to the defaults of the kind", function()
    assert.equal(4000, first_attr({ "cpu-clock" }).sample_freq)
    local attr = first_attr { "cpu-clock", freq = 99 }
    assert.same({ true, 99 }, { attr.freq, attr.sample_freq })
    attr = first_attr { "cpu-clock", period = 1000 }
    assert.same({ false, 1000 }, { attr.freq, attr.sample_period })
    attr = first_attr { "cpu-clock", sample_period = 77 }
    assert.same({ false, 77 }, { attr.freq, attr.sample_period })
    attr = first_attr { "sched:sched_switch", sample_period = 5, exclude_kernel = true }
    assert.same({ 5, true }, { attr.sample_period, attr.exclude_kernel })
    assert.is_false(wire.has(attr, "period")) -- else there is a sample for each event
    assert.is_true(wire.has(first_attr { "sched:sched_switch" }, "period"))
    assert.is_true(wire.has(first_attr { "sched:sched_switch", period = 5, sample_type = { "period" } }, "period"))
    assert.is_false(wire.has(first_attr { "page-faults", period = 5 }, "period"))
    assert.is_true(wire.has(first_attr { "page-faults", freq = 5 }, "period"))
    assert.is_true(wire.has(first_attr { "cpu-clock", period = 50000 }, "period"))
    assert.is_true(wire.has(first_attr { "cycles", period = 5 }, "period"))
    attr = first_attr { switch = f, context_switch = false }
    assert.is_false(attr.context_switch)
    attr = first_attr { switch = f, wakeup_events = 3 }
    assert.same({ false, 3 }, { attr.watermark, attr.wakeup_events })
    assert.is_true(wire.has(first_attr { "cpu-clock", callchain = true }, "callchain"))
    assert.is_true(wire.has(first_attr { "page-faults" }, "addr"))
  end)

  it("adds the bits of extra_sample_type to the default ones, and refuses an unknown bit", function()
    local attr = first_attr { "sched:sched_switch", extra_sample_type = { "addr", "weight" } }
    for _, bit in ipairs { "raw", "tid", "time", "addr", "weight" } do assert.is_true(wire.has(attr, bit), bit) end
    assert.has_error(function() perfev.session {}:event { "cpu-clock", extra_sample_type = { "adr" }, sample = f } end,
      "event: sample_type has no bit 'adr' (did you mean 'addr'?)")
  end)

  it("requests at most the sample rate that the kernel allows", function()
    k.files["/proc/sys/kernel/perf_event_max_sample_rate"] = "1000\n"
    assert.equal(1000, first_attr({ "cpu-clock" }).sample_freq)
    local s = perfev.session {}
    s:event { "cpu-clock", freq = 2000 } -- requested by the user: the kernel must refuse it
    local ok, why = s:start()
    assert.is_nil(ok)
    assert.matches("a frequency of 2000 Hz is above kernel.perf_event_max_sample_rate, 1000", why)
  end)

  it("refuses contradictions and wrong types, with the line of the caller", function()
    local s = perfev.session {}
    local function refused(spec, pattern)
      local ok, why = pcall(function() s:event(spec) end)
      assert.is_false(ok)
      assert.matches(pattern, why)
      assert.matches("^spec/event/event_spec.lua:%d+: ", why)
    end
    refused({ "cpu-clock", sampel = f }, "unknown option 'sampel' %(did you mean 'sample'%?%)")
    refused({ "cpu-clock", sample = 1 }, "sample must be a function, not 1")
    refused({ "cpu-clock", sample = {} }, "sample must be a function, not a table")
    refused({ 1 }, "element 1 must be an event string, not 1")
    refused({ "a", [3] = "b" }, "element 3")
    refused({ "a", 2 }, "element 2 must be an event string")
    refused({ [true] = 1 }, "unknown option 'true'")
    refused("cpu-clock", "a table expected")
    refused({ "cpu-clock", freq = 1, period = 1 }, "period and freq at once")
    refused({ "cpu-clock", type = 1 }, "an event string and type")
    refused({ "cpu-clock", filter = 1 }, "filter must be a string")
    refused({ "cpu-clock", name = 1 }, "name must be a string")
  end)

  it("accepts any callable value as a callback", function()
    local n = 0
    local s = perfev.session { duration = "1s" }
    s:event { type = 1, config = 0, sample = setmetatable({}, { __call = function() n = n + 1 end }) }
    k:after(1000000, function() k:emit(k.events[1], "sample") end)
    assert(s:run())
    assert.equal(1, n)
  end)

  it("is refused after the session has ended", function()
    local s = perfev.session {}
    s:event { "dummy" }
    assert(s:start())
    s:close()
    assert.error_matches(function() s:event { "dummy" } end, "it has ended")
  end)

  it("that is optional is left out with a message if it cannot be opened", function()
    local said = {}
    local s = perfev.session { log = function(level, text) if level == 1 then said[#said + 1] = text end end }
    local ev = s:event { "no:such", optional = true }
    s:event { "dummy" }
    assert(s:start())
    assert.matches("^left out: tracepoint 'no:such'", said[1])
    assert.matches("no:such", ev.error)
    assert.same({ nil, ev.error, E.EBADF }, { ev:enable() })
    s:close()
  end)

  it("falls back to the user side if the kernel side is not permitted, and reports it", function()
    k.files["/proc/sys/kernel/perf_event_paranoid"] = "2\n"
    k.refuse = function(attr) return not attr.exclude_kernel and E.EACCES end
    local said = {}
    local s = perfev.session { pid = 70, log = function(level, text) if level == 0 then said[#said + 1] = text end end }
    k.files["/proc/70/task/70/comm"] = "x\n"
    s:event { "cpu-clock" }
    assert(s:start())
    assert.is_true(k.events[1].attr.exclude_kernel)
    assert.matches("cpu%-clock: user side only %(:u%), because kernel.perf_event_paranoid is 2", said[1])
    s:close()
    for _, spec in ipairs { { "cpu-clock:k" }, { "cpu-clock", exclude_kernel = false } } do
      s = perfev.session { pid = 70 }
      s:event(spec)
      local ok, why, code = s:start()
      assert.is_nil(ok)
      assert.equal(E.EACCES, code)
      assert.matches("Permission denied", why)
    end
  end)

  it("leaves the kernel part out of the stacks as well, on kernels that require it", function()
    k.refuse = function(attr)
      local seen = attr.sample_type & 1 << 5 ~= 0 and not attr.exclude_callchain_kernel
      return (not attr.exclude_kernel or seen) and E.EACCES or nil
    end
    k.files["/proc/70/task/70/comm"] = "x\n"
    for _, name in ipairs { "cpu-clock", "cpu-clock:u" } do
      local s <close> = perfev.session { pid = 70, log = function() end }
      local ev = s:event { name, callchain = true }
      assert(s:start())
      local attr = ev.attr
      assert.same({ true, true, false }, { attr.exclude_kernel, attr.exclude_callchain_kernel,
        attr.exclude_callchain_user })
    end
    local s = perfev.session { pid = 70, log = function() end }
    s:event { "cpu-clock:u", callchain = true, exclude_callchain_kernel = false }
    assert.equal(E.EACCES, select(3, s:start()))
  end)
end)

describe("an event", function()
  local function open(spec, opts)
    local s = perfev.session(opts or {})
    local ev = s:event(spec)
    assert(s:start())
    return ev, s
  end

  it("has its name, its attr as opened, its ids", function()
    local ev, s <close> = open { "sched:sched_switch" }
    assert.equal("sched:sched_switch", ev.name)
    assert.equal("event sched:sched_switch", tostring(ev))
    assert.same({ 101 }, ev.ids)
    assert.equal(316, ev.attr.config)
    assert.is_nil(ev.error)
    s:close()
  end)

  it("can be disabled and enabled", function()
    local ev, s <close> = open { "dummy" }
    assert.is_true(ev:disable())
    assert.is_false(k.events[1].enabled)
    assert.is_true(ev:enable())
    assert.is_true(k.events[1].enabled)
    k:fail("ioctl ENABLE", 1, E.EIO)
    local ok, why, code = ev:enable()
    assert.is_nil(ok)
    assert.matches("cannot enable dummy: Input/output error", why)
    assert.equal(E.EIO, code)
    s:close()
  end)

  it("accepts one filter in its life", function()
    local ev, s <close> = open { "sched:sched_switch" }
    assert.is_true(ev:filter "prev_pid != 0")
    assert.equal("prev_pid != 0", k.events[1].filter)
    local ok, why, code = ev:filter "prev_pid == 0"
    assert.is_nil(ok)
    assert.equal(E.EEXIST, code)
    assert.matches("has a filter already.*\n  try: ", why)
    s:close()
  end)

  it("has its declared filter set before anything counts", function()
    local _, s <close> = open { "sched:sched_switch", filter = "prev_pid != 0" }
    assert.equal("prev_pid != 0", k.events[1].filter)
    local set, on
    for i, line in ipairs(k.log) do
      set = set or line:find("SET_FILTER") and i
      on = on or line:find("ENABLE") and i
    end
    assert.is_true(set < on)
    s:close()
  end)

  it("is not opened if the kernel refuses its filter", function()
    k:fail("ioctl SET_FILTER", 1, E.EINVAL)
    local s = perfev.session {}
    s:event { "sched:sched_switch", filter = "prevpid" }
    local ok, why = s:start()
    assert.is_nil(ok)
    assert.matches("^sched:sched_switch: filter 'prevpid': .*\n.*\n  try: ", why)
    assert.same({}, k:leaks())
  end)

  it("excludes the observer by a filter with exclude_self", function()
    local files = k.files
    for _, name in ipairs { "id", "format" } do
      files["/sys/kernel/tracing/events/power/cpu_idle/" .. name] =
        files["/sys/kernel/tracing/events/sched/sched_switch/" .. name]
    end
    local _, s <close> = open({ "power:cpu_idle", filter = "prev_pid != 0" }, { exclude_self = true })
    assert.equal("(prev_pid != 0) && (common_pid != 1000 || common_flags & 24)", k.events[1].filter)
    s:close()
  end)

  it("keeps all scheduling events with exclude_self", function()
    local seen = {}
    local s = perfev.session { exclude_self = true, duration = "300ms" }
    s:event { "sched:sched_switch", sample = function(r) seen[#seen + 1] = "sample " .. r.pid end,
              switch = function(r) seen[#seen + 1] = r.type .. " " .. r.pid end }
    s:event { switch = function(r) seen[#seen + 1] = r.type .. " " .. r.pid end }
    k:after(1000000, function()
      assert.is_nil(k.events[1].filter)
      local dummy
      for _, event in ipairs(k.events) do
        if event.attr.type == 1 and event.attr.context_switch then dummy = dummy or event end
      end
      for _, pid in ipairs { 1000, 7 } do
        k:emit(k.events[1], "sample", { pid = pid, tid = pid })
        k:emit(dummy, "switch", { sample_id = { pid = pid, tid = pid } })
      end
    end)
    assert(s:run())
    table.sort(seen)
    assert.same({ "sample 1000", "sample 7", "switch 7" }, seen)
  end)

  it("can change its period", function()
    local ev, s <close> = open { "cpu-clock", period = 1000 }
    assert.is_true(ev:period(5000))
    assert.equal(5000, k.events[1].period)
    k:fail("ioctl PERIOD", 1, E.EINVAL)
    local ok, why = ev:period(7)
    assert.is_nil(ok)
    assert.matches("cannot set the period 7", why)
    for wrong, expected in pairs { [0] = "above 0", [-1] = "above 0", [1.5] = "whole number", x = "whole number" } do
      assert.error_matches(function() ev:period(wrong) end, expected .. " expected, not " .. wrong, nil, true)
    end
    s:close()
  end)

  it("reports a frequency that is too high in the same words as at opening", function()
    k.files["/proc/sys/kernel/perf_event_max_sample_rate"] = "50000\n"
    local ev, s <close> = open { "cpu-clock", freq = 1000 }
    k:fail("ioctl PERIOD", 1, E.EINVAL)
    local _, why, code = ev:period(60000)
    assert.equal(E.EINVAL, code)
    assert.matches("a frequency of 60000 Hz is above kernel.perf_event_max_sample_rate, 50000", why, nil, true)
    s:close()
  end)

  it("sends a signal at each overflow, and the session receives it", function()
    local s <close> = perfev.session { tid = { 7 }, cpus = { 0 } }
    local heard, QUEUED = {}, require "perfev.core".signals.RTMIN + 2
    s:signal("RTMIN+2", function(info) heard[#heard + 1] = info end)
    local ev = s:event { "cpu-clock", period = 1000 }
    local other = s:event { "page-faults", period = 1000 }
    assert(s:start())
    assert.is_true(ev:send_signal "RTMIN+2")
    for _ = 1, 3 do k:emit(k.events[1], "sample") end
    k:emit(k.events[2], "sample")
    s:dispatch()
    local one = { number = QUEUED, code = 1, pid = 0, fd = k.events[1].fd }
    assert.same({ one, one, one }, heard)
    assert.is_true(ev:send_signal(nil))
    k:emit(k.events[1], "sample")
    s:dispatch()
    assert.equal(3, #heard)
    local raised = select(2, pcall(function() ev:send_signal "USR9" end))
    assert.matches("^spec/event/event_spec.lua:%d+: send_signal: unknown signal 'USR9'", raised)
    raised = select(2, pcall(function() s:clone():signal("USR9", print) end))
    assert.matches("^spec/event/event_spec.lua:%d+: signal: unknown signal 'USR9'", raised)
    k:fail("fcntl", 3, E.EINVAL) -- SETSIG
    local refusal = "^cpu%-clock: cannot have it send a signal: Invalid argument %(EINVAL%)\n  [^\n]+\n  try: [^\n]+$"
    assert.matches(refusal, (select(2, ev:send_signal "USR1")))
    other:close()
    local ok, why, code = other:send_signal "USR1"
    assert.is_nil(ok)
    assert.equal("the event is not open", why)
    assert.equal(E.EBADF, code)
  end)

  it("accepts registers by their names on this machine", function()
    local registers = require "perfev.record.registers"
    local names = registers.of(require "perfev.core".machine)
    if not names then pending "the registers of this machine have no names" end
    local list, mask = {}, 0
    for bit, name in pairs(names) do
      if bit < 12 then
        list[#list + 1], mask = name, mask | 1 << bit
      end
    end
    local ev, s <close> = open { "cpu-clock", sample_type = { "regs_user", "regs_intr" }, sample_regs_user = list,
      sample_regs_intr = { names[1] } }
    assert.equal(mask, k.events[1].attr.sample_regs_user)
    assert.equal(2, ev.attr.sample_regs_intr)
    assert.same({ 3, 3 << 32, 12 }, {
      registers.attr({ sample_regs_user = { "bx", "ax" } }, "x86_64").sample_regs_user,
      registers.attr({ sample_regs_intr = { "xmm0" } }, "x86_64").sample_regs_intr, -- of 128 bits
      registers.attr({ sample_regs_user = { "x3", "x2" } }, "aarch64").sample_regs_user,
    })
    local wanted = "^event: sample_regs_user: "
    local function event(regs) return function() s:clone():event { "cpu-clock", sample_regs_user = regs } end end
    assert.error_matches(event { names[1] .. "x" }, wanted .. "%S+ has no register '" .. names[1] .. "x'")
    assert.error_matches(event { names[1], 7 }, wanted .. "must be an integer or a list of registers' names")
    assert.error_matches(event { [names[1]] = true }, wanted .. "must be an integer or a list")
    assert.error_matches(function() registers.attr({ sample_regs_user = { "sp_" } }, "arm64") end,
      "^sample_regs_user: arm64 has no register 'sp_' %(did you mean 'sp'%?%)$")
    assert.error_matches(function() registers.attr({ sample_regs_user = { "a" } }, "m68k") end,
      "^sample_regs_user: the registers of m68k have no names here: use a mask$")
  end)

  it("can be called before the start and after the end", function()
    local s = perfev.session {}
    local ev = s:event { "dummy" }
    local function refused()
      for _, verb in ipairs { "enable", "disable", "filter", "period" } do
        local ok, why, code = ev[verb](ev, verb == "filter" and "x" or 1)
        assert.is_nil(ok)
        assert.equal("the event is not open", why)
        assert.equal(E.EBADF, code)
      end
      ev:close()
    end
    refused()
    s = perfev.session {}
    ev = s:event { "dummy" }
    assert(s:start())
    s:close()
    refused()
  end)

  it("reports EBADF after it was closed", function()
    local ev, s <close> = open { "dummy", comm = f }
    ev:close()
    ev:close()
    assert.is_false(k.events[1].enabled)
    assert.is_nil((ev:enable()))
    s:close()
    assert.same({}, k:leaks())
  end)

  it("needs no second one to follow tasks, if it does that itself", function()
    local _, s <close> = open { comm = f, exit = f }
    assert.equal(1, #k.events)
    s:close()
  end)
end)

describe("a tracepoint's sample", function()
  it("has its payload as second argument, valid as long as the record", function()
    local kept, seen, printed, copied
    local s = perfev.session { duration = "1s" }
    s:event { "sched:sched_switch", sample = function(r, args)
      seen, printed, kept, copied = args.prev_pid, tostring(args), args, r:copy()
      assert.equal(r.args, args)
    end }
    k:after(1000000, function()
      k:emit(k.events[1], "sample", { raw = string.pack("=I2BBi4c16i4", 316, 0, 0, 5, "bash", 42) })
    end)
    assert(s:run())
    assert.equal(42, seen)
    assert.equal("prev_comm=bash prev_pid=42", printed)
    assert.equal(42, copied.args.prev_pid)
    assert.error_matches(function() return kept.prev_pid end, "record used after its callback")
    assert.error_matches(function() return tostring(kept) end, "record used after its callback")
  end)

  it("with a payload that is too short has nil for the missing fields", function()
    local seen
    local s = perfev.session { duration = "1s" }
    s:event { "sched:sched_switch", sample = function(r, args)
      seen = { args.prev_pid == nil, tostring(args) ~= nil, r:copy().args.prev_pid == nil }
    end }
    k:after(1000000, function() k:emit(k.events[1], "sample", { raw = "123456789012" }) end)
    assert(s:run())
    assert.same({ true, true, true }, seen)
  end)

  it("has the period if the event adds nanoseconds: else the kernel writes a sample for each of them", function()
    local PERIOD = 1 << 8
    k:tracepoint("sched:sched_stat_runtime", 902, "pid_t pid; u64 runtime")
    local bits = {}
    for i, name in ipairs { "sched:sched_stat_runtime", "sched:sched_switch" } do
      bits[i] = first_attr({ name, fields = { "time" }, sample = f }, { all_cpus = true }).sample_type & PERIOD
    end
    assert.same({ PERIOD, 0 }, bits)
    local attr = first_attr({ "sched:sched_stat_runtime", fields = { "time" }, period = 1000, sample = f })
    assert.equal(0, attr.sample_type & PERIOD)
  end)

  it("has no payload if RAW was not requested", function()
    local n, args
    local s = perfev.session { duration = "1s" }
    s:event { "sched:sched_switch", sample_type = { "ip" }, sample = function(r, ...)
      n, args = select("#", ...), r.args
      tostring(r)
      r:copy()
    end }
    k:after(1000000, function() k:emit(k.events[1], "sample") end)
    assert(s:run())
    assert.equal(0, n)
    assert.is_nil(args)
  end)
end)
