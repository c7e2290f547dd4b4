-- syslat: shows how long system calls take, by name, sorted by total time.
-- perfl syslat ls -R /usr/share/doc
-- perfl -a -d 5s syslat --failed --top 10

local perfev = require "perfev"
local tool = require "perfev.tool"
local session = perfev.default_session()

local opt = perfev.args {
  summary = "show how long system calls take, by name",
  { "--failed", help = "count only calls that return an error" },
  { "-T --top", type = "integer", metavar = "N", help = "print only the N with the most time" },
  epilog = [[
Times are in microseconds and include waiting. Calls that do not return before
the end, such as exit_group, do not count.]],
}

-- The number from the entry: at the exit of rt_sigreturn it is gone with its frame.
local took = perfev.quantile {
  by = "start.args.id", unit = "ns", max_keys = 1 << 28, where = opt.failed and { "args.ret", "<", 0 } or nil,
}
local calls = perfev.span { start = true, stop = "raw_syscalls:sys_exit", cancel = true, by = "tid", into = took }
-- A new task with a reused tid first returns from clone, not from the last call of the ended task.
perfev.event { "raw_syscalls:sys_enter", sample = calls.start, exit = calls.cancel }

perfev.done(function()
  tool.print_durations(took, "call", function(row)
    return perfev.syscalls.name(row["start.args.id"], session.machine)
  end, opt.top)
end)
