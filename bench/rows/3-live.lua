-- A command that makes a system call in a loop, read while it runs: what that costs the reader.

local NR = 1000000
local EVENT = "syscalls:sys_enter_getppid"
local COUNT = [[local a = count {}
  event { "%s", sample = a }
  done(function() print(a:get() or 0) end)]]
local FIELDS = [[local t, n = {}, 0
  event { "%s", fields = { "tid", "time", "cpu" }, sample = function(tid) t[tid] = (t[tid] or 0) + 1 end }
  done(function() for _, c in pairs(t) do n = n + c end print(n) end)]]
local VIEW = [[local t, n = {}, 0
  event { "%s", sample = function(r)
    local tid, _, _ = r.tid, r.time, r.cpu
    t[tid] = (t[tid] or 0) + 1 end }
  done(function() for _, c in pairs(t) do n = n + c end print(n) end)]]
local PRINTF = "tracepoint:syscalls:sys_enter_getppid { printf(\"%d %d\\n\", tid, nsecs) }"

return function(bench)
  local used = bench.dir .. "/used"
  local load = ("%s/load %d %s"):format(bench.dir, NR, used)
  local tmp = "/dev/shm/perfev-bench.data"
  local perf = not bench.has "perf" and "perf is not installed" or nil
  local bpftrace = not bench.has "bpftrace" and "bpftrace is not installed" or nil
  local all = tostring(NR)
  local function perfl(chunk, size)
    return ("%s/perfl -q -m %s -e %s -- %s"):format(bench.build, size, bench.quote(chunk:format(EVENT)), load)
  end
  local function recorded(command) return ("sh -c %s"):format(bench.quote(command)) end
  local function perf_record(pages, to)
    return ("perf record -q -B -m %d -e %s -c 1 -o %s -- %s"):format(pages, EVENT, to, load)
  end
  -- How many samples are in the file goes to standard output.
  local function and_count(command)
    return recorded(("%s; %s/walk %s; rm -f %s"):format(command, bench.dir, tmp, tmp))
  end
  return {
    { title = ("Live: %d system calls of one task, 2048 pages a CPU"):format(NR),
      unit = "reader's CPU, s a million", base = "perf record to memory", per = NR / 1e6, scale = 1, load = used,
      rows = {
        { "minimal C reader", ("%s/live 2048 -- %s"):format(bench.dir, load), expect = all },
        { "perfl: native count", perfl(COUNT, "8M"), expect = all, goal = 0.22 },
        { "perfl: fields of 3, Lua table", perfl(FIELDS, "8M"), expect = all, goal = 0.78 },
        { "perfl: view of 3, Lua table", perfl(VIEW, "8M"), expect = all, goal = 1.56 },
        { "perf record to memory", perf_record(2048, tmp), missing = perf },
        { "perf record | perf script -s", recorded(perf_record(2048, "-") .. " | perf script -i - -s bench/lines.py"),
          missing = perf },
      } },
    { title = "The same, a line of text for each, to nowhere", unit = "reader's CPU, s a million",
      base = "bpftrace printf", per = NR / 1e6, scale = 1, load = used, rows = {
        { "bpftrace printf", ("bpftrace -q -e %s -c %s"):format(bench.quote(PRINTF), bench.quote(load)),
          missing = bpftrace },
        { "perfl tpoint", ("%s/perfl -q -m 8M tpoint %s -- %s"):format(bench.build, EVENT, load), goal = 0.167 },
      } },
    { title = "The same with 128 pages a CPU: records lost", unit = "% of all",
      base = "minimal C reader", lost = NR, rows = {
        { "minimal C reader", ("%s/live 128 -- %s"):format(bench.dir, load) },
        { "perfl: native count", perfl(COUNT, "512K"), goal = 2 },
        { "perf record", and_count(perf_record(128, tmp)), missing = perf },
      } },
    { title = ("Live recording of %d system calls to memory, 2048 pages"):format(NR),
      unit = "recorder's CPU, s a million", base = "perf record", per = NR / 1e6, scale = 1,
      load = used, rows = {
        { "minimal C: write", ("%s/live 2048 %s -- %s"):format(bench.dir, tmp, load), expect = all },
        { "perfl record", ("%s/perfl record -m 8M -e %s -c 1 -o %s -- %s"):format(bench.build, EVENT, tmp, load),
          goal = 0.5 },
        { "perf record", perf_record(2048, tmp), missing = perf },
      } },
  }
end
