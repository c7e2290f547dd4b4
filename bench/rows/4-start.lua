-- From nothing to the end: what a run costs that measures a command which does nothing.

return function(bench)
  local perf = bench.missing "perf"
  local bpftrace = bench.missing "bpftrace"
  local function perfl(chunk) return bench.perfl("", chunk) .. " -- true" end
  return {
    { title = "Start to end, by the clock", unit = "ms", base = "perf stat -- true", measure = "clock", scale = 1e-3,
      runs = 15, rows = {
        { "true", "true" },
        { "perf stat -- true", "perf stat -- true", missing = perf },
        { "perfl, task-clock:u", perfl 'event{"task-clock:u"}', goal = 0.5 },
        { "perfl, a tracepoint", perfl 'event{"sched:sched_switch"}' },
        { "perf record -- true", "perf record -q -o /dev/null -e task-clock:u -- true", missing = perf },
        { "bpftrace BEGIN", "bpftrace -e 'BEGIN { exit(); }'", missing = bpftrace },
      } },
    { title = "Every event of the machine, listed", unit = "ms by the clock", base = "perf list", measure = "clock",
      scale = 1e-3, runs = 7, rows = {
        { "perf list", "perf list", missing = perf },
        { "perfl list", bench.program .. " list", goal = 1 },
      } },
  }
end
