--- Simulated machines to try a script on.
-- Each is a table of `sim.new`'s options. The sysfs files of their PMUs follow the
-- kernel's drivers (arch/x86/events, arch/arm64, drivers/perf), with one PMU of each kind.

local check = require "perfev.base.check"
local core = require "perfev.core"
local sorted_keys = require("perfev.base.tables").sorted_keys

local E = core.errno
local DEVICES = "/sys/bus/event_source/devices/"

local tracepoints = {
  ["sched:sched_switch"] = { 316, "char prev_comm[16]; pid_t prev_pid; int prev_prio; long prev_state; "
    .. "char next_comm[16]; pid_t next_pid; int next_prio" },
  ["sched:sched_wakeup"] = { 319, "char comm[16]; pid_t pid; int prio; int target_cpu" },
  ["sched:sched_process_fork"] = { 312,
    "__data_loc char[] parent_comm; pid_t parent_pid; __data_loc char[] child_comm; pid_t child_pid" },
  ["sched:sched_process_exec"] = { 311, "__data_loc char[] filename; pid_t pid; pid_t old_pid" },
  ["sched:sched_process_exit"] = { 314, "char comm[16]; pid_t pid; int prio; bool group_dead" },
  ["raw_syscalls:sys_enter"] = { 395, "long id; unsigned long args[6]" },
  ["raw_syscalls:sys_exit"] = { 394, "long id; long ret" },
}

local no_capabilities, all_capabilities = ("0"):rep(16), "000001ffffffffff"

local function system_files(paranoid, capabilities, uid)
  return {
    ["/proc/sys/kernel/perf_event_paranoid"] = paranoid .. "\n",
    ["/proc/sys/kernel/perf_event_max_sample_rate"] = "100000\n",
    ["/proc/sys/kernel/perf_event_mlock_kb"] = "516\n",
    ["/proc/sys/kernel/perf_event_max_stack"] = "127\n",
    ["/proc/sys/kernel/perf_event_max_contexts_per_stack"] = "8\n",
    ["/proc/self/status"] = ("Name:\tperfl\nUid:\t%d\t%d\t%d\t%d\nCapEff:\t%s\nSeccomp:\t0\n"):format(
      uid, uid, uid, uid, capabilities),
    ["/proc/self/limits"] = "Max open files            1024                 4096                 files\n"
      .. "Max locked memory         8388608              8388608              bytes\n",
    ["/sys/kernel/tracing/printk_formats"] = "",
    ["/proc/kallsyms"] = "",
  }
end

-- PMUs that every kernel has, with their types.
local function basic_types()
  return { [1] = true, [2] = true, [5] = true }
end

local function add_pmu(world, name, pmu)
  world.types[pmu.type] = { sampling = pmu.sampling, uncore = pmu.uncore, aux = pmu.aux, filters = pmu.filters }
  world.files[DEVICES .. name .. "/type"] = pmu.type .. "\n"
  for file, text in pairs(pmu.files or {}) do world.files[DEVICES .. name .. "/" .. file] = text .. "\n" end
end

-- The generic types (hardware, cache) are the core PMU's.
local function add_core_pmu(world, name, pmu)
  add_pmu(world, name, pmu)
  world.types[0], world.types[3], world.types[4] = {}, {}, world.types[4] or {}
end

local function base(opts)
  local world = {
    cpus = opts.cpus or "0-3", files = system_files(opts.paranoid or 2, opts.capabilities or all_capabilities,
      opts.uid or 0),
    types = basic_types(), tracepoints = tracepoints, tasks = { [1] = "init", [42] = "sshd", [1000] = "perfl" },
    privileged = opts.privileged ~= false, uid = opts.uid or 0, release = opts.release,
  }
  add_pmu(world, "software", { type = 1 })
  add_pmu(world, "tracepoint", { type = 2 })
  add_pmu(world, "breakpoint", { type = 5 })
  world.types[1], world.types[2], world.types[5] = true, true, true
  return world
end

local function x86_format(more)
  local files = {
    ["format/event"] = "config:0-7", ["format/umask"] = "config:8-15", ["format/edge"] = "config:18",
    ["format/inv"] = "config:23", ["format/cmask"] = "config:24-31",
    ["events/cpu-cycles"] = "event=0x3c", ["events/instructions"] = "event=0xc0",
  }
  for file, text in pairs(more or {}) do files[file] = text end
  return files
end

local builders = {}

function builders.vm()
  local world = base { cpus = "0-1" }
  world.files["/proc/cpuinfo"] = "processor\t: 0\nflags\t\t: fpu sse2 hypervisor\n"
  return world
end

function builders.intel_hybrid()
  local world = base { cpus = "0-7" }
  add_core_pmu(world, "cpu_core", { type = 4, files = x86_format {
    ["cpus"] = "0-3", ["format/ldlat"] = "config1:0-15", ["format/frontend"] = "config1:0-23",
    ["format/offcore_rsp"] = "config1:0-63", ["events/branch-misses"] = "event=0xc5",
    ["events/mem-loads"] = "event=0xcd,umask=0x1,ldlat=3", ["events/slots"] = "event=0x00,umask=0x4",
    ["caps/branches"] = "32", ["caps/max_precise"] = "3", ["caps/pmu_name"] = "alderlake_hybrid",
  } })
  add_pmu(world, "cpu_atom", { type = 10, files = x86_format {
    ["cpus"] = "4-7", ["caps/branches"] = "32", ["caps/max_precise"] = "3",
    ["caps/pmu_name"] = "alderlake_hybrid",
  } })
  add_pmu(world, "intel_pt", { type = 9, aux = true, filters = 2, files = {
    ["format/pt"] = "config:0", ["format/tsc"] = "config:10", ["format/noretcomp"] = "config:11",
    ["format/branch"] = "config:13", ["format/cyc"] = "config:1", ["caps/psb_cyc"] = "1",
    ["nr_addr_filters"] = "2",
  } })
  add_pmu(world, "uncore_imc_free_running_0", { type = 24, sampling = false, uncore = true, files = {
    ["cpumask"] = "0", ["format/event"] = "config:0-7", ["format/umask"] = "config:8-15",
    ["events/data_read"] = "event=0xff,umask=0x20", ["events/data_read.scale"] = "6.103515625e-5",
    ["events/data_read.unit"] = "MiB",
  } })
  add_pmu(world, "power", { type = 23, sampling = false, uncore = true, files = {
    ["cpumask"] = "0", ["format/event"] = "config:0-7", ["events/energy-pkg"] = "event=0x02",
    ["events/energy-pkg.scale"] = "2.3283064365386962890625e-10", ["events/energy-pkg.unit"] = "Joules",
  } })
  return world
end

function builders.amd()
  local world = base { cpus = "0-7" }
  local format = x86_format { ["format/event"] = "config:0-7,32-35", ["caps/branches"] = "16",
    ["events/branch-misses"] = "event=0xc3", ["events/cpu-cycles"] = "event=0x76" }
  add_core_pmu(world, "cpu", { type = 4, files = format })
  add_pmu(world, "ibs_fetch", { type = 10, files = {
    ["format/rand_en"] = "config:57", ["format/l3missonly"] = "config:59", ["caps/zen4_ibs_extensions"] = "1" } })
  add_pmu(world, "ibs_op", { type = 11, files = {
    ["format/cnt_ctl"] = "config:19", ["format/l3missonly"] = "config:16", ["caps/zen4_ibs_extensions"] = "1" } })
  add_pmu(world, "amd_df", { type = 12, sampling = false, uncore = true, files = {
    ["cpumask"] = "0", ["format/event"] = "config:0-7,32-37", ["format/umask"] = "config:8-15,24-27" } })
  return world
end

function builders.arm64()
  local world = base { cpus = "0-7" }
  local format = { ["format/event"] = "config:0-15", ["format/long"] = "config1:0",
    ["format/rdpmc"] = "config1:1", ["events/cpu_cycles"] = "event=0x0011",
    ["events/inst_retired"] = "event=0x0008", ["events/l1d_cache_refill"] = "event=0x0003" }
  local function with_cpus(list)
    local files = { cpus = list }
    for file, text in pairs(format) do files[file] = text end
    return files
  end
  add_core_pmu(world, "armv8_cortex_a55", { type = 8, files = with_cpus "0-3" })
  add_pmu(world, "armv8_cortex_a76", { type = 9, files = with_cpus "4-7" })
  add_pmu(world, "arm_spe_0", { type = 10, aux = true, files = {
    ["cpumask"] = "4-7", ["format/ts_enable"] = "config:0", ["format/jitter"] = "config:16",
    ["format/load_filter"] = "config:33", ["format/store_filter"] = "config:34",
    ["format/min_latency"] = "config2:0-11", ["caps/min_interval"] = "1024" } })
  return world
end

function builders.s390x()
  local world = base { cpus = "0-3" }
  add_core_pmu(world, "cpum_cf", { type = 8, sampling = false, files = {
    ["format/event"] = "config:0-63", ["events/CPU_CYCLES"] = "event=0x0000",
    ["events/INSTRUCTIONS"] = "event=0x0001", ["events/L1D_DIR_WRITES"] = "event=0x0004" } })
  add_pmu(world, "cpum_sf", { type = 9, files = {
    ["format/event"] = "config:0-63", ["events/SF_CYCLES_BASIC"] = "event=0xb0000" } })
  add_pmu(world, "pai_crypto", { type = 11, sampling = false, files = {
    ["format/event"] = "config:0-63", ["events/CRYPTO_ALL"] = "event=0x1000" } })
  return world
end

-- perf_event_paranoid 4 is a patch of Debian and Ubuntu: unprivileged users may open no event.
function builders.locked_down()
  local world = base { cpus = "0-3", paranoid = 4, privileged = false, uid = 1001,
                       capabilities = no_capabilities }
  world.tracepoints, world.mlock = {}, 512 * 1024
  world.files["/sys/kernel/tracing/events"] = E.EACCES
  world.files["/sys/kernel/tracing/printk_formats"] = nil
  world.files["/sys/kernel/debug/tracing/events"] = E.EACCES
  world.owners = { [1] = 0, [42] = 0 }
  return world
end

-- The kernel's own default for those without capabilities.
function builders.unprivileged()
  local world = builders.locked_down()
  world.files["/proc/sys/kernel/perf_event_paranoid"] = "2\n"
  return world
end

local M = {}

function M.names()
  local names = sorted_keys(builders)
  return names
end

--- Returns a new table of options for the world of that name; raises an error with the nearest name if it is unknown.
function M.find(name)
  local builder = builders[name]
  if builder then return builder() end
  error(("sim.new: no world is called '%s'%s\n  there are: %s"):format(tostring(name),
    check.hint(tostring(name), M.names()), table.concat(M.names(), ", ")), 3)
end

return M
