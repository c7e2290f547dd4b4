--- Finds the cause of a refusal by the kernel, and the remedy.
-- An errno alone is vague (EINVAL has some sixty causes). This module reads the known causes from /proc and
-- /sys, and finds the others by asking the kernel again without one feature at a time
-- (core.probe). A message has one cause and one remedy, because a user can act on one only.
-- Source: perf_event_open(2), ERRORS; kernel/events/core.c.

local core = require "perfev.core"
local cgroups = require "perfev.event.cgroup"
local kernels = require "perfev.event.kernel_versions"
local rights = require "perfev.base.host_rights"

local E = core.errno
local SOFTWARE, TRACEPOINT, BREAKPOINT = 1, 2, 5
local PHYS_ADDR, REGS_INTR = 1 << 19, 1 << 18
local CAP_SYS_ADMIN, CAP_PERFMON = 21, 38
local DEVICES = "/sys/bus/event_source/devices"
local CPUS = "/sys/devices/system/cpu/"

local M = {}

-- ---- facts of the machine ----

-- The sysfs name of the PMU of this type, or nil.
local function pmu_of(type)
  for _, name in ipairs(core.list(DEVICES) or {}) do
    if rights.number_of(("%s/%s/type"):format(DEVICES, name)) == type then return name end
  end
end

local function in_list(text, number)
  for from, to in (text or ""):gmatch("(%d+)%-?(%d*)") do
    if number >= tonumber(from) and number <= (tonumber(to) or tonumber(from)) then return true end
  end
  return false
end

-- ---- asking again ----

-- The kernel's answer to this attr on the event's target, or on another: true | nil, errno, size
-- (for a cgroup: on its whole CPU). Opened disabled, so that it does not affect the target.
local function ask(event, attr, pid, cpu)
  attr = attr:copy()
  attr.disabled = true
  return core.probe(attr, pid or event.cgroup and -1 or event.pid or 0, cpu or event.cpu or -1)
end

-- True if the kernel accepts the event, or fails later, without the feature that change removes. EACCES and EPERM prove
-- nothing, because the kernel checks rights both before and after.
local function helps(event, code, change)
  local attr = event.attr:copy()
  local pid, cpu = change(attr)
  local ok, other = ask(event, attr, pid, cpu)
  return ok or other ~= code and other ~= E.EACCES and other ~= E.EPERM and other ~= E.EMFILE
end

-- The one feature, newest first, without which the kernel accepts the event; the same for all but one.
local function culprit(event, code)
  local features = kernels.features(event.attr)
  for _, feature in ipairs(features) do
    if helps(event, code, feature.clear) then return feature end
  end
  local gone = {}
  for _, feature in ipairs(features) do
    gone[#gone + 1] = feature
    if helps(event, code, function(attr)
      for _, one in ipairs(gone) do one.clear(attr) end
    end) then
      return feature
    end
  end
end

local function newer(feature, release)
  return ("%s came with Linux %s, and this kernel is %s"):format(feature.what, feature.since, release),
    ("leave it out, or run Linux %s or newer"):format(feature.since)
end

-- ---- rights ----

local setcap = "sudo setcap cap_perfmon,cap_sys_ptrace,cap_syslog=ep $(command -v perfl)"

-- How to get root's rights.
local function more_rights()
  return rights.in_user_namespace() and "run it outside of this user namespace: its root has no rights on the machine"
    or setcap
end

-- The owner of a process, if it is another user; watching it needs the right to ptrace it.
local function other_owner(pid)
  local function uid_of(name)
    return (core.slurp("/proc/" .. name .. "/status") or ""):match("\nUid:%s*(%d+)")
  end
  local owner, own = uid_of(pid), uid_of("self")
  return owner ~= own and owner or nil
end

-- The feature of this event that needs rights, and its level of kernel.perf_event_paranoid (perf_copy_attr(),
-- perf_event_open(), perf_trace_event_perm()).
local function needed_level(event)
  if event.is_tracepoint then return -1, "a tracepoint's payload" end
  if event.cpu_wide then return 0, "watching a whole CPU" end
  if event.attr and event.attr.sample_type & PHYS_ADDR ~= 0 then return 1, "sampling physical addresses" end
  return 1, "watching the kernel side"
end

local function seccomp()
  return "a seccomp filter is in force, as in a container, and refuses perf_event_open",
    "allow perf_event_open in the container's seccomp profile, or run outside the container"
end

local function confidential()
  return (core.slurp("/sys/kernel/security/lockdown") or ""):find("[confidentiality]", 1, true) ~= nil
end

local function lockdown(what)
  return ("kernel lockdown is in force (confidentiality), which forbids %s"):format(what),
    "leave that out, or boot with lockdown=integrity"
end

local function security_module()
  local modules = rights.line_of("/sys/kernel/security/lsm")
  return ("a security module or kernel lockdown refuses it in spite of our capabilities%s"):format(
      modules and (" (loaded: %s)"):format(modules) or ""),
    "see /sys/kernel/security/lockdown and the system's log"
end

local function beyond_perfmon(event)
  local attr = event.attr
  local pmu = attr and pmu_of(attr.type)
  if pmu == "uprobe" or pmu == "kprobe" then return ("a %s"):format(pmu) end
  if attr and attr.type == BREAKPOINT and attr.bp_addr < 0 then return "a breakpoint on a kernel address" end
end

-- perfl with file capabilities drops those for opening events when all events of its session are open.
local function has_dropped(n)
  local _, dropped = core.held_capabilities()
  return dropped >> n & 1 == 1
end

local function by_level(event)
  if has_dropped(CAP_PERFMON) then
    return "perfl dropped its file capabilities when the session had opened its events",
      "declare this event before the session starts"
  end
  local level = rights.sysctl("perf_event_paranoid")
  local needed, what = needed_level(event)
  if level and level > 2 then
    if needed == 1 and event.attr and event.attr.exclude_kernel and event.attr.sample_type & PHYS_ADDR == 0 then
      needed = 2
    end
    return ("kernel.perf_event_paranoid is %d, and this kernel then refuses all events without CAP_PERFMON")
      :format(level), ("%s\n  or: sudo sysctl kernel.perf_event_paranoid=%d"):format(more_rights(), math.min(needed, 2))
  end
  return ("kernel.perf_event_paranoid is %s; %s needs %d or CAP_PERFMON"):format(level or "unknown", what, needed),
    ("%s\n  or: sudo sysctl kernel.perf_event_paranoid=%d%s"):format(more_rights(), needed,
      event.cpu_wide and "\n  or: watch a command of your own: -- COMMAND" or "")
end

local function filtered_out(event)
  if not rights.is_filtered() then return false end
  if rights.is_privileged() then return not event.attr or rights.nothing_allowed() end
  return (rights.sysctl("perf_event_paranoid") or 0) <= 2 and rights.nothing_allowed() -- above, that is reason enough
end

-- TRACE_EVENT_PERF_PERM() of irq_vectors:irq_work_exit: its sample would cause the next one.
local function causes_itself(event)
  if not (event.attr and event.attr.type == TRACEPOINT and event.attr.sample_period ~= 0) then return false end
  local attr = event.attr:copy()
  attr.freq, attr.sample_period, attr.sample_type = false, 0, {}
  return (ask(event, attr))
end

local function no_permission(event)
  local attr = event.attr
  if filtered_out(event) then return seccomp() end
  if attr and attr.sample_type & REGS_INTR ~= 0 and confidential() then
    return lockdown("sampling the kernel's registers (regs_intr)")
  end
  local strong = beyond_perfmon(event)
  if strong and not rights.has_capability(CAP_SYS_ADMIN) then
    return strong .. " needs CAP_SYS_ADMIN at any kernel.perf_event_paranoid",
      rights.in_user_namespace() and more_rights() or "run as root"
  end
  if rights.is_privileged() and causes_itself(event) then
    return "the kernel counts this tracepoint but does not sample it, because each sample would cause another",
      event.tracepoint and ("perfl stat -e %s\n  or: perfev.counter"):format(event.tracepoint)
        or "perfev.counter, which counts it"
  end
  if rights.is_privileged() then return security_module() end
  local unseen, remedy = rights.why_processes_are_hidden()
  if unseen and not attr then return unseen, remedy end
  local owner = event.pid and event.pid > 0 and other_owner(event.pid)
  if owner then
    return ("the process belongs to the user with uid %s"):format(owner),
      "run as that user or as root\n  or: " .. more_rights()
  end
  if attr and attr.namespaces then
    return "namespaces shows those of other users and requires CAP_PERFMON", more_rights()
  end
  return by_level(event)
end

-- ---- limits ----

local function too_many_files(event)
  local soft, hard = rights.limit("Max open files")
  if not soft then -- no descriptor is left to read it; the limit was raised to the hard limit
    soft = core.raise_nofile()
    hard = soft
  end
  local events, cpus, threads = event.events or 1, event.cpus or 1, event.threads or 1
  local needed = events * cpus * threads
  local own = math.max(cpus, #(core.cpus() or {})) * threads -- of the event that records the names of tasks
  local sum = ("%d event%s x %d CPU%s x %d task%s"):format(events, events == 1 and "" or "s", cpus,
    cpus == 1 and "" or "s", threads, threads == 1 and "" or "s")
  local allowed, ours = tonumber(soft) or 0, "some more for ourselves"
  if needed <= allowed then ours = ("%d more to follow the tasks, besides those open already"):format(own) end
  return ("%s = %d descriptors are needed, and %s; %s are allowed (hard limit %s)"):format(sum, needed, ours,
      soft or "?", hard or "?"),
    ("sudo prlimit --pid $$ --nofile=%d\n  or: fewer events, fewer CPUs (-C)"):format(needed + own + 64)
end

local function thousands(n)
  return n >= 1024 and ("%d KiB"):format(n // 1024) or ("%d bytes"):format(n)
end

-- perf_mmap(): per user perf_event_mlock_kb of each online CPU, then RLIMIT_MEMLOCK.
local function ring_budget(failed)
  local kb, soft = rights.sysctl("perf_event_mlock_kb"), rights.limit("Max locked memory")
  local cpus = core.cpus()
  local asked = failed.bytes // 1024
  local free = kb and cpus and ("%d KiB x %d CPUs = %d KiB"):format(kb, #cpus, kb * #cpus)
  return ("over the memory that may be locked: %skernel.perf_event_mlock_kb is %s per CPU%s, ulimit -l is %s")
      :format(("a ring takes %d + 4 KiB; "):format(asked), kb or "unknown",
        free and (" (%s)"):format(free) or "", tonumber(soft) and thousands(tonumber(soft)) or soft or "?"),
    ("a smaller ring (-m %dK)\n  or: ulimit -l unlimited, or CAP_IPC_LOCK"):format(
      math.max(4, (kb and kb > 4 and 1 << math.floor(math.log(kb - 4, 2)) or 128)))
end

-- ---- missing hardware and files ----

local function no_such_pmu()
  local virtual = (core.slurp("/proc/cpuinfo") or ""):find("hypervisor", 1, true)
  return ("this machine has no hardware counters: %s"):format(virtual
      and "it is a virtual machine, and its host gives it no PMU" or "the kernel found no PMU"),
    "cpu-clock or task-clock, which need no counter"
end

-- On cgroup2 the kernel creates the perf_event state of groups only after a controller was enabled for them
-- (seen on 6.1: ENOENT until then); systemd always enables some.
local function no_controller(event)
  if not event.cgroup or not ask(event, event.attr) then return end
  local _, used = cgroups.mounts()
  if not used or used.version ~= 2 then return end
  local path = used.path .. "/cgroup.subtree_control"
  local there = core.slurp(used.path .. "/cgroup.controllers") or ""
  local controller = there:match "%f[%w]pids%f[%W]" or there:match "%w+"
  if (core.slurp(path) or "-"):find "%w" or not controller then return end
  return "no controller is enabled for the cgroups below the root; until then perf events cannot use them",
    ("echo +%s | sudo tee %s"):format(controller, path)
end

local function no_such_event(event)
  local attr, release = event.attr, (kernels.running())
  local why, remedy = no_controller(event)
  if why then return why, remedy end
  local type = attr and attr.type
  if type == SOFTWARE then
    local known = kernels.software[attr.config]
    if known then
      return ("the software event %s came with Linux %s, and this kernel is %s"):format(known[1], known[2],
        release or "older"), "leave it out, or a newer kernel"
    end
    return ("software event %d does not exist"):format(attr.config), "perfl list sw"
  end
  if type and (type == 0 or type == 3 or type == 4) then
    if rights.no_core_pmu() then return no_such_pmu() end
    return "the CPU has no counter for this event", "perfl list hw cache"
  end
  local name = type and pmu_of(type)
  if name == "uprobe" or name == "kprobe" then
    return "the probed file or function does not exist", "check its path or name"
  end
  if type and not name then
    local there = {}
    for _, pmu in ipairs(core.list(DEVICES) or {}) do
      there[#there + 1] = ("%s %s"):format(rights.number_of(("%s/%s/type"):format(DEVICES, pmu)) or "?", pmu)
    end
    return ("no PMU of this machine has the type %d (there are %s)"):format(type, table.concat(there, ", ")),
      "the type in /sys/bus/event_source/devices/PMU/type; it may change at each boot"
  end
  return "this machine has no such event" .. (name and (": its PMU %s does not know the config"):format(name) or ""),
    "perfl list" .. (name and " " .. name or "")
end

local function cpu_absent(event)
  local online, cpu = rights.line_of(CPUS .. "online"), event.cpu
  if not (cpu and cpu >= 0 and online) or in_list(online, cpu) then return nil end
  if in_list(rights.line_of(CPUS .. "possible") or rights.line_of(CPUS .. "present"), cpu) then
    return ("CPU %d is not online (%s are)"):format(cpu, online),
      ("-C %s\n  or: echo 1 | sudo tee %scpu%d/online"):format(online, CPUS, cpu)
  end
  return ("this machine has no CPU %d (%s are online)"):format(cpu, online), "-C " .. online
end

local function no_device(event)
  local why, remedy = cpu_absent(event)
  if why then return why, remedy end
  local pmu = event.attr and pmu_of(event.attr.type)
  local cpus = pmu and (rights.line_of(("%s/%s/cpus"):format(DEVICES, pmu))
    or rights.line_of(("%s/%s/cpumask"):format(DEVICES, pmu)))
  if cpus then return ("the PMU %s is there for the CPUs %s alone"):format(pmu, cpus), "-C " .. cpus end
  return "the CPU's PMU does not have this event", "another CPU (-C)"
end

local function nobody_there(event)
  local pid = event.pid
  if not (pid and pid > 0) then return "no process has this number now", "ps -eL" end
  local unseen, remedy = rights.why_processes_are_hidden()
  if unseen then return ("process or thread %d does not exist, or is hidden: %s"):format(pid, unseen), remedy end
  local state = (core.slurp(("/proc/%d/stat"):format(pid)) or ""):match("^.*%)%s*(%S)")
  if state == "Z" then
    return ("process %d has ended and waits for its parent (a zombie)"):format(pid),
      "ps -eL"
  end
  return ("process or thread %d does not exist (any more)"):format(pid), "ps -eL"
end

-- ---- features that the PMU lacks ----

local function pmu_name(event)
  return pmu_of(event.attr.type) or ("of type %d"):format(event.attr.type)
end

-- sample_period and freq make an event sample.
local function no_sampling(attr)
  attr.freq, attr.sample_period = false, 0
end

local function precise_limit(event, code)
  local asked = event.attr.precise_ip
  for level = asked - 1, 0, -1 do
    if helps(event, code, function(attr) attr.precise_ip = level end) then
      return ("precise_ip = %d (%s) is more than the PMU %s can: it takes %s"):format(asked, (":" .. ("p"):rep(asked)),
        pmu_name(event), level == 0 and "none" or ("at most %d"):format(level)),
        level == 0 and "without :" .. ("p"):rep(asked) or ":" .. ("p"):rep(level)
    end
  end
end

local function no_exclude(attr)
  attr.exclude_user, attr.exclude_kernel, attr.exclude_hv, attr.exclude_idle = false, false, false, false
  attr.exclude_host, attr.exclude_guest = false, false
end

local function counts_only(event)
  return ("the PMU %s has no interrupt: it can count but not sample"):format(pmu_name(event)),
    "count it: perfl stat -e EVENT, or perfev.counter"
end

-- A known mistake in the attr, if the kernel returned its errno.
local function wrong_attr(event, code)
  if not event.attr then return nil end
  local ok, why, known, failed = event.attr:validate(event.pid or 0, event.cpu or -1)
  if ok or known ~= code then return nil end
  return failed and failed.cause or why, failed and failed.remedy or "change that option of the event"
end

local function unsupported(event)
  local why, cure = wrong_attr(event, E.EOPNOTSUPP)
  if why then return why, cure end
  local attr = event.attr
  if not event.attr then
    return "the PMU lacks a requested feature (sampling, branch stacks or precise addresses)",
      "leave that option out, or use a hardware event"
  end
  if attr.precise_ip > 0 then
    local bound, remedy = precise_limit(event, E.EOPNOTSUPP)
    if bound then return bound, remedy end
  end
  if attr.sample_period ~= 0 and helps(event, E.EOPNOTSUPP, no_sampling) then return counts_only(event) end
  local feature = culprit(event, E.EOPNOTSUPP)
  if feature then
    return ("the PMU %s cannot do %s"):format(pmu_name(event), feature.what), "leave it out, or use a hardware event"
  end
  return "the PMU lacks a requested feature", "-vv shows every requested field"
end

-- ---- EINVAL ----

local function wrong_rate(event)
  local most, attr = rights.sysctl("perf_event_max_sample_rate"), event.attr
  if most and attr and attr.freq and attr.sample_freq > most then
    return ("a frequency of %d Hz is above kernel.perf_event_max_sample_rate, %d%s"):format(attr.sample_freq, most,
        most < 100000 and ", to which the kernel lowered it under load" or ""),
      ("freq = %d, or a period\n  or: sudo sysctl kernel.perf_event_max_sample_rate=%d"):format(most, attr.sample_freq)
  end
end

local function cpu_wide_pmu(event)
  if not event.pid or event.pid == -1 then return nil end
  local cpu = event.cpu and event.cpu >= 0 and event.cpu or 0
  if not helps(event, E.EINVAL, function() return -1, cpu end) then return nil end
  if event.attr.type == BREAKPOINT then -- hw_breakpoint_arch_parse() of arm64
    return "this machine has breakpoints on kernel addresses only for whole CPUs",
      "-a, or -C LIST, instead of a process"
  end
  return ("the PMU %s counts for whole CPUs or packages, not for tasks"):format(pmu_name(event)),
    "-a, or -C LIST, instead of a process"
end

-- perf_trace_event_perm(): function tracing takes no stacks of user space.
local function wrong_tracepoint(event)
  if helps(event, E.EINVAL, function(attr) attr.exclude_callchain_user = true end) then
    return "user stacks are not available when every kernel function is traced", "exclude_callchain_user = true"
  end
  if event.named then
    return "tracefs describes it, but perf events cannot open it", "perfl list tracepoint"
  end
  return ("no tracepoint of this kernel has the number %d"):format(event.attr.config),
    "its name: numbers change from boot to boot"
end

local function by_asking(event)
  if not event.attr then return nil end
  local attr = event.attr
  local ok, code = ask(event, attr)
  if ok and event.group then
    return ("alone the event is taken, but not in the group that %s leads: a member has the leader's CPU, clock and "
      .. "inherit, and is neither pinned nor exclusive"):format(event.group), "perfev.counter, without a group"
  elseif ok and event.cgroup then
    return ("the kernel accepts the event without the cgroup, but not in '%s'"):format(event.cgroup),
      "-a, and compare the record's cgroup in the callback"
  elseif ok then
    return "the kernel accepts it now: the obstacle has gone", "run it again"
  elseif code ~= E.EINVAL then
    return nil
  end
  local why, remedy = cpu_wide_pmu(event)
  if why then return why, remedy end
  if helps(event, E.EINVAL, no_exclude) then
    return ("the PMU %s counts everything and accepts no exclude_user, exclude_kernel and similar"):format(
      pmu_name(event)), "the event without :u, :k or :h"
  end
  if attr.sample_period ~= 0 and helps(event, E.EINVAL, function(one)
    no_sampling(one)
    no_exclude(one) -- which may be wrong as well, and of our own making
  end) then
    return counts_only(event)
  end
  local feature, release, number = culprit(event, E.EINVAL), kernels.running()
  if feature and number and feature.number > number then return newer(feature, release) end
  if feature then
    return ("the kernel accepts the event without %s, but not with it"):format(feature.what), "leave it out"
  end
  if attr.type == TRACEPOINT then return wrong_tracepoint(event) end
end

-- perf_get_aux_event()
local function aux_alone(event)
  if event.attr and event.attr.aux_sample_size ~= 0 then
    return "aux_sample_size requires a group leader that traces (AUX)", "leave it out, or name the leader"
  end
end

local function invalid(event)
  for _, find in ipairs { wrong_attr, cpu_absent, wrong_rate, aux_alone, by_asking } do
    local why, remedy = find(event, E.EINVAL)
    if why then return why, remedy end
  end
  return "no known cause applies; an option may be newer than this kernel",
    "-vv shows every requested field"
end

-- ---- E2BIG, ENOSYS, EBUSY and the rest ----

-- If the kernel wrote its own size into the attr, it does not know the fields behind it. If it left
-- the size alone, perf_event_validate_size() found the group's read too long.
local function too_big(event)
  if not event.attr then
    return "an option of the event is newer than this kernel", "-vv shows every requested field"
  end
  local ok, _, size = ask(event, event.attr)
  if ok or size == event.attr.size then
    return "a reading of its group exceeds the kernel's limit of 16 KiB",
      "fewer members of the group, or a read_format without id and lost"
  end
  local release, beyond, attr = kernels.running(), nil, event.attr:copy()
  for _, feature in ipairs(kernels.features(attr)) do
    if attr.size <= size then break end
    feature.clear(attr)
    beyond = feature
  end
  if not beyond then return "an option of the event is newer than this kernel", "-vv shows every requested field" end
  return newer(beyond, release or ("an attr of %d bytes (Linux %s)"):format(size, kernels.sizes[size] or "?"))
end

local function no_syscall()
  if rights.sysctl("perf_event_paranoid") and rights.is_filtered() then return seccomp() end
  return "this kernel is built without perf events", "a kernel with CONFIG_PERF_EVENTS=y"
end

local function busy(event)
  if event.attr and event.attr.exclusive and helps(event, E.EBUSY, function(attr) attr.exclusive = false end) then
    return "the event is exclusive, and another session uses this PMU", "without exclusive"
  end
  return "another session uses this PMU exclusively", "end the other session (perf, a profiler, a VM)"
end

local function no_room(event)
  if event.attr and event.attr.type ~= BREAKPOINT then return "the kernel's table for this is full", "fewer events" end
  return "all hardware breakpoints are in use, here or in a debugger (x86 and most have 4 for each task or CPU)",
    "fewer breakpoints at once"
end

local function too_deep(event)
  local most = rights.sysctl("perf_event_max_stack")
  local asked = event.attr and event.attr.sample_max_stack or 0
  return ("sample_max_stack%s is above kernel.perf_event_max_stack, %s"):format(
      asked > 0 and (" = %d"):format(asked) or "", most or "?"),
    ("sample_max_stack = %s%s"):format(most or 127, asked > 0
      and ("\n  or: sudo sysctl kernel.perf_event_max_stack=%d"):format(asked) or "")
end

local reasons = {
  [E.EACCES] = no_permission,
  [E.EPERM] = no_permission,
  [E.EMFILE] = too_many_files,
  [E.ENFILE] = function()
    local most = rights.line_of("/proc/sys/fs/file-max")
    return ("the system's table of open files is full (fs.file-max is %s)"):format(most or "unknown"),
      "fewer events\n  or: sudo sysctl fs.file-max=N"
  end,
  [E.EINVAL] = invalid,
  [E.ENOENT] = no_such_event,
  [E.ENODEV] = no_device,
  [E.ESRCH] = nobody_there,
  [E.ENOSPC] = no_room,
  [E.EOPNOTSUPP] = unsupported,
  [E.EOVERFLOW] = too_deep,
  [E.E2BIG] = too_big,
  [E.ENOSYS] = no_syscall,
  [E.EBUSY] = busy,
  [E.ENOMEM] = function()
    local most = tonumber((rights.limit("Max address space")))
    if most then
      return ("our address space may have %s (ulimit -v)"):format(thousands(most)),
        "smaller rings (-m)\n  or: ulimit -v unlimited"
    end
    return "the kernel is out of memory", "smaller rings (-m), fewer events"
  end,
  [E.EBADF] = function(event)
    if event.cgroup then return "the descriptor is closed or is not a cgroup directory", "cgroup = PATH" end
    return "the group leader's descriptor is closed or is not a perf event", "open the leader first"
  end,
  [E.EFAULT] = function() return "an address of the call cannot be read", "check the path or the name" end,
  [E.EINTR] = function() return "a signal interrupted the call", "run it again" end,
}

-- ---- the module ----

-- The event, with the task and CPU where it was refused.
local function at_that_place(failed, event)
  local placed = { pid = failed.pid ~= -1 and failed.pid or nil, cpu = failed.cpu ~= -1 and failed.cpu or nil }
  return setmetatable(placed, { __index = event })
end

-- Refusals of other calls than perf_event_open(2): operation -> errno -> function that returns cause and remedy
local reasons_of_operation = {
  ["watch descriptor"] = { [E.EPERM] = function() -- epoll_ctl(2)
    return "it belongs to a file or a directory, which is always ready", "a socket, a pipe or a terminal"
  end },
  ["list cpus"] = { [E.ENOENT] = function()
    return "sysfs is not mounted; the list of CPUs is there", "mount -t sysfs sysfs /sys"
  end },
  ["map ring"] = { [E.EPERM] = ring_budget },
  ["map AUX area"] = {
    [E.EPERM] = ring_budget,
    [E.EOPNOTSUPP] = function()
      return "the event's PMU has no AUX area",
        "an event of a PMU that traces (intel_pt, intel_bts, arm_spe, cs_etm), or no aux_buffer"
    end,
  },
}

--- The cause of a refusal by the kernel, and the remedy.
-- @tparam integer code   errno
-- @tparam[opt] table failed  the failure's fields, which the core returns behind the errno: `operation`, `pid`, `cpu`,
--   `bytes`
-- @tparam[opt] table event  `attr`, `is_tracepoint`, `cpu_wide`, `pid`, `cpu` of the open; `named` (tracefs
--   has this tracepoint), `tracepoint` (its name), `events`, `cpus`, `threads` (the session's numbers), `group` (the
--   leader's name), `cgroup`
-- @treturn ?string  the cause
-- @treturn ?string  the remedy
function M.cause(code, failed, event)
  local of_operation = failed and reasons_of_operation[failed.operation]
  local find = of_operation and of_operation[code]
  if find then return find(failed) end
  if not reasons[code] then return nil end
  event = event or {}
  return reasons[code](failed and at_that_place(failed, event) or event)
end

--- A message in three parts: the failure, the cause, the remedy.
-- @tparam string what    the core's message, "cannot open cpu-clock on cpu 0"
-- @tparam integer code   errno
-- @tparam[opt] table failed  as in `cause`
-- @tparam[opt] table event   as in `cause`
-- @treturn string
function M.refusal(what, code, failed, event)
  local head = ("%s: %s (%s)"):format(what, core.strerror(code), E[code] or code)
  local why, remedy = M.cause(code, failed, event)
  if not why then return head end
  return ("%s\n  %s\n  try: %s"):format(head, why, remedy)
end

--- A filter that the kernel refused although it is well-formed.
-- @tparam string name    the event's name
-- @tparam string filter
-- @tparam integer code
-- @tparam[opt] string format  the text of the tracepoint's format file
function M.filter(name, filter, code, format)
  local head = ("%s: filter '%s': the kernel refuses it: %s (%s)"):format(name, filter, core.strerror(code),
    E[code] or code)
  if code == E.EEXIST then
    return head .. "\n  this event has a filter already, and the kernel accepts only one for an event"
      .. "\n  try: both conditions in one filter, joined by &&"
  end
  if not format then
    return ("%s\n  %s is not a tracepoint: only tracepoints have fields to filter by\n"
      .. "  try: compare in the callback"):format(head, name)
  end
  local describe = require("perfev.tracepoint.filter").describe
  local fields = describe(require("perfev.tracepoint.filter").fields(format))
  return ("%s\n  a condition is expected on its\n  fields: %s\n  try: a field, an operator, a value, such as "
    .. "common_pid != 1"):format(head, table.concat(fields, "\n    "))
end

--- An event that cannot send a signal; the kernel accepts any signal for the calling process.
function M.signal(what, code)
  return ("%s: %s (%s)\n  a seccomp filter or a security module keeps fcntl(2) from F_SETOWN, F_SETSIG or O_ASYNC\n"
    .. "  try: a session's fd(), which can be polled"):format(what, core.strerror(code), E[code] or "?")
end

-- Why a command cannot run -> cause, remedy; execve(2) returns the same errno for a missing interpreter.
local function looked_at(path, code)
  if code == E.EACCES and core.list(path) then return "it is a directory", "a program in it" end
  if code ~= E.ENOENT or not path:find("/", 1, true) then return nil end
  local interpreter = (core.slurp(path) or ""):match("^#![ \t]*([^%s]+)")
  if not interpreter then return nil end
  return ("its first line asks for %s, which is not there"):format(interpreter), "the interpreter that it needs"
end

--- The message for a command that cannot be run.
-- @tparam string what  "cannot run 'COMMAND'"
-- @tparam integer code
-- @tparam string path  of the command, or its name
function M.command(what, code, path)
  local why, mend = looked_at(path, code)
  if why then return ("%s: %s (%s)\n  %s\n  try: %s"):format(what, core.strerror(code), E[code], why, mend) end
  local remedy = {
    [E.ENOENT] = "the command's name, or its full path",
    [E.EACCES] = "chmod +x, and a file system that is not mounted noexec",
    [E.ENOEXEC] = "a first line such as #!/bin/sh",
    [E.EAGAIN] = "ulimit -u, or the pids.max of our cgroup: no more processes are allowed",
    [E.EMFILE] = "ulimit -n: no more descriptors are allowed",
  }
  return ("%s: %s (%s)%s"):format(what, core.strerror(code), E[code] or code,
    remedy[code] and "\n  try: " .. remedy[code] or "")
end

--- The message for the fallback to the event's user side, as in perf.
function M.user_only(name)
  return ("%s: user side only (:u), because kernel.perf_event_paranoid is %s"):format(
    name, rights.sysctl("perf_event_paranoid") or "unknown")
end

--- The message for a ring smaller than requested: cause and remedy on one line.
-- @tparam string text
-- @tparam table failed  the fields of the failure
function M.smaller_ring(text, failed)
  if failed.errno ~= E.EPERM then return text end
  local locked = rights.limit("Max locked memory")
  return ("%s (%s), ulimit -l (%s) and no CAP_IPC_LOCK; try: sudo sysctl kernel.perf_event_mlock_kb=%d"):format(text,
    rights.sysctl("perf_event_mlock_kb") or "unknown",
    tonumber(locked) and thousands(tonumber(locked)) or locked or "unknown",
    failed.bytes // 1024 + 4)
end

--- The message for the default frequency, lowered to the kernel's current limit.
function M.clamped(name, freq)
  return ("%s: %d Hz instead of perfev's default, which exceeds kernel.perf_event_max_sample_rate"):format(name, freq)
end

--- Why the number of an event's samples differs from its count.
function M.sampled(name, freq)
  return ("%s: samples are counted, %d a second at most, not each\n  try: period = 1"):format(name, freq)
end

--- The right that opening an event needs.
-- @tparam table event  `attr`, `is_tracepoint`, `cpu_wide`
-- @treturn table  `what`, `capability`, and `paranoid`: the highest kernel.perf_event_paranoid that allows it without
function M.needed_right(event)
  local strong = beyond_perfmon(event)
  if strong then return { what = strong, capability = "CAP_SYS_ADMIN" } end
  local level, what = needed_level(event)
  if level == 1 and event.attr.exclude_kernel and event.attr.sample_type & PHYS_ADDR == 0 then
    level, what = 2, "watching the user side"
  end
  return { what = what, paranoid = level, capability = "CAP_PERFMON" }
end

--- The right that an event needs which this machine lacks; nil if its name does not say.
-- @tparam string name  as declared, alternatives included
function M.right_by_name(name)
  local kind = name:match "^(%l+):"
  local probe = kind == "usdt" and "uprobe" or kind and kind:match "^([ku])r?e?t?probe$"
  if probe then return { what = ("a %sprobe"):format(probe:sub(1, 1)), capability = "CAP_SYS_ADMIN" } end
  return name:find "^[%w_*?]+:[%a_*?]" and M.needed_right { is_tracepoint = true } or nil
end

--- How a perfl without root's rights gets them.
M.more_rights = more_rights

return M
