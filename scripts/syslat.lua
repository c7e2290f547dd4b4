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
  tool.options.per, tool.options.least, tool.options.interval, tool.options.latency_format,
  output = [[
Prints a line for each CALL: its COUNT, and the total, average, median, 99th
percentile and maximum in microseconds.]],
  epilog = [[
Times are in microseconds and include waiting. Calls that do not return before
the end, such as exit_group, do not count.]],
}

local function call_name(id) return perfev.syscalls.name(id, session.machine) end

-- The number from the entry: at the exit of rt_sigreturn it is gone with its frame.
local report = tool.latency("syslat", opt, { title = "system call latency", by = { "start.args.id" },
  names = { ["start.args.id"] = call_name }, where = opt.failed and { "args.ret", "<", 0 } or nil,
  column = "call", name = function(row) return call_name(row["start.args.id"]) end,
  per = { comm = "comm", pid = "pid", tid = "tid", cgroup = "cgroup" } })
local calls = report:span { start = true, stop = "raw_syscalls:sys_exit", cancel = true, by = "tid" }
-- A new task with a reused tid first returns from clone, not from the last call of the ended task.
perfev.event { "raw_syscalls:sys_enter", sample = calls.start, exit = calls.cancel }
