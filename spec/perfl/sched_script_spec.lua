-- The script sched on the simulated kernel: figures that are known by construction.

local json = require "spec.support.json"
local run = require "spec.support.run"

local machine = require "spec.support.worlds" [[
local sim = require "perfev.sim"
local k = sim.new { world = "vm", cpus = "0-1", tasks = { [7] = "app", [8] = "helper", [9] = "disker" } }
k:tracepoint("sched:sched_wakeup_new", 901, "char comm[16]; pid_t pid; int prio; int target_cpu")
local comms = { [0] = "swapper", [7] = "app", [8] = "helper", [9] = "disker" }
local function sample(us, cpu, pid, event, args)
  k:after(us * 1000, function()
    k:ring(cpu):push({ type = "sample", pid = pid, tid = pid, event = event, args = args })
  end)
end
local function wake(us, pid, event)
  sample(us, 0, 0, event or "sched:sched_wakeup", { comm = comms[pid], pid = pid, prio = 0, target_cpu = 1 })
end
local function ran(us, pid, ns)
  sample(us, 0, pid, "sched:sched_stat_runtime", { comm = comms[pid], pid = pid, runtime = ns })
end
local function switch(us, cpu, prev, state, next)
  sample(us, cpu, prev, "sched:sched_switch", { prev_comm = comms[prev], prev_pid = prev, prev_state = state,
    next_comm = comms[next], next_pid = next })
end
]]

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function output_of(events, ...) return machine.output(dir, events, ...) end

-- app is woken and waits 3 us, is woken again while it runs, and is preempted and waits 20; helper sleeps; disker is
-- new and waits 70, and yields its CPU for 10.
local TURNS = [[
  wake(10, 7) switch(13, 0, 0, 0, 7) wake(30, 7)
  switch(40, 0, 7, 0x100, 8) switch(60, 0, 8, 1, 7)
  switch(80, 0, 7, 1, 0)
  wake(100, 9, "sched:sched_wakeup_new") switch(170, 1, 0, 0, 9)
  switch(200, 1, 9, 0, 0) switch(210, 1, 0, 0, 9)]]

-- { "[0000] app[7] 0.000 0.003 0.027", … }
local function rows_of(text)
  local rows = {}
  for line in text:gmatch "[^\n]+" do rows[#rows + 1] = line:gsub(" +", " "):gsub("^ %d+%.%d+ ", "") end
  return rows
end

describe("sched timehist", function()
  it("prints the wait, the delay and the run of each turn", function()
    assert.same({ " TIME(s) CPU TASK[TID/PID] WAIT(ms) DELAY(ms) RUN(ms)",
      "[0000] <idle> 0.000 0.000 0.000", "[0000] app[7] 0.000 0.003 0.027", "[0000] helper[8] 0.000 0.000 0.020",
      "[0000] app[7] 0.020 0.000 0.020", "[0001] <idle> 0.000 0.000 0.000", "[0001] disker[9] 0.000 0.070 0.030",
      "[0001] <idle> 0.030 0.000 0.010" }, rows_of(output_of(TURNS, "sched", "timehist")))
  end)

  it("prints only the turns of chosen tasks", function()
    local text = machine.quiet("--sim", machine.path(dir, TURNS), "-p", "9", "sched", "timehist")
    assert.same({ "[0001] disker[9] 0.000 0.070 0.030" }, { table.unpack(rows_of(text), 2) })
  end)

  it("forgets a task that has ended, so that the next one of its number has no wait", function()
    local text = output_of([[switch(10, 0, 0, 0, 7) switch(20, 0, 7, 16, 0) switch(50, 0, 0, 0, 7)
      switch(60, 0, 7, 1, 0)]], "sched", "timehist")
    assert.equal("[0000] app[7] 0.000 0.000 0.010", rows_of(text)[5])
  end)

  it("escapes the names of tasks", function()
    local text = output_of([[comms[7] = "a\27\n" switch(10, 0, 0, 0, 7) switch(20, 0, 7, 1, 0)]], "sched", "timehist")
    assert.equal("[0000] a\\x1b\\n[7] 0.000 0.000 0.010", rows_of(text)[3])
  end)
end)

describe("sched latency", function()
  local function tasks_of(...)
    local tasks = {}
    for line in output_of(TURNS, "-j", "sched", "latency", ...):gmatch "[^\n]+" do
      local row = json.decode(line)
      tasks[#tasks + 1] = { row.comm, row.count, row.sum, row.max, row.to and row.to - row.from, row.runtime }
    end
    return tasks
  end

  it("adds up the delays of each task, the largest average first", function()
    assert.same({ { "disker", 2, 80000, 70000, 70000, 30000 }, { "app", 2, 23000, 20000, 20000, 47000 },
      { "helper", 1, 0, 0, nil, 20000 } }, tasks_of())
  end)

  it("prints the same as a table with a total", function()
    local rows = rows_of(output_of(TURNS, "sched", "latency"))
    assert.equal("TASK RUNTIME(ms) COUNT AVG(ms) MAX(ms) FROM(s) TO(s)", rows[1])
    assert.matches("^disker:9 0%.030 2 0%.040 0%.070 %d+%.%d+ %d+%.%d+$", rows[2])
    assert.matches("^helper:8 0%.020 1 0%.000 0%.000 %- %-$", rows[4])
    assert.equal("total 0.097 5", rows[5])
  end)

  it("uses the scheduler's clock where the events have it", function()
    local clock = 'k:tracepoint("sched:sched_stat_runtime", 902, "char comm[16]; pid_t pid; u64 runtime") '
    local runs = " ran(35, 7, 25000) ran(75, 7, 15000) ran(195, 9, 28000)"
    local text = output_of(clock .. TURNS .. runs, "-j", "sched", "latency")
    local runtime = {}
    for line in text:gmatch "[^\n]+" do runtime[json.decode(line).comm] = json.decode(line).runtime end
    assert.same({ app = 40000, disker = 28000, helper = 0 }, runtime)
  end)

  it("joins the tasks of a name with --per comm", function()
    local text = output_of("comms[8] = 'app' " .. TURNS, "sched", "latency", "--per", "comm")
    assert.matches("\napp:%(2%) +0%.0%d%d +3 +0%.007 +0%.020 ", text)
  end)

  local REUSED = [[wake(5, 7) switch(10, 0, 0, 0, 7) switch(20, 0, 7, 16, 0)
    comms[7] = "second" wake(40, 7, "sched:sched_wakeup_new") switch(50, 0, 0, 0, 7) switch(60, 0, 7, 1, 0)]]

  it("has a row for each task of a number that is used again", function()
    local rows = rows_of(output_of(REUSED, "sched", "latency"))
    assert.matches("^second:7 0%.010 1 0%.010 ", rows[2])
    assert.matches("^app:7 0%.010 1 0%.005 ", rows[3])
    rows = rows_of(output_of(REUSED .. " comms[8] = 'app' switch(70, 0, 0, 0, 8) switch(80, 0, 8, 1, 0)", "sched",
      "latency", "--per", "comm"))
    assert.matches("^app:%(2%) 0%.020 2 0%.002 0%.005 ", rows[3])
  end)
end)

describe("sched map", function()
  it("prints the tasks of all CPUs at each switch, and the name of a new one", function()
    local lines = {}
    for line in output_of(TURNS, "sched", "map"):gmatch "[^\n]+" do lines[#lines + 1] = line:gsub("%d+%.%d+", "T") end
    for i, line in ipairs(lines) do lines[i] = line:gsub(" +T secs", " T") end
    assert.same({ "  *A0 T A0 => app:7", "  *B0 T B0 => helper:8", "  *A0 T", "  *. T",
      "   .  *C0 T C0 => disker:9", "   .  *. T", "   .  *C0 T" }, lines)
  end)

  it("gives the next task of a number a new name", function()
    local text = output_of([[switch(10, 0, 0, 0, 7) switch(20, 0, 7, 16, 0) switch(50, 0, 0, 0, 7)]], "sched", "map")
    assert.matches(" A0 => app:7\n.* B0 => app:7\n", text)
  end)

  it("shows - for a task that is not chosen", function()
    local text = machine.quiet("--sim", machine.path(dir, TURNS), "-p", "7", "sched", "map")
    local cells = {}
    for cell in text:gmatch "  (%*..)" do cells[#cells + 1] = cell end
    assert.same({ "*A0", "*- ", "*A0", "*. " }, cells)
  end)
end)

describe("sched", function()
  it("requires one of its modes, and the whole machine", function()
    local r = run { run.perfl, "sched", "record", "--", "true" }
    assert.same({ 2, "perfl: argument 'MODE' must be one of 'timehist', 'latency', 'map'\n"
      .. "  try: perfl sched --help\n" }, { r.code, r.err })
    r = run { run.perfl, "--sim", machine.path(dir, TURNS), "-C", "0", "sched", "map" }
    assert.same({ 2, "sched: the waker of a task is another task, on any CPU\n  try: -a\n" }, { r.code, r.err })
    r = run { run.perfl, "--sim", machine.path(dir, TURNS), "-C", "0", "sched", "timehist" }
    assert.same({ 2, "" }, { r.code, r.out })
  end)

  it("refuses --per with the modes that have no rows", function()
    local r = run { run.perfl, "sched", "map", "--per", "comm", "--", "true" }
    assert.same({ 2, "", "sched: --per is an option of latency\n  try: perfl sched latency --per comm\n" },
      { r.code, r.out, r.err })
  end)
end)
