-- execsnoop: shows programs as they are started, and as they end.
-- perfl -a execsnoop                everybody's, until ^C
-- perfl execsnoop --ends make    its own; no root needed, then without FILE

local perfev = require "perfev"

local opt = perfev.args {
  summary = "show programs as they are started",
  { "-x --ends", help = "show their ends too, with the time since exec" },
  epilog = "FILE is what was executed, where tracepoints may be read. The kernel's records\n"
    .. "have no exit status. PPID is ? in a recording that does not tell it.",
}

local started, first = {}, nil

perfev.start(function()
  print(("%12s %7s %7s %-16s %s"):format("TIME(s)", "PID", "PPID", "COMM", "FILE"))
end)

local function show(r, comm, text)
  first = first or r.time
  print(("%12.6f %7d %7s %-16s %s"):format((r.time - first) / 1e9, r.pid, r.task.ppid or "?",
    perfev.escape(comm), text))
end

local with_file = perfev.event { "sched:sched_process_exec", optional = true,
  sample = function(r, args) show(r, r.comm, perfev.escape(args.filename)) end }

perfev.event {
  comm = function(r)
    if not r.exec then return end
    started[r.pid] = r.time
    if with_file.error then show(r, r.comm, "") end
  end,
  exit = function(r)
    if r.pid ~= r.tid then return end
    local since = started[r.pid]
    if opt.ends and since then
      show(r, r.comm, ("ended after %.6f s"):format((r.time - since) / 1e9))
    end
    started[r.pid] = nil
  end,
}
