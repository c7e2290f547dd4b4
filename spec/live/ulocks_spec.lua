-- The script ulocks on the real kernel: a thread waits a known number of times for a lock that another one holds.

local json = require "spec.support.json"
local run = require "spec.support.run"

-- The holder lets the lock go when /proc shows that the other thread waits for it.
local program = [[
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
static int waiter;

__attribute__((noinline)) void contend_for_clone(void)
{
	pthread_mutex_lock(&lock);
	pthread_mutex_unlock(&lock);
	__asm__ volatile("");
}

static void *wait_often(void *times)
{
	waiter = (int)syscall(SYS_gettid);
	for (int i = 0; i < *(int *)times; i++) {
		pthread_barrier_wait(&both);
		contend_for_clone();
		pthread_barrier_wait(&both);
	}
	return NULL;
}

/* True if the other thread is in futex(2) for that lock. */
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

int main(int argc, char **argv)
{
	int times = argc > 1 ? atoi(argv[1]) : 1;
	pthread_t thread;

	pthread_barrier_init(&both, NULL, 2);
	pthread_create(&thread, NULL, wait_often, &times);
	for (int i = 0; i < times; i++) {
		pthread_mutex_lock(&lock);
		pthread_barrier_wait(&both);
		while (!is_waiting())
			;
		pthread_mutex_unlock(&lock);
		pthread_barrier_wait(&both);
	}
	pthread_join(thread, NULL);
	printf("%p\n", (void *)&lock);
	return 0;
}
]]

local TIMES = 7

local dir, reason

setup(function()
  if not run.root then reason = "tracepoints need root" return end
  if not run.have "cc" then reason = "no C compiler here" return end
  if not run.slurp "/sys/kernel/tracing/events/syscalls/sys_enter_futex/id" then reason = "no tracefs" return end
  if not run.slurp "/proc/self/syscall" then reason = "this kernel has no /proc/PID/syscall" return end
  dir = run.tempdir()
  local r = run({ "cc", "-O1", "-g", "-pthread", "-x", "c", "-o", dir .. "/wait", "-" }, { stdin = program })
  assert.equal(0, r.code, r.err)
end)

teardown(function() if dir then run.remove(dir) end end)

local function on(what, test)
  it(what, function()
    if reason then return pending(reason) end
    return test()
  end)
end

-- Returns the rows by "COMM ADDRESS CALLER", and the address of the lock.
local function rows_of(option, value)
  local r = run { run.perfl, "-q", "-j", "ulocks", option, value, "--", dir .. "/wait", tostring(TIMES) }
  assert.same({ 0, "" }, { r.code, r.err })
  local rows, address = {}, nil
  for line in r.out:gmatch "[^\n]+" do
    address = address or line:match "^0x%x+$"
    if line:find "^{" then
      local row = json.decode(line)
      rows[row.lock] = row.value
    end
  end
  return rows, address
end

describe("ulocks", function()
  on("counts the waits for a lock, by the function that called the lock", function()
    local rows, address = rows_of("--top", "100")
    local value = rows[("wait %s contend_for_clone"):format(address)]
    assert.equal(TIMES, value and value.count)
    assert.is_true(value.sum > 0 and value.max <= value.sum)
    -- No other function waits for that lock.
    for key in pairs(rows) do
      assert.is_true(key:find "contend_for_clone$" ~= nil or not key:find(address, 1, true), key)
    end
  end)

  on("names other waits by their callers: a barrier in main, a join", function()
    local callers = {}
    for key in pairs(rows_of("--top", "100")) do callers[key:match "%S+$"] = true end
    assert.is_true(callers.main)
  end)

  on("prints a table, with the first column as wide as its keys", function()
    local r = run { run.perfl, "-q", "ulocks", "--top", "1", "--", dir .. "/wait", tostring(TIMES) }
    assert.same({ 0, "" }, { r.code, r.err })
    local head, row = r.out:match "(LOCK [^\n]+)\n(wait 0x%x+ %S+ [^\n]+)\n%(%d+ others%)\n$"
    assert.equal(#head, #row)
  end)

  on("refuses a way to take stacks that does not exist", function()
    local r = run { run.perfl, "ulocks", "--call-graph", "magic", "--", "true" }
    assert.equal(2, r.code)
    assert.matches("^ulocks: %-%-call%-graph: ", r.err)
  end)
end)
