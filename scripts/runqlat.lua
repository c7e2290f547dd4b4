-- runqlat: how long tasks that are ready to run wait for a CPU.
-- perfl -a -d 5s runqlat
-- perfl -a runqlat --per comm --unit ms make

local perfev = require "perfev"
local common = require "perfev.profile.options"

local opt = perfev.args {
  summary = "how long tasks that are ready to run wait for a CPU",
  { "--per", choices = { "comm", "tid" }, metavar = "FIELD", help = "a histogram for each: comm or tid" },
  common.unit,
  epilog = [[
From a wakeup, the start of a task or its preemption to when it has a CPU.
Idle CPUs wait for nothing.]],
}

common.needs_all("runqlat", "who wakes a task is another one, on any CPU")

local columns = { comm = "args.next_comm", tid = "args.next_pid" }
local spec = { by = columns[opt.per], unit = opt.unit, title = "run queue latency", max_keys = 1 << 20 }
local took, all = perfev.hist(spec), perfev.hist(spec)
local not_idle = { "args.next_pid", "!=", 0 }

-- perf sched record has sched_waking instead (5.10), and perf record what it was told to.
local wakeups = "sched:sched_wakeup,sched:sched_wakeup_new | sched:sched_waking,sched:sched_wakeup_new"
  .. " | sched:sched_wakeup | sched:sched_waking"
-- A wakeup may find its task on a CPU still: then it waits for none, and its turn goes on (ttwu_runnable()).
local woken = perfev.span { start = wakeups, stop = true, cancel = true,
  start_by = "args.pid", stop_by = "args.next_pid", cancel_by = "args.prev_pid", stop_where = not_idle, into = took }
-- Preempted, as prev_state has it: TASK_RUNNING, or TASK_REPORT_MAX (since 4.14, __trace_sched_switch_state()).
local preempted = perfev.span { start = true, stop = true, start_by = "args.prev_pid", stop_by = "args.next_pid",
  start_where = { "and", { "args.prev_state", "in", { 0, 0x100 } }, { "args.prev_pid", "!=", 0 } },
  stop_where = not_idle, into = took }
perfev.event { "sched:sched_switch", sample = { woken.stop, woken.cancel, preempted.stop, preempted.start } }

-- A switch ends the one wait or the other: what has no partner in one of the two is no loss.
perfev.done(function() all:merge(took):print() end)
