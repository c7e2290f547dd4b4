--- The refusals of perf_event_open(2), in the kernel's order, with their errnos.
-- Source: kernel/events/core.c, perf_event_open() and perf_copy_attr(). The attr's own
-- `validate` has the rules for the attr alone; this file has those of the machine and the caller.

local core = require "perfev.core"
local kernels = require "perfev.event.kernel_versions"

local E = core.errno
local SOFTWARE, TRACEPOINT, BREAKPOINT = 1, 2, 5
local READ, RAW, BRANCH_STACK, PHYS_ADDR = 1 << 4, 1 << 10, 1 << 11, 1 << 19
local FD_NO_GROUP, FD_OUTPUT, FLAG_PID_CGROUP, KNOWN_FLAGS = 1, 2, 4, 15
local AUX_PAUSE_RESUME = 6
local SOFTWARE_EVENTS = 12 -- enum perf_sw_ids' PERF_COUNT_SW_MAX
local BREAKPOINT_SLOTS = 4 -- on x86 and most other machines

local M = {}

-- ---- features that an older kernel lacks ----

local version = kernels.number

-- sizeof(struct perf_event_attr), newest first.
local sizes = {
  { "6.19", 144 }, { "6.3", 136 }, { "5.13", 128 }, { "5.5", 120 }, { "4.1", 112 }, { "3.19", 104 },
  { "3.7", 96 }, { "3.4", 80 }, { "2.6", 64 },
}

-- Bits of sample_type and read_format that are known from a version on.
local sample_bits = { { "5.12", 25 }, { "5.11", 24 }, { "5.7", 22 }, { "5.5", 21 }, { "4.14", 20 }, { "3.19", 19 } }
local format_bits = { { "6.0", 5 }, { "2.6", 4 } }
local branch_bits = { { "6.8", 20 }, { "6.1", 19 }, { "5.7", 18 }, { "4.14", 17 }, { "4.5", 16 }, { "4.4", 14 } }

local function since(list, release)
  for _, row in ipairs(list) do
    if release >= version(row[1]) then return row[2] end
  end
  return list[#list][2]
end

local function refuse_newer(k, attr)
  if not k.release then return end
  local release = version(k.release)
  local size = since(sizes, release)
  local bytes = attr:bytes()
  if #bytes > size and bytes:find("[^\0]", size + 1) then
    attr.size = size
    return E.E2BIG
  end
  if attr.sample_type >> since(sample_bits, release) ~= 0 then return E.EINVAL end
  if attr.read_format >> since(format_bits, release) ~= 0 then return E.EINVAL end
  if attr.sample_type & BRANCH_STACK ~= 0 and attr.branch_sample_type >> since(branch_bits, release) ~= 0 then
    return E.EINVAL
  end
  for _, field in ipairs(core.attr_fields()) do
    if field.width < 16 and attr[field.name] and attr[field.name] ~= 0
      and version(field.since) > release then return E.EINVAL end
  end
end

-- ---- the attr itself ----

-- Returns the errno, and true if perf_copy_attr() refuses the attr, which happens before the rights are checked:
-- then a copy without the fields that are checked later is refused as well.
local function refuse_attr(k, attr, pid, cpu)
  local ok, _, errno = attr:validate(pid, cpu)
  if ok or not k.types then return nil end
  local early = attr:copy()
  early.use_clockid, early.clockid, early.sample_period, early.sample_max_stack = false, 0, 0, 0
  early.sample_type = early.sample_type & ~READ
  early.aux_action = early.aux_action & ~AUX_PAUSE_RESUME
  if early.type == BREAKPOINT then early.type = SOFTWARE end
  local fine, _, why = early:validate(0, -1)
  return errno, not fine and why ~= E.EOPNOTSUPP
end

-- ---- the caller's rights ----

local function refuse_caller(k, attr)
  if k.privileged then return end
  local level = k:_paranoid_level()
  if level > 2 then return E.EACCES end -- Debian's and Android's patch
  if level > 1 and not attr.exclude_kernel then return E.EACCES end
  if attr.namespaces then return E.EACCES end
  if attr.sample_type & PHYS_ADDR ~= 0 and level > 1 then return E.EACCES end
end

-- TRACE_EVENT_FL_CAP_ANY: a task may see its own system calls.
local function is_for_anybody(tp)
  return tp and (tp.system == "syscalls" or tp.system == "raw_syscalls")
end

local function refuse_target(k, attr, pid)
  if k.privileged then return end
  if pid == -1 and k:_paranoid_level() > 0 then return E.EACCES end
  if attr.type == TRACEPOINT and attr.sample_type & RAW ~= 0 and k:_paranoid_level() > -1
    and not (pid ~= -1 and is_for_anybody(k.tracepoints[attr.config])) then return E.EPERM end
  local owner = k.owners and k.owners[pid]
  if owner and owner ~= k.uid then return E.EACCES end
end

-- ---- the machine ----

local function refuse_rate(k, attr)
  local most = tonumber(k.files["/proc/sys/kernel/perf_event_max_sample_rate"])
  if attr.freq and most and attr.sample_freq > most then return E.EINVAL end
  local deep = tonumber(k.files["/proc/sys/kernel/perf_event_max_stack"])
  if deep and attr.sample_max_stack > deep then return E.EOVERFLOW end
end

local function refuse_pmu(k, attr, pid)
  if attr.type == SOFTWARE and (attr.config >= SOFTWARE_EVENTS or attr.config < 0) then return E.ENOENT end
  local later = attr.type == SOFTWARE and k.release and kernels.software[attr.config]
  if later and version(later[2]) > version(k.release) then return E.ENOENT end
  local pmu = k.types and k.types[attr.type]
  if k.types and not pmu then return E.ENOENT end
  local tp = k.tracepoints[attr.config]
  if k.types and attr.type == TRACEPOINT and not tp then return E.EINVAL end
  if type(pmu) ~= "table" then return end
  if pmu.sampling == false and attr.sample_period ~= 0 then return E.EOPNOTSUPP end
  if pmu.max_precise and attr.precise_ip > pmu.max_precise then return E.EOPNOTSUPP end
  if pmu.no_exclude and (attr.exclude_user or attr.exclude_kernel or attr.exclude_hv or attr.exclude_idle
    or attr.exclude_guest or attr.exclude_host) then
    return E.EINVAL -- perf_try_init_event(), PERF_PMU_CAP_NO_EXCLUDE, event_has_any_exclude_flag()
  end
  if pmu.branches == false and attr.sample_type & BRANCH_STACK ~= 0 then return E.EOPNOTSUPP end
  if pmu.uncore and pid ~= -1 then return E.EINVAL end
end

-- AUX data in a sample comes from the group's leader, and aux_action pauses the leader's tracing
-- (perf_get_aux_event()).
local function refuse_aux(k, attr, leader)
  if not k.types or attr.aux_sample_size == 0 and not attr.aux_pause and not attr.aux_resume then return end
  local pmu = leader and k.types[leader.attr.type]
  if type(pmu) ~= "table" or not pmu.aux then return E.EINVAL end
end

local function refuse_breakpoint(k, attr, cpu)
  if attr.type ~= BREAKPOINT or not k.types then return end
  if attr.bp_len > 8 then return E.EOPNOTSUPP end -- an x86 without AMD's address masks
  if attr.bp_addr < 0 and k.uid ~= 0 then return E.EPERM end -- the kernel's half requires CAP_SYS_ADMIN
  local used = 0
  for _, event in ipairs(k.events) do
    if event.attr.type == BREAKPOINT and not event.closed and event.cpu == cpu then used = used + 1 end
  end
  if used >= BREAKPOINT_SLOTS then return E.ENOSPC end
end

-- perf_event_alloc() before 6.12
local function refuse_inherited_read(k, attr)
  if k.release and version(k.release) < version "6.12" and attr.inherit and attr.sample_type & READ ~= 0 then
    return E.EINVAL
  end
end

local function refuse_group(k, attr, cpu, leader)
  if leader.leader ~= leader then return E.EINVAL end
  if leader.cpu ~= cpu or leader.attr.clockid ~= attr.clockid or leader.attr.inherit ~= attr.inherit
    or attr.pinned or attr.exclusive or k.fds[leader.fd] ~= leader then return E.EINVAL end
end

-- perf_event_set_output(), for an event without a ring
local function refuse_output(attr, pid, cpu, to)
  if not to.ring or to.cpu ~= cpu or cpu == -1 and to.pid ~= pid or to.attr.clockid ~= attr.clockid
    or to.attr.use_clockid ~= attr.use_clockid or to.attr.write_backward ~= attr.write_backward then
    return E.EINVAL
  end
end

local function refuse_task(k, pid)
  if pid < -1 or k.gone[pid] or k.tasks and pid > 0 and not k:_has_task(pid) then return E.ESRCH end
end

-- A cgroup's directory was opened here, or the descriptor comes from outside and the world has tasks.
local function refuse_cgroup(k, fd)
  local ours = k.fds[fd]
  if ours and ours.kind ~= "directory" or not ours and k.tasks and not k.outside[fd] then return E.EBADF end
end

--- The errno that the kernel returns; nil if it opens the event.
function M.open(k, attr, pid, cpu, group_fd, flags)
  if flags & ~KNOWN_FLAGS ~= 0 then return E.EINVAL end
  local errno = refuse_newer(k, attr)
  if errno then return errno end
  local wrong, early = refuse_attr(k, attr, pid, cpu)
  if early then return wrong end
  errno = refuse_caller(k, attr) or refuse_rate(k, attr) or wrong
  if errno then return errno end
  if flags & FLAG_PID_CGROUP ~= 0 and (pid == -1 or cpu == -1) then return E.EINVAL end
  local named = group_fd ~= -1 and k.fds[group_fd]
  if group_fd ~= -1 and not (named and named.kind == "event") then return E.EBADF end
  local leader = flags & FD_NO_GROUP == 0 and named
  local is_cgroup = flags & FLAG_PID_CGROUP ~= 0
  errno = not is_cgroup and refuse_task(k, pid)
  if errno then return errno end
  if pid == -1 and cpu == -1 or cpu < -1 or cpu > k.last_cpu then return E.EINVAL end
  errno = is_cgroup and refuse_cgroup(k, pid) or refuse_inherited_read(k, attr) or refuse_pmu(k, attr, pid)
    or refuse_aux(k, attr, leader)
    or refuse_breakpoint(k, attr, cpu) or refuse_target(k, attr, is_cgroup and -1 or pid)
  if errno then return errno end
  if cpu >= 0 and not k.online[cpu] then return E.ENODEV end
  errno = leader and refuse_group(k, attr, cpu, leader)
  if errno then return errno end
  return flags & FD_OUTPUT ~= 0 and named and refuse_output(attr, pid, cpu, named) or nil
end

return M
