-- runqlat: shows how long runnable tasks wait for a CPU, as histograms.
-- perfl -a -d 5s runqlat
-- perfl runqlat --per comm --unit ms -- make

local perfev = require "perfev"
local tool = require "perfev.tool"

local opt = perfev.args {
  summary = "show how long runnable tasks wait for a CPU",
  tool.options.per, tool.options.least, tool.options.interval, tool.options.unit, tool.options.latency_format,
  epilog = [[
A wait is from the wakeup, start or preemption of a task until it runs. The idle
task does not count. The script watches the machine. With -p, -t, --uid, --comm
or a command it counts only those tasks and their children. With --per cgroup a
task that ends at once is (unknown), and a recording is refused.]],
}

local is_chosen = tool.choose_tasks("runqlat", "the waker of a task is another task, on any CPU")

-- A switch ends one kind of wait or the other, so a missing partner in one of them is not a loss.
local report = tool.latency("runqlat", opt, { title = "run queue latency", has_remarks = false,
  per = { comm = "args.next_comm", tid = "args.next_pid", pid = "pid", cgroup = "cgroup" } })

-- prev_state of a preempted task: TASK_RUNNING, or TASK_REPORT_MAX (since 4.14, __trace_sched_switch_state()).
local RUNNING, PREEMPTED = 0, 0x100

local function count_all()
  local not_idle = { "args.next_pid", "!=", 0 }
  -- A wakeup may find its task still on a CPU: then the task does not wait and continues (ttwu_runnable()).
  local woken = report:span { start = tool.WAKEUPS, stop = true, cancel = true,
    start_by = "args.pid", stop_by = "args.next_pid", cancel_by = "args.prev_pid", stop_where = not_idle }
  local preempted = report:span { start = true, stop = true, start_by = "args.prev_pid", stop_by = "args.next_pid",
    start_where = { "and", { "args.prev_state", "in", { RUNNING, PREEMPTED } }, { "args.prev_pid", "!=", 0 } },
    stop_where = not_idle }
  perfev.event { "sched:sched_switch", sample = { woken.stop, woken.cancel, preempted.stop, preempted.start } }
end

local function counts(tid, comm) return tid ~= 0 and (not is_chosen or is_chosen(tid, comm)) end

local function count_chosen()
  local since = {}
  perfev.event { tool.WAKEUPS, fields = { "time", "args.pid", "args.comm" }, sample = function(time, tid, comm)
    if counts(tid, comm) then since[tid] = time end
  end }
  perfev.event { "sched:sched_switch",
    fields = { "time", "args.prev_pid", "args.prev_comm", "args.prev_state", "args.next_pid", "args.next_comm" },
    sample = function(time, prev, name, state, tid, comm)
      if since[tid] then report:add(time - since[tid], tid, comm) end
      since[tid] = nil
      since[prev] = (state == RUNNING or state == PREEMPTED) and counts(prev, name) and time or nil
    end }
end

-- The record of a switch is of the task that leaves, so it lacks the process and the cgroup of the next one.
if is_chosen or opt.per == "pid" or opt.per == "cgroup" then count_chosen() else count_all() end
