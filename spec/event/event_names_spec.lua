-- Event names on simulated machines: the events that a string resolves to and opens there.

local core = require "perfev.core"
local event = require "perfev.event.declaration"
local list = require "perfev.event.list"
local perfev = require "perfev"
local sim = require "perfev.sim"

local E = core.errno

local k

local function on(world, more)
  local opts = { world = world }
  for name, value in pairs(more or {}) do opts[name] = value end
  k = sim.new(opts)
  core.hooks.set(k.hooks)
end

after_each(function() core.hooks.clear() end)

-- "name type:config [config1]" of each event in a string.
local function short(text)
  local there, why = event.builds(event.declare({ text }, 1))
  if not there then return why end
  local words = {}
  for _, unit in ipairs(there[1]) do
    for _, built in ipairs(unit) do
      local config1 = built.attr.config1 ~= 0 and (" %#x"):format(built.attr.config1) or ""
      words[#words + 1] = ("%s %d:%#x%s"):format(built.name, built.attr.type, built.attr.config, config1)
    end
  end
  return table.concat(words, ", ")
end

local function all(expected)
  for text, words in pairs(expected) do assert.equal(words, short(text), text) end
end

local function opened()
  local lines = {}
  for _, ev in ipairs(k.events) do
    if ev.attr.config ~= 9 then lines[#lines + 1] = ("%d:%#x@%d"):format(ev.attr.type, ev.attr.config, ev.cpu) end
  end
  return table.concat(lines, " ")
end

describe("on a hybrid Intel machine, a name", function()
  before_each(function() on "intel_hybrid" end)

  it("of a generic event expands to each kind of core, with the extended type", function()
    all {
      cycles = "cpu_core/cycles/ 0:0x400000000, cpu_atom/cycles/ 0:0xa00000000",
      ["instructions:u"] = "cpu_core/instructions/u 0:0x400000001, cpu_atom/instructions/u 0:0xa00000001",
      ["LLC-load-misses"] = "cpu_core/LLC-load-misses/ 3:0x400010002, cpu_atom/LLC-load-misses/ 3:0xa00010002",
      r1a8 = "cpu_core/r1a8/ 4:0x1a8, cpu_atom/r1a8/ 10:0x1a8",
      ["cpu-clock"] = "cpu-clock 1:0",
    }
  end)

  it("with a kind of core uses the events of that kind first", function()
    all {
      ["cpu_core/cycles/"] = "cpu_core/cycles/ 0:0x400000000",
      ["cpu_atom/cycles/u"] = "cpu_atom/cycles/u 0:0xa00000000",
      ["cpu_core/cpu-cycles/"] = "cpu_core/cpu-cycles/ 4:0x3c", ["cpu_atom/r1a8/"] = "cpu_atom/r1a8/ 10:0x1a8",
      ["cpu_atom/L1-dcache-loads/"] = "cpu_atom/L1-dcache-loads/ 3:0xa00000000",
      ["cpu_core/mem-loads/pp"] = "cpu_core/mem-loads/pp 4:0x1cd 0x3",
      ["cpu_core/mem-loads,ldlat=30/"] = "cpu_core/mem-loads,ldlat=30/ 4:0x1cd 0x1e",
      ["cpu_core/event=0xc2,umask=0x2,cmask=1,inv/"] = "cpu_core/event=0xc2,umask=0x2,cmask=1,inv/ 4:0x18002c2",
      ["slots"] = "slots 4:0x400",
    }
    assert.matches("no PMU 'cpu'.*one of breakpoint, cpu_atom, cpu_core", short "cpu/event=1/")
    assert.matches("this is one event for each kind of CPU.*\n  try: cpu_core/cycles/", short "{cycles,cs}")
  end)

  it("watched on whole CPUs is opened on the CPUs of its kind of core", function()
    local s <close> = perfev.session {}
    local ev = s:event { "cycles", sample = function() end }
    assert(s:start())
    assert.equal("0:0x400000000@0 0:0x400000000@1 0:0x400000000@2 0:0x400000000@3 "
      .. "0:0xa00000000@4 0:0xa00000000@5 0:0xa00000000@6 0:0xa00000000@7", opened())
    assert.same({ "cpu_core/cycles/", "cpu_atom/cycles/" }, { ev.members[1].name, ev.members[2].name })
    assert.equal(8, #ev.ids)
  end)

  it("is counted once for each kind of core", function()
    local c <close> = assert(perfev.counter { "cycles:u", all_cpus = true })
    assert.same({ "cpu_core/cycles/u", "cpu_atom/cycles/u" }, c:names())
    assert.equal(8, #k.events)
  end)

  it("of an uncore PMU has a scale and a unit", function()
    local c <close> = assert(perfev.counter {
      "power/energy-pkg/", "uncore_imc_free_running/data_read/", all_cpus = true })
    local energy = c:member "power/energy-pkg/"
    assert.same({ "Joules", 2.3283064365386962890625e-10 }, { energy.unit, energy.scale })
    assert.equal("23:0x2@0 24:0x20ff@0", opened())
  end)

  it("is listed by kind", function()
    local names = {}
    for _, entry in ipairs(list "pmu") do names[#names + 1] = entry.name end
    assert.equal("cpu_atom/cpu-cycles/ cpu_atom/instructions/ cpu_core/branch-misses/ cpu_core/cpu-cycles/ "
      .. "cpu_core/instructions/ cpu_core/mem-loads/ cpu_core/slots/ power/energy-pkg/ "
      .. "uncore_imc_free_running_0/data_read/", table.concat(names, " "))
    assert.same({ "cycles" }, list("hw")[1].aliases)
    local details = list.details(list("energy")[1])
    assert.same({ "event=0x02", "Joules", { 0 } }, { details.terms, details.unit, details.cpus })
  end)
end)

describe("on an AMD machine, a name", function()
  before_each(function() on "amd" end)

  it("has the kernel's number, with fields in several places", function()
    all {
      cycles = "cycles 0:0", branches = "branches 0:0x4", ["cpu/cpu-cycles/"] = "cpu/cpu-cycles/ 4:0x76",
      ["cpu/event=0x1c2,umask=3/"] = "cpu/event=0x1c2,umask=3/ 4:0x1000003c2",
      ["amd_df/event=0x107,umask=0x38f/"] = "amd_df/event=0x107,umask=0x38f/ 12:0x103008f07",
      ["ibs_op/cnt_ctl=1/"] = "ibs_op/cnt_ctl=1/ 11:0x80000", ["ibs_fetch/rand_en/"] =
        "ibs_fetch/rand_en/ 10:0x200000000000000", ["dTLB-load-misses"] = "dTLB-load-misses 3:0x10003",
    }
  end)
end)

describe("on an arm64 machine of two kinds of cores, a name", function()
  before_each(function() on "arm64" end)

  it("has the kernel's number for each", function()
    all {
      cycles = "armv8_cortex_a55/cycles/ 0:0x800000000, armv8_cortex_a76/cycles/ 0:0x900000000",
      ["armv8_cortex_a55/inst_retired/u"] = "armv8_cortex_a55/inst_retired/u 8:0x8",
      ["armv8_cortex_a76/event=0x11,long/"] = "armv8_cortex_a76/event=0x11,long/ 9:0x11 0x1",
      ["l1d_cache_refill"] = "armv8_cortex_a55/l1d_cache_refill 8:0x3, armv8_cortex_a76/l1d_cache_refill 9:0x3",
    }
    assert.matches("load_filter 10:0x200000000", short "arm_spe_0/load_filter/" :gsub("/ ", " "))
  end)
end)

describe("a vendor's name", function()
  local vendor = require "perfev.event.vendor"
  before_each(function() on "vm" end)
  after_each(function() vendor.assume = nil end)

  local function known(what, test)
    it(what, function()
      if not vendor.pmus() then return pending("perfev.pfm is not built") end
      return test()
    end)
  end

  known("of a tracepoint is looked up in tracefs, not in libpfm4", function()
    local pfm = require "perfev.pfm"
    local encode = pfm.encode
    finally(function() pfm.encode = encode end)
    pfm.encode = function() return nil, "invalid event attribute", E.EINVAL end
    assert.matches("^tracepoint 'sched:sched_proces_exec': this kernel has no", short "sched:sched_proces_exec")
    assert.matches("not in libpfm4's tables for this machine", short "nosuch:sched_proces_exec")
  end)

  known("has the encoding of libpfm4's table, on any machine", function()
    all {
      ["pfm:skl::UOPS_RETIRED:ALL"] = "pfm:skl::UOPS_RETIRED:ALL 4:0x1c2",
      ["skl::INST_RETIRED:ALL:c=1:i"] = "skl::INST_RETIRED:ALL:c=1:i 4:0x18001c0",
      ["pfm:amd64_fam17h_zen2::RETIRED_UOPS,cs"] = "pfm:amd64_fam17h_zen2::RETIRED_UOPS 4:0xc1, cs 1:0x3",
    }
    local user = assert(event.build(event.declare({ "skl::UOPS_RETIRED:ALL:u" }, 1)))
    assert.is_true(user.attr.exclude_kernel)
    assert.is_true(user.fixed_exclude)
  end)

  known("needs no prefix for the assumed table", function()
    vendor.assume = "skl"
    all { ["UOPS_RETIRED:ALL"] = "UOPS_RETIRED:ALL 4:0x1c2", UNHALTED_CORE_CYCLES = "UNHALTED_CORE_CYCLES 4:0x3c" }
  end)

  known("with a wrong spelling is refused with the nearest name", function()
    assert.matches("no event 'UOPS_RETIRD' %(did you mean 'UOPS_RETIRED'%?%)\n  try: perfl list skl::",
      short "skl::UOPS_RETIRD:ALL")
    assert.matches("skl::UOPS_RETIRED has no 'ALLL' %(did you mean 'ALL'%?%).*try: one of ALL, ",
      short "skl::UOPS_RETIRED:ALLL")
    assert.matches("libpfm4 has no table 'skk'", short "pfm:skk::X")
    assert.matches("not in libpfm4's tables for this machine", short "pfm:NO_SUCH_EVENT")
  end)

  known("is listed if its table is requested", function()
    local uops = list "skl::UOPS_RET*"
    assert.same({ "skl::UOPS_RETIRED" }, { uops[1].name })
    assert.is_true(#list "pfm" > 20)
    for _, entry in ipairs(list()) do assert.not_equal("pfm", entry.kind) end
  end)
end)

describe("a declaration", function()
  before_each(function() on "amd" end)

  local function start(spec, opts)
    local said = {}
    opts = opts or {}
    opts.log = function(level, text) if level < 2 then said[#said + 1] = text end end
    local s = perfev.session(opts)
    spec.sample = spec.sample or function() end
    local ev = s:event(spec)
    local ok, why, code = s:start()
    return s, ev, ok, why, code, said
  end

  it("of a pattern takes the name of its only tracepoint", function()
    on "vm"
    local s <close>, ev, ok, why = start { "sched:sched_switc?" }
    assert(ok, why)
    assert.equal("sched:sched_switch", ev.name)
    assert.is_not_nil(s)
  end)

  it("of a pattern expands to an event for each tracepoint, and reports their number", function()
    local s <close>, ev, ok, why, _, said = start { "sched:sched_process_*" }
    assert(ok, why)
    local names = {}
    for i, member in ipairs(ev.members) do names[i] = member.name end
    assert.same({ "sched:sched_process_exec", "sched:sched_process_exit", "sched:sched_process_fork" }, names)
    assert.same({ "sched:sched_process_*: 3 tracepoints" }, said)
    assert.equal(3 * 8, #ev.ids)
    assert.is_true(s.started)
    assert(ev:disable())
    assert(ev:enable())
    ev:close()
    assert.is_nil((ev:enable()))
    assert.matches("no tracepoint matches", short "sched:nosuch*")
    on "locked_down"
    assert.matches("^tracepoints 'sched:%*': .*cannot be read by this user.*\n  try: as root", short "sched:*")
  end)

  it("of more than 32 tracepoints needs many = true", function()
    for i = 1, 33 do k:tracepoint("many:t" .. i, 1000 + i, "int x") end
    local _, _, ok, why, code = start { "many:*" }
    assert.is_nil(ok)
    assert.equal(E.EINVAL, code)
    assert.matches("event 'many:%*': 33 different tracepoints.*try: %-%-many, or many = true", why)
    assert.same({}, k:leaks())
    for _, how in ipairs { { { "many:*", many = true } }, { { "many:*" }, { many = true } } } do
      local s <close>, _, fine, wrong = start(how[1], how[2])
      assert(fine, wrong)
      assert.is_true(s.started)
    end
  end)

  it("in braces is a group: its members follow their leader at every place", function()
    local s <close>, ev, ok, why = start { "{cpu-clock,page-faults}" }
    assert(ok, why)
    for i = 1, 8 do
      assert.is_nil(k.events[i].leader and k.events[i].leader ~= k.events[i] or nil)
      assert.equal(k.events[i], k.events[8 + i].leader)
    end
    assert.same({ "cpu-clock", "page-faults" }, { ev.members[1].name, ev.members[2].name })
    assert.is_not_nil(s)
  end)

  it("of a group with a member that must lead fails with the name of the leader", function()
    local _, _, ok, why = start { "{cpu-clock,faults},{cs,faults:D}" }
    assert.is_nil(ok)
    assert.matches("cannot open faults:D .*, but not in the group that cs leads.* neither pinned nor exclusive", why)
    assert.same({}, k:leaks())
  end)

  it("of a group with :S samples its leader, with all counts in the sample", function()
    local built = assert(event.builds(event.declare({ "{cpu-clock,page-faults}:S" }, 1)))[1][1]
    local READ, GROUP = 1 << 4, 1 << 3
    assert.is_true(built[1].attr.sample_type & READ ~= 0 and built[1].attr.read_format & GROUP ~= 0)
    assert.equal(4000, built[1].attr.sample_freq)
    assert.same({ 0, false }, { built[2].attr.sample_period, built[2].attr.freq })
  end)

  it("of one event with :S has its count and its id in the sample", function()
    local built = assert(event.builds(event.declare({ "page-faults:S" }, 1)))[1][1]
    local READ, ID = 1 << 4, 1 << 2
    assert.same({ READ, ID }, { built[1].attr.sample_type & READ, built[1].attr.read_format })
  end)

  it("of a group with :W is opened without a group if the PMU cannot schedule it", function()
    local real = k.hooks.perf_event_open
    k.hooks.perf_event_open = function(attr, pid, cpu, group, flags)
      if group >= 0 then return nil, E.EINVAL end
      return real(attr, pid, cpu, group, flags)
    end
    local s <close>, ev, ok, why, _, said = start { "{cpu-clock,page-faults}:W" }
    assert(ok, why)
    assert.equal(2, #ev.members)
    assert.matches("not as a group", said[1])
    assert.is_not_nil(s)
    local _, _, strict = start { "{cpu-clock,page-faults}" }
    assert.is_nil(strict)
  end)

  it("with alternatives opens the first that exists, and takes its name", function()
    for text, opens in pairs {
      ["sched:old_name | sched:sched_switch"] = "2:0x13c", ["nosuch | page-faults | cs"] = "1:0x2",
      ["xyz/event=1/ | cpu-clock"] = "1:0",
    } do
      k.events = {}
      local s <close>, ev, ok, why = start { text }
      assert(ok, why)
      assert.equal(opens .. "@0", opened():match("^%S+"), text)
      assert.equal(text:match("| ([%w_:-]+)"), ev.name)
      assert.is_not_nil(s)
    end
    local _, _, ok, why, code = start { "nosuch | alsonot" }
    assert.is_nil(ok)
    assert.equal(E.ENOENT, code)
    assert.matches("event 'nosuch | alsonot': no such event.*the other alternatives do not exist either", why)
  end)

  it("in the words of bpftrace or bcc fails with the name that perfev uses", function()
    on "vm"
    for text, here in pairs {
      ["tracepoint:sched:sched_switch"] = "sched:sched_switch", ["t:sched:*"] = "sched:*",
      ["rt:sys_enter"] = "*:sys_enter",
      ["hardware:cycles"] = "cycles", ["h:backend-stalls:1000"] = "stalled-cycles-backend/period=1000/",
      ["software:faults:100"] = "faults/period=100/", ["s:cpu"] = "cpu-clock", ["profile:hz:99"] = "cpu-clock/freq=99/",
      ["profile:99"] = "cpu-clock/freq=99/", ["p:ms:10"] = "cpu-clock/period=10000000/",
      ["interval:s:1"] = 'every("1s", FUNCTION), besides the events', BEGIN =
        "the script's top level, which runs first", ["watchpoint:0x1000:8:w"] = "mem:0x1000/8:w",
      ["kfunc:vfs_read"] = "kprobe:vfs_read", ["fr:kvm:vcpu_load"] = "kretprobe:vcpu_load",
      ["u:/bin/bash:readline"] = "uprobe:/bin/bash:readline", ["p::vfs_read"] = "kprobe:vfs_read",
      ["p:vfs_read"] = "kprobe:vfs_read", ["r:c:malloc"] = "uretprobe:c:malloc",
    } do
      assert.equal(("event '%s': this is a name of bpftrace or bcc\n  | %s\n  | ^\n  try: %s"):format(text, text, here),
        short(text))
    end
    assert.matches("\n  | cs,t:sched:sched_switch\n  |    %^\n", short "cs,t:sched:sched_switch")
  end)

  it("of an unknown tracepoint suggests its system, or the nearest names", function()
    on "vm"
    assert.matches("no such event %(did you mean 'sched:sched_switch'%?%).*\n  try: sched:sched_switch$",
      short "sched_switch")
    assert.matches("\n  try: perfl list 'sched:%*'$", short "sched:zzzzzzzzzzzzzz")
    assert.matches("\n  try: .*uprobe:libc:malloc$", short "libc:malloc")
  end)

  it("of a PMU that also has tracepoints suggests the missing slash", function()
    on "vm"
    k.files["/sys/bus/event_source/devices/msr/type"] = "9\n"
    k:tracepoint("msr:read_msr", 900, "unsigned int msr")
    assert.matches("the slash is not closed", short "msr/tsc")
    assert.equal("msr:read_msr 2:0x384", short "msr:read_msr")
  end)

  it("falls back to an alternative if the kernel does not have the event", function()
    on "vm"
    local s <close>, _, ok, why = start { "cycles | cpu-clock:u" }
    assert(ok, why)
    assert.equal("1:0@0", opened():match("^%S+"))
    assert.is_true(k.events[#k.events].attr ~= nil and s.started)
  end)

  it("of cycles samples cpu-clock if the machine has no PMU, and reports it", function()
    on "vm"
    local s <close>, ev, ok, why, _, said = start { "cycles" }
    assert(ok, why)
    assert.same({ 1, 0 }, { ev.attr.type, ev.attr.config })
    assert.same({ "cycles: this machine has no such counter; cpu-clock is sampled instead" }, said)
    assert.is_not_nil(s)
    assert.is_nil((select(3, start { "instructions" })))
    assert.is_nil((perfev.counter { "cycles" }))
  end)

  it("of the highest precision is reduced to the PMU's maximum", function()
    on("amd", { types = { [0] = { max_precise = 1 }, [1] = true } })
    local s <close>, ev, ok, why = start { "cycles:P" }
    assert(ok, why)
    assert.equal(1, ev.attr.precise_ip)
    assert.is_not_nil(s)
  end)

  it("of a PMU without exclusion is opened without exclude_guest", function()
    on("amd", { types = { [0] = { no_exclude = true }, [1] = true } })
    local s <close>, ev, ok, why = start { "cycles" }
    assert(ok, why)
    assert.is_false(ev.attr.exclude_guest)
    assert.is_not_nil(s)
    local c <close> = assert(perfev.counter { "cycles", all_cpus = true })
    assert.is_false(c:member().attr.exclude_guest)
    assert.is_nil((select(3, start { "cycles:u" })))
  end)

  it("can list its events as a counter does", function()
    local s <close>, ev, ok, why = start { "cpu-clock:u", "{page-faults,cs}" }
    assert(ok, why)
    assert.same({ "cpu-clock:u", "page-faults", "cs" }, { ev.members[1].name, ev.members[2].name, ev.members[3].name })
    assert.equal("cpu-clock:u,{page-faults,cs}", ev.name)
    assert.is_not_nil(s)
    assert.error_matches(function() perfev.session {}:event { "a | b", "cs" } end,
      "alternatives must be one string, not in a list")
    assert.error_matches(function() perfev.session {}:event { "cs", [3] = "cs" } end,
      "element 3 is not allowed in a list of 1")
  end)

  it("has terms in its string that override its options, as in perf", function()
    local function attr(text, spec)
      spec[1] = text
      return assert(event.build(event.declare(spec, 1))).attr
    end
    local CHAIN, REGS = 1 << 5, 1 << 12
    assert.equal(5, attr("cycles/period=5/u", { period = 7 }).sample_period)
    assert.equal(5, attr("cycles/period=5/u", { freq = 7 }).sample_period)
    assert.is_false(attr("cycles/period=5/u", { freq = 7 }).freq)
    assert.equal(5, attr("cycles/freq=5/", { sample_period = 7 }).sample_freq)
    assert.equal(0, attr("cycles/call-graph=no/", { callchain = true }).sample_type & CHAIN)
    assert.equal(CHAIN, attr("cycles/call-graph=fp/", { callchain = "dwarf" }).sample_type & (CHAIN | REGS))
    assert.equal(4, attr("cycles/max-stack=4/", { callchain = true, sample_max_stack = 9 }).sample_max_stack)
    assert.is_false(attr("cycles/period=5/u", { exclude_kernel = false }).exclude_kernel)
    local _ <close>, ev = start { "cpu-clock/name=clock/" }
    assert.equal("clock", ev.name)
    local _ <close>, other = start { "cpu-clock/name=clock/", name = "mine" }
    assert.equal("mine", other.name)
  end)

  it("can be a named group as in perf, but braces for the shell are refused", function()
    local unit = assert(event.builds(event.declare({ "g1{cpu-clock,page-faults}:u" }, 1)))[1][1]
    assert.same({ true, 2, "g1" }, { unit.grouped, #unit, unit.group_name })
    assert.is_true(unit[2].attr.exclude_kernel)
    local units = assert(event.builds(event.declare({ "cs,a{cs,cpu-clock},{cs,page-faults}" }, 1)))[1]
    assert.same({ "a" }, { units[2].group_name, units[3].group_name })
    for _, text in ipairs { "cpu_{clock,migrations}", "sched:sched_{switch,wakeup}" } do
      assert.matches("the shell expands such braces", short(text))
    end
  end)

  it("accepts terms that matter only to perf stat", function()
    local plain = assert(event.build(event.declare({ "cpu-clock" }, 1))).attr
    for _, text in ipairs { "cpu-clock:b", "cpu-clock/percore/", "cpu-clock/metric-id=x/" } do
      local built = assert(event.build(event.declare({ text }, 1)))
      built.attr.exclude_guest = plain.exclude_guest -- any modifier leaves the default
      assert.equal(plain:dump(), built.attr:dump(), text)
    end
  end)

  it("can ask for stacks in its terms", function()
    local bits = { callchain = 1 << 5, branch = 1 << 11, regs = 1 << 12, stack = 1 << 13 }
    for text, wanted in pairs {
      ["cycles/call-graph=fp/"] = { "callchain" }, ["cycles/call-graph=no/"] = {},
      ["cycles/call-graph=lbr/"] = { "callchain", "branch" },
    } do
      local attr = assert(event.build(event.declare({ text }, 1))).attr
      local has = {}
      for name, bit in pairs(bits) do if attr.sample_type & bit ~= 0 then has[name] = true end end
      for _, name in ipairs(wanted) do
        assert.is_true(has[name], text)
        has[name] = nil
      end
      assert.same({}, has, text)
    end
    assert.matches("call%-graph is fp, dwarf, lbr, defer or no, not 'x'\n  | cycles/call%-graph=x/\n  |        %^",
      short "cycles/call-graph=x/")
    local last = assert(event.build(event.declare({ "cycles/period=1,freq=2/" }, 1))).attr
    assert.same({ true, 2 }, { last.freq, last.sample_freq })
    assert.matches("unknown term 'perod' %(did you mean 'period'%?%)", short "cycles/perod=1/")
  end)
end)

describe("counters", function()
  before_each(function() on "amd" end)

  it("of a list, a pattern or a group in braces have a name each", function()
    for text, names in pairs {
      ["cpu-clock,page-faults:u"] = "counter cpu-clock,page-faults:u", ["{cpu-clock,cs}"] = "group cpu-clock,cs",
      ["sched:sched_wake*"] = "counter sched:sched_wakeup", ["{cpu-clock,cs:k}:u"] = "group cpu-clock:u,cs:ku",
    } do
      local c <close> = assert(perfev.counter { text, tid = 42 })
      assert.equal(names, tostring(c))
    end
  end)

  it("apply the terms that concern counting", function()
    local c <close> = assert(perfev.counter { "cs/no-inherit,period=7,name=switches/", "page-faults", tid = 42 })
    assert.same({ "switches", "page-faults" }, c:names())
    assert.is_false(c:member("switches").attr.inherit)
    assert.equal(0, c:member("switches").attr.sample_period)
    assert.is_true(c:member("page-faults").attr.inherit)
  end)

  it("of a weak group are counted one by one if the PMU cannot schedule it", function()
    local real = k.hooks.perf_event_open
    k.hooks.perf_event_open = function(attr, pid, cpu, group, flags)
      if group >= 0 then return nil, E.EINVAL end
      return real(attr, pid, cpu, group, flags)
    end
    local c <close> = assert(perfev.counter { "{cpu-clock,cs}:W", tid = 42 })
    assert.same({ "cpu-clock", "cs" }, c:names())
    assert.is_nil((perfev.counter { "{cpu-clock,cs}", tid = 42 }))
  end)

  it("of a pattern report their number, and more than 32 need many = true", function()
    for i = 1, 33 do k:tracepoint("many:t" .. i, 1000 + i, "int x") end
    local said = {}
    local spec = { "many:*", tid = 42, log = function(_, text) said[#said + 1] = text end }
    local c, why, code = perfev.counter(spec)
    assert.is_nil(c)
    assert.equal(E.EINVAL, code)
    assert.matches("33 different tracepoints", why)
    assert.same({}, k:leaks())
    spec.many = true
    local more <close> = assert(perfev.counter(spec))
    assert.equal(33, #more:names())
    assert.same({ "many:*: 33 tracepoints", "many:*: 33 tracepoints" }, said)
  end)

  it("of unsupported events have no count with optional = \"unsupported\"", function()
    sim.new({ world = "vm" }):with(function()
      local c = assert(perfev.counter { { "{cycles,instructions}", optional = "unsupported" } })
      assert.same({}, assert(c:read()).counts)
      assert.matches("this machine has no hardware counters", c:member("cycles").error)
      c:close()
      assert.is_nil((perfev.counter { { "cycles", optional = true } }))
    end)
  end)

  it("that the PMU refuses are left out, except for the leader of a group", function()
    local PAGE_FAULTS = 2
    local real = k.hooks.perf_event_open
    k.hooks.perf_event_open = function(attr, ...)
      if attr.config == PAGE_FAULTS then return nil, E.EINVAL end
      return real(attr, ...)
    end
    local function counted(text)
      local said = {}
      local spec = { tid = 42, log = function(level, line) said[level] = line end }
      for word in text:gmatch "%S+" do spec[#spec + 1] = { word, optional = "unsupported" } end
      local c, why = perfev.counter(spec)
      return c and table.concat(c:names(), " "), why or said[0]
    end
    local names, said = counted "page-faults cpu-clock"
    assert.equal("cpu-clock", names)
    assert.matches("^left out: cannot count page%-faults of pid 42", said)
    assert.equal("cs", (counted "{cs,page-faults}"))
    local none, why = counted "{page-faults,cs}"
    assert.is_nil(none)
    assert.matches("^cannot count page%-faults", why)
    assert.equal("cs", (counted "{page-faults,cs}:W")) -- one by one
    assert.is_nil((perfev.counter { "page-faults", "cs", tid = 42 }))
  end)

  it("do not include the counts that perf stat measures itself", function()
    local c, why, code = perfev.counter { "user_time", tid = 42 }
    assert.is_nil(c)
    assert.equal(E.ENOENT, code)
    assert.matches("'user_time': not an event", why)
  end)
end)
