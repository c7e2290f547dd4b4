-- The script sched on recordings of perf sched record: the figures of perf sched.

local run = require "spec.support.run"

-- Two processes pass a byte to each other on one CPU. No ordinary task preempts them, and they are not migrated: perf
-- 6.1 does not count the delays of preempted tasks (it has no letter for their state).
local program = [[
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void pass(const char *name, int from, int to, int times)
{
	char byte = 0;

	if (fork())
		return;
	prctl(PR_SET_NAME, name);
	while (times-- > 0)
		if (read(from, &byte, 1) != 1 || write(to, &byte, 1) != 1)
			_exit(1);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct sched_param param = { .sched_priority = 50 };
	int there[2], back[2], times = atoi(argv[argc - 1]), status = 0;
	cpu_set_t cpus;

	sched_getaffinity(0, sizeof(cpus), &cpus);
	for (int i = 0, found = 0; i < CPU_SETSIZE; i++)
		if (CPU_ISSET(i, &cpus) && found++)
			CPU_CLR(i, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus) || sched_setscheduler(0, SCHED_FIFO, &param))
		return 77;
	if (pipe(there) || pipe(back))
		return 1;
	pass("pev-first", there[0], back[1], times);
	pass("pev-second", back[0], there[1], times);
	if (write(there[1], "x", 1) != 1)
		return 1;
	while (wait(&status) > 0)
		if (status)
			return 1;
	return 0;
}
]]

local TIMES = 40

local PREEMPTED = [[
  local n = 0
  event { "sched:sched_switch", fields = { "args.prev_comm", "args.prev_state" }, sample = function(comm, state)
    if comm:find "^pev%-" and state == 0x100 then n = n + 1 end
  end }
  done(function() print(n) end)]]

local dir, reason
local of_waking, of_wakeup -- recordings; perf sched latency of 6.1 does not read sched_waking

-- perf 6.1 aborts now and then.
local function perf(...)
  local r
  for _ = 1, 5 do
    r = run { "perf", ... }
    if r.code == 0 then return r end
  end
  return r
end

-- Records until nothing preempts the two: a watchdog may, or a migration.
local function record(path, option)
  local r
  for _ = 1, 10 do
    r = perf("sched", "record", "-o", path, option, dir .. "/pass", tostring(TIMES))
    if r.code ~= 0 or run({ run.perfl, "-q", "-i", path, "-e", PREEMPTED }).out == "0\n" then break end
  end
  return r
end

setup(function()
  if not run.root then reason = "perf sched record needs root" return end
  if not run.have "perf" or not run.have "cc" then reason = "no perf(1) or no C compiler here" return end
  dir = run.tempdir()
  local r = run({ "cc", "-O1", "-x", "c", "-o", dir .. "/pass", "-" }, { stdin = program })
  assert.equal(0, r.code, r.err)
  if run({ dir .. "/pass", "1" }).code == 77 then reason = "no real-time scheduling here" return end
  of_waking, of_wakeup = dir .. "/waking.data", dir .. "/wakeup.data"
  r = record(of_waking, "-q")
  if r.code == 0 then r = record(of_wakeup, "--event=sched:sched_wakeup") end
  if r.code ~= 0 then reason = "perf sched record: " .. r.err:sub(1, 200) end
end)

teardown(function() if dir then run.remove(dir) end end)

local function on(what, test)
  it(what, function()
    if reason then return pending(reason) end
    return test()
  end)
end

local function perfl(recording, ...)
  local r = run { run.perfl, "-q", "-i", recording, "sched", ... }
  assert.same({ 0, "" }, { r.code, r.err })
  return r.out
end

describe("sched on a recording of perf sched record", function()
  on("has the turns of perf sched timehist: wait, delay and run", function()
    -- The last switch of a task that was reaped is one of task -1 in perf.
    local function turns_of(text)
      local turns, nr = {}, 0
      for time, cpu, name, wait, delay, ran in
        text:gmatch "\n *([%d.]+) %[(%d+)%] +(pev%-%a+%[%d+%]) +([%d.]+) +([%d.]+) +([%d.]+)" do
        turns[time .. " " .. cpu] = table.concat({ name, wait, delay, ran }, " ")
        nr = nr + 1
      end
      return turns, nr
    end
    local theirs, nr = turns_of(perf("sched", "timehist", "-i", of_waking).out)
    local ours = turns_of(perfl(of_waking, "timehist"))
    assert.is_true(nr >= 2 * TIMES, "perf has " .. nr)
    for key, turn in pairs(theirs) do assert.equal(turn, ours[key]) end
  end)

  on("has the figures of perf sched latency, for tasks and for names", function()
    local function theirs_of(...)
      local rows = {}
      for name, id, runtime, count, avg, max, from, to in perf("sched", "latency", "-i", of_wakeup, ...).out:gmatch(
        "\n +(pev%-%a+):(%S+) +| +([%d.]+) ms | +(%d+) | avg: *([%d.]+) ms | max: *([%d.]+) ms"
          .. " | max start: +([%d.]+) s | max end: +([%d.]+) s") do
        rows[name .. ":" .. id] = { runtime, count, avg, max, from, to }
      end
      return rows
    end
    local function ours_of(...)
      local rows = {}
      for name, id, runtime, count, avg, max, from, to in perfl(of_wakeup, "latency", ...):gmatch(
        "\n(pev%-%a+):(%S+) +([%d.]+) +(%d+) +([%d.]+) +([%d.]+) +(%S+) +(%S+)") do
        rows[name .. ":" .. id] = { runtime, count, avg, max, from, to }
      end
      return rows
    end
    -- perf rounds to microseconds, perfl cuts; a task without a delay has no longest one.
    local function is_alike(a, b)
      for i = 1, 6 do
        local x, y = tonumber(a[i]), tonumber(b[i])
        local tolerance = (i == 2 or i > 4) and 0 or 0.0011
        if not y and not (i > 4 and x == 0) or y and math.abs(x - y) > tolerance then return false end
      end
      return true
    end
    for _, words in ipairs { { { "-p" }, {} }, { {}, { "--per", "comm" } } } do
      local theirs, ours = theirs_of(table.unpack(words[1])), ours_of(table.unpack(words[2]))
      local nr = 0
      for key, row in pairs(theirs) do
        nr = nr + 1
        assert.is_true(ours[key] ~= nil and is_alike(row, ours[key]), ("%s: %s; %s"):format(key,
          table.concat(row, " "), table.concat(ours[key] or {}, " ")))
      end
      assert.equal(2, nr)
    end
  end)

  on("has the switches of perf sched map", function()
    local function switches_of(text)
      local list = {}
      for line in text:gmatch "[^\n]+" do
        -- Only which CPU switched and when: both choose the short names in the order of their own tasks.
        local cells, time = line:match "^  (.-) +(%d+%.%d+) secs"
        if cells then list[#list + 1] = ("%s %d"):format(time, cells:find("*", 1, true)) end
      end
      return list
    end
    local theirs = switches_of(perf("sched", "map", "-i", of_waking).out)
    assert.is_true(#theirs >= 2 * TIMES)
    assert.same(theirs, switches_of(perfl(of_waking, "map")))
  end)
end)

describe("sched, live,", function()
  on("shows the turns of a command", function()
    local r = run { run.perfl, "-q", "sched", "timehist", "--", dir .. "/pass", "20" }
    assert.same({ 0, "" }, { r.code, r.err })
    local _, first = r.out:gsub("%] +pev%-first%[%d+%] ", "")
    local _, second = r.out:gsub("%] +pev%-second%[%d+%] ", "")
    assert.is_true(first >= 20 and second >= 20, r.out)
  end)

  on("counts the runtime of a command once", function()
    local r = run { run.perfl, "-q", "sched", "latency", "--per", "comm", "--", dir .. "/pass", "20" }
    assert.same({ 0, "" }, { r.code, r.err })
    local runtime, count = r.out:match "\npev%-second:%d+ +([%d.]+) +(%d+) "
    assert.is_true(tonumber(count) >= 20, r.out)
    assert.is_true(tonumber(runtime) > 0, r.out)
  end)
end)
