-- The errno of perf_event_open(2), condition by condition: the table (spec/support/openings.lua), this kernel, the
-- simulated one and an attr's validate must agree, for root, for the user "nobody", and for "nobody" with CAP_PERFMON.

local core = require "perfev.core"
local openings = require "spec.support.openings"
local perfev = require "perfev"
local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"
local sim = require "perfev.sim"

local E = perfev.errno
local real = perfev.hooks.real
local function number_of(path) return math.tointeger(tonumber((real.slurp(path)))) end
local function sysctl(name) return number_of("/proc/sys/kernel/perf_event_" .. name) end
local function tracepoint(name) return number_of("/sys/kernel/tracing/events/" .. name:gsub(":", "/") .. "/id") end

-- ---- facts of this machine ----

local release = requires.release()

-- A kernel may have fewer slots, and another tool may hold some. nil: machines as s390x have no such PMU.
local function free_slots()
  if requires.no_pmu "breakpoint" then return end
  local fds = {}
  repeat
    local fd = real.perf_event_open(core.attr_parse(core.attr_new({ type = 5, bp_type = 2, bp_addr = 4096, bp_len = 4,
      exclude_kernel = true, disabled = true }):bytes()), 0, -1, -1, 8)
    fds[#fds + 1] = fd
  until not fd or #fds == 64
  for _, fd in ipairs(fds) do real.close(fd) end
  return #fds
end

-- Some kernels refuse functions to root as well, though they list the tracer: so the spec requests a count.
local function traces_functions()
  local id = tracepoint "ftrace:function"
  local fd = id and real.perf_event_open(core.attr_parse(core.attr_new({ type = 2, config = id,
    disabled = true }):bytes()), 0, -1, -1, 8)
  if fd then real.close(fd) end
  return fd ~= nil
end

local facts
setup(function()
  if requires.missing("perf") then return end
  facts = {
    machine = run.capture "uname -m", max_sample_rate = sysctl "max_sample_rate", max_stack = sysctl "max_stack",
    breakpoints = free_slots(), release = release,
    bpext = (real.slurp "/proc/cpuinfo"):find " bpext" ~= nil, syscall = tracepoint "syscalls:sys_enter_prctl",
    switch = tracepoint "sched:sched_switch", ftrace = tracepoint "ftrace:function",
    functions = traces_functions(),
  }
end)

-- ---- users ----

local text = assert(core.slurp "spec/support/openings.lua")

local function literal(t)
  local out = {}
  for name, value in pairs(t) do out[#out + 1] = ("%s = %q"):format(name, value) end
  return "{" .. table.concat(out, ", ") .. "}"
end

-- Tries all conditions as another user, in a perfl of that user: "kernel validator" of each, then of each call.
local function as_somebody(prefix)
  local chunk = ([[
    local openings = (function() %s end)()
    local real = require("perfev").hooks.real
    for _, one in ipairs(openings.list(%s)) do print(openings.try(one, real)) end
    for _, one in ipairs(openings.calls) do print((openings.call(one, real))) end
  ]]):format(text, literal(facts))
  local command = { run.perfl, "-q", "-e", chunk }
  local r = prefix and run(table.move(command, 1, 4, #prefix + 1, prefix), { cwd = "/" })
    or run(command, { user = "nobody", cwd = "/" })
  assert.equal(0, r.code, r.err)
  local answers = {}
  for line in r.out:gmatch "[^\n]+" do answers[#answers + 1] = { line:match "^(%S+)%s*(%S*)$" } end
  return answers
end

-- user nobody, with only CAP_PERFMON
local perfmon = { "setpriv", "--reuid=nobody", "--regid=65534", "--clear-groups", "--inh-caps=-all,+perfmon",
                  "--ambient-caps=-all,+perfmon" }

-- The machine as the simulated kernel has it.
local function simulated(who)
  local files, types = {}, { [1] = true, [2] = true, [5] = true }
  for _, name in ipairs { "paranoid", "max_sample_rate", "max_stack" } do
    local path = "/proc/sys/kernel/perf_event_" .. name
    files[path] = real.slurp(path)
  end
  local tracepoints = {}
  for name, id in pairs { ["syscalls:sys_enter_prctl"] = facts.syscall, ["sched:sched_switch"] = facts.switch,
                          ["ftrace:function"] = facts.ftrace } do
    tracepoints[name] = { id, "long one" }
  end
  local k = sim.new { world = "vm", files = files, types = types, tracepoints = tracepoints, pid = real.getpid(),
    tasks = { [1] = "init", [real.getpid()] = "busted" }, owners = { [1] = 0 }, privileged = who ~= "nobody",
    release = real.slurp("/proc/sys/kernel/osrelease"):match "^%S+",
    uid = who == "root" and 0 or 65534, mlock = who ~= "root" and 516 * 1024 or nil,
    cpus = real.slurp("/sys/devices/system/cpu/online"):gsub("\n", "") }
  local may = facts.functions and who ~= "nobody"
  k.refuse = function(attr) return attr.type == 2 and attr.config == facts.ftrace and not may and E.EPERM or nil end
  return k
end

-- ---- the comparison ----

local compared, rows = 0, {}

local function expected(one, who) return one.as and one.as[who] or one.errno end

-- The disagreements, a line each.
local function differences(who, answers)
  local list = {}
  local function differ(what, ...) list[#list + 1] = what .. ": " .. (("%s %s, "):rep(3)):format(...) end
  for i, one in ipairs(openings.list(facts)) do
    local what = one.row .. ", " .. one.what
    local want, kernel, said = expected(one, who), answers[i][1], answers[i][2]
    local foreseen = one.by == "attr" and one.errno or "ok"
    rows[one.row] = true
    compared = compared + 1
    if one.unsure ~= who and not (one.without and not requires.no_pmu(one.without)) then
      if kernel ~= want then differ(what, "table", want, "kernel", kernel, "validate", said) end
      if said ~= foreseen then differ(what, "table", foreseen, "kernel", kernel, "validate", said) end
      local here = openings.try(one, simulated(who).hooks)
      if here ~= kernel then differ(what, "kernel", kernel, "simulated", here, "table", want) end
    end
  end
  return list
end

local function call_differences(who, answers, skip)
  local list = {}
  for i, one in ipairs(openings.calls) do
    local want, kernel = one.as and one.as[who] or one[2], answers[skip + i][1]
    local here = openings.call(one, simulated(who).hooks)
    compared = compared + 1
    if kernel ~= want or here ~= kernel then
      list[#list + 1] = ("%s: table %s, kernel %s, simulated %s"):format(one[1], want, kernel, here)
    end
  end
  return list
end

local function of_one_mind(who, answers)
  local nr = #openings.list(facts)
  assert.equal(nr + #openings.calls, #answers)
  assert.same({}, differences(who, answers))
  assert.same({}, call_differences(who, answers, nr))
end

describe("the table, the kernel, the simulated kernel and validate agree", function()
  it("for root", function()
    requires("perf", "root")
    local answers = {}
    for i, one in ipairs(openings.list(facts)) do answers[i] = { openings.try(one, real) } end
    for _, one in ipairs(openings.calls) do answers[#answers + 1] = { openings.call(one, real) } end
    of_one_mind("root", answers)
  end)

  it("for an ordinary user", function()
    requires("perf", "root", "nobody", "paranoid 2")
    of_one_mind("nobody", as_somebody())
  end)

  it("for an ordinary user with CAP_PERFMON", function()
    requires("perf", "root", "nobody", "paranoid 2", "setpriv --ambient-caps", "linux 5.8")
    of_one_mind("perfmon", as_somebody(table.move(perfmon, 1, #perfmon, 1, {})))
  end)
end)

-- ---- every option, alone and with every other ----

-- The one-bit options of this kernel.
local function options()
  local list = {}
  for _, field in ipairs(core.attr_fields()) do
    if field.width == 1 and requires.version(field.since) <= release then list[#list + 1] = { field.name } end
    for i, bit in ipairs(field.name ~= "aux_action" and field.bits or {}) do
      if requires.version(field.bits_since[i]) <= release then list[#list + 1] = { field.name, bit } end
    end
  end
  return list
end

local function set(fields, option)
  local name, bit = option[1], option[2]
  if not bit then
    fields[name] = true
  else
    fields[name] = table.move(fields[name] or {}, 1, #(fields[name] or {}), 1, {})
    table.insert(fields[name], bit)
  end
end

-- True if the error comes from the group's leader and not from the attr.
local function is_of_the_group(fields)
  return fields.aux_pause or fields.aux_resume
end

describe("validate and this kernel agree", function()
  local bases = {
    { "a counter", { type = 1, config = 9 } },
    { "samples", { type = 1, config = 0, sample_period = 50000, sample_regs_user = 1, sample_regs_intr = 1 } },
    { "a breakpoint", { type = 5, bp_type = 2, bp_addr = 0x1000, bp_len = 4 } },
  }
  for _, base in ipairs(bases) do
    for _, target in ipairs { { 0, -1, "of this task" }, { -1, 0, "of a CPU" } } do
      it(("on every pair of options of %s %s"):format(base[1], target[3]), function()
        requires("perf", "root", "linux 6.0")
        if base[2].type == 5 and facts.breakpoints == 0 then pending "no breakpoint is to be had" end
        local all, wrong = options(), {}
        for i = 1, #all do
          for j = i, #all do
            local fields = {}
            for name, value in pairs(base[2]) do fields[name] = value end
            set(fields, all[i])
            if j > i then set(fields, all[j]) end
            -- A machine that is slow to close it would have a signal from it.
            if fields.sigtrap then fields.disabled = true end
            local attr = core.attr_parse(core.attr_new(fields):bytes())
            local ok, _, said = attr:validate(target[1], target[2])
            local fd, errno = real.perf_event_open(attr, target[1], target[2], -1, 8)
            if fd then real.close(fd) end
            compared = compared + 1
            local alike = ok and fd or not fd and said == errno
            if not alike and not (ok and errno == E.EINVAL and is_of_the_group(fields)) then
              wrong[#wrong + 1] = ("%s + %s: validate %s, kernel %s"):format(table.concat(all[i], "."),
                table.concat(all[j], "."), ok and "ok" or E[said], fd and "ok" or E[errno])
            end
          end
        end
        assert.same({}, wrong)
      end)
    end
  end
end)

-- ---- conditions with a pointer or a size ----

local source = [[
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
static char bytes[8192];
int main(int argc, char **argv)
{
	struct perf_event_attr *attr = (struct perf_event_attr *)bytes;
	long fd;
	attr->type = atoi(argv[1]);
	attr->config = atoi(argv[2]);
	attr->size = atoi(argv[3]);
	attr->exclude_kernel = attr->exclude_hv = 1;
	if (argc > 5)
		attr->config1 = (unsigned long)argv[5];
	else if (atoi(argv[4]))
		bytes[atoi(argv[4])] = 1;
	if (argc > 6)
		attr->exclude_kernel = 0;
	fd = syscall(__NR_perf_event_open, argc > 7 ? (void *)8 : attr, 0, -1, -1, 0);
	printf("%d %d\n", fd < 0 ? errno : 0, (int)attr->size);
	return 0;
}
]]

local dir
local function raw_open(...)
  if not dir then
    dir = run.tempdir()
    run.write_file(dir .. "/open.c", source)
    local r = run { os.getenv "CC" or "gcc", "-o", dir .. "/open", dir .. "/open.c" }
    assert.equal(0, r.code, r.err)
  end
  local words = { dir .. "/open", ... }
  for i, word in ipairs(words) do words[i] = tostring(word) end
  local r = run(words, { user = run.root and "nobody" or nil, cwd = "/" })
  if words[6] then r = run(words, { cwd = "/" }) end
  local errno, size = r.out:match "^(%d+) (%d+)\n$"
  compared = compared + 1
  return errno == "0" and "ok" or E[tonumber(errno)], tonumber(size)
end
teardown(function() if dir then run.remove(dir) end end)

describe("an attr's size", function()
  -- The size of this kernel's own struct, which it writes into the attr with E2BIG.
  local function own_size()
    local _, size = raw_open(1, 9, 4097, 0)
    return size
  end

  it("is accepted, or refused with the kernel's own size", function()
    requires("perf", "cc", "nobody")
    local own = own_size()
    assert.is_true(own >= 64 and own % 8 == 0, own)
    for _, case in ipairs {
      { 0, 0, "ok", 0 }, { 63, 0, "E2BIG", own }, { 8, 0, "E2BIG", own }, { 64, 0, "ok", 64 }, { 72, 0, "ok", 72 },
      { own, 0, "ok", own }, { own + 8, 0, "ok", own + 8 }, { 200, 0, "ok", 200 }, { 4096, 0, "ok", 4096 },
      { own + 8, own, "E2BIG", own }, { 200, own, "E2BIG", own }, { 200, 199, "E2BIG", own },
      { 4096, 4095, "E2BIG", own }, { 4097, 0, "E2BIG", own },
    } do
      local errno, size = raw_open(1, 9, case[1], case[2])
      assert.same({ case[3], case[4] }, { errno, size }, ("size %d, byte %d"):format(case[1], case[2]))
    end
  end)

  it("of an attr made from fields fits them, and E2BIG returns the kernel's own", function()
    requires("perf", "cc", "nobody")
    local own = own_size()
    local fields = { type = 1, config = 0, sample_period = 1000, exclude_kernel = true, disabled = true,
      sample_type = { "regs_user" }, sample_regs_user = 1 }
    local attr = core.attr_new(fields) -- with a size of 0 regs_user would be without registers: EINVAL
    local fd, errno = perfev.hooks.real.perf_event_open(attr, 0, -1, -1, 8)
    assert.is_truthy(fd, E[errno])
    perfev.hooks.real.close(fd)
    attr.config4 = 1
    assert.equal(144, attr.size)
    if own >= 144 then pending "this kernel has config4" end
    fd, errno = perfev.hooks.real.perf_event_open(attr, 0, -1, -1, 8)
    assert.is_nil(fd)
    assert.equal("E2BIG", E[errno])
    assert.equal(own, attr.size)
  end)

  it("of 0 ignores all newer fields", function()
    requires("perf", "cc", "nobody")
    -- config2 at 64, sample_regs_user at 80, and the reserved word: none is looked at
    for _, at in ipairs { 64, 80, 110 } do assert.equal("ok", (raw_open(1, 9, 0, at))) end
    assert.equal("EINVAL", (raw_open(1, 9, 112, 110)))
  end)

  it("is the smallest possible in perfev's calls, so that old kernels accept it", function()
    requires("perf")
    local k = sim.new { world = "vm", release = "4.4" }
    for _, case in ipairs { { {}, 64 }, { { bp_len = 4 }, 72 }, { { use_clockid = true, clockid = 1 }, 96 } } do
      local attr = core.attr_parse(core.attr_new(case[1]):bytes())
      attr.type, attr.config = 1, 9
      assert.equal(case[2], attr.size)
      assert.is_truthy(k.hooks.perf_event_open(attr, 0, -1, -1, 8))
    end
  end)

  it("is not changed if the group's counts would not fit", function()
    requires("perf", "root", "files 800")
    local function open(group)
      local attr = core.attr_parse(core.attr_new({ type = 1, config = 9, read_format = { "group", "id", "lost" },
        disabled = true }):bytes())
      local before = attr.size
      local fd, errno = real.perf_event_open(attr, 0, -1, group, 8)
      assert.equal(before, attr.size)
      return fd, errno
    end
    local fds = { (assert(open(-1))) }
    local fd, errno = open(fds[1])
    while fd do
      fds[#fds + 1] = fd
      fd, errno = open(fds[1])
    end
    local nr = #fds
    for i = nr, 1, -1 do real.close(fds[i]) end
    -- 16 KiB: 8 bytes for the number, and 24 for each event (perf_event_validate_size())
    assert.equal(E.E2BIG, errno)
    assert.equal((16384 - 8) // 24, nr)
    compared = compared + 1
  end)
end)

describe("a probe of user space", function()
  local function uprobe() return number_of "/sys/bus/event_source/devices/uprobe/type" end

  it("requires a file that can be probed", function()
    requires("perf", "root", "cc", "nobody", "pmu uprobe")
    local pmu = uprobe()
    assert.equal("ENOENT", (raw_open(pmu, 0, 112, 0, "/no/such/file")))
    assert.equal("EINVAL", (raw_open(pmu, 0, 112, 0, "/tmp")))
    assert.equal("EINVAL", (openings.try({ attr = { type = pmu, disabled = true }, pid = 0, cpu = -1, flags = 0 },
      real)))
    assert.equal("EFAULT", (openings.try({ attr = { type = pmu, disabled = true, config1 = 8 }, pid = 0, cpu = -1,
      flags = 0 }, real)))
  end)

  it("is refused for an ordinary user", function()
    requires("perf", "root", "nobody", "paranoid 2", "pmu uprobe")
    local chunk = ([[
      local core, real = require "perfev.core", require("perfev").hooks.real
      local attr = core.attr_parse(core.attr_new({ type = %d, disabled = true, exclude_kernel = true }):bytes())
      print(select(2, real.perf_event_open(attr, 0, -1, -1, 8)))]]):format(uprobe())
    local r = run({ run.perfl, "-q", "-e", chunk }, { user = "nobody", cwd = "/" })
    assert.equal(E.EACCES .. "\n", r.out, r.err)
  end)
end)

describe("an attr's address", function()
  it("outside of the address space is EFAULT", function()
    requires("perf", "root", "cc", "nobody")
    assert.equal("EFAULT", (raw_open(1, 9, 64, 0, "", "", "bad")))
  end)
end)

describe("the limit of descriptors", function()
  it("gives EMFILE on this kernel and on the simulated one", function()
    requires("perf")
    local chunk = [[
      local core, real = require "perfev.core", require("perfev").hooks.real
      local errno
      repeat
        local attr = core.attr_parse(core.attr_new({ type = 1, config = 9, exclude_kernel = true }):bytes())
        errno = select(2, real.perf_event_open(attr, 0, -1, -1, 8))
      until errno
      print(errno)]]
    local r = run(("ulimit -n 40 && exec %s -q -e %s"):format(run.quote(run.perfl), run.quote(chunk)))
    assert.equal(E.EMFILE .. "\n", r.out, r.err)
    local k = sim.new { world = "vm", max_files = 40 }
    local attr = core.attr_parse(core.attr_new({ type = 1, config = 9 }):bytes())
    for _ = 3, 39 do assert(k.hooks.perf_event_open(attr, 0, -1, -1, 8)) end
    assert.same({ nil, E.EMFILE }, { k.hooks.perf_event_open(attr, 0, -1, -1, 8) })
    compared = compared + 1
  end)
end)

-- ---- conditions that this machine cannot produce ----

describe("a case that this machine cannot show, on the simulated kernel:", function()
  local function answer(world, fields, pid, cpu)
    local _, errno = sim.new(world).hooks.perf_event_open(core.attr_parse(core.attr_new(fields):bytes()), pid, cpu,
      -1, 8)
    return E[errno]
  end

  it("a CPU that is offline is ENODEV", function()
    assert.equal("ENODEV", answer({ world = "vm", cpus = "0,2" }, { type = 1, config = 9 }, -1, 1))
    local offline = (real.slurp "/sys/devices/system/cpu/offline" or ""):match "%d+"
    if not offline then pending "no CPU of this machine is offline: it was the simulated one alone" end
    assert.equal("ENODEV", (openings.try({ attr = { type = 1, config = 9 }, pid = -1, cpu = tonumber(offline),
      flags = 0 }, real)))
  end)

  it("sampling without interrupts is EOPNOTSUPP, an uncore PMU with a task EINVAL", function()
    assert.equal("EOPNOTSUPP", answer({ world = "intel_hybrid" }, { type = 24, sample_period = 1 }, -1, 0))
    assert.equal("EINVAL", answer({ world = "intel_hybrid" }, { type = 24 }, 0, 0))
    requires("pmu uncore_imc_free_running_0")
  end)

  it("a kernel of a distribution at paranoid 3 or above is EACCES", function()
    assert.equal("EACCES", answer({ world = "locked_down" }, { type = 1, config = 9, exclude_kernel = true }, 0, -1))
    requires("paranoid 3")
  end)

  it("a seccomp filter is EPERM", function()
    assert.equal("EPERM", answer({ world = "vm", refuse = function() return E.EPERM end }, { type = 1 }, 0, -1))
    requires("seccomp")
  end)

  it("an option newer than the kernel is E2BIG", function()
    assert.equal("E2BIG", answer({ world = "vm", release = "5.4" }, { type = 1, config = 9, sig_data = 1 }, 0, -1))
  end)
end)

teardown(function()
  local nr = 0
  for _ in pairs(rows) do nr = nr + 1 end
  io.stderr:write(("errno_spec: %d conditions compared, of %d rows\n"):format(compared, nr))
end)
