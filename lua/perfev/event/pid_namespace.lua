--- Detects whether this process is in the initial pid namespace, or in another one, as in a container.
-- Records have pids of the namespace in which the event was opened (perf_event_pid_type()), and 0, the idle task's pid,
-- for tasks outside that namespace. Fields of tracepoints, and values in filters, are pids of the initial namespace.

local core = require "perfev.core"

local M = {}

local INITIAL = "pid:[4026531836]" -- PROC_PID_INIT_INO of include/linux/proc_ns.h

--- Returns true in the initial namespace, false in another one, nil without /proc.
function M.is_initial()
  local link = core.readlink("/proc/self/ns/pid")
  return link and link == INITIAL
end

return M
