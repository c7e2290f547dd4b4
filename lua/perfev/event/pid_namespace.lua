--- Which numbers tasks have here: the machine's, or those of a pid namespace of our own, as in a container.
-- A record has those of who opened the event (perf_event_pid_type()); tasks outside have none, and are told with the
-- idle task's, 0. The fields of tracepoints, and what filters compare, are the machine's in either case.

local core = require "perfev.core"

local M = {}

local INITIAL = "pid:[4026531836]" -- PROC_PID_INIT_INO of include/linux/proc_ns.h

--- true: the machine's; false: those of a namespace; nil: it cannot be told, without /proc.
function M.is_machine()
  local link = core.readlink("/proc/self/ns/pid")
  return link and link == INITIAL
end

return M
