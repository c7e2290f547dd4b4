-- The script slow on the simulated kernel: calls whose parts are known to the nanosecond.

local json = require "spec.support.json"
local run = require "spec.support.run"

local machine = require "spec.support.worlds" [[
local sim = require "perfev.sim"
local k = sim.new { world = "vm", cpus = "0-1", tasks = { [7] = "app", [8] = "helper" }, files = {
  ["/proc/kallsyms"] = "ffffffff81000100 T io_schedule\nffffffff81000200 T __x64_sys_fsync\n"
    .. "ffffffff81000300 T do_syscall_64\nffffffff81000400 T __x64_sys_clock_nanosleep\n"
    .. "ffffffff81000500 T asm_exc_page_fault\nffffffff81000600 T clear_page\n",
} }
k:tracepoint("app:begin", 901, "int id")
k:tracepoint("app:end", 902, "int id")
k:tracepoint("sched:sched_waking", 375, "char comm[16]; pid_t pid; int prio; int target_cpu")
local function kernel(...)
  local chain = { -128 }
  for i, n in ipairs { ... } do chain[i + 1] = 0xffffffff81000010 + (n << 8) end
  return chain
end
local FSYNC, SLEEP, FAULT = kernel(1, 2, 3), kernel(4, 3), kernel(6, 5)
local function at(us, cpu, record) k:after(us * 1000, function() k:ring(cpu):push(record) end) end
local function sample(us, tid, event, args, chain)
  at(us, 0, { type = "sample", pid = tid, tid = tid, event = event, args = args, callchain = chain })
end
local function begin(us, id, tid) sample(us, tid or 7, "app:begin", { id = id or 1 }) end
local function stop(us, id, tid) sample(us, tid or 7, "app:end", { id = id or 1 }) end
local function leaves(us, chain, state, next_comm)
  sample(us, 7, "sched:sched_switch", { prev_pid = 7, prev_state = state or 1, next_comm = next_comm or "x",
    prev_comm = "app" }, chain)
  at(us, 0, { type = "switch", pid = 7, tid = 7, out = true, preempt = state == 0 })
end
local function wakes(us) sample(us, 8, "sched:sched_waking", { pid = 7, comm = "app" }) end
local function enters(us) at(us, 1, { type = "switch", pid = 7, tid = 7, out = false }) end
local function on_cpu(us, chain)
  at(us, 1, { type = "sample", pid = 7, tid = 7, event = { type = 1, config = 0 }, callchain = chain })
end
-- 60 calls each 20 ms: 1 ms on the CPU each, and 3 of them also what `slow` does, from its time on for `more` us.
local function calls(more, slow)
  for i = 0, 59 do
    local t = 20000 * (i + 1)
    begin(t)
    if i % 20 == 7 then slow(t + 500) end
    stop(t + 1000 + (i % 20 == 7 and more or 0))
  end
end
]]

local WORLDS = {
  disk = [[calls(10000, function(t) leaves(t, FSYNC) wakes(t + 8000) enters(t + 10000) end)]],
  preempted = [[calls(6000, function(t) leaves(t, SLEEP, 0, "backup") enters(t + 6000) end)]],
  fault = [[calls(5000, function(t)
    for i = 0, 49 do on_cpu(t + 100 * i, FAULT) end
    for i = 0, 19 do at(t + i, 1, { type = "sample", pid = 7, tid = 7, event = { type = 1, config = 5 } }) end
  end)]],
  -- The slow calls run 10 ms longer and are therefore preempted, for 12 ms; so is the rest, in proportion.
  busy = [[
    for i = 0, 59 do
      local t = 50000 * (i + 1)
      local cpu = i % 20 == 7 and 11000 or 1000
      begin(t)
      for us = 0, cpu - 500, 500 do on_cpu(t + us, FAULT) end
      leaves(t + cpu, SLEEP, 0, "backup")
      enters(t + cpu + cpu * 12 // 10)
      stop(t + cpu + cpu * 12 // 10)
    end]],
}

local dir
setup(function() dir = run.tempdir() end)
teardown(function() run.remove(dir) end)

local function report(world, ...)
  return machine.output(dir, WORLDS[world] or world, "slow", "app:begin", "app:end", ...)
end

local function first_line(...) return report(...):match "^[^\n]*" end

-- Returns the rows of the JSON report by key.
local function rows_of(world)
  local rows, object = {}, json.decode(report(world, "-f", "json"))
  for _, row in ipairs(object.rows) do rows[row.key] = row end
  return rows, object
end

describe("the first line of slow", function()
  it("names a wait for the disk, with the system call", function()
    assert.equal("the slowest 5 % (3 of 60 calls, 11.0 ms or more) wait 8.00 ms longer for the disk (fsync) "
      .. "(95 % interval 8.00 to 8.00 ms)", first_line "disk")
  end)

  it("names a wait for a CPU, and the task that has it", function()
    assert.equal("the slowest 5 % (3 of 60 calls, 7.00 ms or more) wait 6.00 ms longer for a CPU, taken by backup "
      .. "(95 % interval 6.00 to 6.00 ms)", first_line "preempted")
  end)

  it("names page faults, with their number", function()
    assert.equal("the slowest 5 % (3 of 60 calls, 6.00 ms or more) spend 5.00 ms longer in page faults, with 20 more "
      .. "of them per call (95 % interval 5.00 to 5.00 ms)", first_line "fault")
  end)

  it("names the code that runs longer, and not the waits for a CPU that follow from it", function()
    local text = report "busy"
    assert.matches("^[^\n]* spend 10.0 ms longer in page faults [^\n]*\n"
      .. "they therefore also wait 12.0 ms longer for a CPU, taken by backup ", text)
  end)

  it("names the largest difference, even if fewer than half of the slow calls have it", function()
    assert.matches("^the slowest 20 %% %(24 of 120 calls, 1.01 ms or more%) wait 2.00 ms longer for the disk",
      first_line([[
      for i = 0, 119 do
        local t, more = 20000 * (i + 1), i % 5 == 1 and 10 or 0
        begin(t)
        if i % 20 == 1 then leaves(t + 500, FSYNC) wakes(t + 8500) enters(t + 8500) more = 8000 end
        stop(t + 1000 + more)
      end]], "--slowest", "20%"))
  end)

  it("does not name what only one slow call has", function()
    assert.matches(" sleep 5.00 ms longer ", first_line([[
      for i = 0, 59 do
        local t, more = 200000 * (i + 1), 0
        begin(t)
        if i % 10 == 7 then leaves(t + 100, SLEEP) wakes(t + 5100) enters(t + 5100) more = 5000 end
        if i == 7 then leaves(t + 6000, SLEEP, 0, "backup") enters(t + 106000) more = 105000 end
        stop(t + 1000 + more)
      end]], "--slowest", "10%"), 1, true)
  end)

  it("says so if the slow calls are hardly slower than the rest", function()
    assert.matches("^no call is much slower: the slowest 5 %% %(3 of 60 calls, 1.20 ms or more%) take 1.20 ms, "
      .. "the rest 1.00 ms\nthey sleep 200 us longer ",
      report "calls(200, function(t) leaves(t, SLEEP) wakes(t + 200) enters(t + 200) end)")
  end)

  it("is not sure of fewer than three slow calls", function()
    assert.matches("^the slowest 1 %% %(1 of 60 calls, 11.0 ms or more%) are too few to be sure; "
      .. "they may wait 7.73 ms longer for the disk %(fsync%)$", first_line("disk", "--slowest", "1%"))
    assert.equal("only one call: there are no others to compare it with", first_line "begin(5) stop(10)")
  end)

  it("says so if there is nothing to compare", function()
    assert.equal("none of the 60 calls took 1.00 s or more", first_line("disk", "--over", "1s"))
    assert.equal("all 60 calls are slow: there is no rest to compare them with", first_line("disk", "--over", "1us"))
  end)

  it("says why there are no calls", function()
    assert.equal("no call began during the run", first_line "")
    assert.equal("2 calls began, and none ended during the run", first_line "begin(10, 1, 7) begin(11, 2, 8)")
    assert.matches("^no call began and ended in the same thread\n  try: %-%-key FIELD",
      report "begin(10, 1, 7) stop(20, 1, 8)")
  end)

  it("names what all slow calls have, though one has much more of it and nothing is certain but a trifle", function()
    assert.matches("^[^\n]* wait [%d.]+ ms longer for the disk %(fsync%)", first_line [[
      for i = 0, 59 do
        local t, is_slow = 200000 * (i + 1), i % 20 == 7
        local waits = i == 47 and 150000 or 8000
        begin(t)
        if is_slow then leaves(t + 500, FSYNC) enters(t + 500 + waits) end
        stop(t + 1000 + (is_slow and waits + 50 or 0))
      end]])
  end)

  it("selects by duration and by quantile", function()
    assert.matches("^the calls over 2.00 ms %(3 of 60 calls, 11.0 ms or more%) wait",
      first_line("disk", "--over", "2ms"))
    assert.matches("^the slowest 10 %% %(6 of 60 calls, 1.00 ms or more%) wait 4.00 ms longer for the disk",
      first_line("disk", "--quantile", "0.9"))
  end)
end)

describe("the report of slow", function()
  it("has rows that add up to the duration of a call", function()
    for world in pairs(WORLDS) do
      local rows = rows_of(world)
      for _, group in ipairs { "slow", "rest" } do
        local states, code = 0, 0
        for key, row in pairs(rows) do
          if row.unit == "ns" and key ~= "took" then
            if key:find "^cpu_" then code = code + row[group] else states = states + row[group] end
          end
        end
        assert.is_true(math.abs(states - rows.took[group]) < 1, world)
        assert.is_true(math.abs(code - rows.cpu[group]) < 1, world)
      end
    end
  end)

  it("has the time of each state", function()
    local rows, object = rows_of "disk"
    assert.same({ 8000000, 2000000, 1000000 }, { rows.disk.slow, rows.woken.slow, rows.cpu.slow })
    assert.same({ 0, 0, 1000000 }, { rows.disk.rest, rows.woken.rest, rows.cpu.rest })
    assert.same({ "disk", 60, 3, 11000000 }, { object.main, object.calls, object.slow_calls, object.threshold })
    assert.same({ { 500000, 8500000 } }, object.examples[1].lanes[1].pieces)
  end)

  it("divides the time with the CPU samples only", function()
    local object = json.decode(report("disk", "--with", "cpu", "-f", "json"))
    local rows = {}
    for _, row in ipairs(object.rows) do rows[row.key] = row end
    assert.same({ 10000000, 1000000 }, { rows.blocked.slow, rows.cpu.slow })
  end)

  it("shows three calls as lanes, in 80 columns", function()
    local text = report "disk"
    assert.truthy(text:find("\nthe slowest call: 11.0 ms, app, thread 7\n"
      .. "  the disk              |  ################################          |  8.00 ms\n", 1, true), text)
    assert.truthy(text:find("\na typical other call: 1.00 ms, app, thread 7\n"
      .. "  on the CPU            |############################################|  1.00 ms\n", 1, true), text)
    local number = 0
    for line in text:gmatch "[^\n]+" do
      number = number + 1
      assert.is_true(number < 3 or #line <= 80, line)
    end
  end)

  it("is a page with a flame graph and the same words, and no names of others as markup", function()
    local page = report([[k:task(7, "<b>")]] .. WORLDS.disk, "-f", "html", "--title", "a <title>")
    assert.matches("^<!DOCTYPE html>", page)
    assert.truthy(page:find("wait 8.00 ms longer for the disk (fsync)", 1, true))
    assert.truthy(page:find('<div class="lane"><i class="disk" style="left:4.545%;width:72.727%"', 1, true))
    assert.truthy(page:find('"base":', 1, true))
    assert.falsy(page:find("<b>", 1, true))
    assert.falsy(page:find("<title>a <title>", 1, true))
  end)

  it("counts what it leaves out", function()
    local text = report(WORLDS.disk .. [[
      stop(5) begin(10, 1, 8) at(20, 0, { type = "exit", pid = 8, tid = 8, ppid = 1, ptid = 1 }) begin(1900000)]])
    assert.matches("\n1 call left out: the thread ended or ran another program in between\n", text, 1, true)
    assert.matches("\n1 call left out: not ended at the end of the run\n", text, 1, true)
    assert.matches("\n1 end without a start\n", text, 1, true)
  end)

  it("leaves out calls with lost records", function()
    local text = machine.quiet("--sim", machine.path(dir, WORLDS.disk .. [[
      k:after(165000000, function() -- in the first slow call
        for _ = 1, 500 do
          k:ring(1):push { type = "sample", pid = 7, tid = 7, event = { type = 1, config = 5 } }
        end
      end)
      at(168000, 1, { type = "sample", pid = 7, tid = 7, event = { type = 1, config = 5 } })]]),
      "-m", "8K", "-a", "slow", "app:begin", "app:end")
    assert.matches("^the slowest 5 %% %(3 of 59 calls, 1.00 ms or more%) have no certain cause; they may wait 5.33 ms "
      .. "longer for the disk [^\n]*; but 1 more call lost records and is left out\n", text)
    assert.matches("\n1 call left out: records were lost meanwhile\n", text, 1, true)
  end)

  it("joins threads by a key", function()
    local text = report([[
      for i = 0, 59 do
        begin(20000 * (i + 1), i, 8)
        stop(20000 * (i + 1) + (i % 20 == 7 and 9000 or 1000), i, 7)
      end
      begin(5000000, 77, 8) stop(5000500, 78, 7)]], "--key", "args.id")
    assert.matches("^the slowest 5 %% %(3 of 60 calls, 9.00 ms or more%) ", text)
    assert.matches("\n1 call left out: not ended at the end of the run\n1 end without a start\n", text, 1, true)
  end)

  it("says what was not collected, and why", function()
    local world = [[
      k = sim.new { world = "unprivileged", cpus = "0", tasks = { [7] = "app" } }
      k:after("2s", function() k:exit(7) end)]]
    local r = run { run.perfl, "-q", "--sim", machine.path(dir, world), "-p", "7", "slow", "mem:0x1000:x",
      "mem:0x2000:x" }
    assert.equal(0, r.code, r.err)
    for _, part in ipairs { "stacks of blocked threads", "wakeups" } do
      assert.matches("\nnot collected: " .. part .. ": tracepoint 'sched:[^\n]+\n", r.out)
    end
  end)
end)

describe("slow", function()
  local function refused(why, ...)
    local r = run { run.perfl, "slow", ... }
    assert.same({ 2, "", why }, { r.code, r.out, r.err })
  end

  it("refuses contradictory and unknown words", function()
    refused("slow: more than one of --slowest, --quantile and --over\n  try: --slowest 5%\n", "./a:f", "--over", "1s",
      "--slowest", "1%")
    refused("slow: --slowest 0: not a share of the calls\n  try: --slowest 5%\n", "./a:f", "--slowest", "0")
    refused("slow: --quantile 99: not a number between 0 and 1\n  try: --quantile 0.99\n", "./a:f", "--quantile",
      "99")
    refused("slow: --key: joins two events\n  try: perfl slow START STOP --key tid\n", "./a:f", "--key", "tid")
    refused("slow: --key: no record has a field 'tidd' (did you mean 'tid'?)\n", "a:b", "a:c", "--key", "tidd")
    refused("slow: --with: 'disk' is not one of cpu, offcpu, wakeups, faults\n  try: --with cpu,offcpu\n",
      "./a:f", "--with", "cpu,disk")
    refused("slow: -F 0: not above 0\n  try: -F 1999\n", "./a:f", "-F", "0")
    refused("slow: --call-graph: call-graph is fp, dwarf, lbr, defer or no, not 'magic'\n"
      .. "  try: fp, dwarf, dwarf,BYTES, lbr or defer\n", "./a:f", "--call-graph", "magic")
  end)
end)
