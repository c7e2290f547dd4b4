--- Finds the target of a session or a counter: the pids and CPUs that pid, tid, command, cpus and the like select.
-- A target is pids x cpus, as perf_event_open(2) takes them. The command is started here; the session or counter
-- owns it. Messages name the caller's verb, "watch" or "count".

local lazy = require "perfev.base.lazy_module"
local cgroups = lazy "perfev.event.cgroup"
local core = require "perfev.core"
local explain = lazy "perfev.event.explain_refusal"
local options = require "perfev.base.options"
local processes = lazy "perfev.event.processes"

local M = {}

local E = core.errno

-- Lists the threads of processes. It fails only if every process has ended.
-- -> tids, processes that have ended | nil, message, errno
local function list_threads(pids, verb)
  local tids, gone, ended = {}, nil, {}
  for _, pid in ipairs(pids) do
    local own = pid == 0 or pid == core.pid()
    local list, what, code = core.threads(own and core.pid() or pid)
    if own and verb == "count" and (not list or #list == 1) then
      list = { 0 } -- the calling thread only, so that its counter can be read from the mmap page
    end
    if list then
      table.move(list, 1, #list, #tids + 1, tids)
    else
      gone = gone or { what, code }
      ended[#ended + 1] = pid
    end
  end
  if #tids > 0 then return tids, ended end
  return nil, explain.refusal(("cannot %s %s"):format(verb, gone[1]), gone[2], nil, { pid = ended[1] }), gone[2]
end

local function list_online()
  local cpus, what, code = core.cpus()
  if cpus then return cpus end
  return nil, explain.refusal(what, code, { operation = "list cpus" }), code
end

-- Returns the CPUs of a list that are not in the other.
local function subtract(list, from)
  local has, out = {}, {}
  for _, cpu in ipairs(from) do has[cpu] = true end
  for _, cpu in ipairs(list) do
    if not has[cpu] then out[#out + 1] = cpu end
  end
  return out
end

-- Refuses a CPU that the user named and that is offline. (If all online CPUs are watched, one that goes offline
-- meanwhile is skipped.)
local function check_online(cpus, verb)
  local present = core.cpus()
  local absent = present and subtract(cpus, present)[1]
  if not absent then return cpus end
  return nil, explain.refusal(("cannot %s cpu %d"):format(verb, absent), E.ENODEV, nil, { cpu = absent }), E.ENODEV
end

-- Selects processes by pid, uid and comm -> pids | nil, message, errno
local function select_processes(holder, opts)
  if not (opts.uid or opts.comm) then return opts.pid end
  local pids, why, code = processes.select(opts)
  if not pids then return nil, why, code end
  holder:_log(0, ("%d process%s %s"):format(#pids, #pids == 1 and "" or "es", processes.describe(opts)))
  return pids
end

-- Turns a cgroup's path, or the caller's descriptor of its directory, into a target.
local function find_cgroup(cgroup, cpus)
  if type(cgroup) ~= "string" then return { pids = { cgroup }, cpus = cpus, cgroup = true } end
  local directory, why, code = cgroups.find(cgroup)
  if not directory then return nil, why, code end
  return { pids = { -1 }, cpus = cpus, cgroup = directory }
end

--- True if the options name processes. Then a command only sets the duration, as with cpus, and is not watched.
function M.has_processes(opts) return opts.pid or opts.tid or opts.uid or opts.comm end

--- Finds the target that the options select, and starts the command.
-- @tparam table holder  owns the command as `child`, also if a later step fails
-- @tparam table opts    from `perfev.options.take`, and `cgroup`
-- @tparam string verb   "watch": every event is bound to a CPU, as rings are; "count": events follow tasks to any
--   CPU, unless cpus are named
-- @treturn[1] table     `pids`, `cpus`, `cgroup`, `on_exec` (the target is the command, which does not run yet),
--   `ended` (named processes that do not exist)
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.find(holder, opts, verb)
  local wide = opts.cgroup or options.is_cpu_wide(opts)
  local cpus, why, code = opts.cpus
  if cpus then
    cpus, why, code = check_online(cpus, verb)
  elseif wide or verb == "watch" then
    cpus, why, code = list_online()
  end
  if why then return nil, why, code end
  local cgroup
  if opts.cgroup then
    cgroup, why, code = find_cgroup(opts.cgroup, cpus)
    if not cgroup then return nil, why, code end
  end
  if opts.command then
    holder.child, why, code = core.spawn(opts.command)
    if not holder.child then return nil, explain.command(why, code, opts.command[1]), code end
  end
  if wide then return cgroup or { pids = { -1 }, cpus = cpus } end
  local pids, ended = {}, nil
  if opts.pid or opts.uid or opts.comm then
    pids, why, code = select_processes(holder, opts)
    if pids then pids, why, code = list_threads(pids, verb) end
    if not pids then return nil, why, code end
    ended = not (opts.uid or opts.comm) and why or nil -- a process selected by user or name may end meanwhile
  end
  for _, tid in ipairs(opts.tid or {}) do pids[#pids + 1] = tid end
  local is_command = holder.child and not M.has_processes(opts)
  if is_command then pids[1] = holder.child:pid() end
  return { pids = options.each_once(pids), cpus = cpus or { -1 }, on_exec = is_command, ended = ended }
end

local PF_EXITING = 0x4 -- include/linux/sched.h

--- True if a process runs and is not exiting.
function M.is_running(pid)
  local stat = core.slurp(("/proc/%d/stat"):format(pid)) or ""
  local state, flags = stat:match("^.*%)%s*(%a)%s+%-?%d+%s+%-?%d+%s+%-?%d+%s+%-?%d+%s+%-?%d+%s+(%d+)")
  return flags ~= nil and state ~= "Z" and state ~= "X" and tonumber(flags) & PF_EXITING == 0
end

-- Reads how long the events of each CPU were enabled.
local function read_times_on(session, cpus)
  local times = {}
  for i, cpu in ipairs(cpus) do times[i] = session:time_on(cpu) end
  return times
end

--- Lists the CPUs whose events have stopped. An event stays off when its CPU comes back online, so its enabled time
-- does not grow between two reads. If no time grows on any CPU, the list is empty: events may be disabled.
-- @tparam userdata session  from the core, its events still enabled
-- @treturn {integer,...}
function M.stalled(target, session)
  local before = read_times_on(session, target.cpus)
  local after, out = read_times_on(session, target.cpus), {}
  for i, cpu in ipairs(target.cpus) do
    if before[i] == after[i] then out[#out + 1] = cpu end
  end
  return #out < #target.cpus and out or {}
end

--- Reports the CPUs that went offline or came online while all CPUs were watched.
-- @tparam {integer,...} stalled  from `stalled`
-- @treturn {string,...}  sentences
function M.changes(target, stalled)
  local lines, present = {}, core.cpus()
  for _, cpu in ipairs(present and subtract(stalled, subtract(stalled, present)) or {}) do
    lines[#lines + 1] = ("cpu %d went offline and came back: its later records are missing"):format(cpu)
  end
  for _, cpu in ipairs(present and subtract(target.cpus, present) or {}) do
    lines[#lines + 1] = ("cpu %d went offline: its records until then are included"):format(cpu)
  end
  for _, cpu in ipairs(present and subtract(present, target.cpus) or {}) do
    lines[#lines + 1] = ("cpu %d came online meanwhile and was not watched"):format(cpu)
  end
  return lines
end

--- Returns the target for a session's counters. A counter of tasks is not bound to a CPU, as it has no ring.
function M.of_session(session)
local opts, wide = session.opts, options.is_cpu_wide(session.opts)
  return {
    pids = session.target.pids, cpus = (wide or opts.cpus) and session.target.cpus or { -1 },
    cgroup = session.target.cgroup,
    on_exec = session.child and not wide and not M.has_processes(opts) and not session.running,
  }
end

--- True if a target is tasks, not whole CPUs or a cgroup.
function M.is_tasks(target) return target.pids[1] >= 0 and not target.cgroup end

--- True if a target is the calling thread only.
function M.is_calling_thread(target)
  return #target.pids == 1 and target.pids[1] == 0 and #target.cpus == 1 and target.cpus[1] == -1
end

return M
