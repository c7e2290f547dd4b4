--- A line for each switch with the tasks of all CPUs, as perf sched map.

local escape = require "perfev.base.escape"
local events = require "perfev.tool.sched.events"

local LETTERS, SECOND = 26, "0123456789abcdefghijklmnopqrstuvwxyz" -- A0, B0, ... Z0, A1, ... Zz, then A0 again

return function(opt)
  local names, shown_comms, nr_names = {}, {}, 0 -- by tid
  local current, cpus = {}, 0 -- by CPU: the short name of its task

  local function new_name()
    local n = nr_names % (LETTERS * #SECOND)
    local digit = n // LETTERS + 1
    nr_names = nr_names + 1
    return string.char(("A"):byte() + n % LETTERS) .. SECOND:sub(digit, digit)
  end

  -- Returns the short name, and a text if it is new or its task has another name now.
  local function name_of(tid, comm)
    if tid == 0 then return ".", "" end
    if opt.is_chosen and not opt.is_chosen(tid, comm) then return "-", "" end
    names[tid] = names[tid] or new_name()
    if shown_comms[tid] == comm then return names[tid], "" end
    shown_comms[tid] = comm
    return names[tid], (" %s => %s:%d"):format(names[tid], escape(comm), tid)
  end

  return {
    switch = function(time, cpu, _, comm, tid, state, next_comm, next_tid)
      local text
      local is_shown = not opt.is_chosen or opt.is_chosen(tid, comm) or opt.is_chosen(next_tid, next_comm)
      current[cpu], text = name_of(next_tid, next_comm)
      cpus = math.max(cpus, cpu + 1)
      if events.is_dead(state) then names[tid], shown_comms[tid] = nil, nil end
      if not is_shown then return end
      local cells = {}
      for i = 0, cpus - 1 do cells[#cells + 1] = ("%s%-2s "):format(i == cpu and "*" or " ", current[i] or "") end
      print(("  %s  %12s secs%s"):format(table.concat(cells), events.seconds(time), text))
    end,
  }
end
