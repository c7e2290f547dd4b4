-- perfl stat prints the numbers of perf stat, in the same columns, for counts that do not vary.

local requires = require "spec.support.requires"(function(why) pending(why) end)
local run = require "spec.support.run"

-- A command with the same counts in each run: one process, no clock, no data of other processes.
local command = { "cat", "/etc/passwd" }

local function words(...)
  local list = { ... }
  return table.move(command, 1, #command, #list + 1, list)
end

local function perfl_stat(...)
  local dir = run.tempdir()
  local r = run(words(run.perfl, "-q", "-o", dir .. "/out", "stat", ...), { fixed_layout = true })
  local text = run.capture("cat " .. dir .. "/out")
  run.remove(dir)
  assert.equal(0, r.code, r.err)
  return text
end

local function perf_stat(...)
  local dir = run.tempdir()
  local r = run(words("perf", "stat", "-o", dir .. "/out", "--append", ...), { fixed_layout = true })
  local text = run.capture("cat " .. dir .. "/out")
  run.remove(dir)
  if r.code ~= 0 then pending("perf stat does not run here: " .. r.err) end
  return text
end

local function needs_perf()
  if not run.have "perf" then pending("no perf(1)") end
end

local function needs_tracefs()
  if not run.root then pending("counting kernel tracepoints needs root") end
  if not run.capture "test -r /sys/kernel/tracing/events/raw_syscalls/sys_enter/id && echo yes" then
    pending("no tracefs is mounted")
  end
end

-- "42,,page-faults,..." -> { ["page-faults"] = 42 }
local function counts_of(csv)
  local counts = {}
  for line in csv:gmatch("[^\n]+") do
    local value, name = line:match("^(%d+),[^,]*,([^,]+),")
    if value then counts[name] = math.tointeger(tonumber(value)) end
  end
  return counts
end

describe("perfl stat", function()
  it("has the same counts as perf stat for each call", function()
    needs_perf()
    needs_tracefs()
    local events = "raw_syscalls:sys_enter,raw_syscalls:sys_exit,syscalls:sys_enter_openat,"
      .. "syscalls:sys_enter_read,sched:sched_process_exit"
    local ours = counts_of(perfl_stat("-x,", "-e", events, "--"))
    local theirs = counts_of(perf_stat("-x,", "-e", events, "--"))
    assert.is_true(ours["raw_syscalls:sys_enter"] > 20)
    assert.is_number(ours["sched:sched_process_exit"]) -- 1, or 0 before 6.18, which removes the event earlier
    assert.same(theirs, ours)
  end)

  it("counts the same in a group", function()
    needs_tracefs()
    local list = "raw_syscalls:sys_enter,syscalls:sys_enter_read"
    local apart = counts_of(perfl_stat("-x,", "-e", list, "--"))
    assert.same(apart, counts_of(perfl_stat("-x,", "-e", "{" .. list .. "}", "--")))
  end)

  it("has perf stat's columns", function()
    needs_perf()
    local function shape(text)
      local lines = {}
      for line in (text .. "\n"):gmatch("([^\n]*)\n") do
        -- Numbers may have other lengths, but end in the same column; rates have the same unit.
        if not line:find("^#") and line ~= "" then
          line = line:gsub("%s+$", ""):gsub(" *%d[%d.]*", function(n) return ("#"):rep(#n) end)
          lines[#lines + 1] = (line:gsub("[KMG]?/sec", "/sec"):gsub("# +/sec", "#/sec"))
        end
      end
      return lines
    end
    local events = "task-clock,page-faults,context-switches"
    assert.same(shape(perf_stat("-e", events, "--")), shape(perfl_stat("-e", events, "--")))
  end)

  it("reports unsupported events as perf stat does", function()
    local text = perfl_stat("--")
    assert.matches("\n +[%d.]+ msec task%-clock  +#  +[%d.]+ CPUs utilized", text)
    assert.matches("\n +%d+      page%-faults  +# +[%d.]+ [KM]?/", text)
    assert.matches("\n +[%d.]+ seconds time elapsed", text)
    if requires.missing "hardware" then
      assert.matches("\n   <not supported>      cycles\n", text)
      assert.matches("\n   <not supported>      cycles\n   <not supported>      instructions\n\n",
        perfl_stat("-e", "{cycles,instructions}", "--"))
    end
  end)

  it("repeats the command, and reports the standard error of the mean", function()
    local text = perfl_stat("-r", "4", "-e", "task-clock,page-faults", "--")
    assert.matches("Performance counter stats for 'cat /etc/passwd' %(4 runs%):", text)
    assert.matches("task%-clock .-%( %+%-[ %d.]+%% %)", text)
    assert.matches("[%d.]+ %+%- [%d.]+ seconds time elapsed  %( %+%-[ %d.]+%% %)", text)
    local _, copies = run(words(run.perfl, "-q", "stat", "-r", "4", "-x,", "-e", "page-faults", "--"))
      .out:gsub("root:x:", "")
    assert.equal(4, copies)
  end)

  it("prints the counts of each interval, and the rest", function()
    needs_tracefs()
    -- It ends when two intervals have been printed.
    local out = os.tmpname()
    finally(function() os.remove(out) end)
    local r = run { run.perfl, "-q", "-o", out, "stat", "-I", "20", "-x,", "-e", "raw_syscalls:sys_enter", "--",
      "sh", "-c", "until [ $(wc -l < " .. out .. ") -ge 2 ]; do :; done" }
    assert.equal(0, r.code, r.err)
    local sum, last, lines = 0, 0, 0
    local file <close> = assert(io.open(out))
    for time, value in file:read("a"):gmatch(" *([%d.]+),([%d<][^,]*),,raw_syscalls:sys_enter,") do
      assert.is_true(tonumber(time) > last)
      sum, last, lines = sum + (tonumber(value) or 0), tonumber(time), lines + 1
    end
    assert.is_true(lines >= 3, r.out)
    assert.is_true(sum > 20)
    local text = run { run.perfl, "-q", "stat", "-I", "100", "-e", "page-faults", "--", "sleep", "0.15" }
    -- An event without a CPU in the first interval has no count.
    assert.matches("^#           time             counts unit events\n +%d+%.%d+ ", text.out)
    assert.matches("\n +%d+%.%d+ +%d+      page%-faults", text.out)
  end)

  it("writes the same JSON as perf stat", function()
    needs_perf()
    local function keys(text)
      local list = {}
      for key in text:gmatch('"([%w-]+)" :') do list[#list + 1] = key end
      return list
    end
    local ours = perfl_stat("-j", "-e", "page-faults,task-clock", "--")
    assert.matches('^{"counter%-value" : "%d+%.000000", "unit" : "", "event" : "page%-faults", ', ours)
    assert.matches('"metric%-unit" : "CPUs utilized"}$', ours)
    local theirs = perf_stat("-j", "-e", "page-faults,task-clock", "--"):gsub("#[^\n]*\n", "")
    if theirs:find("counter%-value") then assert.same(keys(theirs), keys(ours)) end
  end)

  it("exits with the command's status, and reports a command that cannot run", function()
    assert.equal(3, run({ run.perfl, "-q", "stat", "-e", "page-faults", "--", "sh", "-c", "exit 3" }).code)
    local r = run { run.perfl, "stat", "-e", "page-faults", "--", "/nonexistent" }
    assert.equal(127, r.code)
    assert.matches("cannot run '/nonexistent'", r.err)
    assert.not_matches("traceback", r.err)
  end)

  it("refuses unknown events and options", function()
    local r = run { run.perfl, "stat", "-e", "page-faultz", "--", "true" }
    assert.equal(2, r.code)
    assert.matches("did you mean 'page%-faults'%?", r.err)
    r = run { run.perfl, "stat", "-e", "page-faults,,cs", "--", "true" }
    assert.equal(2, r.code)
    assert.matches("an event is expected here", r.err)
    assert.equal("", r.out)
  end)

  it("prints each CPU separately, as perf stat -A does", function()
    requires("perf", "root", "program perf")
    local cpus = require("perfev.core").cpus()
    -- Returns a line's CPU, unit and event, their columns, and the column where the number ends.
    local function shape(text)
      local lines = {}
      for cpu, line in text:gmatch "(CPU%d+)([^\n]+)" do
        line = line:match "^.*[a-z]%-[a-z]+":gsub(" *[%d.]+", function(n) return ("#"):rep(#n) end)
        lines[#lines + 1] = cpu .. line
      end
      return lines
    end
    local ours = run { run.perfl, "-q", "-a", "stat", "-A", "-e", "task-clock,page-faults", "--", "true" }
    local theirs = run { "perf", "stat", "-a", "-A", "-e", "task-clock,page-faults", "--", "true" }
    assert.equal(2 * #cpus, #shape(ours.out))
    assert.same(shape(theirs.err), shape(ours.out))
    local r = run { run.perfl, "-q", "-a", "stat", "-A", "-x,", "-e", "{task-clock,cs}", "--", "taskset", "-c",
      tostring(cpus[#cpus]), "sh", "-c", "for i in $(seq 200); do :; done" }
    assert.matches(("^CPU0,[%%d.]+,msec,task%%-clock,.*\nCPU%d,[1-9]%%d*,,cs,"):format(cpus[#cpus]), r.out)
    r = run { run.perfl, "stat", "-A", "--", "true" }
    assert.same({ 2, "stat: --no-aggr: counts of tasks have no CPU\n  try: -a, or -C\n" }, { r.code, r.err })
  end)

  it("adds up cores, dies, sockets and nodes, in perf stat's columns", function()
    requires("perf", "root", "program perf")
    local function shape(text)
      local lines = {}
      for place, line in text:gmatch "\n([SN]%d[%w-]* +)([^\n]+)" do
        line = line:match "^.*[a-z]%-[a-z]+":gsub(" *[%d.]+", function(n) return ("#"):rep(#n) end)
        lines[#lines + 1] = place .. line
      end
      return lines
    end
    for _, flag in ipairs { "--per-core", "--per-die", "--per-socket", "--per-node" } do
      local ours = run { run.perfl, "-q", "-a", "stat", flag, "-e", "task-clock,page-faults", "--", "true" }
      local theirs = run { "perf", "stat", "-a", flag, "-e", "task-clock,page-faults", "--", "true" }
      assert.is_true(#shape(ours.out) >= 2, ours.out .. ours.err)
      assert.same(shape(theirs.err), shape(ours.out))
    end
    local r = run { run.perfl, "-a", "stat", "--per-core", "--per-die", "--", "true" }
    assert.same({ 2, "stat: --per-core and --per-die at once\n  try: --per-core\n" }, { r.code, r.err })
    r = run { run.perfl, "stat", "--per-core", "--", "true" }
    assert.same({ 2, "stat: --per-core: counts of tasks have no CPU\n  try: -a, or -C\n" }, { r.code, r.err })
  end)

  it("counts each thread of a process by itself", function()
    requires("perf")
    -- The threads of this process are one: the shell, which is held until it has been counted.
    local dir = run.tempdir()
    finally(function() run.remove(dir) end)
    run.capture("mkfifo " .. dir .. "/hold")
    local r = run { "sh", "-c", ('sh -c "read line < %s/hold" & %s -q -p $! stat --per-thread -x, -e task-clock,cs -- '
      .. 'sh -c "echo > %s/hold; while kill -0 $!; do :; done 2> /dev/null"; echo $!'):format(dir, run.perfl, dir) }
    local pid = r.out:match "(%d+)%s*$"
    assert.matches(("^sh%%-%s,[%%d.]+,msec,task%%-clock,.*\nsh%%-%s,%%d+,,cs,"):format(pid, pid), r.out)
    r = run { run.perfl, "stat", "--per-thread", "-a", "--", "true" }
    assert.same({ 2, "stat: --per-thread: counts of CPUs have no thread\n  try: -p PID\n" }, { r.code, r.err })
  end)

  it("counts in several cgroups", function()
    requires("perf", "root")
    if not run.capture("grep -w cgroup /proc/mounts"):find "cgroup" then pending "no cgroup filesystem is mounted" end
    local r = run { run.perfl, "-q", "-a", "stat", "--for-each-cgroup", "/,/", "-x,", "-e", "page-faults", "--",
      "true" }
    assert.matches("^[1-9]%d*,,page%-faults,/,%d+,100.00,.*\n[1-9]%d*,,page%-faults,/,", r.out .. r.err)
    r = run { run.perfl, "-a", "stat", "--for-each-cgroup", "/nix", "--", "true" }
    assert.equal(1, r.code)
    assert.matches("stat: cgroup '/nix': no such cgroup below ", r.err)
  end)

  it("stops after a number of intervals, and adds them up", function()
    requires("perf", "root")
    local r = run { run.perfl, "-q", "-a", "stat", "-I", "1", "--interval-count", "3", "--summary", "-x,", "-e",
      "page-faults,cpu-clock", "--", "sleep", "1000" }
    local sums, shown, lines = { 0, 0 }, {}, 0
    for time, value, name in r.out:gmatch " *(%S-),([%d.]+),[^,]*,([%a-]+)[^\n]*\n?" do
      local i = name == "page-faults" and 1 or 2
      if time == "summary" then shown[i] = tonumber(value) else sums[i] = sums[i] + tonumber(value) end
      lines = lines + 1
    end
    assert.equal(8, lines, r.out)
    assert.is_true(shown[1] >= sums[1] and shown[2] >= sums[2] and sums[2] > 0, r.out)
    r = run { run.perfl, "-a", "stat", "--summary", "--", "true" }
    assert.same({ 2, "stat: --summary: without intervals\n  try: -I 1000\n" }, { r.code, r.err })
  end)

  it("counts from the end of the delay on", function()
    local r = run { run.perfl, "-q", "stat", "-D", "100000", "-x,", "-e", "page-faults", "--", "true" }
    assert.matches("^<not counted>,,page%-faults,0,", r.out .. r.err)
    -- The command ends when it has been counted.
    local dir = run.tempdir()
    finally(function() run.remove(dir) end)
    r = run { run.perfl, "-q", "-o", dir .. "/out", "stat", "-D", "1", "-I", "10", "-x,", "-e", "page-faults", "--",
      "sh", "-c", ("until grep -q page %s/out; do cat /dev/null; done"):format(dir) }
    assert.equal(0, r.code, r.err)
    assert.matches("^ +%d+.%d+,[1-9]%d*,,page%-faults,", run.capture("cat " .. dir .. "/out"))
    r = run { run.perfl, "stat", "-D", "0", "--", "true" }
    assert.same({ 2, "stat: --delay: at least a millisecond\n" }, { r.code, r.err })
  end)

  it("continues without an event that its PMU refuses, and ignores case, as perf stat does", function()
    requires("perf", "root", "program perf", "pmu msr")
    local function rows(text) -- without the numbers
      local list = {}
      for value, name in text:gmatch "([^,\n]+),[^,]*,([%w/:,=-]-[/%w]),[^\n]*" do
        list[#list + 1] = value:gsub("^[%d.]+$", "#") .. " " .. name
      end
      return list
    end
    for events, count in pairs { ["msr/tsc/u,task-clock"] = 2, ["msr/TSC/,TSC"] = 2, ["g1{task-clock,cs},cs:b"] = 3 } do
      local ours = run { run.perfl, "-q", "stat", "-x,", "-e", events, "--", "true" }
      local theirs = run { "perf", "stat", "-x,", "-e", events, "true" }
      assert.equal(0, ours.code, ours.err)
      assert.equal(count, #rows(ours.out), ours.out)
      assert.same(rows(theirs.err), rows(ours.out))
    end
    local alone = run { run.perfl, "stat", "-e", "msr/tsc/u", "--", "true" }
    assert.matches("<not supported>", alone.out)
    assert.matches("the PMU msr counts everything", alone.err)
    local led = run { run.perfl, "stat", "-e", "{msr/tsc/u,task-clock}", "--", "true" }
    assert.equal(1, led.code)
  end)

  it("sums the CPUs of a core for events with percore, as perf stat does", function()
    requires("perf", "root", "program perf", "pmu msr")
    local function places(text)
      local list = {}
      for place in ("\n" .. text):gmatch "\n(%S+) +%d+ +msr/tsc,percore/" do list[#list + 1] = place end
      return list
    end
    local ours = run { run.perfl, "-q", "-a", "stat", "-A", "-e", "msr/tsc,percore/", "--", "true" }
    local theirs = run { "perf", "stat", "-a", "-A", "-e", "msr/tsc,percore/", "--", "true" }
    assert.is_true(#places(ours.out) > 0, ours.out .. ours.err)
    assert.same(places(theirs.err), places(ours.out))
  end)

  it("counts the whole machine", function()
    if not run.root then pending("needs root") end
    needs_tracefs()
    local cpus = require("perfev.core").cpus()
    local r = run { run.perfl, "-q", "-a", "stat", "-x,", "-e", "sched:sched_process_exit", "--", "sh", "-c",
      "for cpu in " .. table.concat(cpus, " ") .. "; do for i in 1 2 3 4 5; do taskset -c $cpu true; done; done" }
    assert.equal(0, r.code, r.err)
    local ended = counts_of(r.out)["sched:sched_process_exit"]
    assert.is_true(ended >= 5 * #cpus, r.out)
    r = run { run.perfl, "-q", "-a", "-d", "100ms", "stat", "-e", "cpu-clock" }
    local ms, used, seconds = r.out:match " +([%d.]+) msec cpu%-clock +# +([%d.]+) CPUs utilized.* ([%d.]+) seconds"
    assert.is_true(math.abs(used - ms / 1000 / seconds) <= 0.001, r.out)
  end)
end)
