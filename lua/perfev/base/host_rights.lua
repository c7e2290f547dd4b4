--- Reads from /proc and /sys the rights of this process and the settings of the machine that limit perf events.

local core = require "perfev.core"

local E = core.errno
local SOFTWARE, DUMMY = 1, 9
local CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_SYSLOG, CAP_PERFMON = 19, 21, 34, 38
local DEVICES = "/sys/bus/event_source/devices"

local M = {}

function M.number_of(path)
  return math.tointeger(tonumber((core.slurp(path))))
end

function M.line_of(path)
  return (core.slurp(path) or ""):match("^[^\n]+")
end

function M.sysctl(name)
  return M.number_of("/proc/sys/kernel/" .. name)
end

function M.status_field(name)
  local status = core.slurp("/proc/self/status") or ""
  return status:match("\n" .. name .. ":%s*(%S+)")
end

-- A row of /proc/self/limits -> soft limit, hard limit
function M.limit(name)
  local limits = core.slurp("/proc/self/limits") or ""
  return limits:match(name .. "%s+(%S+)%s+(%S+)")
end

-- True in a user namespace, such as a rootless container's. Its root has capabilities only in the namespace, but perf
-- events need them in the initial one (perfmon_capable()).
function M.in_user_namespace()
  local map = core.slurp("/proc/self/uid_map")
  return map ~= nil and not map:find("^%s*0%s+0%s+4294967295%s*$")
end

-- True if system calls of this process have capability n in the initial user namespace; nil if /proc is missing. A
-- perfl with file capabilities drops them and raises them only around the calls that need them.
function M.has_capability(n)
  local caps = M.status_field("CapEff")
  return caps and ((tonumber(caps, 16) | core.held_capabilities()) >> n) & 1 == 1 and not M.in_user_namespace()
end

function M.is_privileged()
  return M.has_capability(CAP_PERFMON) or M.has_capability(CAP_SYS_ADMIN)
end

-- True if the kernel refuses even a dummy event without the kernel's side, which needs the least rights.
function M.nothing_allowed()
  local least = core.attr_new { type = SOFTWARE, config = DUMMY, exclude_kernel = true, exclude_hv = true }
  local ok, code = core.probe(least, 0, -1)
  return not ok and (code == E.EACCES or code == E.EPERM or code == E.ENOSYS)
end

function M.is_filtered() return M.status_field("Seccomp") == "2" end

-- Why the kernel's addresses are hidden from this user: kallsyms_show_value() in kernel/ksyms_common.c.
-- -> the sysctl that hides them, its value or nil, the settings that show them, true if root sees them without
function M.why_symbols_are_hidden()
  local restrict, paranoid = M.sysctl("kptr_restrict"), M.sysctl("perf_event_paranoid")
  local may_ask = M.has_capability(CAP_SYSLOG)
  if restrict == 2 and may_ask then return "kptr_restrict", 2, "kernel.kptr_restrict=1", false end
  if restrict == 0 then return "perf_event_paranoid", paranoid, "kernel.perf_event_paranoid=1", not may_ask end
  local also = paranoid and paranoid > 1 and " kernel.perf_event_paranoid=1" or ""
  return "kptr_restrict", restrict, "kernel.kptr_restrict=0" .. also, restrict ~= 2 and not may_ask
end

-- Why /proc hides the processes of other users, and the remedy; nil if it shows them.
function M.why_processes_are_hidden()
  if core.list("/proc/self/task") then
    local opts = "" -- options of the topmost mount
    for mounted in (core.slurp("/proc/mounts") or ""):gmatch("%S+ /proc proc (%S+)") do opts = mounted end
    if not opts:find("hidepid=[^0o]") or M.has_capability(CAP_SYS_PTRACE) then return nil end
    return "/proc hides the processes of other users (it is mounted with hidepid)", "as root"
  elseif #(core.list("/proc") or {}) == 0 then
    return "/proc is not mounted here", "mount -t proc proc /proc"
  end
end

function M.no_core_pmu()
  for _, name in ipairs(core.list(DEVICES) or {}) do
    if name == "cpu" or name:find("^cpu_") or name:find("^armv%d") or name:find("^cpum_") then return false end
  end
  return true
end

return M
