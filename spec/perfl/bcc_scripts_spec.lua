-- Scripts with the names and the tables of bcc's tools, on the simulated kernel: numbers that are known by
-- construction. counted_spec.lua compares these scripts with callbacks in Lua.

local json = require "spec.support.json"
local perfdata = require "spec.support.perfdata"
local run = require "spec.support.run"

local machine = require "spec.support.worlds" [[
local sim = require "perfev.sim"
local k = sim.new { world = "vm", cpus = "0-1", tasks = { [7] = "app", [8] = "helper", [9] = "disker" } }
k:tracepoint("sched:sched_wakeup_new", 901, "char comm[16]; pid_t pid; int prio; int target_cpu")
k:tracepoint("sched:sched_waking", 907, "char comm[16]; pid_t pid; int prio; int target_cpu")
k:tracepoint("block:block_rq_issue", 902, "u32 dev; u64 sector; unsigned int nr_sector; unsigned int bytes; "
  .. "char rwbs[10]; char comm[16]")
k:tracepoint("block:block_io_start", 903, "u32 dev; u64 sector; unsigned int nr_sector; unsigned int bytes; "
  .. "char rwbs[10]; char comm[16]")
k:tracepoint("block:block_rq_complete", 904, "u32 dev; u64 sector; unsigned int nr_sector; int error; char rwbs[10]")
k:tracepoint("syscalls:sys_enter_kill", 905, "int __syscall_nr; pid_t pid; int sig")
k:tracepoint("syscalls:sys_exit_kill", 906, "int __syscall_nr; s64 ret")
local comms = { [0] = "swapper", [7] = "app", [8] = "helper", [9] = "disker" }
local function sample(us, cpu, pid, event, args)
  k:after(us * 1000, function()
    k:ring(cpu):push({ type = "sample", pid = pid, tid = pid, event = event, args = args })
  end)
end
local function wake(us, pid, event)
  sample(us, 0, 0, event or "sched:sched_wakeup", { comm = comms[pid], pid = pid, prio = 0, target_cpu = 1 })
end
local function switch(us, cpu, prev, state, next)
  sample(us, cpu, prev, "sched:sched_switch", { prev_comm = comms[prev], prev_pid = prev, prev_state = state,
    next_comm = comms[next], next_pid = next })
end
local function block(us, pid, what, sector, bytes, dev, rwbs)
  sample(us, 0, pid, "block:block_" .. what, { dev = dev, sector = sector, nr_sector = (bytes or 0) // 512,
    bytes = what ~= "rq_complete" and bytes or nil, rwbs = rwbs, comm = what ~= "rq_complete" and comms[pid] or nil })
end
]]

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- The output of perfl -a WORDS... for these events.
local function output_of(events, ...) return machine.output(dir, events, ...) end

-- Its buckets: "[low, high) count".
local function buckets(text)
  local list = {}
  for label, n in text:gmatch "\n([%[(][^%])]*[%])]) +(%d+) |" do
    if n ~= "0" then list[#list + 1] = label .. " " .. n end
  end
  return list
end

-- app is woken and waits 3 us, is preempted and waits 20; disker is new and waits 70; helper sleeps; no task waits for
-- idle, and app not for the CPU that it has when it is woken again.
local WAITS = [[
  wake(10, 7) switch(13, 0, 0, 0, 7) wake(30, 7)
  switch(40, 0, 7, 0x100, 8) switch(60, 0, 8, 1, 7)
  switch(80, 0, 7, 1, 0)
  wake(100, 9, "sched:sched_wakeup_new") switch(170, 1, 0, 0, 9)
  switch(200, 1, 9, 0, 0) switch(210, 1, 0, 0, 9)]]

describe("runqlat", function()
  it("measures every wait for a CPU: after a wakeup, a fork or a preemption", function()
    local text = output_of(WAITS, "runqlat")
    assert.matches("^run queue latency\n@ %(us%):\n", text)
    assert.same({ "[2, 4) 1", "[8, 16) 1", "[16, 32) 1", "[64, 128) 1" }, buckets(text))
    assert.is_nil(text:find("not counted", 1, true))
  end)

  it("uses the wakeups in a recording: those of perf sched record or of chosen events", function()
    local FORMAT = "name: %s\nID: %d\nformat:\n\tfield:int pid;\toffset:0;\tsize:4;\tsigned:1;\n"
      .. "\tfield:int prev_pid;\toffset:4;\tsize:4;\tsigned:1;\n"
      .. "\tfield:int prev_state;\toffset:8;\tsize:4;\tsigned:1;\n"
      .. "\tfield:int next_pid;\toffset:12;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n"
    local function recorded(...)
      local names, events, formats = { "sched_switch", ... }, {}, {}
      for i, name in ipairs(names) do
        events[i] = { ids = { i }, name = "sched:" .. name, attr = { type = 2, config = i, sample_period = 1,
          sample_type = { "identifier", "tid", "time", "cpu", "raw" } } }
        formats[i] = FORMAT:format(name, i)
      end
      local b = perfdata.new { events = events }
      local function add(us, i, ...)
        b:add { type = "sample", identifier = i, pid = 0, tid = 0, time = us * 1000, cpu = 0,
                raw = string.pack("=i4i4i4i4", ...) }
      end
      add(10, 2, 7, 0, 0, 0) add(13, 1, 0, 0, 0, 7) -- woken
      add(40, 1, 0, 7, 0x100, 8) add(60, 1, 0, 8, 1, 7) -- preempted
      if names[3] then add(70, 3, 9, 0, 0, 0) end
      add(140, 1, 0, 7, 1, 9) -- new
      local path = dir .. "/waits.data"
      run.write_file(path, b:file { [1] = b:tracing_data("sched", formats), [12] = b:event_desc() })
      return table.concat(buckets(machine.quiet("-i", path, "runqlat")), ", ")
    end
    for _, wakeup in ipairs { "sched_wakeup", "sched_waking" } do
      assert.equal("[2, 4) 1, [16, 32) 1", recorded(wakeup))
      assert.equal("[2, 4) 1, [16, 32) 1, [64, 128) 1", recorded(wakeup, "sched_wakeup_new"))
    end
  end)

  it("prints a histogram for each name or thread, in the unit of --unit", function()
    local text = output_of(WAITS, "-j", "runqlat", "--per", "comm", "--unit", "ns")
    local sums = {}
    for line in text:gmatch "[^\n]+" do
      local row = json.decode(line)
      sums[row["args.next_comm"]] = { row.value.count, row.value.sum, row.unit }
    end
    assert.same({ app = { 2, 23000, "ns" }, disker = { 2, 80000, "ns" } }, sums)
  end)
end)

describe("cpudist", function()
  it("measures time on a CPU, and time off a CPU with --off", function()
    -- on: app 27 and 20, helper 20, disker 30; off: app 20, disker 10, helper for ever
    local text = output_of(WAITS, "cpudist", "--per", "comm")
    assert.same({ "[16, 32) 1", "[16, 32) 1", "[16, 32) 2" }, buckets(text))
    assert.matches("\n@%[app%] %(us%):\n[^\n]+ 2 |", text)
    text = output_of(WAITS, "cpudist", "--off")
    assert.matches("^off%-CPU time\n", text)
    assert.same({ "[8, 16) 1", "[16, 32) 1" }, buckets(text))
  end)
end)

-- Two requests of one disk, one of another disk that ends first; one without an end, one without a beginning.
local REQUESTS = [[
  local A, B = 254 << 20, 8 << 20 | 17
  block(90, 7, "io_start", 64, 4096, A, "WS")
  block(100, 9, "rq_issue", 64, 4096, A, "WS") block(110, 8, "rq_issue", 64, 8192, B, "R")
  block(120, 0, "rq_complete", 64, 8192, B, "R") block(400, 0, "rq_complete", 64, 4096, A, "WS")
  block(500, 9, "rq_issue", 128, 512, A, "R") block(510, 0, "rq_complete", 128, 512, A, "R")
  block(600, 9, "rq_issue", 256, 512, A, "R") block(700, 0, "rq_complete", 999, 512, A, "R")]]

describe("biolatency", function()
  it("measures the time of each request on the device, in total or per disk and kind", function()
    assert.same({ "[8, 16) 2", "[256, 512) 1" }, buckets(output_of(REQUESTS, "biolatency")))
    local text = output_of(REQUESTS, "biolatency", "-D", "-F", "--unit", "ns")
    local heads = {}
    for flags in text:gmatch "disk = [^,]*, (flags = [^\n]*)" do heads[#heads + 1] = flags end
    table.sort(heads)
    assert.same({ "flags = R", "flags = R", "flags = WS" }, heads)
    assert.matches("\n1 stop without a start: not counted\n1 start without a stop: not counted\n$", text)
  end)

  it("starts at the system's queue with --queued", function()
    assert.same({ "[256, 512) 1" }, buckets(output_of(REQUESTS, "biolatency", "--queued")))
  end)
end)

describe("biosnoop", function()
  it("prints a line for each request with the task that made it", function()
    local text = output_of(REQUESTS, "biosnoop", "-Q")
    local lines = {}
    for line in text:gmatch "[^\n]+" do
      lines[#lines + 1] = line:gsub("^(%S+ +%S+ +%S+ +)%S+", "%1DISK"):gsub(" +", " ")
    end
    assert.same({ "TIME(s) COMM TID DISK T SECTOR BYTES QUE(ms) LAT(ms)",
      "0.000020 helper 8 DISK R 64 8192 0.00 0.01", "0.000000 app 7 DISK WS 64 4096 0.01 0.30",
      "0.000410 disker 9 DISK R 128 512 0.00 0.01" }, lines)
  end)
end)

describe("killsnoop", function()
  local kills = [[
    local function kill(us, pid, to, sig, ret)
      sample(us, 0, pid, "syscalls:sys_enter_kill", { __syscall_nr = 62, pid = to, sig = sig })
      if ret then sample(us + 1, 0, pid, "syscalls:sys_exit_kill", { __syscall_nr = 62, ret = ret }) end
    end
    kill(10, 7, 8, 15, 0) kill(20, 8, -1, 9, -3)
    kill(30, 9, 9, 9)
    k:after(50000, function() k:ring(0):push({ type = "exit", pid = 9, tid = 9, ppid = 1, ptid = 1 }) end)]]
  local head = "     TIME(s)     PID COMM             SIG          TPID RESULT\n"

  it("prints a line for each signal with its result", function()
    assert.equal(head .. "    0.000000       7 app              SIGTERM         8 0\n"
      .. "    0.000010       8 helper           SIGKILL        -1 ESRCH\n"
      .. "    0.000020       9 disker           SIGKILL         9 -\n", output_of(kills, "killsnoop"))
  end)

  it("selects one signal, or the signals that failed", function()
    assert.equal(head .. "    0.000000       7 app              SIGTERM         8 0\n",
      output_of(kills, "killsnoop", "-s", "15"))
    assert.equal(head .. "    0.000010       8 helper           SIGKILL        -1 ESRCH\n",
      output_of(kills, "killsnoop", "-x"))
  end)

  it("prints times since the first call, also if a later one returns before it", function()
    local text = output_of(kills:gsub("kill%(10.*", [[
    sample(10, 0, 7, "syscalls:sys_enter_kill", { pid = 8, sig = 15 })
    kill(30, 8, -1, 9, 0)
    sample(50, 0, 7, "syscalls:sys_exit_kill", { ret = 0 })]]), "killsnoop")
    assert.equal(head .. "    0.000020       8 helper           SIGKILL        -1 0\n"
      .. "    0.000000       7 app              SIGTERM         8 0\n", text)
  end)
end)

describe("opensnoop", function()
  local opens = [[
    k:tracepoint("syscalls:sys_exit_openat", 909, "int __syscall_nr; s64 ret")
    local function open(us, pid, address, ret, text)
      sample(us, 0, pid, "syscalls:sys_enter_openat", { __syscall_nr = 257, filename = address, __filename_val = text })
      if ret then sample(us + 5, 0, pid, "syscalls:sys_exit_openat", { __syscall_nr = 257, ret = ret }) end
    end]]
  local FIELDS = "int __syscall_nr; u64 filename; int flags"

  it("prints the paths that the tracepoints have", function()
    local text = output_of(opens .. ([[
      k:tracepoint("syscalls:sys_enter_openat", 908, "%s; __data_loc char[] __filename_val")
      open(10, 7, 0x1000, 3, "/etc/x\27") open(12, 8, 0x2000, -2, "") open(30, 9, 0x3000)
      k:after(50000, function() k:ring(0):push({ type = "exit", pid = 9, tid = 9, ppid = 1, ptid = 1 }) end)
      sample(60, 0, 9, "syscalls:sys_exit_openat", { ret = 5 }) -- of the next task with this number]]):format(FIELDS),
      "opensnoop")
    assert.equal("     TIME(s)     PID COMM             RESULT    PATH from the tracepoints\n"
      .. "    0.000000       7 app              3         /etc/x\\x1b\n"
      .. "    0.000002       8 helper           ENOENT    \n", text)
  end)

  it("uses kprobes where the tracepoints have only addresses", function()
    local text = output_of(opens .. ([[
      k:tracepoint("syscalls:sys_enter_openat", 908, "%s")
      k.files["/sys/kernel/tracing/kprobe_events"] = ""
      k.files["/sys/bus/event_source/devices/kprobe/type"] = "6\n"
      k.files["/sys/bus/event_source/devices/kprobe/format/retprobe"] = "config:0\n"
      k.files["/proc/kallsyms"] = "ffffffff81000000 T do_sys_openat2\n"
      open(10, 7, 0x1000, 3) open(20, 7, 0x1000, -2)]]):format(FIELDS), "opensnoop", "--failed")
    assert.equal("     TIME(s)     PID COMM             RESULT    PATH by kprobes\n"
      .. "    0.000010       7 app              ENOENT    0x1000\n", text)
  end)

  it("prints times since the first call, also if a later one returns before it", function()
    local text = output_of(opens .. ([[
      k:tracepoint("syscalls:sys_enter_openat", 908, "%s; __data_loc char[] __filename_val")
      open(10, 7, 0x1000, nil, "/slow") open(12, 8, 0x2000, 3, "/quick")
      sample(60, 0, 7, "syscalls:sys_exit_openat", { ret = 4 })]]):format(FIELDS), "opensnoop")
    assert.matches("\n    0.000002 +8 helper +3 +/quick\n    0.000000 +7 app +4 +/slow\n$", text)
  end)
end)

describe("a script that measures how tasks wait", function()
  for _, words in ipairs { { "offcputime" }, { "offwaketime" }, { "wakeuptime" }, { "latency", "runqueue" } } do
    it(("needs every CPU (%s)"):format(words[1]), function()
      local r = run { run.perfl, "--sim", machine.path(dir, ""), "-C", "0", table.unpack(words) }
      assert.same({ 2, "", words[1] .. ": a task that leaves one of these CPUs may come back on another\n"
        .. "  try: -a, or -p\n" }, { r.code, r.out, r.err })
    end)
  end
end)

describe("offcputime", function()
  it("counts no wait from the last switch of an ended task to the first one of another with its number", function()
    local world = run.write_file(dir .. "/reused.lua", [[return require("perfev.sim").world {
      { at = 2000000, cpu = 1, type = "exit", pid = 7, tid = 7, ppid = 1, ptid = 1 },
      { at = 2100000, cpu = 1, type = "sample", event = { type = 1, config = 3 }, pid = 7, tid = 7 },
      { at = 3000000, cpu = 1, type = "fork", pid = 7, tid = 7, ppid = 1, ptid = 1 },
      { at = 4000000, cpu = 1, type = "switch", pid = 7, tid = 7 },
      { at = 5000000, cpu = 1, type = "sample", event = { type = 1, config = 3 }, pid = 7, tid = 7 },
      { at = 5030000, cpu = 1, type = "switch", pid = 7, tid = 7 } }]])
    local r = run { run.perfl, "-q", "--sim", world, "-a", "offcputime", "-f", "folded" }
    assert.same({ 0, "30000" }, { r.code, r.out:match "^[^\n]* (%d+)\n$" })
  end)
end)

describe("cpudist --off", function()
  it("counts no time from the last switch of an ended task to the first one of another with its number", function()
    local switch = [[type = "sample", event = "sched:sched_switch"]]
    local world = run.write_file(dir .. "/reused_off.lua", ([[return require("perfev.sim").world {
      { at = 2000000, cpu = 1, type = "exit", pid = 7, tid = 7, ppid = 1, ptid = 1 },
      { at = 2100000, cpu = 1, SWITCH, pid = 7, tid = 7, args = { prev_pid = 7 } },
      { at = 3000000, cpu = 1, type = "fork", pid = 7, tid = 7, ppid = 1, ptid = 1 },
      { at = 4000000, cpu = 1, SWITCH, pid = 0, tid = 0, args = { next_pid = 7 } },
      { at = 5000000, cpu = 1, SWITCH, pid = 7, tid = 7, args = { prev_pid = 7 } },
      { at = 5030000, cpu = 1, SWITCH, pid = 0, tid = 0, args = { next_pid = 7 } } }]]):gsub("SWITCH", switch))
    local r = run { run.perfl, "-q", "-j", "--sim", world, "-a", "cpudist", "--off" }
    assert.same({ 0, "1", "30" }, { r.code, r.out:match '"count":(%d+)', r.out:match '"sum":(%d+)' })
  end)
end)

describe("a script that joins a sleep with its wakeup", function()
  for _, name in ipairs { "offwaketime", "wakeuptime" } do
    it(("is refused in a container with its own pids (%s)"):format(name), function()
      local world = machine.path(dir, [[k.links["/proc/self/ns/pid"] = "pid:[4026532178]"]])
      local r = run { run.perfl, "--sim", world, "-p", "7", name }
      assert.equal(2, r.code, r.err)
      assert.matches("^" .. name .. ": in a pid namespace, .*\n  try: the machine's namespace", r.err)
    end)
  end
end)

describe("cpudist", function()
  it("measures only the CPUs of -C", function()
    local text = machine.quiet("--sim", machine.path(dir, WAITS), "-C", "0", "cpudist")
    assert.same({ "[16, 32) 3" }, buckets(text))
  end)
end)

describe("a script that joins events of any CPU", function()
  for _, name in ipairs { "runqlat", "cpudist", "biolatency", "biosnoop" } do
    it(("requires -a (%s)"):format(name), function()
      -- With -C only those that begin and end on that CPU.
      local words = { run.perfl, "--sim", machine.path(dir, ""), "-C", "0", name, name == "cpudist" and "--off" or nil }
      local r = run(words)
      assert.same({ 2, "" }, { r.code, r.out })
      assert.matches("^" .. name .. ": .*\n  try: %-a\n$", r.err)
      if name:find "^bio" then
        assert.same(r, run { run.perfl, "--sim", machine.path(dir, ""), name, "--", "true" })
      end
    end)
  end
end)

describe("a script that watches the machine and counts some of its tasks", function()
  -- { count, sum } of all that was counted
  local function counted(...)
    local text = machine.quiet("--sim", machine.path(dir, WAITS), "-j", ...)
    local row = text ~= "" and json.decode(text) or { value = {} }
    return { row.value.count, row.value.sum }
  end

  it("counts the tasks of a name, though other tasks start and end their waits", function()
    assert.same({ 2, 23000 }, counted("--comm", "app", "runqlat", "--unit", "ns"))
    assert.same({ 2, 80000 }, counted("--comm", "d*", "runqlat", "--unit", "ns"))
    assert.same({ 2, 47000 }, counted("--comm", "app", "cpudist", "--unit", "ns"))
    assert.same({ 1, 20000 }, counted("--comm", "app", "cpudist", "--off", "--unit", "ns"))
    assert.same({}, counted("--comm", "nobody", "cpudist"))
  end)

  it("counts the tasks of a process or a thread", function()
    for _, flag in ipairs { "-p", "-t" } do
      assert.same({ 2, 23000 }, counted(flag, "7", "runqlat", "--unit", "ns"))
      assert.same({ 1, 20000 }, counted(flag, "8", "cpudist", "--unit", "ns"))
      assert.same({ 3, 67000 }, counted(flag, "7,8", "cpudist", "--unit", "ns"))
    end
    local r = run { run.perfl, "--sim", machine.path(dir, WAITS), "-p", "999", "cpudist" }
    assert.same({ 2, "", "cpudist: no such process: 999\n  try: ps -e\n" }, { r.code, r.out, r.err })
  end)

  it("counts the same in a recording", function()
    local FORMAT = "name: %s\nID: %d\nformat:\n\tfield:char comm[8];\toffset:0;\tsize:8;\tsigned:0;\n"
      .. "\tfield:int pid;\toffset:8;\tsize:4;\tsigned:1;\n"
      .. "\tfield:char prev_comm[8];\toffset:12;\tsize:8;\tsigned:0;\n"
      .. "\tfield:int prev_pid;\toffset:20;\tsize:4;\tsigned:1;\n"
      .. "\tfield:int prev_state;\toffset:24;\tsize:4;\tsigned:1;\n"
      .. "\tfield:char next_comm[8];\toffset:28;\tsize:8;\tsigned:0;\n"
      .. "\tfield:int next_pid;\toffset:36;\tsize:4;\tsigned:1;\n\nprint fmt: \"\"\n"
    local names, events, formats = { "sched_switch", "sched_wakeup" }, {}, {}
    for i, name in ipairs(names) do
      events[i] = { ids = { i }, name = "sched:" .. name, attr = { type = 2, config = i, sample_period = 1,
        sample_id_all = true, sample_type = { "identifier", "tid", "time", "cpu", "raw" } } }
      formats[i] = FORMAT:format(name, i)
    end
    local b = perfdata.new { events = events }
    local function add(us, i, ...)
      b:add { type = "sample", identifier = i, pid = 0, tid = 0, time = us * 1000, cpu = 0,
              raw = string.pack("=c8i4c8i4i4c8i4", ...) }
    end
    local function task(us, kind, pid, tid, comm)
      b:add { type = kind, pid = pid, tid = tid, ppid = 7, ptid = 7, comm = comm, time = us * 1000,
              sample_id = { pid = pid, tid = tid, time = us * 1000, cpu = 0, identifier = 1 } }
    end
    task(0, "comm", 7, 7, "app") task(0, "comm", 8, 8, "helper")
    task(1, "fork", 7, 17) -- a thread
    task(2, "fork", 27, 27) -- a child
    add(10, 2, "app", 7, "", 0, 0, "", 0) add(13, 1, "", 0, "", 0, 0, "app", 7) -- 3
    add(20, 2, "helper", 8, "", 0, 0, "", 0) add(40, 1, "", 0, "app", 7, 0x100, "helper", 8) -- preempted; not counted
    add(60, 1, "", 0, "helper", 8, 1, "app", 7) -- 20
    add(70, 2, "app", 17, "", 0, 0, "", 0) add(75, 1, "", 0, "app", 7, 1, "app", 17) -- 5
    add(80, 2, "sh", 27, "", 0, 0, "", 0) add(90, 1, "", 0, "app", 17, 1, "sh", 27) -- 10
    local path = dir .. "/chosen.data"
    run.write_file(path, b:file { [1] = b:tracing_data("sched", formats), [12] = b:event_desc() })
    for choice, wanted in pairs { ["--comm app"] = { 3, 28000 }, ["-p 7"] = { 4, 38000 }, ["-t 17"] = { 1, 5000 } } do
      local flag, word = choice:match "(%S+) (%S+)"
      local row = json.decode(machine.quiet("-i", path, flag, word, "-j", "runqlat", "--unit", "ns"))
      assert.same(wanted, { row.value.count, row.value.sum }, choice)
    end
  end)

  it("names the thread or the task of each histogram", function()
    local text = machine.quiet("--sim", machine.path(dir, WAITS), "--comm", "app", "cpudist", "--per", "comm")
    assert.matches("^on%-CPU time\n@%[app%] %(us%):\n", text)
    assert.equal(1, select(2, text:gsub("@%[", "")))
    text = machine.quiet("--sim", machine.path(dir, WAITS), "-p", "7", "runqlat", "--per", "tid")
    assert.matches("^run queue latency\n@%[7%] %(us%):\n", text)
    assert.equal(1, select(2, text:gsub("@%[", "")))
  end)
end)
