--- Why the kernel refused, found by looking, and what to do about it.
-- An errno says little (EINVAL has some sixty causes): what can be known is read from
-- /proc and held against the attr. Source: perf_event_open(2), ERRORS; kernel/events/core.c.

local core = require "perfev.core"

local E = core.errno

local function number_of(path)
  return math.tointeger(tonumber((core.slurp(path))))
end

local function status_field(name)
  local status = core.slurp("/proc/self/status") or ""
  return status:match("\n" .. name .. ":%s*(%S+)")
end

-- Bit n of CapEff; nil where it cannot be told.
local function has_capability(n)
  local caps = status_field("CapEff")
  return caps and (tonumber(caps, 16) >> n) & 1 == 1
end

local CAP_SYS_ADMIN, CAP_PERFMON = 21, 38
local READ_MAX = 16 << 10 -- of a group (perf_event_validate_size())

local function is_privileged()
  return has_capability(CAP_PERFMON) or has_capability(CAP_SYS_ADMIN)
end

local setcap = "sudo setcap cap_perfmon,cap_sys_ptrace,cap_syslog=ep $(command -v perfl)"

-- What of this event needs which level of kernel.perf_event_paranoid (perf_copy_attr(),
-- perf_event_open(), perf_trace_event_perm()).
local function needed_level(event)
  if event.is_tracepoint then
    return -1, "a tracepoint's payload"
  elseif event.cpu_wide then
    return 0, "watching a whole CPU"
  end
  return 1, "what happens inside the kernel"
end

-- Whose process it is, when it is somebody else's; watching it needs the right to ptrace it.
local function other_owner(pid)
  local function uid_of(name)
    return (core.slurp("/proc/" .. name .. "/status") or ""):match("\nUid:%s*(%d+)")
  end
  local owner, own = uid_of(pid), uid_of("self")
  return owner ~= own and owner or nil
end

local function no_permission(event)
  if is_privileged() then
    if status_field("Seccomp") == "2" then
      return "a seccomp filter is in force, as in a container, and refuses perf_event_open",
        "run outside of the container, or allow the call in its seccomp profile"
    end
    return "a security module or kernel lockdown refuses it in spite of our capabilities",
      "see /sys/kernel/security/lockdown and the system's log"
  end
  local owner = event.pid and event.pid > 0 and other_owner(event.pid)
  if owner then
    return ("the process belongs to the user with uid %s"):format(owner),
      "run as that user or as root\n  or: " .. setcap
  end
  local level = number_of("/proc/sys/kernel/perf_event_paranoid")
  local needed, what = needed_level(event)
  return ("kernel.perf_event_paranoid is %s; %s needs %d or CAP_PERFMON"):format(level or "unknown", what, needed),
    ("%s\n  or: sudo sysctl kernel.perf_event_paranoid=%d%s"):format(setcap, needed,
      event.cpu_wide and "\n  or: watch a command of your own: -- COMMAND" or "")
end

local function too_many_files(event)
  local limits = core.slurp("/proc/self/limits") or ""
  local soft, hard = limits:match("Max open files%s+(%S+)%s+(%S+)")
  return ("%d descriptors are needed for this event, and %s are allowed (hard limit %s)"):format(
      event.descriptors or 0, soft or "?", hard or "?"),
    "ulimit -n, fewer events, or fewer CPUs (-C)"
end

-- What we know to be wrong with the attr, if it is what the kernel says.
local function refused_attr(event, code)
  if not event.attr then return nil end
  local ok, why, known = event.attr:validate(event.pid or 0, event.cpu or -1)
  return not ok and (known == code and why) or nil
end

local function invalid(event)
  local why = refused_attr(event, E.EINVAL)
  if why then return why, "change that option of the event" end
  if event.attr and event.attr.aux_sample_size ~= 0 then -- perf_get_aux_event()
    return "aux_sample_size is for a member of a group whose leader traces (AUX); a session opens no groups",
      "leave aux_sample_size out"
  end
  local most = number_of("/proc/sys/kernel/perf_event_max_sample_rate")
  if most and event.attr and event.attr.freq and event.attr.sample_freq > most then
    return ("a frequency of %d Hz is above kernel.perf_event_max_sample_rate, %d"):format(
      event.attr.sample_freq, most), "a lower freq, or a period"
  end
  return "the kernel knows none of our reasons to refuse it, so it may be an option newer than this kernel",
    "-vv shows every field that was asked for"
end

local reasons = {
  [E.EACCES] = no_permission,
  [E.EPERM] = no_permission,
  [E.EMFILE] = too_many_files,
  [E.ENFILE] = function()
    return "the system's table of open files is full", "sudo sysctl fs.file-max, or fewer events"
  end,
  [E.EINVAL] = invalid,
  [E.ENOENT] = function()
    return "this machine has no such event or PMU", "perf list shows what there is"
  end,
  [E.ENODEV] = function()
    return "the CPU is not online, or its PMU does not have this event", "-C with another CPU"
  end,
  [E.ESRCH] = function() return "nobody has that number now", "ps -eL shows processes and threads" end,
  [E.ENOSPC] = function() return "all hardware breakpoints are in use", "fewer breakpoints at once" end,
  [E.EOPNOTSUPP] = function(event)
    local why = refused_attr(event, E.EOPNOTSUPP)
    if why then return why, "change that option of the event" end
    return "the PMU cannot do what the event asks for (sampling, branch stacks or precise addresses)",
      "leave that option out, or take a hardware event"
  end,
  [E.EOVERFLOW] = function()
    return ("sample_max_stack is above kernel.perf_event_max_stack, %s"):format(
      number_of("/proc/sys/kernel/perf_event_max_stack") or "?"), "a smaller one"
  end,
  [E.E2BIG] = function(event)
    if (event.read_bytes or 0) > READ_MAX then
      return ("a reading of the whole group would be %d bytes, and the kernel gives %d at most"):format(
        event.read_bytes, READ_MAX), "fewer members, or another read_format"
    end
    return "an option of the event is newer than this kernel", "-vv shows every field"
  end,
  [E.ENOSYS] = function() return "this kernel is built without perf events", "a kernel with CONFIG_PERF_EVENTS" end,
  [E.EBUSY] = function() return "somebody else has the PMU to himself", "end the other session" end,
  [E.ENOMEM] = function() return "the kernel is out of memory", "smaller rings (-m), fewer events" end,
}

local function ring_budget()
  local kb = number_of("/proc/sys/kernel/perf_event_mlock_kb")
  local limits = core.slurp("/proc/self/limits") or ""
  local soft = limits:match("Max locked memory%s+(%S+)")
  return ("over the memory that may be locked: kernel.perf_event_mlock_kb is %s per CPU, ulimit -l is %s bytes")
      :format(kb or "unknown", soft or "?"),
    "a smaller ring (-m), a higher ulimit -l, or CAP_IPC_LOCK"
end

local M = {}

--- A failure in three parts: what, why, what to do.
-- @tparam string what    as the core says it, "cannot open cpu-clock on cpu 0"
-- @tparam integer code   errno
-- @tparam[opt] table event  `attr`, `is_tracepoint`, `cpu_wide`, `pid`, `cpu`, `descriptors`,
--   `read_bytes` (of a group)
-- @treturn string
function M.refusal(what, code, event)
  local head = ("%s: %s (%s)"):format(what, core.strerror(code), E[code] or code)
  local why, remedy
  if code == E.EPERM and what:find("^cannot map") then
    why, remedy = ring_budget()
  elseif code == E.EOPNOTSUPP and what:find("^cannot map an AUX area") then
    why = "the event's PMU has none"
    remedy = "an event of a PMU that traces (intel_pt, intel_bts, arm_spe, cs_etm), or no aux_buffer"
  elseif reasons[code] then
    why, remedy = reasons[code](event or {})
  end
  if not why then return head end
  return ("%s\n  %s\n  try: %s"):format(head, why, remedy)
end

--- An event that cannot send a signal; the kernel itself takes any signal for a process's own self.
function M.signal(what, code)
  return ("%s: %s (%s)\n  a seccomp filter or a security module keeps fcntl(2) from F_SETOWN, F_SETSIG or O_ASYNC\n"
    .. "  try: a session's fd(), which can be polled"):format(what, core.strerror(code), E[code] or "?")
end

--- A command that could not be run.
function M.command(what, code)
  local remedy = {
    [E.ENOENT] = "the command's name, or its full path",
    [E.EACCES] = "chmod +x, and a file system that is not mounted noexec",
    [E.ENOEXEC] = "a first line such as #!/bin/sh",
  }
  return ("%s: %s (%s)%s"):format(what, core.strerror(code), E[code] or code,
    remedy[code] and "\n  try: " .. remedy[code] or "")
end

--- What perfev falls back to and says: the event without the kernel's side, as perf does.
function M.user_only(name)
  return ("%s: user side only (:u), because kernel.perf_event_paranoid is %s"):format(
    name, number_of("/proc/sys/kernel/perf_event_paranoid") or "unknown")
end

return M
