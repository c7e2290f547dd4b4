--- The tasks that a script counts while it watches the whole machine: those of -p, -t, --uid and --comm, or the
-- command, and their children. The session watches the machine because another task causes a wakeup or a switch.

local core = require "perfev.core"
local processes = require "perfev.event.processes"
local session = require "perfev.live.session"

local M = {}

local function set_of(list)
  local set = {}
  for _, one in ipairs(list or {}) do set[one] = true end
  return set
end

local function has_choice(choice)
  return choice.pid or choice.tid or choice.uid or choice.comm or choice.command and not choice.all_cpus
end

-- Returns a set of the pids of the chosen processes, the command included.
local function find_processes(s, choice, refuse)
  local pids = set_of(choice.pid)
  for pid in pairs(choice.input and {} or pids) do
    if not core.threads(pid) then refuse(("no such process: %d\n  try: ps -e"):format(pid)) end
  end
  if choice.uid and not choice.input then
    local list, why = processes.select { uid = choice.uid }
    if not list then refuse(why) end
    pids = set_of(list)
  end
  if s.child and choice.command and not (choice.pid or choice.tid or choice.uid or choice.comm) then
    pids[s.child:pid()] = true
  end
  return pids
end

--- If the command line chooses tasks, makes the default session watch the machine.
-- @tparam function refuse  f(why): ends the script
-- @treturn ?function       f(tid, comm) -> boolean: whether the task was chosen; nil: all tasks count
function M.tasks(refuse)
  local choice = session.named_targets and session.named_targets() or {}
  if not has_choice(choice) then return nil end
  local s = session.default()
  local is_named = choice.comm and processes.matcher(choice.comm)
  local pids, tids, known, left = {}, set_of(choice.tid), {}, 0
  s.watches_machine = true
  s:begin(function()
    pids = find_processes(s, choice, refuse)
    for _ in pairs(pids) do left = left + 1 end
  end)
  local function is_chosen(tid, comm)
    if tid == 0 then return false end -- idle
    if is_named then return is_named(comm) end
    if known[tid] == nil then
      local task = not pids[tid] and s:task(tid)
      if task == nil then return tids[tid] or false end -- its records may still come: not remembered
      known[tid] = tids[tid] or pids[tid] or pids[task.pid] or false
    end
    return known[tid]
  end
  if not is_named then
    s:event {
      fork = function(r) known[r.tid] = tids[r.tid] or is_chosen(r.ptid) or is_chosen(r.ppid) end,
      exit = function(r)
        if not pids[r.tid] then return end
        left = left - 1
        if left > 0 or choice.command or choice.input or choice.tid then return end
        s:every("20ms", function() s:stop() end) -- its last switch is still to come
      end,
    }
  end
  return is_chosen
end

return M
