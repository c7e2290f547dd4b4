--- Finds what this user may do with perf on this machine, with the reason and the fix for each missing right.
-- Each right of this user is tested by opening an event that needs it; those of root and CAP_PERFMON, which cannot be
-- tested, follow from the rules in kernel/events/core.c, perf_event_open(), and
-- Documentation/admin-guide/perf-security.rst.

local core = require "perfev.core"
local declaration = require "perfev.event.declaration"
local explain = require "perfev.event.explain_refusal"
local kernels = require "perfev.event.kernel_versions"
local ring_memory = require "perfev.live.ring_memory"
local tracefs = require "perfev.tracepoint.tracefs"

local M = {}

local E = core.errno
local host = require "perfev.base.host_rights"
local SOFTWARE, TRACEPOINT, BREAKPOINT = 1, 2, 5
local CAPABILITIES = { dac_override = 1, ipc_lock = 14, sys_ptrace = 19, sys_admin = 21, syslog = 34, perfmon = 38 }
local ENOUGH_RING = 2 << 20
local DEFAULT_STACK = 127

-- ---- the user and the machine ----

local function user()
  local found = { capabilities = {} }
  local status = core.slurp("/proc/self/status") or ""
  found.uid = math.tointeger(tonumber(status:match("\nUid:%s*%d+%s+(%d+)")))
  for name, bit in pairs(CAPABILITIES) do found.capabilities[name] = host.has_capability(bit) or false end
  found.seccomp = host.is_filtered()
  return found
end

local function machine()
  local release, number = kernels.running()
  local cpus = core.cpus()
  local state = (core.slurp("/sys/kernel/security/lockdown") or ""):match("%[(%w+)%]")
  return {
    release = release, number = number, cpus = cpus and #cpus or 0,
    paranoid = host.number_of("/proc/sys/kernel/perf_event_paranoid"),
    lockdown = state ~= "none" and state or nil,
    virtual = (core.slurp("/proc/cpuinfo") or ""):find("hypervisor", 1, true) ~= nil,
  }
end

-- ---- rights ----

local function clock(fields)
  local all = { type = SOFTWARE, config = 0, disabled = true, sample_period = 1000000, exclude_hv = true }
  for name, value in pairs(fields or {}) do all[name] = value end
  return core.attr_new(all)
end

-- -> ok, errno
local function try(attr, pid, cpu)
  local ok, code = core.probe(attr, pid, cpu)
  return ok == true, code
end

local function first_cpu()
  local cpus = core.cpus()
  return cpus and cpus[1] or 0
end

-- A process of another user; without one, init.
local function find_foreign_process(uid)
  for _, name in ipairs(core.list("/proc") or {}) do
    local status = name:find("^%d+$") and core.slurp("/proc/" .. name .. "/status")
    local owner = status and status:match("\nUid:%s*%d+%s+(%d+)")
    if owner and tonumber(owner) ~= uid then return math.tointeger(tonumber(name)) end
  end
  return 1
end

local function try_tracepoint()
  local tp, _, code = tracefs.find("sched", "sched_switch")
  if not tp then return false, code, "tracefs" end
  return try(core.attr_new { type = TRACEPOINT, config = tp.id, sample_type = { "raw" }, sample_period = 1,
                             disabled = true }, 0, -1)
end

-- Without a path the kernel returns EINVAL to a user with the right, but checks the right first
-- (perf_uprobe_event_init()).
local function try_uprobe()
  local type = host.number_of("/sys/bus/event_source/devices/uprobe/type")
  if not type then return false, E.ENOENT, "none" end
  local ok, code = try(core.attr_new { type = type, disabled = true }, 0, -1)
  return ok or code == E.EINVAL, code
end

local function try_kernel_breakpoint()
  local attr = core.attr_new { type = BREAKPOINT, bp_type = 2, bp_len = 4, bp_addr = -0x1000 << 32, disabled = true,
                               sample_period = 1 }
  local ok, code = try(attr, 0, -1)
  if ok or code ~= E.EINVAL then return ok, code end
  -- arm64 supports them only on whole CPUs (hw_breakpoint_arch_parse()).
  return try(attr, -1, first_cpu())
end

local function level_of(paranoid) return paranoid or 2 end

-- name; try: tests it; perfmon: true if CAP_PERFMON suffices; needs: the highest perf_event_paranoid that allows it
local rights = {
  { "own processes, user side", try = function() return try(clock { exclude_kernel = true }, 0, -1) end,
    perfmon = true, needs = 2 },
  { "own processes, kernel side", try = function() return try(clock(), 0, -1) end, perfmon = true, needs = 1 },
  { "other users' processes", perfmon = true,
    try = function(uid) return try(clock { exclude_kernel = true }, find_foreign_process(uid), -1) end },
  { "whole CPUs (-a)", try = function() return try(clock(), -1, first_cpu()) end, perfmon = true, needs = 0 },
  { "tracepoints", try = try_tracepoint, perfmon = "tracefs", needs = -1 },
  { "uprobes", try = try_uprobe, perfmon = false },
  { "kernel breakpoints", try = try_kernel_breakpoint, perfmon = false },
}

local function why_refused(row, code, because, who, here)
  if because == "tracefs" then
    return code == E.ENOENT and "no tracefs" or "tracefs is for root alone"
  end
  if because == "none" then return "this kernel lacks it" end
  if code == E.ENOSYS then return "a kernel without perf events" end
  if code == E.ENOSPC then return "all in use" end
  if code ~= E.EACCES and code ~= E.EPERM then return core.strerror(code) end
  if here.lockdown == "confidentiality" and who.uid == 0 then return "kernel lockdown" end
  if row.perfmon == false then return "needs CAP_SYS_ADMIN" end
  if not row.needs then return "theirs; needs CAP_PERFMON" end
  if level_of(here.paranoid) > 2 then return ("paranoid %d refuses all"):format(here.paranoid) end
  return ("paranoid %d, needs %d"):format(level_of(here.paranoid), row.needs)
end

local function fix_for(row, because)
  if because == "none" then return "a kernel with CONFIG_UPROBE_EVENTS=y" end
  if because == "tracefs" or row.perfmon == false then return "sudo perfl ..." end
  return explain.more_rights()
end

-- True if tracefs is readable without root: it is mounted with mode 0700 by default, or for a group only.
local function is_tracefs_open()
  local options = ("\n" .. (core.slurp("/proc/mounts") or "")):match("\n%S+ %S+ tracefs (%S+)") or ""
  local others = tonumber(options:match("mode=%d*(%d)") or "0", 8)
  local file = core.stat((tracefs.events() or "") .. "/sched/sched_switch/id")
  return others & 5 == 5 and (not file or file.mode & 4 ~= 0)
end

-- Tests the rights of this user, and derives those of root and CAP_PERFMON; neither can lift seccomp or lockdown.
local function try_rights(who, here)
  local list = {}
  local tracefs_open, filtered = is_tracefs_open(), who.seccomp and host.nothing_allowed()
  for _, row in ipairs(rights) do
    local ok, code, because = row.try(who.uid)
    local there = not because or because == "tracefs" and code ~= E.ENOENT
    local right = { name = row[1], you = ok, root = there and not filtered, perfmon = there and not filtered }
    if row.perfmon == "tracefs" then
      right.perfmon = right.perfmon and tracefs_open
    else
      right.perfmon = right.perfmon and row.perfmon
    end
    if not ok then
      right.why = filtered and "a seccomp filter" or why_refused(row, code, because, who, here)
      right.fix = filtered and "allow perf_event_open in the container's seccomp profile" or fix_for(row, because)
    end
    list[#list + 1] = right
  end
  return list
end

-- ---- PMUs, tracefs and probes ----

local function pmus()
  return core.list("/sys/bus/event_source/devices") or {}
end

local function check_counters(here)
  if not host.no_core_pmu() then
    local cycles = core.attr_new { type = 0, config = 0, exclude_kernel = true, exclude_hv = true, disabled = true }
    local ok, code = core.probe(cycles, 0, -1)
    if ok or code == E.EACCES or code == E.EPERM then return { ok = true, text = "cycles, instructions and more" } end
    return { ok = false, text = "the CPU's PMU counts no cycles", fix = "the event cpu-clock" }
  end
  return { ok = false, text = here.virtual and "none: the VM's host gives it no PMU" or "none: the kernel found no PMU",
           fix = "the event cpu-clock" }
end

local function check_tracefs()
  local path, _, code = tracefs.events()
  local _, _, unread = tracefs.find("sched", "sched_switch")
  if path and unread ~= E.EACCES then return { ok = true, text = (path:gsub("/events$", "")) } end
  if code == E.ENOENT then
    return { ok = false, text = "not mounted", fix = "sudo mount -t tracefs nodev /sys/kernel/tracing" }
  end
  return { ok = false, text = "root's alone", fix = "sudo mount -o remount,gid=GID,mode=750 /sys/kernel/tracing" }
end

local function check_probes(who)
  local found = {}
  local root = (tracefs.events() or "/sys/kernel/tracing/events"):gsub("/events$", "")
  for _, kind in ipairs { "kprobe", "uprobe" } do
    local type = host.number_of(("/sys/bus/event_source/devices/%s/type"):format(kind))
    if type then found[#found + 1] = kind .. " PMU" end
    if core.slurp(("%s/%s_events"):format(root, kind)) then found[#found + 1] = kind .. "_events" end
  end
  if #found > 0 then return { ok = true, text = table.concat(found, ", ") } end
  if who.uid ~= 0 and not tracefs.events() then
    return { ok = false, text = "none that this user can see", fix = "sudo perfl doctor" }
  end
  return { ok = false, text = "this kernel lacks it", fix = "a kernel with CONFIG_UPROBE_EVENTS=y" }
end

-- ---- limits ----

local function check_files(here)
  local soft, hard = host.limit("Max open files")
  local most = math.tointeger(tonumber(hard)) or math.tointeger(tonumber(soft)) or 1024
  local needed = 8 * math.max(here.cpus, 1) + 64 -- eight events on every CPU
  local text = ("%d (soft %s); 8 events need %d"):format(most, soft or "?", needed)
  return { ok = most >= needed, text = text, fix = ("sudo prlimit --pid $$ --nofile=%d"):format(needed * 8) }
end

local function check_rings(here)
  local lockable, needed = ring_memory.lockable(here.cpus), ring_memory.locked(ENOUGH_RING, here.cpus)
  if not lockable then return { ok = true, text = "no limit for this user" } end
  return { ok = lockable >= needed,
           text = ("%d KiB may be locked; 2M a CPU need %d"):format(lockable // 1024, needed // 1024),
           fix = ("sudo sysctl kernel.perf_event_mlock_kb=%d"):format(ring_memory.locked(ENOUGH_RING, 1) // 1024) }
end

local function check_rate()
  local most = host.number_of("/proc/sys/kernel/perf_event_max_sample_rate")
  if not most then return { ok = false, text = "unknown", fix = "a kernel with CONFIG_PERF_EVENTS=y" } end
  return { ok = most >= declaration.DEFAULT_FREQ, text = ("at most %d Hz"):format(most),
           fix = "sudo sysctl kernel.perf_event_max_sample_rate=100000" }
end

local function check_stack()
  local most = host.number_of("/proc/sys/kernel/perf_event_max_stack")
  if not most then return { ok = false, text = "unknown", fix = "a kernel with CONFIG_PERF_EVENTS=y" } end
  return { ok = most >= DEFAULT_STACK, text = ("at most %d frames"):format(most),
           fix = ("sudo sysctl kernel.perf_event_max_stack=%d"):format(DEFAULT_STACK) }
end

-- ---- symbols ----

local function check_kallsyms()
  local text, _, code = core.slurp("/proc/kallsyms")
  if text and text:find("%f[%x]0*[1-9a-f]%x* ") then return { ok = true, text = "/proc/kallsyms" } end
  if not text or text == "" then
    return { ok = false, text = code and core.strerror(code) or "/proc/kallsyms is empty",
             fix = "a kernel with CONFIG_KALLSYMS=y" }
  end
  local name, value, settings = host.why_symbols_are_hidden()
  return { ok = false, text = ("hidden, kernel.%s is %s"):format(name, value or "?"),
           fix = (settings:find(" ") and "sysctl " or "sudo sysctl ") .. settings } -- of both: for 80 columns
end

local function check_debuginfo()
  if core.list("/usr/lib/debug/.build-id") then return { ok = true, text = "/usr/lib/debug" } end
  local urls = os.getenv("DEBUGINFOD_URLS")
  if urls and urls ~= "" then return { ok = true, text = "debuginfod" } end
  return { ok = false, text = "none in /usr/lib/debug", fix = "sudo apt install libc6-dbg" }
end

-- ---- the default job ----

-- Samples this process through a ring, with the rights that `perfl NAME -- COMMAND` needs.
local function default_job()
  local session = require "perfev.live.session"
  local tid = core.pid()
  local s = session.new { tid = tid, buffer = "64K" }
  s:event { "cpu-clock", freq = 99, sample = function() end }
  local ok, why, code = s:start()
  s:close()
  if ok then return { ok = true, text = "sampling your own commands" } end
  local attr = core.attr_new { type = SOFTWARE, freq = true, sample_freq = 99 }
  local _, remedy = explain.cause(code, nil, { attr = attr, pid = tid, cpu = -1 })
  return { ok = false, text = "sampling your own commands", why = why, errno = code,
           fix = remedy and remedy:match "[^\n]+" }
end

--- Examines this machine as this user.
-- Opens events and a ring, and closes them; needs no rights.
-- @treturn table  `kernel` (release, number, cpus, paranoid, lockdown, virtual), `user` (uid, capabilities, seccomp),
--   `pmus` (names), `rights` (list: name, root, perfmon, you; why and fix where not you), `checks` (list: name, ok,
--   text; fix where not ok), `default_job` (ok, text; why, errno and fix where not)
function M.look()
  local who, here = user(), machine()
  local checks = {}
  local function add(name, check)
    check.name = name
    if check.ok then check.fix = nil end
    checks[#checks + 1] = check
  end
  local result = { kernel = here, user = who, pmus = pmus(), rights = try_rights(who, here), checks = checks }
  add("counters", check_counters(here))
  add("tracefs", check_tracefs())
  add("probes", check_probes(who))
  add("open files", check_files(here))
  add("ring memory", check_rings(here))
  add("sample rate", check_rate())
  add("stack depth", check_stack())
  add("kernel symbols", check_kallsyms())
  add("debuginfo", check_debuginfo())
  result.default_job = default_job()
  return result
end

return M
