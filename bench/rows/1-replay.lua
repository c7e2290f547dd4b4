-- Recordings that are read: counted, joined, folded.

local COUNT = [[local a = count { by = "args.id" }
  event { "raw_syscalls:sys_enter", sample = a }
  done(function() local n = 0 for _, c in a:pairs() do n = n + c end print(n) end)]]
local FIELDS = [[local t, n = {}, 0
  event { "raw_syscalls:sys_enter", fields = { "args.id", "tid", "cpu" }, sample = function(id)
    t[id] = (t[id] or 0) + 1 end }
  done(function() for _, c in pairs(t) do n = n + c end print(n) end)]]
local VIEW = [[local t, n = {}, 0
  event { "raw_syscalls:sys_enter", sample = function(r)
    local tid, _, _ = r.tid, r.time, r.cpu
    t[tid] = (t[tid] or 0) + 1 end }
  done(function() for _, c in pairs(t) do n = n + c end print(n) end)]]
local LATE = [[event { "raw_syscalls:sys_enter", fields = { "args.id" }, sample = function() end }
  done(function() print(totals().late) end)]]
local PULL = [[local t, n = {}, 0
  local s = session { input = arg_path }
  s:event { "raw_syscalls:sys_enter" }
  for r in s:records() do
    if r.number == 9 then local tid, _, _ = r.tid, r.time, r.cpu t[tid] = (t[tid] or 0) + 1 end
  end
  for _, c in pairs(t) do n = n + c end print(n)]]
local PULL_FIELDS = [[local t, n = {}, 0
  local s = session { input = arg_path }
  s:event { "raw_syscalls:sys_enter" }
  for id in s:records { fields = { "args.id", "tid", "cpu" } } do t[id] = (t[id] or 0) + 1 end
  for _, c in pairs(t) do n = n + c end print(n)]]
local SPAN = [[local h = hist { by = "args.id" }
  local s = span { start = "raw_syscalls:sys_enter", stop = "raw_syscalls:sys_exit", by = "tid", into = h }
  done(function() print(#h > 300 and "joined") end)]]
local FOLDED = [[local a = count { by = { "comm", "stack" } }
  event { "cpu-clock", callchain = true, sample = a }
  done(function() local n = 0 for _, _, c in a:pairs() do n = n + c end print(n) end)]]
local MEMORY = 16 -- MiB, besides the counted keys and values

return function(bench)
  local n = bench.records
  local nr_calls, nr_chains, nr_long, nr_lines = 3 * n, n // 3, n, n // 4
  local calls, joined = bench.recording("syscalls", nr_calls), bench.recording("pairs", n)
  local chains, long = bench.recording("stacks", nr_chains), bench.recording("long", nr_long)
  local lines = bench.recording("syscalls", nr_lines)
  local all_calls, perfl, perf = tostring(nr_calls), bench.perfl, bench.missing "perf"
  local function sort(path, time_at, call_at) return ("%s/sort %s %d %d"):format(bench.dir, path, time_at, call_at) end
  local function replay(path, chunk, options) return perfl((options or "") .. " -i " .. path, chunk) end
  local function pull(path, chunk) return replay(path, (chunk:gsub("arg_path", ("%q"):format(path)))) end
  local function verb(words, path) return ("%s %s %s"):format(bench.program, words, path) end
  local one, two = bench.threads(1), bench.threads(2)
  local no_option = not one and "this perfl uses one thread" or nil
  return {
    { title = ("Replay: %d system calls in order of time, counted"):format(nr_calls),
      unit = "ns a record, by the clock", measure = "clock", base = "minimal C: walk, sort, count", per = nr_calls,
      memory = true, rows = {
        { "minimal C: headers alone", ("%s/walk %s"):format(bench.dir, calls), expect = all_calls },
        { "minimal C: walk, sort, count", sort(calls, 24, 60), expect = all_calls },
        { "perfev's reader (C)", ("%s/reader %s"):format(bench.dir, calls), expect = all_calls },
        { "perfl: native count, one thread", replay(calls, COUNT, one), expect = all_calls, goal = 0.8, mib = MEMORY },
        { "perfl: native count, two threads", replay(calls, COUNT, two), expect = all_calls, goal = 0.5, mib = MEMORY,
          missing = no_option },
        { "perfl: fields of 3, Lua table", replay(calls, FIELDS), expect = all_calls, goal = 1.7, mib = MEMORY },
        { "perfl: view of 3, Lua table", replay(calls, VIEW), expect = all_calls, goal = 3.5, mib = MEMORY },
        { "perfl: pulling, fields of 3", pull(calls, PULL_FIELDS), expect = all_calls, goal = 1.7, mib = MEMORY },
        { "perfl: pulling, view of 3", pull(calls, PULL), expect = all_calls, goal = 3.5, mib = MEMORY },
        { "perf script -s count.pl", ("perf script -i %s -s bench/count.pl"):format(calls), expect = all_calls,
          missing = perf },
      } },
    { title = ("Replay: %d system calls, recorded with 4096 pages, in order of time"):format(nr_long),
      unit = "ns a record", base = "minimal C: walk, sort, count", per = nr_long, memory = true, rows = {
        { "minimal C: walk, sort, count", sort(long, 24, 60), expect = tostring(nr_long) },
        { "perfl: fields of 3, Lua table", replay(long, FIELDS), expect = tostring(nr_long), mib = MEMORY },
      } },
    { title = "The same: records out of order", unit = "records", measure = "output", rows = {
        { "perfl: callback", replay(long, LATE), limit = 0 },
      } },
    { title = ("Replay: %d enters and exits joined, a histogram by call"):format(n), unit = "ns a record",
      base = "minimal C: walk and sort", per = n, memory = true, rows = {
        { "minimal C: walk and sort", sort(joined, 24, 56), expect = tostring(n) },
        { "perfl: span into hist", replay(joined, SPAN), expect = "joined", goal = 3, mib = MEMORY },
      } },
    { title = ("Replay: %d call chains of 12, counted without names"):format(nr_chains), unit = "ns a record",
      base = "minimal C: walk and sort", per = nr_chains, memory = true, rows = {
        { "minimal C: walk and sort", sort(chains, 24, 16), expect = tostring(nr_chains) },
        { "perfl: native count by stack", replay(chains, FOLDED), expect = tostring(nr_chains), goal = 10,
          mib = MEMORY },
      } },
    { title = ("A line of text for each of %d records, to nowhere"):format(nr_lines), unit = "ns a record",
      base = "perf script", per = nr_lines, memory = true, rows = {
        { "perf script", "perf script -i " .. lines, missing = perf },
        { "perfl tpoint", ("%s -q -i %s tpoint raw_syscalls:sys_enter"):format(bench.program, lines), goal = 0.15,
          mib = MEMORY },
        { "perfl dump", verb("dump", lines), goal = 1, mib = MEMORY },
      } },
    { title = ("A summary of %d records"):format(nr_calls), unit = "ns a record", base = "perf report --stats",
      per = nr_calls, memory = true, rows = {
        { "perf report --stats", ("perf report -i %s --stats"):format(calls), missing = perf },
        { "perfl report", verb("report", calls), goal = 1, mib = MEMORY },
      } },
  }
end
