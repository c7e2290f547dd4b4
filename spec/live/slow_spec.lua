-- The script slow on the real kernel: a thread waits for a lock that another one holds until it waits. No time is
-- asserted: the machine may be busy.

local json = require "spec.support.json"
local run = require "spec.support.run"

-- In every fourth call of handle() the holder lets the lock go when /proc shows that the caller waits for it.
local program = [[
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static int waiter;
static volatile int written;

__attribute__((noinline)) void log_line(void)
{
	pthread_mutex_lock(&lock);
	written++;
	pthread_mutex_unlock(&lock);
}

__attribute__((noinline)) void handle(void)
{
	log_line();
	written++;
}

static int is_waiting(void)
{
	char path[64], text[128] = "";
	unsigned long number, address;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", waiter);
	file = fopen(path, "r");
	if (file && !fgets(text, sizeof(text), file))
		text[0] = 0;
	if (file)
		fclose(file);
	return sscanf(text, "%lu %lx", &number, &address) == 2 && number == SYS_futex &&
	       address == (unsigned long)&lock;
}

static void *hold(void *unused)
{
	for (int i = 0; i < 10; i++) {
		pthread_barrier_wait(&both);
		pthread_mutex_lock(&lock);
		pthread_barrier_wait(&both);
		while (!is_waiting())
			;
		pthread_mutex_unlock(&lock);
	}
	return unused;
}

int main(void)
{
	pthread_t thread;

	waiter = (int)syscall(SYS_gettid);
	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&thread, NULL, hold, NULL);
	for (int i = 0; i < 40; i++) {
		if (i % 4 == 0) {
			pthread_barrier_wait(&both);
			pthread_barrier_wait(&both);
		}
		handle();
	}
	pthread_join(thread, NULL);
	return 0;
}
]]

local dir, reason

setup(function()
  if not run.root then reason = "probes need root" return end
  if not run.have "cc" then reason = "no C compiler here" return end
  if not run.slurp "/sys/kernel/tracing/events/sched/sched_switch/id" then reason = "no tracefs" return end
  if not run.slurp "/proc/self/syscall" then reason = "this kernel has no /proc/PID/syscall" return end
  dir = run.tempdir()
  local r = run({ "cc", "-O1", "-g", "-pthread", "-x", "c", "-o", dir .. "/srv", "-" }, { stdin = program })
  assert.equal(0, r.code, r.err)
end)

teardown(function() if dir then run.remove(dir) end end)

local function perfl(...)
  local r = run { run.perfl, "-q", ... }
  assert.same({ 0, "" }, { r.code, r.err })
  return r.out
end

describe("slow", function()
  it("follows each call on the real kernel, and prints the same from a recording", function()
    if reason then return pending(reason) end
    local data, name = dir .. "/calls.data", dir .. "/srv:handle"
    local live = perfl("--record", data, "slow", name, "--slowest", "25%", "--", dir .. "/srv")
    assert.equal(live, perfl("slow", name, "--slowest", "25%", "-i", data))
    assert.matches("^[^\n]+%(10 of 40 calls, ", live)

    local report, rows = json.decode(perfl("-j", "slow", name, "--slowest", "25%", "-i", data)), {}
    for _, row in ipairs(report.rows) do rows[row.key] = row end
    assert.same({ 40, 10, {} }, { report.calls, report.slow_calls, report.remarks })
    assert.same({ "pthread_mutex_lock", "log_line", "handle" }, rows.lock.code)
    assert.equal(10, rows.lock.slow > 0 and math.floor(10 * rows.block.slow + 30 * rows.block.rest + 0.5))
    for _, group in ipairs { "slow", "rest" } do
      local sum = 0
      for key, row in pairs(rows) do
        if row.unit == "ns" and key ~= "took" and not key:find "^cpu_" then sum = sum + row[group] end
      end
      assert.is_true(math.abs(sum - rows.took[group]) < 1)
    end
    local page = perfl("slow", name, "--slowest", "25%", "-f", "html", "-i", data)
    assert.truthy(page:find('"log_line"', 1, true))
  end)
end)
