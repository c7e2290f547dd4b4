-- Acceptance: tpoint and a simultaneous perf record show the same lines.
--
-- perf record runs perfl, which runs the workload: each arms itself before it lets the next
-- one go, so the workload lies wholly within both. On every CPU it switches under the name pevB,
-- then pevW many times, then pevE; the lines between, of all processes, are compared one by one.
-- The two events read the clock one after the other, so times are compared by order: on one
-- CPU, line k of ours lies between k-1 and k+1 of perf's.

local run = require "spec.support.run"

local workload = [[
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static long waits(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw;
}

/* Until it was off the CPU for it: a busy machine lets a timer fire before who set it sleeps. */
static void switch_as(const char *name, int times)
{
	prctl(PR_SET_NAME, name);
	while (times--)
		for (long before = waits(); waits() == before;)
			usleep(1);
}

static void work_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		exit(1);
	switch_as("pevB", 1);
	switch_as("pevW", 200);
	switch_as("pevE", 1);
	exit(0);
}

int main(void)
{
	cpu_set_t all;
	int status, failed = 0;

	sched_getaffinity(0, sizeof(all), &all);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &all))
			continue;
		printf("cpu %d\n", cpu);
		fflush(stdout);
		if (fork() == 0)
			work_on(cpu);
	}
	while (wait(&status) > 0)
		failed |= status;
	return failed != 0;
}
]]

local function missing()
  if not run.root then return "watching every CPU needs root" end
  if not run.have "perf" then return "no perf here" end
  if not run.have "cc" then return "no C compiler here" end
  if not run.capture "test -r /sys/kernel/tracing/events/sched/sched_switch/id && echo yes" then
    return "no tracefs is mounted"
  end
end

local function build(dir)
  local r = run({ "cc", "-O1", "-x", "c", "-o", dir .. "/work", "-" }, { stdin = workload })
  assert.equal(0, r.code, r.err)
end

local function perf(...)
  return run({ "perf", ... }, { env = { PERF_CONFIG = "/dev/null" } })
end

-- -> { cpu = { {us =, text =}, ... } } by cpu, in the order printed
local function lines_of(path, parse)
  local by_cpu = {}
  for line in io.lines(path) do
    local cpu, us, text = parse(line)
    if cpu then
      by_cpu[cpu] = by_cpu[cpu] or {}
      table.insert(by_cpu[cpu], { us = us, text = text })
    end
  end
  return by_cpu
end

local function ours(line)
  local cpu, s, us, text = line:match("%[(%d+)%] [^ ]+ +(%d+)%.(%d+): sched_switch: (.*)$")
  return cpu and tonumber(cpu), cpu and tonumber(s .. us), text
end

-- perf script -F cpu,time,trace --ns; times rounded as ftrace's, and so ours, are
local function perfs(line)
  local cpu, s, ns, text = line:match("^ *%[(%d+)%] +(%d+)%.(%d+): +(.*)$")
  if not cpu then return nil end
  return tonumber(cpu), (tonumber(s .. ns) + 500) // 1000, text
end

-- From the switch away from pevB to that away from pevE.
local function window(lines)
  local inside, list = false, {}
  for _, line in ipairs(lines) do
    inside = inside or line.text:find("^prev_comm=pevB ") ~= nil
    if inside then list[#list + 1] = line end
    if line.text:find("^prev_comm=pevE ") then return list end
  end
  return nil
end

-- -> output of the workload, of tpoint, of perf | nil when tpoint or perf lost records
local function record(dir)
  local r = perf("record", "-q", "-a", "-e", "sched:sched_switch", "-k", "CLOCK_MONOTONIC", "-m", "4M",
    "-o", dir .. "/data", "--", run.perfl, "-q", "--fail-on-lost", "-m", "4M", "-o", dir .. "/ours",
    "-a", "tpoint", "sched:sched_switch", "--", dir .. "/work")
  if r.code == 3 then return nil end
  assert.equal(0, r.code, r.err)
  local told = perf("script", "-i", dir .. "/data", "--ns", "--show-lost-events", "-F",
    "cpu,time,trace")
  assert.equal(0, told.code, told.err)
  if told.out:find("PERF_RECORD_LOST", 1, true) then return nil end
  run.write_file(dir .. "/perfs", told.out)
  return r.out, lines_of(dir .. "/ours", ours), lines_of(dir .. "/perfs", perfs)
end

describe("perfl -a tpoint sched:sched_switch and perf record -a", function()
  local dir, said, mine, theirs

  setup(function()
    if missing() then return end
    dir = run.tempdir()
    build(dir)
    for _ = 1, 3 do
      if not said then said, mine, theirs = record(dir) end
    end
  end)

  teardown(function()
    if dir then run.remove(dir) end
  end)

  local function each_cpu(check)
    if missing() then return pending(missing()) end
    if not said then return pending "records were lost three times: the machine is too busy" end
    local compared = 0
    for cpu in said:gmatch("cpu (%d+)") do
      cpu = tonumber(cpu)
      local a, b = window(mine[cpu] or {}), window(theirs[cpu] or {})
      assert.truthy(a, "ours lack the workload on cpu " .. cpu)
      assert.truthy(b, "perf's lack the workload on cpu " .. cpu)
      check(a, b, cpu)
      compared = compared + #a
    end
    assert.is_true(compared >= 200)
  end

  it("show the same text on each CPU, in the same order", function()
    each_cpu(function(a, b, cpu)
      for i = 1, math.max(#a, #b) do
        assert.equal(b[i] and b[i].text, a[i] and a[i].text, ("cpu %d, line %d"):format(cpu, i))
      end
    end)
  end)

  it("show each line at the same time: between the same neighbours", function()
    each_cpu(function(a, b, cpu)
      for i, line in ipairs(a) do
        local before, after = b[i - 1], b[i + 1]
        assert.is_true((not before or before.us <= line.us) and (not after or line.us <= after.us),
          ("cpu %d, line %d"):format(cpu, i))
      end
    end)
  end)

  it("show perfl's lines in the order of time, over all CPUs", function()
    if missing() then return pending(missing()) end
    if not said then return pending "records were lost three times: the machine is too busy" end
    local last = 0
    for line in io.lines(dir .. "/ours") do
      local _, us = ours(line)
      assert.is_true(us >= last, line)
      last = us
    end
  end)
end)
