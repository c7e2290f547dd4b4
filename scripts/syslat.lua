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

local function row(call, ...)
  print(("%-20s %7s %10s %9s %9s %9s %9s"):format(call, ...))
end

local function us(ns) return ("%.1f"):format(ns / 1000) end

perfev.done(function()
  local rows = took:rows()
  table.sort(rows, function(a, b)
    if a.value.sum ~= b.value.sum then return a.value.sum > b.value.sum end
    return a["start.args.id"] < b["start.args.id"]
  end)
  local is_json = tool.output_format() == "json"
  if not is_json then row("CALL", "COUNT", "TOTAL(us)", "AVG(us)", "P50(us)", "P99(us)", "MAX(us)") end
  for i = 1, math.min(opt.top or #rows, #rows) do
    local v, name = rows[i].value, perfev.syscalls.name(rows[i]["start.args.id"], session.machine)
    if is_json then print(tool.json { call = name, unit = "ns", value = v })
    else row(name, v.count, us(v.sum), us(v.avg), us(v.p50), us(v.p99), us(v.max)) end
  end
  if opt.top and opt.top < #rows and not is_json then print(("(%d others)"):format(#rows - opt.top)) end
end)
