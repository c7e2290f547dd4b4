--- The scheduler's events, live or of perf sched record, for the reports of this folder.

local session = require "perfev.live.session"

local M = {}

--- The events of wakeups: perf sched record (5.10) records sched_waking instead, perf record only those of its -e.
M.WAKEUPS = "sched:sched_wakeup,sched:sched_wakeup_new | sched:sched_waking,sched:sched_wakeup_new"
  .. " | sched:sched_wakeup | sched:sched_waking"

-- prev_state of a preempted task: TASK_RUNNING, or TASK_REPORT_MAX (since 4.14, __trace_sched_switch_state()).
local RUNNING, PREEMPTED = 0, 0x100
local DEAD = 16 | 32 -- EXIT_DEAD | EXIT_ZOMBIE

--- Returns true for the prev_state of a task that left its CPU and still wants it.
function M.is_runnable(state) return state == RUNNING or state == PREEMPTED end

--- Returns true for the prev_state of a task that has ended.
function M.is_dead(state) return state & DEAD ~= 0 end

--- Passes the events of the default session to a report: a table with the functions
--   switch(time, cpu, pid, prev_comm, prev_tid, prev_state, next_comm, next_tid),
--   begin(), wakeup(time, tid, comm), runtime(ns, tid, comm), finish(); all but the first may be missing.
function M.feed(report)
  local s, switched = session.default(), {} -- switched by CPU: the time of its last switch
  local stat
  if report.begin then s:begin(report.begin) end
  if report.wakeup then
    s:event { M.WAKEUPS, fields = { "time", "args.pid", "args.comm" }, sample = report.wakeup }
  end
  if report.runtime then
    -- The scheduler's own clock. A recording without it has the time between two switches.
    stat = s:event { "sched:sched_stat_runtime", optional = true, fields = { "args.runtime", "args.pid", "args.comm" },
      sample = report.runtime }
  end
  s:event { "sched:sched_switch", fields = { "time", "cpu", "pid", "args.prev_comm", "args.prev_pid",
    "args.prev_state", "args.next_comm", "args.next_pid" },
    sample = function(time, cpu, pid, comm, tid, ...)
      if stat and stat.error and tid ~= 0 and switched[cpu] then report.runtime(time - switched[cpu], tid, comm) end
      switched[cpu] = time
      report.switch(time, cpu, pid, comm, tid, ...)
    end }
  if report.finish then s:done(report.finish) end
end

--- Returns a time in seconds with microseconds, as perf prints it.
function M.seconds(time) return ("%d.%06d"):format(time // 1000000000, time // 1000 % 1000000) end

--- Returns a duration in milliseconds with microseconds, cut as perf does.
function M.milliseconds(ns) return ("%d.%03d"):format(ns // 1000000, ns // 1000 % 1000) end

return M
