-- Stacks with names: the call chains of a compiler, nearly all different; stacks to unwind; lines and inlines.

local VIEW = [[local t = {}
  event { "raw_syscalls:sys_enter", sample = function(r) t[r.tid] = (t[r.tid] or 0) + r.cpu + r.time end }]]
local REPLAYS = 10
local FOLDED = "--stdio -g folded --no-inline --no-children"

return function(bench)
  local perf, clang = bench.missing "perf", bench.missing "clang"
  local compile = ("for f in src/*/*.c; do %s -std=gnu11 -Isrc -O2 -S -o /dev/null $f 2> /dev/null; done; :"):format(
    clang and "gcc" or "clang")

  -- A recording of a shell command; hz is for a million records.
  local function record(name, options, hz, command)
    hz = math.max(hz * bench.records // 1000000, 20)
    return bench.make(("%s-%d.data"):format(name, bench.records), ("%s record -q -F %d %s -o $1 -- sh -c %s"):format(
      bench.program, hz, options, bench.quote(command)))
  end

  local function profile(path, options)
    return ("%s -q %s -i %s profile -f folded"):format(bench.program, options or "", path)
  end

  -- A row is dropped unless the stacks have all samples.
  local function checked(rows, samples)
    for _, row in ipairs(rows) do
      if row[2]:find("profile", 1, true) then
        row.check = function(said)
          local sum = 0
          for nr in said:gmatch " (%d+)\n" do sum = sum + nr end
          return sum == samples, ("it folded %d of %d samples"):format(sum, samples)
        end
      end
    end
    return rows
  end

  local one, two = bench.threads(1), bench.threads(2)
  local no_option = not one and "this perfl uses one thread" or nil
  local function part(title, path, base, goals)
    local samples = bench.samples(path)
    return { title = title:format(samples), unit = "us a sample, by the clock", measure = "clock", base = base,
      scale = 1e-6, per = samples, memory = true, rows = checked({
        { "perf report -g folded", ("perf report -i %s %s"):format(path, FOLDED), missing = perf },
        { "perf script", ("perf script -i %s --no-inline"):format(path), missing = perf },
        { "perfl profile, one thread", profile(path, one), goal = goals[1], mib = goals.mib },
        { "perfl profile, two threads", profile(path, two), goal = goals[2], mib = goals.mib, missing = no_option },
      }, samples) }
  end

  local varied = bench.recording("varied", bench.records // 3)
  local chains = record("compiler", "-e cpu-clock -g", 4000, compile)
  local unwound = record("compiler-dwarf", "-e cpu-clock --call-graph dwarf", 1000, compile)
  -- A copy, because the next build replaces the program.
  local program = bench.make("profiled", ("cp %s $1"):format(bench.program))
  local calls = bench.recording("syscalls", bench.records)
  local replay = ("%s -q -i %s -e %s"):format(program, calls, bench.quote(VIEW))
  local replays = ("for i in $(seq %d); do %s; done"):format(REPLAYS, replay)
  local lines = record("lines", "-e cpu-clock:u -g", 10000, replays)
  local nr_lines = bench.samples(lines)
  return {
    part("Folded: %d samples, 12,800 call chains", varied, "perf report -g folded", { 0.3, 0.3 }),
    part("Folded: %d samples of a compiler, frame pointers", chains, "perf report -g folded",
      { 0.5, 0.5, mib = 150 }),
    part("Folded: %d samples of a compiler, DWARF", unwound, "perf script", { 0.3, 0.2, mib = 500 }),
    { title = ("Lines and inlined functions of %d samples of perfl"):format(nr_lines), unit = "us a sample",
      scale = 1e-6, base = "perf script -F ip,sym,srcline", per = nr_lines, memory = true, rows = checked({
        { "perf script -F ip,sym,srcline", ("perf script -i %s -F ip,sym,srcline"):format(lines), missing = perf },
        { "perfl --inline profile", profile(lines, "--inline"), goal = 0.5 },
      }, nr_lines) },
  }
end
