--- The delays of each task, from its wakeup or preemption until it runs, as perf sched latency.

local aggregator = require "perfev.base.lazy_module" "perfev.aggregate.aggregator"
local escape = require "perfev.base.escape"
local events = require "perfev.tool.sched.events"
local json = require "perfev.base.json"

local ms = events.milliseconds

local ENDED_MAX = 65536 -- ended tasks with a row of their own; more are added up by comm

-- Adds the values of a task to those of another one.
local function merge(into, task)
  into.nr_tasks = into.nr_tasks + 1
  into.runtime, into.count, into.sum = into.runtime + task.runtime, into.count + task.count, into.sum + task.sum
  if task.max > into.max then into.max, into.from, into.to = task.max, task.from, task.to end
end

local function add_by_comm(by_comm, task)
  local known = by_comm[task.comm]
  if known then merge(known, task) else by_comm[task.comm] = task end
end

-- Returns the tasks of the lists that ran, the one with the largest average delay first.
local function sorted(...)
  local rows = {}
  for _, tasks in ipairs { ... } do
    for _, task in pairs(tasks) do
      if task.count > 0 then rows[#rows + 1] = task end
    end
  end
  table.sort(rows, function(a, b)
    local x, y = a.sum / a.count, b.sum / b.count
    if x ~= y then return x > y end
    if a.tid ~= b.tid then return a.tid < b.tid end
    return a.first < b.first -- the tid was used again
  end)
  return rows
end

local function print_table(rows)
  local runtime, count = 0, 0
  print(("%-20s %11s %5s %7s %7s %12s %12s"):format("TASK", "RUNTIME(ms)", "COUNT", "AVG(ms)", "MAX(ms)", "FROM(s)",
    "TO(s)"))
  for _, row in ipairs(rows) do
    local who = row.nr_tasks > 1 and ("(%d)"):format(row.nr_tasks) or row.tid
    print(("%-20s %11s %5d %7s %7s %12s %12s"):format(("%s:%s"):format(escape(row.comm), who), ms(row.runtime),
      row.count, ms(row.sum // row.count), ms(row.max), row.from and events.seconds(row.from) or "-",
      row.to and events.seconds(row.to) or "-"))
    runtime, count = runtime + row.runtime, count + row.count
  end
  print(("%-20s %11s %5d"):format("total", ms(runtime), count))
end

local function print_json(rows)
  for _, row in ipairs(rows) do
    print(json.encode { comm = row.comm, tid = row.nr_tasks == 1 and row.tid or nil, tasks = row.nr_tasks, unit = "ns",
      runtime = row.runtime, count = row.count, sum = row.sum, max = row.max, from = row.from, to = row.to })
  end
end

return function(opt)
  local tasks, ended, by_comm, nr_tasks = {}, {}, {}, 0 -- tasks by tid

  -- Returns a task and whether it was unknown; nil: it does not count.
  local function find(tid, comm)
    if tid == 0 or opt.is_chosen and not opt.is_chosen(tid, comm) then return nil end
    local task = tasks[tid]
    if task then
      task.comm = comm
      return task, false
    end
    nr_tasks = nr_tasks + 1
    task = { first = nr_tasks, tid = tid, comm = comm, nr_tasks = 1, runtime = 0, count = 0, sum = 0, max = 0 }
    tasks[tid] = task
    return task, true
  end

  local function add_delay(task, time)
    local delay = time - task.since
    if delay < 0 then return end
    task.count, task.sum = task.count + 1, task.sum + delay
    if delay > task.max then task.max, task.from, task.to = delay, task.since, time end
  end

  local function keep(task)
    if opt.per == "comm" or #ended >= ENDED_MAX then add_by_comm(by_comm, task) else ended[#ended + 1] = task end
  end

  return {
    wakeup = function(time, tid, comm)
      local task, is_new = find(tid, comm)
      if not task or not (is_new or task.state == "sleeps") then return end -- woken while it runs or waits
      task.state, task.since = "waits", time
    end,
    runtime = function(ns, tid, comm)
      local task = find(tid, comm)
      if task then task.runtime = task.runtime + ns end
    end,
    switch = function(time, _, _, comm, tid, state, next_comm, next_tid)
      local left = find(tid, comm)
      if left then left.state, left.since = events.is_runnable(state) and "waits" or "sleeps", time end
      if left and events.is_dead(state) then
        tasks[tid] = nil
        if left.count > 0 then keep(left) end
      end
      local task, is_new = find(next_tid, next_comm)
      if not task then return end
      if is_new then task.state, task.since = "waits", time end -- its wait began before the run
      if task.state == "waits" then add_delay(task, time) end
      task.state = "runs"
    end,
    finish = function()
      if opt.per == "comm" then
        for _, task in pairs(tasks) do add_by_comm(by_comm, task) end
        tasks = {}
      end
      local rows = sorted(tasks, ended, by_comm)
      if aggregator.default_form == "json" then print_json(rows) else print_table(rows) end
    end,
  }
end
