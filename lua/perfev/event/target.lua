--- Whom an event watches: what pid, tid, command, cpus and the like come to.
-- A target is pids x cpus, as perf_event_open(2) takes them. Sessions and counters find theirs here, each
-- with a verb of its own; whoever has the target holds its command too.

local lazy = require "perfev.base.lazy_module"
local cgroups = lazy "perfev.event.cgroup"
local core = require "perfev.core"
local explain = lazy "perfev.event.explain_refusal"
local options = require "perfev.base.options"
local processes = require "perfev.event.processes"

local M = {}

local E = core.errno

-- The threads of every process named; those that have ended are no fault while one is left.
-- -> tids, processes that have ended | nil, message, errno
local function threads_of(pids, verb)
  local tids, gone, ended = {}, nil, {}
  for _, pid in ipairs(pids) do
    local own = pid == 0 or pid == core.pid()
    local list, what, code = core.threads(own and core.pid() or pid)
    if own and verb == "count" and (not list or #list == 1) then
      list = { 0 } -- the calling thread, and no other: what a counter page is good for
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

local function online()
  local cpus, what, code = core.cpus()
  if cpus then return cpus end
  return nil, explain.refusal(what, code, { operation = "list cpus" }), code
end

-- Those of the one list that the other has not.
local function missing(list, from)
  local has, out = {}, {}
  for _, cpu in ipairs(from) do has[cpu] = true end
  for _, cpu in ipairs(list) do
    if not has[cpu] then out[#out + 1] = cpu end
  end
  return out
end

-- Who names a CPU means that one. (Of all that are online, one that goes in this moment is left out.)
local function check_named(cpus, verb)
  local present = core.cpus()
  local absent = present and missing(cpus, present)[1]
  if not absent then return cpus end
  return nil, explain.refusal(("cannot %s cpu %d"):format(verb, absent), E.ENODEV, nil, { cpu = absent }), E.ENODEV
end

-- Those that pid, uid and comm select -> pids | nil, message, errno
local function select_processes(holder, opts)
  if not (opts.uid or opts.comm) then return opts.pid end
  local pids, why, code = processes.select(opts)
  if not pids then return nil, why, code end
  holder:_log(0, ("%d process%s %s"):format(#pids, #pids == 1 and "" or "es", processes.describe(opts)))
  return pids
end

-- A cgroup's path -> its directory; a descriptor of it is the caller's.
local function find_cgroup(cgroup, cpus)
  if type(cgroup) ~= "string" then return { pids = { cgroup }, cpus = cpus, cgroup = true } end
  local directory, why, code = cgroups.find(cgroup)
  if not directory then return nil, why, code end
  return { pids = { -1 }, cpus = cpus, cgroup = directory }
end

--- Whether processes are named: beside them a command says how long, as beside a CPU, and is not watched.
function M.has_others(opts) return opts.pid or opts.tid or opts.uid or opts.comm end

--- Find whom the options name; the command is started, and held.
-- @tparam table holder  gets the command as `child`, also when the rest fails
-- @tparam table opts    as `perfev.options.take` gives them, and `cgroup`
-- @tparam string verb   "watch": every event is of a CPU, as rings are; "count": of tasks wherever
--   they run, unless cpus are named
-- @treturn[1] table     `pids`, `cpus`, `cgroup`, `on_exec`: the command alone, not running yet; `ended`: processes
--   that were named and are not there
-- @treturn[2] nil
-- @treturn[2] string
-- @treturn[2] integer errno
function M.find(holder, opts, verb)
  local wide = opts.cgroup or options.is_cpu_wide(opts)
  local cpus, why, code = opts.cpus
  if cpus then
    cpus, why, code = check_named(cpus, verb)
  elseif wide or verb == "watch" then
    cpus, why, code = online()
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
    if pids then pids, why, code = threads_of(pids, verb) end
    if not pids then return nil, why, code end
    ended = not (opts.uid or opts.comm) and why or nil -- of a choice, they are none any more
  end
  for _, tid in ipairs(opts.tid or {}) do pids[#pids + 1] = tid end
  local is_command = holder.child and not M.has_others(opts)
  if is_command then pids[1] = holder.child:pid() end
  return { pids = options.each_once(pids), cpus = cpus or { -1 }, on_exec = is_command, ended = ended }
end

local PF_EXITING = 0x4 -- include/linux/sched.h

--- Whether a process runs, and is not about to end.
function M.is_running(pid)
  local stat = core.slurp(("/proc/%d/stat"):format(pid)) or ""
  local state, flags = stat:match("^.*%)%s*(%a)%s+%-?%d+%s+%-?%d+%s+%-?%d+%s+%-?%d+%s+%-?%d+%s+(%d+)")
  return flags ~= nil and state ~= "Z" and state ~= "X" and tonumber(flags) & PF_EXITING == 0
end

-- For how long the events of each CPU were on.
local function times_on(session, cpus)
  local times = {}
  for i, cpu in ipairs(cpus) do times[i] = session:time_on(cpu) end
  return times
end

--- CPUs that were offline for a while: an event does not come back with its CPU. One that is on is on for longer at
-- each look; where none is on anywhere, nothing is known.
-- @tparam userdata session  of the core, its events not disabled yet
-- @treturn {integer,...}
function M.stalled(target, session)
  local before = times_on(session, target.cpus)
  local after, out = times_on(session, target.cpus), {}
  for i, cpu in ipairs(target.cpus) do
    if before[i] == after[i] then out[#out + 1] = cpu end
  end
  return #out < #target.cpus and out or {}
end

--- What became of the CPUs of a target that was all of those online.
-- @tparam {integer,...} stalled  of `stalled`
-- @treturn {string,...}  sentences
function M.changes(target, stalled)
  local lines, present = {}, core.cpus()
  for _, cpu in ipairs(present and missing(stalled, missing(stalled, present)) or {}) do
    lines[#lines + 1] = ("cpu %d went offline and came back: its later records are missing"):format(cpu)
  end
  for _, cpu in ipairs(present and missing(target.cpus, present) or {}) do
    lines[#lines + 1] = ("cpu %d went offline: its records until then are included"):format(cpu)
  end
  for _, cpu in ipairs(present and missing(present, target.cpus) or {}) do
    lines[#lines + 1] = ("cpu %d came online meanwhile, and was not watched"):format(cpu)
  end
  return lines
end

--- A session's target as its counters have it; a counter of tasks needs no CPU, as it has no ring.
function M.of_session(s)
  local opts, wide = s.opts, options.is_cpu_wide(s.opts)
  return {
    pids = s.target.pids, cpus = (wide or opts.cpus) and s.target.cpus or { -1 }, cgroup = s.target.cgroup,
    on_exec = s.child and not wide and not M.has_others(opts) and not s.running,
  }
end

--- Whether it is tasks, and not whole CPUs or a cgroup.
function M.is_tasks(target) return target.pids[1] >= 0 and not target.cgroup end

--- Whether it is the calling thread, and nothing else.
function M.is_here(target)
  return #target.pids == 1 and target.pids[1] == 0 and #target.cpus == 1 and target.cpus[1] == -1
end

return M
