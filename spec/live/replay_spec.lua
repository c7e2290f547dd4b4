-- perfl -i on recordings by perf record: the shipped scripts see the events that perf script prints.

local json = require "spec.support.json"
local run = require "spec.support.run"

local WORK = "ls -l /usr/bin > /dev/null; cat /etc/passwd > /dev/null; for i in 1 2 3; do /bin/true; done"

local function need()
  if not run.root then pending("recording the kernel needs root") end
  if not run.have "perf" then pending("no perf(1)") end
end

-- Calls f(path) with a recording made by perf record with these options.
local function with_recording(options, f)
  need()
  local dir = run.tempdir()
  local path = dir .. "/perf.data"
  local made = run(("perf record -q -o %s %s -- sh -c %s"):format(path, options, run.quote(WORK)))
  if made.code ~= 0 then
    run.remove(dir)
    pending("perf record " .. options .. ": " .. made.err:sub(1, 200))
  end
  local ok, why = pcall(f, path)
  run.remove(dir)
  if not ok then error(why, 0) end
end

local function perfl(...)
  local r = run { run.perfl, ... }
  assert.equal(0, r.code, r.err)
  return r.out, r.err
end

-- Groups the lines of perf script by a pattern's capture: the count of each, and the captures in order.
local function perf_script(path, fields, pattern)
  local counts, list = {}, {}
  for line in run({ "perf", "script", "-i", path, "-F", fields }).out:gmatch("[^\n]+") do
    local what = line:match(pattern)
    if what then
      counts[what] = (counts[what] or 0) + 1
      list[#list + 1] = what
    end
  end
  return counts, list
end

describe("perfl -i on a recording of perf record", function()
  it("counts the same number of system calls with syscount as perf script shows", function()
    with_recording("-e raw_syscalls:sys_enter", function(path)
      local counts = perf_script(path, "event", "(%S+):%s*$")
      local out = perfl("-i", path, "syscount")
      assert.equal(counts["raw_syscalls:sys_enter"], tonumber(out:match("total%s+(%d+)")))
    end)
  end)

  it("prints with tpoint the same switches, in the same order, with the same texts", function()
    with_recording("-a -e sched:sched_switch -e sched:sched_process_fork", function(path)
      local _, theirs = perf_script(path, "event,trace", "sched:(sched_.-)%s*$")
      local out, ours = perfl("-i", path, "tpoint", "sched:sched_switch", "sched:sched_process_fork"), {}
      for line in out:gmatch("[^\n]+") do ours[#ours + 1] = line:match("(sched_[%l_]+: .-)%s*$") end
      assert.is_true(#ours > 5)
      assert.same(theirs, ours)
    end)
  end)

  it("has the same number of samples and the same periods for each event of a :S group", function()
    with_recording("--no-inherit -e '{cpu-clock,page-faults}:S' -c 100000", function(path)
      local _, theirs = perf_script(path, "event,period", "^%s*(%d+ +[%l-]+):%s*$")
      local script = [[event { "cpu-clock,page-faults", sample = function(r) print(r.period, r.event.name) end }]]
      local ours = {}
      for line in perfl("-q", "-i", path, "-e", script):gmatch("[^\n]+") do ours[#ours + 1] = line:gsub("\t", " ") end
      for i, line in ipairs(theirs) do theirs[i] = line:gsub(" +", " ") end
      assert.is_true(#theirs > 1)
      table.sort(theirs)
      table.sort(ours)
      assert.same(theirs, ours)
    end)
  end)

  it("shows the executed programs with execsnoop", function()
    with_recording("-e cpu-clock -e sched:sched_process_exec", function(path)
      local out, seen = perfl("-i", path, "execsnoop"), {}
      for line in out:gmatch("[^\n]+") do
        local name = line:match("^%s*[%d.]+%s+%d+%s+%S+%s+(%S+)")
        if name then seen[name] = (seen[name] or 0) + 1 end
      end
      assert.same({ sh = 1, ls = 1, cat = 1, ["true"] = 3 }, seen)
    end)
  end)

  it("uses a fixed period in profile, though no sample of the recording contains it", function()
    with_recording("-e page-faults:u -c 3 -g", function(path)
      local counts = perf_script(path, "event", "(%S+):%s*$")
      local sums = { 0, 0 }
      for i, how in ipairs { "samples", "page-faults" } do
        local out = perfl("-i", path, "profile", "--event", "page-faults", "-F", "0", "-f", "speedscope")
        for _, one in ipairs(json.decode(out).profiles) do
          if one.name == how then sums[i] = one.endValue end
        end
      end
      assert.same({ counts["page-faults:u"], 3 * counts["page-faults:u"] }, sums)
    end)
  end)

  it("has the same number of samples of each event, found by a name without modifiers", function()
    with_recording("-e page-faults:u,context-switches -c 1 -a", function(path)
      local counts = perf_script(path, "event", "(%S+):%s*$")
      local chunk = [[local n = {} for _, name in ipairs{'faults', 'cs'} do n[name] = 0
        event{ name, sample = function(r) n[name] = n[name] + 1 end } end
        done(function() print(n.faults, n.cs) end)]]
      local expected = ("%d\t%d\n"):format(counts["page-faults:u"], counts["context-switches"])
      assert.equal(expected, (perfl("-i", path, "-e", chunk)))
    end)
  end)
end)

-- The arguments of a script, and perfl's own options for it; a script that is not listed has no arguments.
local called_with = {
  annotate = { "no_such_function" },
  biostacks = { "-f", "folded" }, faultstacks = { "-f", "folded" }, funccount = { "sched:sched_process_exit" },
  growth = { "-f", "folded" }, memleak = { "-f", "folded" }, flightrec = { "sched:sched_process_exit" },
  slow = { "syscalls:sys_enter_close", "syscalls:sys_exit_close" },
  sched = { "timehist" }, offcputime = { "-f", "folded" }, offwaketime = { "-f", "folded" },
  profile = { "-F", "2000", "-f", "folded" },
  top = { "--interval", "1h" }, tpoint = { "sched:sched_process_*" }, trace = { "uprobe:libc:getenv", "name:string" },
  wakeuptime = { "-f", "folded" }, watch = { "bash:line_number", "-f", "folded" },
}
-- They count a command's tasks; a recording names no command.
local live_with = { runqlat = "-a", cpudist = "-a", sched = "-a", tcplife = "-a" }
local shell_of = { watch = "bash" } -- the program that has the variable
-- Scripts that cannot run both live and in replay: the message, live with --record or in replay.
local otherwise = {
  annotate = "no sample", funccount = "counters are read from the kernel",
  cache = "counters are read from the kernel", pmu = "counters are read from the kernel",
  stat = "counters are read from the kernel", flightrec = "record", diff = "no session", records = "no session",
  self = "no session",
}
local BUSY = WORK .. "; i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done"

-- All but the script with a line per second: live it uses the machine's clock, in replay the clock of the records.
local function scripts()
  local list = {}
  for path in run.capture("ls scripts/*.lua scripts/examples/*.lua"):gmatch("[^\n]+") do
    if not path:find("/every.lua", 1, true) then list[#list + 1] = path end
  end
  return list
end

-- Arguments that are not in execsnoop's sample are live those of /proc, or too late.
local function without_late(name, text)
  return name == "execsnoop" and text:gsub("( /%S+) [^\n]*", "%1") or text
end

describe("a script's output is the same live with --record and from the recording:", function()
  for _, path in ipairs(scripts()) do
    local name = path:match("([%w_]+)%.lua$")
    it(name, function()
      if not run.root then pending("needs root") end
      local dir = run.tempdir()
      finally(function() run.remove(dir) end)
      local function perfl_with(option, file, ...)
        local words = { run.perfl, "-q", option, file, path }
        words[#words + 1] = option == "--record" and live_with[name] or nil
        table.move(called_with[name] or {}, 1, #(called_with[name] or {}), #words + 1, words)
        for _, word in ipairs { ... } do words[#words + 1] = word end
        return run(words)
      end
      local file, live, replayed = dir .. "/perf.data", nil, nil
      for _ = 1, 5 do
        live = perfl_with("--record", file, "--", shell_of[name] or "sh", "-c", BUSY)
        replayed = perfl_with("-i", file)
        -- Another user's BPF program may have ended in between, and its name is gone. And a sample that interrupts
        -- the kernel while it writes a COMM record is before it in the ring, but has the later time.
        local is_told = live.out:find "bpf_prog_%x+" or live.out:find "perf_event_comm_output"
        if live.out == replayed.out or not is_told then break end
      end
      local why = otherwise[name]
      if why and why ~= "no session" then
        return assert.matches(why, live.code ~= 0 and live.err or replayed.err, 1, true)
      end
      if why or not run.slurp(file) then -- it opens no event here, or opens its own sessions
        return assert.equal("", run.capture("ls -A " .. dir) or "")
      end
      if replayed.err:find("none of the events is in it", 1, true) then
        pending(live.out:match("^[^\n]+") or "this machine has not the event of " .. path)
      end
      assert.equal(without_late(name, live.out), without_late(name, replayed.out))
    end)
  end

  for _, words in ipairs { "cswlog", "execsnoop --ends", "syscount -P", "tpoint sched:sched_switch sched:sched_wakeup",
                           "procmon comm fork exit mmap switch" } do
    it(words .. ", of the whole machine", function()
      if not run.root then pending("needs root") end
      local dir = run.tempdir()
      finally(function() run.remove(dir) end)
      local live = run(("%s -q -a --record %s/f %s -- sh -c %s"):format(run.perfl, dir, words, run.quote(WORK)))
      assert.equal(0, live.code, live.err)
      assert.is_true(#live.out > 0)
      local list = {}
      for word in words:gmatch("%S+") do list[#list + 1] = word end
      local again = perfl("-q", "-i", dir .. "/f", table.unpack(list))
      assert.equal(without_late(list[1], live.out), without_late(list[1], again))
    end)
  end

  it("but for the cgroups of tasks that the records do not have", function()
    if not run.root then pending("needs root") end
    local dir = run.tempdir()
    finally(function() run.remove(dir) end)
    perfl("-q", "-a", "--record", dir .. "/f", "runqlat", "--per", "cgroup", "--", "sh", "-c", WORK)
    local r = run { run.perfl, "-q", "-i", dir .. "/f", "runqlat", "--per", "cgroup" }
    assert.same({ 2, "", "runqlat: --per: a recording lacks the cgroup of these tasks\n  try: --per comm\n" },
      { r.code, r.out, r.err })
  end)
end)
