--- How a budget counts an event, and which counts do not depend on the load of the machine.

local lazy = require "perfev.base.lazy_module"
local check = require "perfev.base.check"
local core = require "perfev.core"
local grammar = lazy "perfev.event.grammar"
local resolve = lazy "perfev.event.resolve"
local system_calls = require "perfev.tracepoint.syscalls"

local M = {}

local E = core.errno
local SOFTWARE, TRACEPOINT = 1, 2 -- PERF_TYPE_*

-- Calls that `syscalls` leaves out: how often a program makes them depends on other tasks, on the layout of memory or
-- on the heap's earlier use. A budget can limit each of them by its name.
local MEMORY = "depends on the heap, which earlier work has left behind"
M.left_out = {
  futex = "depends on how threads meet", sched_yield = "depends on other tasks",
  restart_syscall = "continues a call that a signal interrupted, which is counted",
  rt_sigreturn = "ends a signal handler",
  brk = MEMORY, munmap = MEMORY, mremap = MEMORY, madvise = MEMORY, mprotect = MEMORY,
  ["mmap of memory"] = MEMORY,
}

-- Events whose counts follow time, placement or other tasks.
local unstable_names = {
  ["task-clock"] = "a time", ["cpu-clock"] = "a time", ["cpu-migrations"] = "the scheduler's choice",
  migrations = "the scheduler's choice", ["major-faults"] = "what the page cache holds",
  ["cgroup-switches"] = "the scheduler's choice",
}
local unstable_systems = {
  sched = true, irq = true, irq_vectors = true, timer = true, rcu = true, workqueue = true, ipi = true, tlb = true,
  power = true, block = true, writeback = true, vmscan = true, compaction = true, task = true,
}
local stable_hardware = { instructions = true, branches = true, ["branch-instructions"] = true }
local switches = { ["context-switches"] = true, cs = true }

-- "instructions:u" -> "instructions", "u"
local function split_modifiers(name)
  local base, modifiers = name:match "^([^:]+):(%l+)$"
  if base and grammar.modifiers(modifiers) then return base, modifiers end
  return name, ""
end

local function names_of_calls()
  local names = {}
  for _, name in pairs(system_calls.of()) do names[#names + 1] = name end
  table.sort(names)
  return names
end

local is_call
local function check_call(call)
  if not is_call then
    is_call = {}
    for _, name in ipairs(names_of_calls()) do is_call[name] = true end
  end
  if is_call[call] or not next(is_call) then return true end
  local hint, near = check.hint(call, names_of_calls())
  return nil, ("event 'syscalls:%s'\n  this machine has no system call '%s'%s\n  try: syscalls:%s"):format(call, call,
    hint, near or "openat")
end

-- A tracepoint of a system call is counted by its name, and not as a call.
local function call_of(name)
  local call = name:match "^syscalls:([%w_]+)$"
  return call and not call:find "^sys_e[nx][ti]" and call or nil
end

-- Why the count of an event depends on the load -> a text, or nil
local function dependence(base, modifiers, found)
  if unstable_names[base] then return unstable_names[base] end
  if found.type == SOFTWARE then return nil end
  if found.type == TRACEPOINT then
    return unstable_systems[base:match "^([^:]+):"] and "the work of the kernel for all tasks" or nil
  end
  if stable_hardware[base] then
    return modifiers ~= "u" and "interrupts, which the kernel's side includes" or nil
  end
  local is_probe = base:find "^[ku]r?e?t?probe:" or base:find "^usdt:"
  return not is_probe and "caches, frequency and other tasks" or nil
end

local function refuse_unstable(name, base, why)
  local remedy = stable_hardware[base] and ("'%s:u', or unstable = true ('unstable true' in a file)"):format(base)
    or "unstable = true ('unstable true' in a file)"
  return nil, ("event '%s'\n  its count depends on the load of the machine: %s\n  try: %s"):format(name, why, remedy)
end

--- Decides how an event is counted.
-- @tparam string name
-- @tparam boolean unstable  accept counts that depend on the load
-- @treturn[1] table  `how`: "calls" (all system calls), "call" (`call`: its name), "switches", "samples" (each is a
--   record; `side`: only "user" or "kernel") or "counter"; `event`: the event string; `error`: why this user or machine
--   cannot count it
-- @treturn[2] nil
-- @treturn[2] string  why it is invalid or refused
function M.classify(name, unstable)
  if name == "syscalls" then return { how = "calls" } end
  local call = call_of(name)
  if call then
    local ok, why = check_call(call)
    if not ok then return nil, why end
    return { how = "call", call = call }
  end
  local base, modifiers = split_modifiers(name)
  if switches[base] and modifiers == "" then return { how = "switches" } end
  if unstable_names[base] and not unstable then return refuse_unstable(name, base, unstable_names[base]) end
  local resolved, why, code = resolve.all(name)
  if not resolved then
    if code == E.ENOENT or code == E.EINVAL then
      local near = core.nearest(name, { "syscalls", "context-switches" })
      return nil, near and ("event '%s': no such event (did you mean '%s'?)\n  try: %s"):format(name, near, near) or why
    end
    return { how = "samples", event = name, error = why }
  end
  local found = resolved[1][1][1]
  if #resolved[1] > 1 or #resolved[1][1] > 1 then
    return nil, ("event '%s'\n  it names several events, and a limit is for one\n  try: a line for each"):format(name)
  end
  local dependent = dependence(base, modifiers, found)
  if dependent and not unstable then return refuse_unstable(name, base, dependent) end
  local side = modifiers == "u" and "user" or modifiers == "k" and "kernel" or nil
  -- One event counts both sides: since Linux 6.3 a record of a second software event of the same kind has the first
  -- one's id (perf_prepare_sample(), which keeps what do_perf_sw_event() shares among events).
  if found.type == SOFTWARE and side and not base:find "%-clock$" then
    return { how = "samples", event = base, side = side }
  end
  local is_sampled = (found.type == SOFTWARE and not base:find "%-clock$") or found.type == TRACEPOINT
  return { how = is_sampled and "samples" or "counter", event = name }
end

return M
