-- Scripts about time on the simulated kernel: latency, with numbers known to the nanosecond, and timeline.

local json = require "spec.support.json"
local perfdata = require "spec.support.perfdata"
local run = require "spec.support.run"
local titles = require("spec.support.svg").titles

local machine = require "spec.support.worlds" [[
local sim = require "perfev.sim"
local k = sim.new { world = "vm", tasks = { [7] = "app", [8] = "helper" } }
local function at(ms, cpu, t) k:after(ms .. "ms", function() k:ring(cpu):push(t) end) end
local function sample(ms, cpu, pid, event, args)
  at(ms, cpu, { type = "sample", pid = pid, tid = pid, event = event, args = args })
end
local function switch(ms, cpu, pid, out, preempt)
  at(ms, cpu, { type = "switch", pid = pid, tid = pid, out = out, preempt = preempt })
end
]]

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

-- The output of perfl -a WORDS... for these events.
local function output_of(events, ...) return machine.output(dir, events, ...) end

describe("latency", function()
  -- app: 2 and 2 ms, helper: 40 ms; one end has no beginning.
  local calls = [[
    local ENTER, EXIT = "raw_syscalls:sys_enter", "raw_syscalls:sys_exit"
    local function call(ms, took, pid, id)
      sample(ms, 0, pid, ENTER, { id = id })
      sample(ms + took, 0, pid, EXIT, { id = id })
    end
    call(10, 2, 7, 0) call(20, 2, 7, 1) call(30, 40, 8, 0) sample(90, 0, 8, EXIT, { id = 5 })]]

  it("prints a histogram of durations, total or by a field, and reports unpaired events", function()
    local text = output_of(calls, "latency", "syscalls")
    assert.matches("^from raw_syscalls:sys_enter to raw_syscalls:sys_exit\n@ %(ns%):\n%[1M, 2M%) +2 ", text)
    assert.matches("\n%[32M, 64M%) +1 |@+ +|\n1 stop without a start: not counted\n$", text)
    local csv = output_of(calls, "latency", "raw_syscalls:sys_enter", "raw_syscalls:sys_exit", "--by", "tid,args.id",
      "--per", "comm", "-f", "csv")
    assert.equal("comm,low,high,count\napp,1048576,2097152,2\nhelper,33554432,67108864,1\n", csv)
  end)

  it("prints a heat map in pictures, or the histogram", function()
    local svg = output_of(calls, "latency", "syscalls", "-f", "svg", "--title", "calls")
    assert.same({ "0 ns: 1 of 1.05 ms to 2.1 ms", "10 ms: 1 of 1.05 ms to 2.1 ms", "60 ms: 1 of 33.55 ms to 67.11 ms" },
      titles(svg, "h%d+"))
    assert.truthy(svg:find(">calls<", 1, true))
    svg = output_of(calls, "latency", "syscalls", "-f", "svg", "--slot", "1s", "--per", "comm")
    assert.same({ "0 ns: 2 of 1.05 ms to 2.1 ms", "0 ns: 1 of 33.55 ms to 67.11 ms" }, titles(svg, "h%d+"))
    local html = output_of(calls, "latency", "syscalls", "-f", "html", "--histogram")
    assert.matches("^<!DOCTYPE html>.*<title>1.05 ms to 2.1 ms: 2</title>", html)
  end)

  it("excludes a call during which the task ended, even if its number is reused", function()
    local world = [[
      local ENTER, EXIT = "raw_syscalls:sys_enter", "raw_syscalls:sys_exit"
      sample(10, 0, 7, ENTER, { id = 60 })
      at(11, 0, { type = "exit", pid = 7, tid = 7, ppid = 1, ptid = 1 })
      sample(50, 0, 7, EXIT, { id = 56 }) -- of the new one, from the clone that made it
      sample(60, 0, 7, ENTER, { id = 0 }) sample(61, 0, 7, EXIT, { id = 0 })]]
    assert.equal("low,high,count\n524288,1048576,1\n", output_of(world, "latency", "syscalls", "-f", "csv"))
    assert.matches("^[^\n]*\nread +1 +1000.0 [^\n]*\n$", output_of(world, "syslat"))
    local head = output_of(world, "syslat"):match "^[^\n]*"
    for name in ("TOTAL AVG P50 P99 MAX"):gmatch "%a%w+" do assert.matches(name .. "%(us%)", head) end
  end)

  it("joins events whose fields have different names", function()
    local world = [[
      local function wake(ms)
        sample(ms, 0, 7, "sched:sched_wakeup", { comm = "helper", pid = 8, prio = 0, target_cpu = 1 })
      end
      wake(10) sample(13, 1, 0, "sched:sched_switch", { prev_pid = 0, next_comm = "helper", next_pid = 8 })
      wake(14) -- while it runs: it waits for no CPU
      sample(20, 1, 8, "sched:sched_switch", { prev_pid = 8, next_pid = 0 })
      sample(90, 1, 0, "sched:sched_switch", { prev_pid = 0, next_comm = "helper", next_pid = 8 })]]
    assert.equal("low,high,count\n2097152,4194304,1\n", output_of(world, "latency", "runqueue", "-f", "csv"))
    -- Naming its events gives the same result, with any running task.
    assert.equal("low,high,count\n2097152,4194304,1\n",
      output_of(world, "latency", "sched:sched_wakeup", "sched:sched_switch", "-f", "csv"))
    assert.equal("low,high,count\n", output_of(world, "latency", "sched:sched_wakeup", "sched:sched_switch",
      "--by", "tid,cpu", "-f", "csv"))
  end)

  it("refuses words that are not a pair of events", function()
    local r = run { run.perfl, "latency", "disk", "--", "true" }
    assert.same({ 2, "" }, { r.code, r.out })
    assert.equal("latency: 'disk' is not one of block, irq, runqueue, softirq, syscalls\n"
      .. "  try: latency START STOP, with two events\n", r.err)
    assert.equal(2, run({ run.perfl, "latency", "block", "-f", "svg", "--slot", "0", "--", "true" }).code)
    r = run { run.perfl, "latency", "a:b", "c:d", "--by", "tid,comn", "--", "true" }
    assert.same({ 2, "latency: --by: no record has a field 'comn' (did you mean 'comm'?)\n" }, { r.code, r.err })
  end)
end)

describe("a script of interrupts", function()
  -- On CPU 0 a soft interrupt of kind 3 takes 2 ms, a handler in it 1 ms; on CPU 1 another of kind 3 takes 4 ms.
  local world = [[
    k:tracepoint("irq:softirq_entry", 921, "unsigned int vec")
    k:tracepoint("irq:softirq_exit", 922, "unsigned int vec")
    k:tracepoint("irq:irq_handler_entry", 923, "int irq; __data_loc char[] name")
    k:tracepoint("irq:irq_handler_exit", 924, "int irq; int ret")
    sample(5, 0, 0, "irq:softirq_exit", { vec = 1 }) -- it began before the run
    sample(10, 0, 7, "irq:softirq_entry", { vec = 3 }) sample(10, 1, 8, "irq:softirq_entry", { vec = 3 })
    sample(11, 0, 7, "irq:irq_handler_entry", { irq = 36, name = "disk\27" })
    sample(12, 0, 7, "irq:irq_handler_exit", { irq = 36, ret = 1 })
    sample(12, 0, 7, "irq:softirq_exit", { vec = 3 }) sample(14, 1, 8, "irq:softirq_exit", { vec = 3 })
    sample(20, 1, 8, "irq:softirq_entry", { vec = 77 }) sample(21, 1, 8, "irq:softirq_exit", { vec = 77 })]]

  local function rows_of(...)
    local rows = {}
    for key, count, total in output_of(world, ...):gmatch "\n(%S+) +(%d+) +([%d.]+)" do
      rows[#rows + 1] = table.concat({ key, count, total }, " ")
    end
    return rows
  end

  it("adds up the soft interrupts of a kind, on each CPU with --per cpu", function()
    assert.same({ "NET_RX 2 6000.0", "77 1 1000.0" }, rows_of "softirqs")
    assert.same({ "NET_RX/1 1 4000.0", "NET_RX/0 1 2000.0", "77/1 1 1000.0" }, rows_of("softirqs", "--per", "cpu"))
    local first = json.decode(output_of(world, "-j", "softirqs"):match "^[^\n]*")
    assert.same({ "NET_RX", "ns", 2, 6000000 }, { first.softirq, first.unit, first.value.count, first.value.sum })
  end)

  it("adds up the time of a handler, with its name escaped", function()
    assert.same({ "36:disk\\x1b 1 1000.0" }, rows_of "hardirqs")
  end)

  it("needs all tasks, but not all CPUs", function()
    for _, name in ipairs { "softirqs", "hardirqs" } do
      assert.matches(" 1 +1000.0 ", machine.quiet("--sim", machine.path(dir, world), "-C", "0,1", name))
      local r = run { run.perfl, "--sim", machine.path(dir, world), "-p", "7", name }
      assert.same({ 2, "" }, { r.code, r.out })
      assert.matches("^" .. name .. ": [^\n]* runs in whatever task is on the CPU\n  try: %-a\n$", r.err)
    end
  end)
end)

describe("timeline", function()
  local switches = [[
    switch(10, 0, 7, true, true) -- who ran before the first switch
    switch(10, 0, 8, false)
    switch(12, 0, 8, true)
    switch(20, 1, 7, false)
    sample(21, 1, 7, "sched:sched_wakeup", { comm = "helper", pid = 8, prio = 0, target_cpu = 1 })
    switch(30, 0, 8, false) -- to the end]]

  -- The entries of a kind, except names of threads, ordered by time from the first.
  local function events_of(text)
    local spans, points, first = {}, {}, math.huge
    local trace = json.decode(text)
    for _, e in ipairs(trace.traceEvents) do
      if e.ts then first = math.min(first, e.ts) end
    end
    for _, e in ipairs(trace.traceEvents) do
      local words = e.ts and { ("%d"):format(e.tid - 1), e.name, ("%.0f"):format(e.ts - first) }
      if e.ph == "X" then
        words[#words + 1] = ("%.0f"):format(e.dur)
        words[#words + 1] = e.args and e.args.left
        spans[#spans + 1] = table.concat(words, " ")
      elseif e.ph == "i" then
        points[#points + 1] = table.concat(words, " ")
      end
    end
    table.sort(spans)
    return spans, points
  end

  it("shows the task on each CPU, from start to end, and why it left", function()
    assert.same({ "0 app 0 0 preempted", "0 helper 0 2000 to wait", "0 helper 20000 0", "1 app 10000 10000" },
      (events_of(output_of(switches, "timeline"))))
  end)

  it("shows the same from recordings, by records, by events or by both", function()
    local format <close> = assert(io.open "spec/fixtures/formats/sched_switch.txt")
    local builder = perfdata.new { events = { { ids = { 1 }, name = "sched:sched_switch", attr = {
      type = 2, config = 372, sample_type = { "identifier", "tid", "time", "cpu", "raw" }, sample_period = 1,
      sample_id_all = true, context_switch = true,
    } } } }
    local tracing = builder:tracing_data("sched", format:read "a")
    local comms, at = { [0] = "swapper", [7] = "app", [8] = "helper" }, nil
    local function event(ms, cpu, prev, state, next)
      at = { identifier = 1, pid = prev, tid = prev, time = ms * 1000000, cpu = cpu }
      local t = { type = "sample", raw = string.pack("=I2BBi4 c16 i4i4 i8 c16 i4i4", 372, 0, 0, prev, comms[prev],
        prev, 120, state, comms[next], next, 120) }
      for name, value in pairs(at) do t[name] = value end
      return t
    end
    local function record(out, pid, preempt)
      at.pid, at.tid = pid, pid
      return { type = "switch", out = out, preempt = preempt, sample_id = at }
    end
    local function recorded(with_events, with_records)
      builder.records = {}
      for _, r in ipairs { { 10, 0, 7, 0x100, 8 }, { 12, 0, 8, 1, 0 }, { 20, 1, 0, 0, 7 }, { 25, 1, 7, 1, 0 } } do
        local t, _, _, prev, state, next = event(table.unpack(r)), table.unpack(r)
        if with_events then builder:add(t) end
        if with_records then builder:add(record(true, prev, state ~= 1)):add(record(false, next)) end
      end
      return run.write_file(dir .. "/recorded.data", builder:file { [1] = tracing, [12] = builder:event_desc() })
    end
    local spans = { "0 app 0 0 preempted", "0 helper 0 2000 to wait", "1 app 10000 5000 to wait" }
    for _, kinds in ipairs { { true, false }, { true, true } } do
      assert.same(spans, (events_of(machine.quiet("-i", recorded(table.unpack(kinds)), "timeline"))))
    end
    local of_records = events_of(machine.quiet("-i", recorded(false, true), "timeline"))
    for i, span in ipairs(of_records) do of_records[i] = span:gsub(":7 ", "app "):gsub(":8 ", "helper ") end
    assert.same(spans, of_records)
  end)

  it("marks the events that the user names", function()
    local _, points = events_of(output_of(switches, "timeline", "--mark", "sched:sched_wakeup"))
    assert.same({ "1 sched:sched_wakeup 11000" }, points)
  end)

  it("nests interrupts within the tasks that they interrupt", function()
    local spans = events_of(output_of([[
      k:tracepoint("irq:irq_handler_entry", 501, "int irq") k:tracepoint("irq:irq_handler_exit", 502, "int irq")
      k:tracepoint("irq:softirq_entry", 503, "unsigned int vec")
      k:tracepoint("irq:softirq_exit", 504, "unsigned int vec")
      sample(5, 1, 7, "irq:softirq_exit", { vec = 1 }) -- of what began before us
      sample(6, 1, 7, "irq:irq_handler_entry", { irq = 30 })
      sample(6, 0, 7, "irq:irq_handler_entry", { irq = 31 })
      sample(7, 1, 7, "irq:irq_handler_exit", { irq = 30 })
      sample(8, 1, 7, "irq:softirq_entry", { vec = 9 })
      sample(9, 1, 7, "irq:softirq_exit", { vec = 9 })]] .. "\n" .. switches, "timeline", "--irq"))
    assert.same({ "1 irq 30 0 1000", "1 softirq 9 2000 1000" },
      { table.unpack(spans, #spans - 1) })
  end)
end)
