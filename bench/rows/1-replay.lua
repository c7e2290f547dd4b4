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
local PROFILE = "profile -f folded"
local MEMORY = "MiB: the goal is at most 16, besides the counted keys and values"

return function(bench)
  local n = bench.records
  local nr_calls = 3 * n
  local calls, joined = bench.recording("syscalls", nr_calls), bench.recording("pairs", n)
  local chains, nr_chains = bench.recording("stacks", n // 3), n // 3
  local all, all_calls, perfl = tostring(n), tostring(nr_calls), bench.perfl
  local perf = not bench.has "perf" and "perf is not installed" or nil
  local function sort(path, time_at, call_at) return ("%s/sort %s %d %d"):format(bench.dir, path, time_at, call_at) end
  local function replay(path, chunk) return perfl("-i " .. path, chunk) end
  local function pull(path, chunk) return replay(path, (chunk:gsub("arg_path", ("%q"):format(path)))) end
  return {
    { title = ("Replay: %d system calls in order of time, counted"):format(nr_calls), unit = "ns a record",
      base = "minimal C: walk, sort, count", per = nr_calls, memory = true, note = MEMORY, rows = {
        { "minimal C: headers alone", ("%s/walk %s"):format(bench.dir, calls), expect = all_calls },
        { "minimal C: walk, sort, count", sort(calls, 24, 60), expect = all_calls },
        { "perfev's reader (C)", ("%s/reader %s"):format(bench.dir, calls), expect = all_calls },
        { "perfl: native count by call", replay(calls, COUNT), expect = all_calls, goal = 1.5 },
        { "perfl: fields of 3, Lua table", replay(calls, FIELDS), expect = all_calls, goal = 3.5 },
        { "perfl: view of 3, Lua table", replay(calls, VIEW), expect = all_calls, goal = 6 },
        { "perfl: pulling, fields of 3", pull(calls, PULL_FIELDS), expect = all_calls, goal = 3.5 },
        { "perfl: pulling, view of 3", pull(calls, PULL), expect = all_calls, goal = 6 },
        { "perf script -s count.py", ("perf script -i %s -s bench/count.py"):format(calls), expect = all_calls,
          missing = perf },
        { "perf script -s count.pl", ("perf script -i %s -s bench/count.pl"):format(calls), expect = all_calls,
          missing = perf },
        { "perf script -F comm,tid,time", ("perf script -i %s -F comm,tid,time"):format(calls), missing = perf },
        { "perf report --stdio", ("perf report -i %s --stdio"):format(calls), missing = perf },
        { "perf report --stats", ("perf report -i %s --stats"):format(calls), missing = perf },
      } },
    { title = ("Replay: %d enters and exits joined, a histogram by call"):format(n), unit = "ns a record",
      base = "minimal C: walk and sort", per = n, memory = true, note = MEMORY, rows = {
        { "minimal C: walk and sort", sort(joined, 24, 56), expect = all },
        { "perfl: span into hist", replay(joined, SPAN), expect = "joined", goal = 3 },
      } },
    { title = ("Replay: %d samples with call chains of 12, folded"):format(nr_chains), unit = "ns a record",
      base = "minimal C: walk and sort", per = nr_chains, memory = true, note = MEMORY, rows = {
        { "minimal C: walk and sort", sort(chains, 24, 16), expect = tostring(nr_chains) },
        { "perfl: native count by stack", replay(chains, FOLDED), expect = tostring(nr_chains), goal = 10 },
        { "perfl profile -f folded, symbols", ("%s/perfl -q -i %s %s"):format(bench.build, chains, PROFILE),
          goal = 10 },
        { "perf report --stdio -g folded", ("perf report -i %s --stdio -g folded --children"):format(chains),
          missing = perf },
        { "perf script, text", ("perf script -i %s"):format(chains), missing = perf },
      } },
    { title = ("A line of text for each of %d records, to nowhere"):format(n // 4), unit = "ns a record",
      base = "perf script", per = n // 4, memory = true, note = MEMORY, rows = {
        { "perf script", ("perf script -i %s"):format(bench.recording("syscalls", n // 4)), missing = perf },
        { "perfl tpoint", ("%s/perfl -q -i %s tpoint raw_syscalls:sys_enter"):format(bench.build,
          bench.recording("syscalls", n // 4)), goal = 0.25 },
      } },
  }
end
