-- A command that makes a system call in a loop, read while it runs: what that costs the reader and the command.

local EVENT = "syscalls:sys_enter_getppid"
local COUNT = [[local a = count {}
  event { "EVENT", sample = a }
  done(function() print(a:get() or 0) end)]]
local BY_TASK = [[local a = count { by = "tid" }
  event { "EVENT", sample = a }
  done(function() local n = 0 for _, c in a:pairs() do n = n + c end print(n) end)]]
local FIELDS = [[local t, n = {}, 0
  event { "EVENT", fields = { "tid", "time", "cpu" }, sample = function(tid) t[tid] = (t[tid] or 0) + 1 end }
  done(function() for _, c in pairs(t) do n = n + c end print(n) end)]]
local VIEW = [[local t, n = {}, 0
  event { "EVENT", sample = function(r)
    local tid, _, _ = r.tid, r.time, r.cpu
    t[tid] = (t[tid] or 0) + 1 end }
  done(function() for _, c in pairs(t) do n = n + c end print(n) end)]]
local ANY_CALL, BY_CALL = "raw_syscalls:sys_enter", [[local a = count { by = "args.id" }
  event { "EVENT", sample = a }
  done(function() print(#a) end)]]
local PRINTF = "tracepoint:syscalls:sys_enter_getppid { printf(\"%d %d\\n\", tid, nsecs) }"

return function(bench)
  local nr = bench.records
  local used, tmp = bench.dir .. "/used", "/dev/shm/perfev-bench.data"
  local perf, bpftrace = bench.missing "perf", bench.missing "bpftrace"
  local function load(tasks) return ("%s/load %d %s %d"):format(bench.dir, nr, used, tasks or 1) end
  local function perfl(chunk, size, tasks, event, words)
    words = ("%s %s"):format(size and "-m " .. size or "", words or "")
    return bench.perfl(words, (chunk:gsub("EVENT", event or EVENT))) .. " -- " .. load(tasks)
  end
  local function minimal(pages, words) return ("%s/live %d %s"):format(bench.dir, pages, words) end
  local function in_shell(command) return "sh -c " .. bench.quote(command) end
  -- -B: without a second look at the recording, for build-ids. perfl's --no-names has the same effect for names.
  local function perf_record(pages, to, tasks, event, words)
    return ("perf record -q %s %s -e %s -c 1 -o %s -- %s"):format(words or "-B", pages and "-m " .. pages or "",
      event or EVENT, to, load(tasks))
  end
  local function perfl_record(words)
    return ("%s record -q %s -m 8M -e %s -c 1 -o %s -- %s"):format(bench.program, words, EVENT, tmp, load())
  end
  -- How many records of this many tasks are lost, with rings of this size or the default size.
  local function lost(title, pages, size, tasks, base, goal)
    local record = ("%s; %s/walk %s; rm -f %s"):format(perf_record(pages, tmp, tasks), bench.dir, tmp, tmp)
    local part = { title = title, unit = "% of all", base = base, measure = "lost", lost = nr * tasks, rows = {
      { "minimal C reader", minimal(pages or 512, "-- " .. load(tasks)) },
      { "perfl: native count by task", perfl(BY_TASK, size, tasks), goal = goal },
      { "perfl: fields of 3, Lua table", perfl(FIELDS, size, tasks), goal = goal },
      { "perfl: view of 3, Lua table", perfl(VIEW, size, tasks), goal = goal },
      { "perf record", in_shell(record), missing = perf },
    } }
    if tasks > 1 then
      table.insert(part.rows, 3, { "perfl: native count, 2 readers", perfl(BY_TASK, size, tasks, nil, "--readers 2"),
        goal = goal, option = "--readers", missing = bench.lacks "--readers" })
    end
    return part
  end
  local all = tostring(nr)
  local parts = {
    { title = ("Live: %d system calls of one task, 2048 pages a CPU"):format(nr),
      unit = "reader's CPU, s a million", base = "perf record to memory", per = nr / 1e6, scale = 1, load = used,
      rows = {
        { "minimal C reader", minimal(2048, "-- " .. load()), expect = all },
        { "perfl: native count by task", perfl(BY_TASK, "8M"), expect = all, goal = 0.22 },
        { "perfl: fields of 3, Lua table", perfl(FIELDS, "8M"), expect = all, goal = 0.78 },
        { "perfl: view of 3, Lua table", perfl(VIEW, "8M"), expect = all, goal = 1.56 },
        { "perf record to memory", perf_record(2048, tmp), missing = perf },
        { "perf record | perf script -s", in_shell(perf_record(2048, "-") .. " | perf script -i - -s bench/lines.py"),
          missing = perf },
      } },
    { title = "The same, a line of text for each, to nowhere", unit = "reader's CPU, s a million",
      base = "bpftrace printf", per = nr / 1e6, scale = 1, load = used, rows = {
        { "bpftrace printf", ("bpftrace -q -e %s -c %s"):format(bench.quote(PRINTF), bench.quote(load())),
          missing = bpftrace },
        { "perfl tpoint", ("%s -q -m 8M tpoint %s -- %s"):format(bench.program, EVENT, load()), goal = 0.167 },
      } },
    { title = ("Live recording of %d system calls to memory, 2048 pages"):format(nr),
      unit = "recorder's CPU, s a million", base = "perf record -B", per = nr / 1e6, scale = 1,
      load = used, rows = {
        { "minimal C: write", minimal(2048, tmp .. " -- " .. load()), expect = all },
        { "perfl record --no-names", perfl_record "--no-names", goal = 0.5, option = "--no-names",
          missing = bench.lacks "--no-names" },
        { "perf record -B", perf_record(2048, tmp), missing = perf },
      } },
    { title = "The same, with build-ids, and names of the sampled functions", unit = "recorder's CPU, s a million",
      base = "perf record", per = nr / 1e6, scale = 1, load = used, rows = {
        { "perfl record", perfl_record "", goal = 0.5 },
        { "perf record", perf_record(2048, tmp, 1, nil, ""), missing = perf },
      } },
    { title = "What tracing costs the traced task: its own CPU time", unit = "ns a system call more",
      base = "perf record", measure = "load", load = used, untraced = "not traced", per = nr, rows = {
        { "not traced", load() },
        { "perf record", perf_record(2048, tmp, 1, ANY_CALL), missing = perf },
        { "perf stat", ("perf stat -e %s -- %s"):format(ANY_CALL, load()), missing = perf },
        { "perfl: native count by call", perfl(BY_CALL, "8M", 1, ANY_CALL), goal = 0.7 },
        { "perfl: native count", perfl(COUNT, "8M", 1, ANY_CALL), goal = 0.25 },
      } },
    lost("Lost: one busy CPU, default rings", nil, nil, 1),
    lost("Lost: two busy CPUs, default rings", nil, nil, 2, "perf record", 1.5),
    lost("Lost: one busy CPU, 128 pages", 128, "512K", 1, "minimal C reader"),
    lost("Lost: two busy CPUs, 128 pages", 128, "512K", 2, "perf record"),
  }
  for _, row in ipairs(parts[6].rows) do row.limit = row[1]:find "^perfl" and 0 or nil end
  parts[8].rows[2].goal = 2
  return parts
end
