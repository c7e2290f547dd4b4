--- A line each time that a task leaves a CPU, as perf sched timehist.

local escape = require "perfev.base.escape"
local events = require "perfev.tool.sched.events"

local ms = events.milliseconds

-- The process of a sample is -1 if the task was reaped before its last switch.
local function name_of(comm, tid, pid)
  if tid == 0 then return "<idle>" end
  return (tid == pid or pid <= 0) and ("%s[%d]"):format(escape(comm), tid)
    or ("%s[%d/%d]"):format(escape(comm), tid, pid)
end

return function(opt)
  local tasks, switched = {}, {} -- tasks by tid, the idle task of a CPU by -1 - cpu

  local function task_of(key)
    tasks[key] = tasks[key] or {}
    return tasks[key]
  end

  -- Returns the time off the CPU, the part of it since the wakeup, and the time on the CPU.
  local function times_of(task, from, to)
    if not from then return 0, 0, 0 end
    local wait = task.left and task.left <= from and from - task.left or 0
    local delay = task.woken and task.woken <= from and from - task.woken or 0 -- else woken while it ran
    return wait, delay, to - from
  end

  return {
    begin = function()
      print(("%15s %-6s %-24s %9s %9s %9s"):format("TIME(s)", "CPU", "TASK[TID/PID]", "WAIT(ms)", "DELAY(ms)",
        "RUN(ms)"))
    end,
    wakeup = function(time, tid)
      local task = task_of(tid)
      task.woken = task.woken or time
    end,
    switch = function(time, cpu, pid, comm, tid, state)
      local key = tid ~= 0 and tid or -1 - cpu
      local task = task_of(key)
      if not opt.is_chosen or opt.is_chosen(tid, comm) then
        local wait, delay, run = times_of(task, switched[cpu], time)
        print(("%15s [%04d] %-24s %9s %9s %9s"):format(events.seconds(time), cpu, name_of(comm, tid, pid),
          ms(wait), ms(delay), ms(run)))
      end
      task.left, task.woken, switched[cpu] = time, nil, time
      if events.is_dead(state) then tasks[key] = nil end
    end,
  }
end
