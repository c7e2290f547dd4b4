-- The whole machine is watched for an event that is rare: what waiting costs.

local EVENT = "syscalls:sys_enter_reboot"
local PRINT = "tracepoint:syscalls:sys_enter_reboot { printf(\"%d\", tid); }"
local SECONDS = 10

return function(bench)
  local perf, bpftrace = bench.missing "perf", bench.missing "bpftrace"
  local function waiting(what, command)
    return ("lua5.4 bench/idle.lua %s %d %s"):format(what, math.min(SECONDS, bench.records // 10000),
      bench.quote(command))
  end
  local function part(what, unit, limit)
    return { title = "Idle: every CPU watched for a rare event, " .. what, unit = unit, base = "perf record",
      measure = "output", runs = 1, rows = {
        { "perf record", waiting(what, ("perf record -q -a -e %s -c 1 -o /dev/null"):format(EVENT)), missing = perf },
        { "bpftrace", waiting(what, ("bpftrace -q -e %s"):format(bench.quote(PRINT))), missing = bpftrace },
        { "perfl: callback", waiting(what, bench.perfl("-a", ("event { %q, sample = print }"):format(EVENT))),
          limit = limit },
        { "perfl: callback with fields", limit = limit, waiting(what, bench.perfl("-a",
          ('event { %q, fields = { "args.cmd" }, sample = print }'):format(EVENT))) },
      } }
  end
  return { part("wakeups", "wake-ups a second", 2), part("cpu", "ms of CPU a second", 0.1) }
end
