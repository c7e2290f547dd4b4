-- refusals.lua - mistakes and their messages: the cases of spec/tree/error_messages_spec.lua and of
-- doc/errors.md, which src/gen/errors.lua generates from them.
--
-- A case: [1] the mistake, `input` as a user would write it, `run` (-> the message), and the three
-- required parts of the message: `words` (the user's own), `cause`, `remedy`. All cases run on the
-- simulated kernel, so that each run has the same result.

local core = require "perfev.core"
local perfev = require "perfev"
local report = require "perfl.message"
local run = require "spec.support.run"
local sim = require "perfev.sim"

local E = perfev.errno
local TASK = 42 -- sshd, in every predefined world

local NOTHING = "nothing was refused"

-- ---- ways to produce a case ----

local function message(ok, result, why)
  if not ok then return (tostring(result):gsub("^[^\n:]+:%d+: ", "")) end
  return result == nil and why or NOTHING
end

-- Runs f(k) -> true | nil, message on that kernel; f may also raise.
-- more(k): changes the machine first, as a user would who follows the message.
local function on_kernel(world, f, change)
  return function(more)
    local k = sim.new(type(world) == "table" and world or { world = world })
    if change then change(k) end
    if more then more(k) end
    local results = table.pack(pcall(k.with, k, f, k))
    return message(table.unpack(results, 1, results.n)), k
  end
end

-- Opens a session with opts (default: a task) and these events.
local function open_events(world, specs, opts, change)
  if specs[1] == nil or type(specs[1]) ~= "table" then specs = { specs } end
  return on_kernel(world, function()
    local s = perfev.session(opts or { tid = TASK })
    for _, spec in ipairs(specs) do s:event(spec) end
    local ok, why = s:start()
    s:close()
    return ok, why
  end, change)
end

local function take_snapshot(options)
  return on_kernel("vm", function()
    local s <close> = perfev.session { tid = TASK, overwrite = true }
    s:event { "page-faults" }
    assert(s:start())
    return s:snapshot(options)
  end)
end

local function open_on_arm64(spec)
  local open = open_events("arm64", spec)
  return function(more)
    local machine = core.machine
    core.machine = "aarch64"
    local text, k = open(more)
    core.machine = machine
    return text, k
  end
end

local function open_counter(world, spec, change)
  return on_kernel(world, function()
    spec.tid = spec.tid or (not spec.cpus and TASK or nil)
    local c, why = perfev.counter(spec)
    if c then c:close() end
    return c, why
  end, change)
end

local function open_group(world, spec, change)
  return on_kernel(world, function()
    spec.tid = TASK
    local c, why = perfev.group(spec)
    if c then c:close() end
    return c, why
  end, change)
end

local function set_status(k, caps, seccomp)
  k.files["/proc/self/status"] = ("Name:\tperfl\nUid:\t%d\t%d\t%d\t%d\nCapEff:\t%s\nSeccomp:\t%d\n"):format(k.uid,
    k.uid, k.uid, k.uid, caps, seccomp or 0)
end

local ALL_CAPS, PERFMON_ONLY, NO_CAPS = "000001ffffffffff", "0000004000000000", ("0"):rep(16)

local function refuse_opens(errno, when)
  return function(k)
    k.refuse = function(attr, pid, cpu)
      if not when or when(attr, pid, cpu) then return errno end
    end
  end
end

-- The world's kernel with another release.
local function release(version, world)
  return { world = world or "vm", release = version }
end

local function has(attr, bit) return attr.sample_type >> bit & 1 == 1 end

local function add_cgroups(k)
  k.files["/proc/mounts"] = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n"
    .. "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
  k.files["/sys/fs/cgroup/cgroup.procs"] = "1\n"
  k.files["/sys/fs/cgroup/system.slice/cgroup.procs"] = ""
  k.files["/sys/fs/cgroup/system.slice/nginx.service/cgroup.procs"] = "42\n"
end

local function add_users(k)
  k.files["/etc/passwd"] = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\n"
  for pid, facts in pairs { [1] = { "init", 0 }, [42] = { "sshd", 0 }, [1000] = { "perfl", 0 } } do
    k.files[("/proc/%d/status"):format(pid)] = ("Name:\t%s\nUid:\t%d\t%d\t%d\t%d\n"):format(facts[1], facts[2],
      facts[2], facts[2], facts[2])
    k.files[("/proc/%d/comm"):format(pid)] = facts[1] .. "\n"
  end
end

-- A program with symbols, the same without symbols, and a text file, on a kernel with uprobes.
local function add_programs(k)
  k.files["/usr/bin/app"] = assert(core.slurp(run.perfl))
  local dir = run.tempdir()
  assert(os.execute(("strip -o %s/bare %s"):format(dir, run.quote(run.perfl))))
  k.files["/usr/bin/bare"] = assert(core.slurp(dir .. "/bare"))
  run.remove(dir)
  k.files["/usr/bin/script"] = "#!/bin/sh\n"
  k.files["/usr/bin/req"] = assert(core.slurp "spec/fuzz/seeds/dwarf/gcc_O2")
  k.files["/sys/bus/event_source/devices/uprobe/type"] = "8\n"
  k.files["/sys/bus/event_source/devices/uprobe/format/retprobe"] = "config:0\n"
  k.types[8] = true
end

-- /usr/bin/req is a program of x86_64.
local function on_x86_64(run_case)
  return function(...)
    local machine = core.machine
    core.machine = "x86_64"
    local results = table.pack(run_case(...))
    core.machine = machine
    return table.unpack(results, 1, results.n)
  end
end

-- Opens an event from its string, on a task.
local function open_named(text, world, change)
  return open_events(world or "vm", { text }, nil, change)
end

local clock = "cpu-clock"
local function nothing() end

-- ---- the cases ----

local M = {}

-- Returns perfl's summary lines, without the first, after a run with these totals.
local function last_summary_line(more)
  local stats = { records = 1300, delivered = 1234, lost = 0, late = 0, ring_bytes = 2 << 20 }
  for key, value in pairs(more) do stats[key] = value end
  return on_kernel("vm", function()
    local lines = report.summary_lines(stats, 0.012)
    return nil, table.concat(lines, "\n", 2)
  end)
end

M.NOTHING = NOTHING

--- The ways to produce a case, for spec/support/remedies.lua.
M.ways = {
  on_kernel = on_kernel, open_events = open_events, open_on_arm64 = open_on_arm64, open_counter = open_counter,
  open_group = open_group, open_named = open_named, take_snapshot = take_snapshot, release = release,
  refuse_opens = refuse_opens, set_status = set_status, add_cgroups = add_cgroups, add_users = add_users,
  add_programs = add_programs, on_x86_64 = on_x86_64,
}

--- Chapters of doc/errors.md, each a list of cases.
M.chapters = {
  { "Names",
    { "a software event misspelt", input = 'event { "cpu-clok" }',
      run = open_events("vm", { "cpu-clok" }),
      words = "cpu-clok", cause = "no such event", remedy = "did you mean 'cpu-clock'?" },
    { "a tracepoint misspelt", input = 'event { "sched:sched_swich" }',
      run = open_events("vm", { "sched:sched_swich" }),
      words = "sched:sched_swich", cause = "no such event", remedy = "did you mean 'sched:sched_switch'?" },
    { "a tracepoint's system misspelt", input = 'event { "shed:sched_switch" }',
      run = open_events("vm", { "shed:sched_switch" }),
      words = "shed:sched_switch", cause = "no such event", remedy = "did you mean 'sched:sched_switch'?" },
    { "a function where a tracepoint is expected", input = 'event { "libc:malloc" }',
      run = open_events("vm", { "libc:malloc" }),
      words = "libc:malloc", cause = "no such event", remedy = "uprobe:libc:malloc" },
    { "a tracepoint's name that would lead elsewhere", input = 'event { "sched:.." }',
      run = open_events("vm", { "sched:.." }),
      words = "sched:..", cause = "letters, digits", remedy = "names are made of" },
    { "a hardware event misspelt", input = 'event { "cycels" }',
      run = open_named "cycels", words = "cycels", cause = "no such event", remedy = "did you mean 'cycles'?" },
    { "a cache event misspelt", input = 'event { "L1-dcache-lod-misses" }',
      run = open_named "L1-dcache-lod-misses", words = "L1-dcache-lod-misses", cause = "no such event",
      remedy = "did you mean 'L1-dcache-load-misses'?" },
    { "a PMU misspelt", input = 'event { "cpu_cor/event=0x3c/" }',
      run = open_named("cpu_cor/event=0x3c/", "intel_hybrid"), words = "cpu_cor/event=0x3c/",
      cause = "this machine has no PMU 'cpu_cor'", remedy = "did you mean 'cpu_core'?" },
    { "a PMU's field misspelt", input = 'event { "cpu_core/evnt=0x3c/" }',
      run = open_named("cpu_core/evnt=0x3c/", "intel_hybrid"), words = "cpu_core/evnt=0x3c/",
      cause = "cpu_core has no field or event called 'evnt'", remedy = "did you mean 'event'?" },
    { "a value that a PMU's field cannot hold", input = 'event { "cpu_core/event=0x1ff/" }',
      run = open_named("cpu_core/event=0x1ff/", "intel_hybrid"), words = "event=0x1ff", cause = "it has 8 bits",
      remedy = "at most 0xff" },
    { "a term whose value is not a number", input = 'event { "cpu_core/event=0x3c,period=x/" }',
      run = open_named("cpu_core/event=0x3c,period=x/", "intel_hybrid"), words = "period=x",
      cause = "period is a number", remedy = "period=NUMBER" },
    { "a modifier that there is not", input = 'event { "cycles:z" }',
      run = open_named "cycles:z", words = "cycles:z", cause = "'z' is not a modifier",
      remedy = "u k h (user, kernel, hypervisor)" },
    { "a brace that is not closed", input = 'event { "{cycles,instructions" }',
      run = open_named "{cycles,instructions", words = "{cycles,instructions", cause = "the brace is not closed",
      remedy = "a } after the last event" },
    { "a slash that is not closed", input = 'event { "cpu_core/event=0x3c" }',
      run = open_named("cpu_core/event=0x3c", "intel_hybrid"), words = "cpu_core/event=0x3c",
      cause = "the slash is not closed", remedy = "a slash after the last term" },
    { "alternatives that are all missing", input = 'event { "nosuch | nosuch2" }',
      run = open_named "nosuch | nosuch2", words = "nosuch | nosuch2", cause = "no such event", remedy = "perfl list" },
    { "an option of an event misspelt", input = 'event { "cpu-clock", sampel = print }',
      run = open_events("vm", { clock, sampel = nothing }),
      words = "sampel", cause = "unknown option", remedy = "did you mean 'sample'?" },
    { "a bit of a field misspelt", input = 'event { "cpu-clock", sample_type = { "calchain" } }',
      run = open_events("vm", { clock, sample_type = { "calchain" } }),
      words = "calchain", cause = "sample_type has no bit", remedy = "did you mean 'callchain'?" },
    { "a field beyond its width", input = 'event { "cpu-clock", sample_max_stack = 70000 }',
      run = open_events("vm", { clock, sample_max_stack = 70000 }),
      words = "sample_max_stack = 70000", cause = "out of range", remedy = "must be 0 to 65535" },
    { "a callback that is not a function", input = 'event { "cpu-clock", sample = "print" }',
      run = open_events("vm", { clock, sample = "print" }),
      words = "sample", cause = "not 'print'", remedy = "must be a function" },
    { "period and frequency at once", input = 'event { "cpu-clock", freq = 99, period = 1000 }',
      run = open_events("vm", { clock, freq = 99, period = 1000 }),
      words = "period and freq", cause = "by a number of events, or at a frequency", remedy = "period or freq" },
    { "an option of a session misspelt", input = 'session { durration = "1s" }',
      run = open_events("vm", { clock }, { durration = "1s" }),
      words = "durration", cause = "unknown option", remedy = "did you mean 'duration'?" },
    { "an unknown clock", input = 'session { clock = "monotone" }',
      run = open_events("vm", { clock }, { clock = "monotone" }),
      words = "monotone", cause = "clock must be one of", remedy = "monotonic, monotonic_raw" },
    { "a signal misspelt", input = 's:signal("USR3", f)',
      run = on_kernel("vm", function() perfev.session({}):signal("USR3", nothing) end),
      words = "USR3", cause = "unknown signal", remedy = "did you mean 'USR1'?" },
    { "an option of a counter misspelt", input = 'counter { "task-clock", pidd = 1 }',
      run = open_counter("vm", { "task-clock", pidd = 1 }),
      words = "pidd", cause = "unknown option", remedy = "did you mean 'pid'?" },
  },

  { "Unreadable tracepoints",
    { "no tracefs", input = 'event { "sched:sched_switch" }',
      run = open_events("vm", { "sched:sched_switch" }, nil, function(k)
        for path in pairs(k.files) do
          if path:find("/tracing/", 1, true) then k.files[path] = nil end
        end
      end),
      words = "sched:sched_switch", cause = "no tracefs is mounted", remedy = "mount -t tracefs" },
    { "tracefs that is root's alone", input = 'event { "sched:sched_switch" }',
      run = open_events("unprivileged", { "sched:sched_switch" }, { tid = 1000 }),
      words = "sched:sched_switch", cause = "cannot be read by this user", remedy = "try: as root" },
    { "an unknown tracepoint number", input = 'event { type = 2, config = 77777 }',
      run = open_events("vm", { type = 2, config = 77777, name = "number 77777" }),
      words = "77777", cause = "no tracepoint of this kernel has the number", remedy = "try: its name" },
    { "an ftrace entry that is not a tracepoint", input = 'event { "ftrace:print" }',
      run = open_events("vm", { "ftrace:print" }, nil, function(k)
        k:tracepoint("ftrace:print", 5, "unsigned long ip")
        refuse_opens(E.EINVAL, function(attr) return attr.type == 2 end)(k)
      end),
      words = "ftrace:print", cause = "perf events cannot open it", remedy = "perfl list" },
    { "stacks of user space, of every function of the kernel", input = 'event { "ftrace:function" }',
      run = open_events("vm", { "ftrace:function" }, nil, function(k)
        k:tracepoint("ftrace:function", 1, "unsigned long ip; unsigned long parent_ip")
        refuse_opens(E.EINVAL, function(attr) return attr.type == 2 and not attr.exclude_callchain_user end)(k)
      end),
      words = "ftrace:function", cause = "user stacks are not available", remedy = "exclude_callchain_user = true" },
  },

  { "Rights",
    { "the kernel's side, for an ordinary user", input = 'event { "cpu-clock:k" }',
      run = open_events("unprivileged", { "cpu-clock:k" }, { tid = 1000 }),
      words = "cpu-clock:k", cause = "kernel.perf_event_paranoid is 2; watching the kernel side needs 1",
      remedy = "setcap cap_perfmon" },
    { "a whole CPU, for an ordinary user", input = "perfl -a …",
      run = open_events("unprivileged", { clock }, {}),
      words = "cpu-clock on cpu 0", cause = "watching a whole CPU needs 0", remedy = "perf_event_paranoid=0" },
    { "anything, where the distribution allows nothing", input = 'event { "cpu-clock:u" }',
      run = open_events("locked_down", { "cpu-clock:u" }, { tid = 1000 }),
      words = "cpu-clock:u", cause = "kernel.perf_event_paranoid is 4, and this kernel then refuses all events",
      remedy = "perf_event_paranoid=2" },
    { "another user's process", input = "perfl -p 42 …",
      run = open_events("unprivileged", { "cpu-clock:u" }, { tid = TASK }, function(k)
        set_status(k, NO_CAPS)
        k.files["/proc/42/status"] = "Name:\tsshd\nUid:\t0\t0\t0\t0\n"
      end),
      words = "pid 42", cause = "belongs to the user with uid 0", remedy = "run as that user or as root" },
    { "a tracepoint by its number, for an ordinary user", input = 'event { "316" }',
      run = open_events("unprivileged", { "316", exclude_kernel = true }, { tid = 1000 }, function(k)
        k:tracepoint("sched:sched_switch", 316, "int prev_pid")
      end),
      words = "316", cause = "a tracepoint's payload needs -1", remedy = "setcap cap_perfmon" },
    { "samples of a tracepoint that samples cause", input = 'event { "irq_vectors:irq_work_exit" }',
      run = open_events("vm", { "irq_vectors:irq_work_exit" }, {}, function(k)
        k:tracepoint("irq_vectors:irq_work_exit", 77, "int vector")
        set_status(k, ALL_CAPS)
        refuse_opens(E.EPERM, function(attr) return attr.type == 2 and attr.sample_period ~= 0 end)(k)
      end),
      words = "irq_vectors:irq_work_exit", cause = "counts this tracepoint but does not sample it",
      remedy = "perfl stat -e irq_vectors:irq_work_exit" },
    { "namespaces, for an ordinary user", input = 'event { "dummy", namespaces = f }',
      run = open_events("unprivileged", { "dummy", namespaces = nothing }, { tid = 1000 }),
      words = "dummy", cause = "namespaces shows those of other users", remedy = "setcap cap_perfmon" },
    { "physical addresses, for an ordinary user", input = 'event { "page-faults:u", sample_type = { "phys_addr" } }',
      run = open_events("unprivileged", { "page-faults:u", sample_type = { "phys_addr" } }, { tid = 1000 }),
      words = "page-faults:u", cause = "sampling physical addresses needs 1", remedy = "perf_event_paranoid=1" },
    { "a container's seccomp filter", input = 'event { "cpu-clock" }',
      run = open_events("vm", { clock }, nil, function(k)
        set_status(k, ALL_CAPS, 2)
        refuse_opens(E.EPERM)(k)
      end),
      words = "cpu-clock", cause = "a seccomp filter is in force", remedy = "allow perf_event_open" },
    { "a seccomp filter that returns ENOSYS", input = 'event { "cpu-clock" }',
      run = open_events("vm", { clock }, nil, function(k)
        set_status(k, ALL_CAPS, 2)
        refuse_opens(E.ENOSYS)(k)
      end),
      words = "cpu-clock", cause = "a seccomp filter is in force", remedy = "allow perf_event_open" },
    { "a security module", input = 'event { "cpu-clock" }',
      run = open_events("vm", { clock }, nil, function(k)
        k.files["/sys/kernel/security/lsm"] = "capability,selinux"
        refuse_opens(E.EACCES)(k)
      end),
      words = "cpu-clock",
      cause = "security module or kernel lockdown refuses it in spite of our capabilities (loaded: capability,selinux)",
      remedy = "/sys/kernel/security/lockdown" },
    { "kernel lockdown", input = 'event { "cpu-clock", sample_type = { "regs_intr" }, sample_regs_intr = 1 }',
      run = open_events("vm", { clock, sample_type = { "regs_intr" }, sample_regs_intr = 1 }, nil, function(k)
        k.files["/sys/kernel/security/lockdown"] = "none integrity [confidentiality]\n"
        refuse_opens(E.EPERM, function(attr) return has(attr, 18) end)(k)
      end),
      words = "cpu-clock", cause = "kernel lockdown is in force (confidentiality)", remedy = "leave that out" },
    { "a uprobe, with CAP_PERFMON alone", input = 'event { type = 8, config1 = … }',
      run = open_events("vm", { type = 8, name = "uprobe:/bin/app:main" }, nil, function(k)
        k.files["/sys/bus/event_source/devices/uprobe/type"] = "8\n"
        k.types[8] = true
        set_status(k, PERFMON_ONLY)
        refuse_opens(E.EACCES, function(attr) return attr.type == 8 end)(k)
      end),
      words = "uprobe:/bin/app:main", cause = "a uprobe needs CAP_SYS_ADMIN", remedy = "run as root" },
    { "a breakpoint in the kernel, with CAP_PERFMON alone", input = 'event { "mem:0xffffffff81000000/8:w" }',
      run = open_events("vm", { type = 5, bp_type = 2, bp_len = 8, bp_addr = -0x7f000000,
        name = "mem:0xffffffff81000000/8:w" }, nil, function(k)
          set_status(k, PERFMON_ONLY)
          refuse_opens(E.EPERM, function(attr) return attr.type == 5 end)(k)
        end),
      words = "mem:0xffffffff81000000/8:w", cause = "a breakpoint on a kernel address needs CAP_SYS_ADMIN",
      remedy = "run as root" },
  },

  { "Older kernels",
    { "a flag", input = 'event { "dummy", text_poke = f } on Linux 5.4',
      run = open_events(release "5.4", { "dummy", text_poke = nothing }),
      words = "dummy", cause = "text_poke came with Linux 5.9, and this kernel is 5.4", remedy = "leave it out" },
    { "a bit of sample_type", input = 'event { "cpu-clock", sample_type = { "code_page_size" } } on Linux 5.4',
      run = open_events(release "5.4", { clock, sample_type = { "code_page_size" } }),
      words = "cpu-clock", cause = "sample_type code_page_size came with Linux 5.11",
      remedy = "run Linux 5.11 or newer" },
    { "a bit of read_format", input = 'counter { "task-clock", lost = true } on Linux 5.15',
      run = open_counter(release "5.15", { "task-clock", lost = true }),
      words = "task-clock", cause = "read_format lost came with Linux 6.0, and this kernel is 5.15",
      remedy = "run Linux 6.0 or newer" },
    { "a bit of branch_sample_type",
      input = 'event { "{type=4, config=60}", branch_sample_type = { "any", "counters" } } on Linux 6.1',
      run = open_events(release("6.1", "amd"), { type = 4, config = 60, name = "cpu/event=60/", sample_period = 1000,
        sample_type = { "branch_stack" }, branch_sample_type = { "any", "counters" } }),
      words = "cpu/event=60/", cause = "branch_sample_type counters came with Linux 6.8", remedy = "leave it out" },
    { "a field beyond the kernel's attr", input = 'event { "cpu-clock", config3 = 1 } on Linux 5.4',
      run = open_events(release "5.4", { clock, config3 = 1 }),
      words = "cpu-clock", cause = "config3 came with Linux 6.3, and this kernel is 5.4", remedy = "leave it out" },
    { "a software event", input = 'event { "cgroup-switches" } on Linux 5.4',
      run = open_events(release "5.4", { "cgroup-switches" }),
      words = "cgroup-switches", cause = "cgroup-switches came with Linux 5.13, and this kernel is 5.4",
      remedy = "a newer kernel" },
    { "a kernel without perf events", input = 'event { "cpu-clock" }',
      run = open_events("vm", { clock }, nil, refuse_opens(E.ENOSYS)),
      words = "cpu-clock", cause = "built without perf events", remedy = "CONFIG_PERF_EVENTS" },
  },

  { "Missing hardware",
    { "hardware counters, in a virtual machine", input = 'event { type = 0, config = 0 }',
      run = open_events("vm", { type = 0, config = 0, name = "cycles:k" }),
      words = "cycles:k", cause = "it is a virtual machine, and its host gives it no PMU", remedy = "cpu-clock" },
    { "a PMU of that type", input = 'event { type = 77 }',
      run = open_events("vm", { type = 77, name = "npu/event=1/" }),
      words = "npu/event=1/", cause = "no PMU of this machine has the type 77 (there are 5 breakpoint",
      remedy = "/sys/bus/event_source/devices" },
    { "a counter for this event", input = 'event { type = 0, config = 9 }',
      run = open_events("intel_hybrid", { type = 0, config = 9, name = "ref-cycles" }, nil,
        refuse_opens(E.ENOENT, function(attr) return attr.type == 0 and attr.config == 9 end)),
      words = "ref-cycles", cause = "the CPU has no counter for this event", remedy = "perfl list" },
    { "a software event of that number", input = 'event { type = 1, config = 99 }',
      run = open_events("vm", { type = 1, config = 99 }),
      words = "config=99", cause = "software event 99 does not exist", remedy = "perfl list" },
    { "a watchpoint that signals, on arm64", input = 'event { "mem:0x1000/4:w", sigtrap = true }',
      run = open_on_arm64 { type = 5, bp_type = 2, bp_addr = 0x1000, bp_len = 4, sigtrap = true,
        remove_on_exec = true, sample_period = 1, name = "mem:0x1000/4:w" },
      words = "mem:0x1000/4:w", cause = "a watchpoint of arm64 with sigtrap signals for ever",
      remedy = "without sigtrap" },
    { "precision, on arm64", input = 'event { "cycles:pp" }', run = open_on_arm64 { "cycles:pp" },
      words = "cycles:pp", cause = "precise_ip = 2 (:pp) is not supported by PMUs of arm64",
      remedy = "without :pp, or :P" },
    { "so much precision", input = 'event { "cpu_core/event=0x3c/ppp" }',
      run = open_events("intel_hybrid",
        { type = 4, config = 0x3c, precise_ip = 3, name = "cpu_core/event=0x3c/ppp" }, nil,
        function(k) k.types[4] = { max_precise = 2 } end),
      words = "cpu_core/event=0x3c/ppp", cause = "precise_ip = 3 (:ppp) is more than the PMU cpu_core can: it takes at "
        .. "most 2", remedy = "try: :pp" },
    { "any precision", input = 'event { "cpu/event=0x76/p" }',
      run = open_events("amd", { type = 4, config = 0x76, precise_ip = 1, name = "cpu/event=0x76/p" }, nil,
        function(k) k.types[4] = { max_precise = 0 } end),
      words = "cpu/event=0x76/p", cause = "it takes none", remedy = "without :p" },
    { "an interrupt, to sample with", input = 'event { "power/event=0x02/" }',
      run = open_events("intel_hybrid", { type = 23, config = 2, name = "power/event=0x02/" }, { cpus = "0" }),
      words = "power/event=0x02/", cause = "the PMU power has no interrupt", remedy = "perfl stat" },
    { "an interrupt, which it says with EINVAL", input = 'event { "msr/tsc/" }',
      run = open_events("vm", { type = 9, name = "msr/tsc/", exclude_guest = true }, nil, function(k)
        k.types[9] = { no_exclude = true }
        k.files["/sys/bus/event_source/devices/msr/type"] = "9\n"
        -- msr_event_init()
        refuse_opens(E.EINVAL, function(attr) return attr.type == 9 and attr.sample_period ~= 0 end)(k)
      end),
      words = "msr/tsc/", cause = "the PMU msr has no interrupt", remedy = "perfl stat" },
    { "a counter of tasks: the PMU counts for a package", input = 'counter { "power/event=0x02/", tid = 42 }',
      run = open_counter("intel_hybrid", { { type = 23, config = 2, name = "power/event=0x02/" } }),
      words = "power/event=0x02/", cause = "counts for whole CPUs or packages", remedy = "-a, or -C LIST" },
    { "breakpoints on kernel addresses, of a task (arm64)", input = 'event { "mem:0xffffffff00000000:w" }',
      run = open_events("vm",
        { type = 5, bp_type = 2, bp_len = 4, bp_addr = -1 << 32, name = "mem:0xffffffff00000000:w" },
        { pid = 42 }, refuse_opens(E.EINVAL, function(attr, pid) return attr.type == 5 and pid ~= -1 end)),
      words = "mem:0xffffffff00000000:w", cause = "only for whole CPUs", remedy = "-a, or -C LIST" },
    { "a way to leave the kernel out", input = 'counter { "msr/tsc/u" }',
      run = open_counter("vm", { { type = 9, exclude_kernel = true, name = "msr/tsc/u" } }, function(k)
        k.types[9] = { no_exclude = true }
        k.files["/sys/bus/event_source/devices/msr/type"] = "9\n"
      end),
      words = "msr/tsc/u", cause = "accepts no exclude_user, exclude_kernel", remedy = "without :u, :k or :h" },
    { "branch stacks, on a software event", input = 'event { "cpu-clock", sample_type = { "branch_stack" }, … }',
      run = open_events("vm", { clock, sample_type = { "branch_stack" }, branch_sample_type = { "any" } }),
      words = "cpu-clock", cause = "sample_type has branch_stack, which needs a hardware event",
      remedy = "a hardware event" },
    { "an AUX area to output to", input = 'event { "cpu-clock", aux_output = true }',
      run = open_events("vm", { clock, aux_output = true }, nil, refuse_opens(E.EOPNOTSUPP, function(attr)
        return attr.aux_output
      end)),
      words = "cpu-clock", cause = "aux_output is set, which needs a hardware event", remedy = "clear it" },
    { "an AUX area to sample from", input = 'event { "cpu-clock", aux_sample_size = 4096 }',
      run = open_events("vm", { clock, aux_sample_size = 4096 }),
      words = "cpu-clock", cause = "requires a group leader that traces", remedy = "leave it out" },
    { "a CPU that is offline", input = "perfl -C 1 …",
      run = open_events({ world = "vm", cpus = "0,2" }, { clock }, { cpus = "1" }, function(k)
        k.files["/sys/devices/system/cpu/possible"] = "0-3\n"
      end),
      words = "cpu 1", cause = "CPU 1 is not online (0,2 are)", remedy = "cpu1/online" },
    { "a CPU of that number", input = "perfl -C 64 …",
      run = open_events("vm", { clock }, { cpus = "64" }),
      words = "cpu 64", cause = "this machine has no CPU 64 (0-1 are online)", remedy = "-C 0-1" },
    { "the PMU, on that CPU", input = 'perfl -C 0 -e \'event { "cpu_atom/event=0x3c/" }\'',
      run = open_events("intel_hybrid", { type = 10, config = 0x3c, name = "cpu_atom/event=0x3c/" }, { cpus = "0" },
        refuse_opens(E.ENODEV, function(attr, _, cpu) return attr.type == 10 and cpu < 4 end)),
      words = "cpu_atom/event=0x3c/", cause = "the PMU cpu_atom is there for the CPUs 4-7 alone", remedy = "-C 4-7" },
    { "a PMU used by another session", input = 'event { "cpu-clock", exclusive = true }',
      run = open_events("vm", { clock, exclusive = true }, nil,
        refuse_opens(E.EBUSY, function(attr) return attr.exclusive end)),
      words = "cpu-clock", cause = "the event is exclusive, and another session uses", remedy = "without exclusive" },
    { "a PMU used exclusively by another session", input = 'event { "intel_pt//" }',
      run = open_events("intel_hybrid", { type = 9, name = "intel_pt//" }, nil, refuse_opens(E.EBUSY, function(attr)
        return attr.type == 9
      end)),
      words = "intel_pt//", cause = "another session uses this PMU exclusively", remedy = "end the other session" },
  },

  { "Probes",
    { "a function misspelt", input = 'event { "uprobe:/usr/bin/app:mian" }',
      run = open_named("uprobe:/usr/bin/app:mian", "vm", add_programs), words = "uprobe:/usr/bin/app:mian",
      cause = "/usr/bin/app has no symbol 'mian'", remedy = "did you mean 'main'?" },
    { "a function of a program that is stripped", input = 'event { "uprobe:/usr/bin/bare:main" }',
      run = open_named("uprobe:/usr/bin/bare:main", "vm", add_programs), words = "uprobe:/usr/bin/bare:main",
      cause = "/usr/bin/bare is stripped", remedy = "a build that is not stripped" },
    { "a variable of a program that is stripped", input = 'event { "mem:/usr/bin/bare:counter:w" }',
      run = open_named("mem:/usr/bin/bare:counter:w", "vm", add_programs), words = "mem:/usr/bin/bare:counter:w",
      cause = "/usr/bin/bare is stripped", remedy = "nm -D /usr/bin/bare" },
    { "an offset outside of the code", input = 'event { "uprobe:/usr/bin/app:0x9999999999" }',
      run = open_named("uprobe:/usr/bin/app:0x9999999999", "vm", add_programs), words = "0x9999999999",
      cause = "is not in the code of /usr/bin/app", remedy = "nm /usr/bin/app" },
    { "a file that is not a program", input = 'event { "uprobe:/usr/bin/script:main" }',
      run = open_named("uprobe:/usr/bin/script:main", "vm", add_programs), words = "uprobe:/usr/bin/script:main",
      cause = "/usr/bin/script", remedy = "not an ELF file" },
    { "a missing file", input = 'event { "uprobe:/usr/bin/nosuch:main" }',
      run = open_named("uprobe:/usr/bin/nosuch:main", "vm", add_programs), words = "uprobe:/usr/bin/nosuch:main",
      cause = "cannot read /usr/bin/nosuch", remedy = "No such file or directory" },
    { "a static probe, of a program without", input = 'event { "usdt:/usr/bin/bare:app:begin" }',
      run = open_named("usdt:/usr/bin/bare:app:begin", "vm", add_programs), words = "usdt:/usr/bin/bare:app:begin",
      cause = "has no static probes", remedy = "uprobe:FILE:SYMBOL" },
    { "a function of the C library as the kernel's", input = 'event { "kprobe:main" }, perfl funclatency main',
      run = open_named("kprobe:main", "vm", function(k)
        add_programs(k)
        k.files["/usr/lib/x86_64-linux-gnu/libc.so.6"] = k.files["/usr/bin/app"]
        k.files["/proc/kallsyms"] = "ffffffff81001000 t vfs_read\n"
      end),
      words = "kprobe:main", cause = "the kernel has no function 'main', but the C library has",
      remedy = "try: uprobe:libc:main" },
    { "a pattern without a function", input = 'event { "uprobe:/usr/bin/app:lua_newx*" }',
      run = open_named("uprobe:/usr/bin/app:lua_newx*", "vm", add_programs), words = "lua_newx*",
      cause = "no function of /usr/bin/app matches 'lua_newx*'", remedy = "did you mean" },
    { "a source line without code", input = 'event { "uprobe:/usr/bin/req:req.c:12" }',
      run = open_named("uprobe:/usr/bin/req:req.c:12", "vm", add_programs), words = "req.c:12",
      cause = "line 12 of req.c has no code", remedy = "req.c:11 or req.c:14" },
    { "a variable that does not exist", input = 'event { "uprobe:/usr/bin/req:handle", args = { "req->idd" } }',
      run = on_x86_64(open_events("vm", { "uprobe:/usr/bin/req:handle", args = { "req->idd" } }, nil, add_programs)),
      words = "req->idd", cause = "'req' has no member 'idd'", remedy = "did you mean 'id'?" },
    { "a type of an argument", input = 'event { "uprobe:/usr/bin/app:main", args = { "name:str" } }',
      run = open_events("vm", { "uprobe:/usr/bin/app:main", args = { "name:str" } }, nil, add_programs),
      words = "name:str", cause = "unknown type 'str'", remedy = "did you mean 'string'?" },
    { "a kprobe on a kernel without kprobes", input = 'event { "kprobe:do_sys_openat2" }',
      run = open_named "kprobe:do_sys_openat2", words = "kprobe:do_sys_openat2", cause = "this kernel has no kprobes",
      remedy = "CONFIG_KPROBE_EVENTS" },
  },

  { "Breakpoints",
    { "of more bytes than there can be", input = 'event { "mem:0x1000/9:w" }',
      run = open_named "mem:0x1000/9:w", words = "mem:0x1000/9:w", cause = "not 9", remedy = "1, 2, 4 or 8 bytes" },
    { "more than there are", input = "five times event { \"mem:ADDR\" }",
      run = open_events("vm", (function()
        local list = {}
        for i = 1, 5 do
          local addr = 0x1000 * i
          list[i] = { type = 5, bp_type = 2, bp_len = 4, bp_addr = addr, name = ("mem:0x%x/4:w"):format(addr) }
        end
        return list
      end)()),
      words = "mem:0x5000/4:w", cause = "all hardware breakpoints are in use", remedy = "fewer breakpoints" },
    { "a length that the processor lacks", input = 'event { "mem:0x1000/3:w" }',
      run = open_events("vm", { type = 5, bp_type = 2, bp_len = 3, bp_addr = 0x1000, name = "mem:0x1000/3:w" }),
      words = "mem:0x1000/3:w", cause = "bp_len = 3", remedy = "try: take 1, 2, 4 or 8" },
    { "not aligned to its length", input = 'event { "mem:0x1001/4:w" }',
      run = open_events("vm", { type = 5, bp_type = 2, bp_len = 4, bp_addr = 0x1001, name = "mem:0x1001/4:w" }),
      words = "mem:0x1001/4:w", cause = "not aligned to bp_len (4)", remedy = "try: take 0x1000" },
    { "on reading alone", input = 'event { "mem:0x1000/4:r" }',
      run = open_events("vm", { type = 5, bp_type = 1, bp_len = 4, bp_addr = 0x1000, name = "mem:0x1000/4:r" }),
      words = "mem:0x1000/4:r", cause = "bp_type = 1", remedy = "try: take 3 (reads and writes)" },
  },

  { "Conflicting options",
    { "two forms of one value", input = 'sample_type = { "weight", "weight_struct" }',
      run = open_events("vm", { clock, sample_type = { "weight", "weight_struct" } }),
      words = "cpu-clock", cause = "sample_type has weight and weight_struct",
      remedy = "take weight or weight_struct" },
    { "a branch stack of no kind of branch", input = 'sample_type = { "branch_stack" }',
      run = open_events("vm", { clock, sample_type = { "branch_stack" } }),
      words = "cpu-clock", cause = "branch_sample_type names no kind of branch", remedy = "add one, such as any" },
    { "a stack that ends within a word", input = 'sample_type = { "stack_user" }, sample_stack_user = 1001',
      run = open_events("vm", { clock, sample_type = { "stack_user" }, sample_stack_user = 1001 }),
      words = "sample_stack_user = 1001", cause = "multiple of 8", remedy = "try: take 1008" },
    { "a stack longer than a record", input = 'sample_type = { "stack_user" }, sample_stack_user = 65536',
      run = open_events("vm", { clock, sample_type = { "stack_user" }, sample_stack_user = 65536 }),
      words = "sample_stack_user = 65536", cause = "a record's size has 16 bits", remedy = "65528 is the most" },
    { "registers without a mask", input = 'sample_type = { "regs_user" }',
      run = open_events("vm", { clock, sample_type = { "regs_user" } }),
      words = "cpu-clock", cause = "sample_regs_user is 0", remedy = "set a bit for each register" },
    { "inherit_thread without inherit", input = "inherit = false, inherit_thread = true",
      run = open_events("vm", { clock, inherit = false, inherit_thread = true }),
      words = "cpu-clock", cause = "inherit_thread narrows inherit, which is off", remedy = "set inherit too" },
    { "off at exec and on at exec", input = "remove_on_exec = true, enable_on_exec = true",
      run = open_events("vm", { clock, remove_on_exec = true, enable_on_exec = true }),
      words = "cpu-clock", cause = "remove_on_exec and enable_on_exec contradict each other",
      remedy = "set remove_on_exec or enable_on_exec" },
    { "sigtrap that would outlive exec", input = "sigtrap = true",
      run = open_events("vm", { clock, sigtrap = true }),
      words = "cpu-clock", cause = "sigtrap needs remove_on_exec", remedy = "set remove_on_exec too" },
    { "sigtrap for a whole CPU", input = "perfl -a, sigtrap = true, remove_on_exec = true",
      run = open_events("vm", { clock, sigtrap = true, remove_on_exec = true }, {}),
      words = "cpu-clock", cause = "the signal needs a task to go to", remedy = "name a pid" },
    { "a clock that events cannot have", input = "use_clockid = true, clockid = 2",
      run = open_events("vm", { clock, use_clockid = true, clockid = 2 }),
      words = "clockid = 2", cause = "not a clock for events", remedy = "take 1 (CLOCK_MONOTONIC)" },
    { "a stack deeper than the kernel records", input = "callchain = true, sample_max_stack = 1000",
      run = open_events("vm", { clock, callchain = true, sample_max_stack = 1000 }),
      words = "sample_max_stack = 1000", cause = "above kernel.perf_event_max_stack, 127",
      remedy = "kernel.perf_event_max_stack=1000" },
    { "a frequency above the kernel's limit", input = "freq = 200000",
      run = open_events("vm", { clock, freq = 200000 }),
      words = "200000 Hz", cause = "above kernel.perf_event_max_sample_rate, 100000", remedy = "freq = 100000" },
    { "a frequency above the limit that the kernel has lowered", input = "freq = 20000",
      run = open_events("vm", { clock, freq = 20000 }, nil, function(k)
        k.files["/proc/sys/kernel/perf_event_max_sample_rate"] = "13250\n"
      end),
      words = "20000 Hz", cause = "13250, to which the kernel lowered it under load", remedy = "freq = 13250" },
    { "a period that is negative", input = "period = -1",
      run = open_events("vm", { clock, period = -1 }),
      words = "sample_period", cause = "bit 63 must be clear", remedy = "try: take 1 or more" },
    { "every process on any CPU", input = "attr:validate(-1, -1)",
      run = on_kernel("vm", function() return core.attr_new({ type = 1 }):validate(-1, -1) end),
      words = "pid -1 on cpu -1", cause = "cannot be one event", remedy = "open one per CPU" },
    { "an invalid CPU number", input = "attr:validate(0, -5)",
      run = on_kernel("vm", function() return core.attr_new({ type = 1 }):validate(0, -5) end),
      words = "cpu -5", cause = "a CPU's number", remedy = "or -1 for any" },
    { "counts in inherited samples without the thread", input = "attr:validate()",
      run = on_kernel("vm", function()
        return core.attr_new({ type = 1, inherit = true, sample_type = { "read" } }):validate(0, -1)
      end),
      words = "sample_type has read", cause = "needs tid", remedy = "add tid, or clear inherit" },
    { "a pinned member of a group", input = 'group { "task-clock", { "cpu-clock", pinned = true } }',
      run = open_group("vm", { "task-clock", { clock, pinned = true } }),
      words = "cpu-clock", cause = "not in the group that task-clock leads",
      remedy = "perfev.counter, without a group" },
    { "a group whose reading is too long", input = "group { …, 600 events }",
      run = open_group("vm", { "task-clock", { clock } }, function(k)
        k.on_open = function() refuse_opens(E.E2BIG)(k) end
      end),
      words = "cpu-clock", cause = "a reading of its group exceeds", remedy = "fewer members of the group" },
  },

  { "Processes, users, cgroups",
    { "a missing process", input = "perfl -p 4321 …",
      run = open_events("vm", { clock }, { pid = 4321 }),
      words = "pid 4321", cause = "process or thread 4321 does not exist", remedy = "ps -eL" },
    { "a thread that has ended", input = "perfl -t 43 …",
      run = open_events("vm", { clock }, { tid = 43 }),
      words = "pid 43", cause = "process or thread 43 does not exist (any more)", remedy = "ps -eL" },
    { "a zombie", input = "perfl -t 43 …",
      run = open_events("vm", { clock }, { tid = 43 }, function(k)
        k.files["/proc/43/stat"] = "43 (sh) Z 1 43 43 0 -1 0\n"
      end),
      words = "pid 43", cause = "(a zombie)", remedy = "ps -eL" },
    { "an unknown user", input = "perfl --uid www …",
      run = open_events("vm", { clock }, { uid = "www-dat" }, add_users),
      words = "www-dat", cause = "no such user in /etc/passwd", remedy = "did you mean 'www-data'?" },
    { "a user without processes", input = "perfl --uid www-data …",
      run = open_events("vm", { clock }, { uid = "www-data" }, add_users),
      words = "www-data", cause = "no process of the user", remedy = "ps -eo user,pid,comm" },
    { "a name without processes", input = "perfl --comm sshhd …",
      run = open_events("vm", { clock }, { comm = "sshhd" }, add_users),
      words = "sshhd", cause = "no process named", remedy = "did you mean 'sshd'?" },
    { "a cgroup misspelt", input = "perfl --cgroup system.slice/ngnix.service …",
      run = open_events("vm", { clock }, { cgroup = "system.slice/ngnix.service" }, add_cgroups),
      words = "system.slice/ngnix.service", cause = "no such cgroup below /sys/fs/cgroup",
      remedy = "did you mean 'system.slice/nginx.service'?" },
    { "a cgroup that would lead elsewhere", input = "perfl --cgroup ../../etc …",
      run = open_events("vm", { clock }, { cgroup = "../../etc" }, add_cgroups),
      words = "../../etc", cause = "not a path below the cgroup root", remedy = "system.slice/NAME.service" },
    { "a cgroup of a hierarchy that perf events do not know", input = "perfl --cgroup /sys/fs/cgroup/memory/app …",
      run = open_events("vm", { clock }, { cgroup = "/sys/fs/cgroup/memory/app" }, function(k)
        add_cgroups(k)
        k.files["/proc/mounts"] = "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
          .. "cgroup /sys/fs/cgroup/perf_event cgroup rw,perf_event 0 0\n"
      end),
      words = "/sys/fs/cgroup/memory/app", cause = "perf events use the hierarchy at /sys/fs/cgroup/perf_event",
      remedy = "try: /sys/fs/cgroup/perf_event/app" },
    { "a cgroup without mounted cgroups", input = "perfl --cgroup app …",
      run = open_events("vm", { clock }, { cgroup = "app" }),
      words = "'app'", cause = "no cgroup hierarchy for perf events is mounted", remedy = "mount -t cgroup2" },
    { "a cgroup of a hierarchy that has no controller on", input = "perfl --cgroup system.slice …",
      run = open_events("vm", { clock }, { cgroup = "system.slice" }, function(k)
        add_cgroups(k)
        k.files["/sys/fs/cgroup/cgroup.controllers"] = "cpu memory pids\n"
        k.files["/sys/fs/cgroup/cgroup.subtree_control"] = "\n"
        refuse_opens(E.ENOENT, function(_, pid) return pid ~= -1 end)(k)
      end),
      words = "system.slice", cause = "no controller is enabled for the cgroups below the root",
      remedy = "echo +pids | sudo tee /sys/fs/cgroup/cgroup.subtree_control" },
    { "a descriptor that is not a cgroup", input = 'counter { "page-faults", cgroup = 999 }',
      run = open_counter("vm", { "page-faults", cgroup = 999, cpus = "0" }),
      words = "descriptor 999", cause = "is closed or is not a cgroup directory", remedy = "cgroup = PATH" },
    { "a cgroup on no CPU", input = 'session { cgroup = "app", cpus = {} }',
      run = open_events("vm", { clock }, { cgroup = "system.slice", cpus = {} }, add_cgroups),
      words = "cpus", cause = "the list is empty", remedy = "cgroups are watched CPU by CPU" },
    { "a cgroup and a process at once", input = 'session { cgroup = "app", pid = 42 }',
      run = open_events("vm", { clock }, { cgroup = "system.slice", pid = 42 }, add_cgroups),
      words = "cgroup and pid", cause = "a cgroup is a target by itself", remedy = "cgroup or pid" },
    { "a missing command", input = "perfl … -- nosuch",
      run = open_events("vm", { clock }, { command = { "nosuch" } }, function(k)
        k.exec = function() return E.ENOENT end
      end),
      words = "nosuch", cause = "No such file or directory", remedy = "full path" },
    { "a command that cannot be executed", input = "perfl … -- ./data",
      run = open_events("vm", { clock }, { command = { "./data" } }, function(k)
        k.exec = function() return E.EACCES end
      end),
      words = "./data", cause = "Permission denied", remedy = "chmod +x" },
  },

  { "Limits",
    { "descriptors", input = "twelve events on 64 CPUs, ulimit -n 256",
      run = open_events({ world = "vm", cpus = "0-63", max_files = 256 }, (function()
        local list = {}
        for i = 1, 12 do list[i] = { clock, name = "clock " .. i } end
        return list
      end)(), {}, function(k)
        k.files["/proc/self/limits"] = "Max open files            256                  256                  files\n"
      end),
      words = "clock 4", cause = "12 events x 64 CPUs x 1 task = 768 descriptors are needed, and some more for "
        .. "ourselves; 256 are allowed (hard limit 256)", remedy = "prlimit --pid $$ --nofile=896" },
    { "descriptors, for an event of our own too", input = "an event on 64 CPUs, ulimit -n 100",
      run = open_events({ world = "vm", cpus = "0-63", max_files = 100 }, { clock }, {}, function(k)
        k.files["/proc/self/limits"] = "Max open files            100                  100                  files\n"
      end),
      words = "dummy", cause = "1 event x 64 CPUs x 1 task = 64 descriptors are needed, and 64 more to follow",
      remedy = "prlimit --pid $$ --nofile=192" },
    { "the descriptors of the whole system", input = 'event { "cpu-clock" }',
      run = open_events("vm", { clock }, nil, function(k)
        k.files["/proc/sys/fs/file-max"] = "9000\n"
        refuse_opens(E.ENFILE)(k)
      end),
      words = "cpu-clock", cause = "the system's table of open files is full (fs.file-max is 9000)",
      remedy = "sysctl fs.file-max" },
    { "memory that may be locked", input = "perfl -m 8M …",
      run = open_events({ world = "vm", mlock = 0 }, { clock }, { tid = TASK, buffer = "8M" }),
      words = "cpu-clock", cause = "kernel.perf_event_mlock_kb is 516 per CPU (516 KiB x 2 CPUs = 1032 KiB)",
      remedy = "CAP_IPC_LOCK" },
    { "memory", input = 'event { "cpu-clock" }',
      run = open_events("vm", { clock }, nil, refuse_opens(E.ENOMEM)),
      words = "cpu-clock", cause = "the kernel is out of memory", remedy = "smaller rings (-m)" },
    { "counters, for one that is pinned", input = 'counter { { "cpu-clock", pinned = true } }',
      run = on_kernel("vm", function(k)
        local c = assert(perfev.counter { { clock, pinned = true }, tid = TASK })
        k.events[1].failed = true
        local values = c:read()
        local why = values.errors and values.errors[clock]
        c:close()
        return nil, why
      end),
      words = "cpu-clock", cause = "pinned, in error state", remedy = "without pinned" },
  },

  { "Recordings",
    { "a missing recording", input = "perfl -i pref.data …",
      run = open_events("vm", { "page-faults" }, { input = "pref.data" }),
      words = "pref.data", cause = "No such file or directory", remedy = "without -o it is perf.data" },
    { "a file that is not a recording", input = "perfl -i notes.txt …",
      run = open_events("vm", { "page-faults" }, { input = "notes.txt" },
        function(k) k.files["notes.txt"] = "hello" end),
      words = "notes.txt", cause = "in its head", remedy = "a file that perf record wrote" },
    { "a recording and the machine at once", input = 'session { input = "perf.data", all_cpus = true }',
      run = open_events("vm", { "page-faults" }, { input = "perf.data", all_cpus = true }),
      words = "input and all_cpus", cause = "a recording is as it was made", remedy = "without all_cpus" },
    { "times without a recording", input = 'session { from = "+1s" }',
      run = open_events("vm", { "page-faults" }, { from = "+1s" }),
      words = "from", cause = "only a recording has times to select from", remedy = "try: duration, or input" },
    { "threads without a recording", input = "session { jobs = 2 }",
      run = open_events("vm", { "page-faults" }, { jobs = 2 }),
      words = "jobs without input", cause = "only a recording is read on threads", remedy = "try: input = FILE" },
    { "times the wrong way round", input = 'session { input = "perf.data", from = "75%", to = "25%" }',
      run = open_events("vm", { "page-faults" }, { input = "perf.data", from = "75%", to = "25%" }),
      words = "from is later than to", cause = "nothing lies between them", remedy = "the other way round" },
    { "recording a recording", input = 'session { input = "perf.data", record = "again.data" }',
      run = open_events("vm", { "page-faults" }, { input = "perf.data", record = "again.data" }),
      words = "record and input", cause = "it is recorded already", remedy = "without record" },
    { "recording an overwritten ring", input = 'session { overwrite = true, record = "perf.data" }',
      run = open_events("vm", { "page-faults" }, { tid = TASK, overwrite = true, record = "perf.data" }),
      words = "record and overwrite", cause = "read by snapshots alone", remedy = "record or overwrite" },
    { "a snapshot as a stream", input = 's:snapshot { record = "-" }', run = take_snapshot { record = "-" },
      words = 'record "-"', cause = "each snapshot is a file", remedy = "record = FILE" },
    { "names of no recording", input = "s:snapshot { names = true }", run = take_snapshot { names = true },
      words = "names without record", cause = "it requires a recording", remedy = "record = FILE" },
    { "compressing no recording", input = "session { compress = true }",
      run = open_events("vm", { "page-faults" }, { tid = TASK, compress = true }),
      words = "compress without record", cause = "it requires a recording", remedy = "record = FILE" },
    { "a stream in parts", input = 'session { record = "-", switch_output = "100M" }',
      run = open_events("vm", { "page-faults" }, { tid = TASK, record = "-", switch_output = "100M" }),
      words = "switch_output", cause = "switch_output makes files", remedy = "record = FILE" },
    { "one file of a recording, and a limit of files", input = 'session { record = "perf.data", switch_max_files = 3 }',
      run = open_events("vm", { "page-faults" }, { tid = TASK, record = "perf.data", switch_max_files = 3 }),
      words = "switch_max_files", cause = "a single file is not switched", remedy = 'switch_output = "100M"' },
    { "recording to a directory", input = "perfl --record /data …",
      run = open_events("vm", { "page-faults" }, { tid = TASK, record = "/data" }, function(k)
        k:fail("open", 1, E.EISDIR)
      end),
      words = "/data", cause = "Is a directory", remedy = "/data/perf.data" },
  },

  { "Filters",
    { "a field misspelt", input = 'event { "sched:sched_switch", filter = "prv_pid == 1" }',
      run = open_events("vm", { "sched:sched_switch", filter = "prv_pid == 1" }),
      words = "prv_pid == 1", cause = "unknown field 'prv_pid'", remedy = "try: prev_pid == 1" },
    { "a string that is not quoted", input = 'filter = "prev_comm == bash"',
      run = open_events("vm", { "sched:sched_switch", filter = "prev_comm == bash" }),
      words = "prev_comm == bash", cause = "'prev_comm' is a string", remedy = 'try: prev_comm == "bash"' },
    { "a number that is quoted", input = "filter = \"prev_pid == '1'\"",
      run = open_events("vm", { "sched:sched_switch", filter = "prev_pid == '1'" }),
      words = "prev_pid == '1'", cause = "'prev_pid' is a number", remedy = "try: prev_pid == 1" },
    { "an operator that strings do not have", input = "filter = \"prev_comm > 'a'\"",
      run = open_events("vm", { "sched:sched_switch", filter = "prev_comm > 'a'" }),
      words = "prev_comm > 'a'", cause = "it has ==, != and ~", remedy = "perfl list -v sched:sched_switch" },
    { "an operator that there is not", input = 'filter = "prev_pid = 1"',
      run = open_events("vm", { "sched:sched_switch", filter = "prev_pid = 1" }),
      words = "prev_pid = 1", cause = "'=' is not an operator", remedy = "try: prev_pid == 1" },
    { "an operator and a value that there are not", input = 'filter = "prev_comm = bash"',
      run = open_events("vm", { "sched:sched_switch", filter = "prev_comm = bash" }),
      words = "prev_comm = bash", cause = "'=' is not an operator", remedy = 'try: prev_comm == "bash"' },
    { "a parenthesis that is not closed", input = 'filter = "(prev_pid == 1 || prev_pid == 2"',
      run = open_events("vm", { "sched:sched_switch", filter = "(prev_pid == 1 || prev_pid == 2" }),
      words = "(prev_pid == 1 || prev_pid == 2", cause = "this parenthesis is not closed", remedy = "perfl list -v" },
    { "a string without an end", input = "filter = \"prev_comm == 'bash\"",
      run = open_events("vm", { "sched:sched_switch", filter = "prev_comm == 'bash" }),
      words = "prev_comm == 'bash", cause = "the string that begins here is not closed", remedy = "perfl list -v" },
    { "words in the place of operators", input = 'filter = "prev_pid == 1 and prev_prio > 3"',
      run = open_events("vm", { "sched:sched_switch", filter = "prev_pid == 1 and prev_prio > 3" }),
      words = "prev_pid == 1 and prev_prio > 3", cause = "not 'and'",
      remedy = "try: prev_pid == 1 && prev_prio > 3" },
    { "a word in the place of a number", input = 'filter = "prev_state == R"',
      run = open_events("vm", { "sched:sched_switch", filter = "prev_state == R" }),
      words = "prev_state == R", cause = "a number is expected after 'prev_state =='", remedy = "perfl list -v" },
    { "one that looks right, and the kernel refuses", input = 'filter = "prev_pid == 1"',
      run = open_events("vm", { "sched:sched_switch", filter = "prev_pid == 1" }, nil, function(k)
        k:fail("ioctl SET_FILTER", 1, E.EINVAL)
      end),
      words = "prev_pid == 1", cause = "the kernel refuses it", remedy = "a field, an operator, a value" },
    { "on an event without fields", input = 'event { "cpu-clock", filter = "pid == 1" }',
      run = open_events("vm", { clock, filter = "pid == 1" }, nil, function(k)
        k:fail("ioctl SET_FILTER", 1, E.EINVAL)
      end),
      words = "pid == 1", cause = "cpu-clock is not a tracepoint", remedy = "compare in the callback" },
    { "a second one", input = 'e:filter("prev_pid == 2")',
      run = on_kernel("vm", function()
        local s = perfev.session { tid = TASK }
        local e = s:event { "sched:sched_switch", filter = "prev_pid == 1" }
        assert(s:start())
        local ok, why = e:filter("prev_pid == 2")
        s:close()
        return ok, why
      end),
      words = "prev_pid == 2", cause = "this event has a filter already", remedy = "joined by &&" },
  },

  { "After a run",
    { "records that were lost", input = "perfl -a SCRIPT", run = last_summary_line { lost = 200 },
      words = "records were lost", cause = "they arrived faster than the script processed them", remedy = "-m 8M" },
    { "records that came late, and some of unknown events", input = "perfl -a SCRIPT",
      run = last_summary_line { late = 3, unknown_id = 2 },
      words = "2 records of unknown events (their ids are damaged)",
      cause = "a ring that is three quarters full is read before its turn", remedy = "-m 8M" },
  },
}

--- Returns all cases in one list, each with its chapter's name.
function M.all()
  local list = {}
  for _, chapter in ipairs(M.chapters) do
    for i = 2, #chapter do
      chapter[i].chapter = chapter[1]
      list[#list + 1] = chapter[i]
    end
  end
  return list
end

return M
