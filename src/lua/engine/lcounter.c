/*
 * lcounter.c - the userdata perfev.core.counter: opens, reads and sums events.
 *
 * Internal: users see lua/perfev/counter/counter.lua. Members are numbered from 1 in the order
 * of add(); a number is never reused.
 */
#include <errno.h>
#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "event/counter.h"
#include "lua/event/lattr.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/hooks/lhooks.h"
#include "lua/base/loption.h"
#include "lua/base/lregister.h"

#define TYPENAME "perfev.core.counter"
#define MAX_PROGRAMS 4096 /* BPF_TRACE_MAX_PROGS of the kernel is 64 */

static struct pev_counter *check_any(lua_State *L, int idx)
{
	struct pev_counter *counter = luaL_checkudata(L, idx, TYPENAME);

	if (counter->sys)
		l_hooks_enter(L, counter->sys);
	return counter;
}

static struct pev_counter *check_counter(lua_State *L, int idx)
{
	struct pev_counter *counter = check_any(L, idx);

	if (!counter->places)
		luaL_error(L, "the counter is closed");
	if (!pev_counter_is_ours(counter))
		luaL_error(L, "the counter is the parent's: this process was forked since");
	return counter;
}

/* Returns the index of the member with the number at arg; raises if the number is unknown. */
static int check_member(lua_State *L, struct pev_counter *counter, int arg)
{
	lua_Integer n = luaL_checkinteger(L, arg);

	luaL_argcheck(L, n >= 1 && n <= counter->nr, arg, "no such member");
	return (int)n - 1;
}

/*
 * counter{pids=, cpus=, grouped=, cgroup=} -> counter | nil, message,
 * errno; cgroup: its path, or true if pids are descriptors of cgroups
 */
static int l_counter(lua_State *L)
{
	struct pev_counter_config config = { 0 };
	struct pev_target target = { 0 };
	struct pev_counter *counter;
	const struct pev_sys *sys;
	struct pev_err err;
	int rc;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	config.grouped = l_option_bool(L, 1, "grouped");
	if (lua_getfield(L, 1, "cgroup") == LUA_TSTRING) /* stays on the stack */
		config.cgroup_path = lua_tostring(L, -1);
	else
		config.cgroup = lua_toboolean(L, -1);
	target.pids = l_option_ints(L, 1, "pids", &target.nr_pids);
	target.cpus = l_option_ints(L, 1, "cpus", &target.nr_cpus);
	counter = lua_newuserdatauv(L, sizeof(*counter), 1);
	memset(counter, 0, sizeof(*counter));
	luaL_setmetatable(L, TYPENAME);
	sys = l_hooks_push(L);
	lua_setiuservalue(L, -2, 1);
	rc = pev_counter_open(counter, sys, &config, &target, &err);
	if (rc < 0)
		return l_result(L, rc, &err);
	return 1;
}

/* c:is_ours() -> false in a process that was forked since */
static int l_counter_is_ours(lua_State *L)
{
	lua_pushboolean(L, pev_counter_is_ours(check_any(L, 1)));
	return 1;
}

/* c:add(attr, name [, { cpus = }]) -> number | nil, message, errno; cpus: only on these */
static int l_counter_add(lua_State *L)
{
	struct pev_counter *counter = check_counter(L, 1);
	struct pev_attr *attr = l_attr_check(L, 2);
	const char *name = luaL_checkstring(L, 3);
	struct pev_err err = { 0 };
	int *cpus = NULL, nr_cpus = 0, rc;

	if (lua_istable(L, 4))
		cpus = l_option_ints(L, 4, "cpus", &nr_cpus);
	rc = pev_counter_add(counter, attr, name, cpus, nr_cpus, &err);
	return l_result(L, rc < 0 ? rc : rc + 1, &err);
}

/* c:remove(member) */
static int l_counter_remove(lua_State *L)
{
	struct pev_counter *counter = check_counter(L, 1);

	pev_counter_remove(counter, check_member(L, counter, 2));
	l_raise_pending(L);
	return 0;
}

static void set_number(lua_State *L, const char *name, uint64_t value)
{
	lua_pushinteger(L, (lua_Integer)value);
	lua_setfield(L, -2, name);
}

static void push_sum(lua_State *L, const struct pev_member *m, const struct pev_sum *sum)
{
	const uint64_t format = m->attr.read_format;

	lua_createtable(L, 0, 8);
	if (sum->failed)
		set_number(L, "failed", (uint64_t)sum->failed);
	if (sum->absent)
		set_number(L, "absent", (uint64_t)sum->absent);
	if (format & PERF_FORMAT_TOTAL_TIME_ENABLED)
		set_number(L, "time_enabled", sum->enabled);
	if (format & PERF_FORMAT_TOTAL_TIME_RUNNING)
		set_number(L, "time_running", sum->running);
	if (format & PEV_FORMAT_LOST)
		set_number(L, "lost", sum->lost);
	if (sum->silent)
		set_number(L, "silent", (uint64_t)sum->silent);
	set_number(L, "raw", sum->value);
	if (sum->known)
		set_number(L, "value", sum->scaled);
}

/*
 * c:read(delta, cpu (-1: all)) -> { [member] = { raw=, value= (scaled;
 * nil if it never ran), time_enabled=, time_running=, lost=, silent=,
 * failed=, absent= } or false if closed } | nil, message, errno
 */
static int l_counter_read(lua_State *L)
{
	struct pev_counter *counter = check_counter(L, 1);
	bool delta = lua_toboolean(L, 2);
	int cpu = (int)luaL_checkinteger(L, 3);
	struct pev_sum *sums;
	struct pev_err err;
	int rc;

	sums = lua_newuserdatauv(L, sizeof(*sums) * ((size_t)counter->nr + 1), 0);
	rc = pev_counter_read(counter, cpu, delta, sums, &err);
	if (rc < 0)
		return l_result(L, rc, &err);
	l_raise_pending(L);
	lua_createtable(L, counter->nr, 0);
	for (int i = 0; i < counter->nr; i++) {
		if (counter->members[i].open)
			push_sum(L, &counter->members[i], &sums[i]);
		else
			lua_pushboolean(L, 0);
		lua_rawseti(L, -2, i + 1);
	}
	return 1;
}

static const struct {
	const char *name;
	unsigned long request;
} requests[] = {
	{ "ENABLE", PERF_EVENT_IOC_ENABLE },
	{ "DISABLE", PERF_EVENT_IOC_DISABLE },
	{ "RESET", PERF_EVENT_IOC_RESET },
	{ "REFRESH", PERF_EVENT_IOC_REFRESH },
	{ "PERIOD", PERF_EVENT_IOC_PERIOD },
	{ "SET_FILTER", PERF_EVENT_IOC_SET_FILTER },
	{ "SET_OUTPUT", PERF_EVENT_IOC_SET_OUTPUT },
	{ "PAUSE_OUTPUT", PERF_EVENT_IOC_PAUSE_OUTPUT },
	{ "SET_BPF", PERF_EVENT_IOC_SET_BPF },
	{ "MODIFY_ATTRIBUTES", PERF_EVENT_IOC_MODIFY_ATTRIBUTES },
};

static unsigned long check_request(lua_State *L, int arg)
{
	const char *name = luaL_checkstring(L, arg);

	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++)
		if (strcmp(requests[i].name, name) == 0)
			return requests[i].request;
	return (unsigned long)luaL_argerror(L, arg, "no such request");
}

static int ioctl_result(lua_State *L, int rc, const char *what)
{
	struct pev_err err;

	if (rc < 0)
		pev_fail(&err, rc, "%s", what);
	return l_result(L, rc, rc < 0 ? &err : NULL);
}

/* c:switch(member or nil, "ENABLE" | "DISABLE" | "RESET", group) -> 0 | nil, name, errno */
static int l_counter_switch(lua_State *L)
{
	struct pev_counter *counter = check_counter(L, 1);
	int member = lua_isnoneornil(L, 2) ? -1 : check_member(L, counter, 2);
	unsigned long request = check_request(L, 3);
	int rc = pev_counter_switch(counter, member, request, lua_toboolean(L, 4));

	return ioctl_result(L, rc, lua_tostring(L, 3));
}

/* c:ioctl(member, name, argument of the request) -> 0 | nil, name, errno */
static int l_counter_ioctl(lua_State *L)
{
	struct pev_counter *counter = check_counter(L, 1);
	int member = check_member(L, counter, 2), rc;
	unsigned long request = check_request(L, 3);
	struct pev_attr attr = { 0 };
	uintptr_t arg;
	uint64_t number;

	if (request == PERF_EVENT_IOC_SET_FILTER) {
		arg = (uintptr_t)luaL_checkstring(L, 4);
	} else if (request == PERF_EVENT_IOC_MODIFY_ATTRIBUTES) {
		attr = *l_attr_check(L, 4);
		pev_attr_seal(&attr);
		arg = (uintptr_t)&attr;
	} else {
		number = (uint64_t)luaL_checkinteger(L, 4);
		/* PERIOD takes a pointer; SET_OUTPUT takes a whole long, because of -1. */
		arg = request == PERF_EVENT_IOC_PERIOD ? (uintptr_t)&number : (uintptr_t)number;
	}
	rc = pev_counter_ioctl(counter, member, request, arg);
	if (rc >= 0 && request == PERF_EVENT_IOC_MODIFY_ATTRIBUTES)
		counter->members[member].attr = attr;
	return ioctl_result(L, rc, lua_tostring(L, 3));
}

/* c:output(member, other counter, its member) -> 0 | nil, SET_OUTPUT or our own message, errno */
static int l_counter_output(lua_State *L)
{
	struct pev_counter *counter = check_counter(L, 1), *to = check_counter(L, 3);
	int member = check_member(L, counter, 2), to_member = check_member(L, to, 4), rc;
	struct pev_err err;

	l_hooks_enter(L, counter->sys);
	rc = pev_counter_output(counter, member, to, to_member, &err);
	return l_result(L, rc, &err);
}

/* c:signal(member, number, 0: none) -> 0 | nil, "SIGNAL", errno */
static int l_counter_signal(lua_State *L)
{
	struct pev_counter *counter = check_counter(L, 1);
	int member = check_member(L, counter, 2);
	lua_Integer number = luaL_checkinteger(L, 3);

	luaL_argcheck(L, number >= 0 && number <= 64, 3, "no such signal");
	return ioctl_result(L, pev_counter_signal(counter, member, (int)number), "SIGNAL");
}

/* c:query_bpf(member, max) -> { ids }, number of programs | nil, name, errno */
static int l_counter_query_bpf(lua_State *L)
{
	struct pev_counter *counter = check_counter(L, 1);
	int member = check_member(L, counter, 2), rc;
	lua_Integer max = luaL_checkinteger(L, 3);
	uint32_t *ids;

	luaL_argcheck(L, max >= 0 && max <= MAX_PROGRAMS, 3, "out of range");
	ids = lua_newuserdatauv(L, sizeof(*ids) * ((size_t)max + 1), 0);
	rc = pev_counter_query_bpf(counter, member, ids, (uint32_t)max);
	if (rc < 0)
		return ioctl_result(L, rc, "QUERY_BPF");
	l_raise_pending(L);
	lua_newtable(L);
	for (int i = 0; i < rc && i < max; i++) {
		lua_pushinteger(L, ids[i]);
		lua_rawseti(L, -2, i + 1);
	}
	lua_pushinteger(L, rc);
	return 2;
}

/* c:map(member) -> 0 | nil, message, errno */
static int l_counter_map(lua_State *L)
{
	struct pev_counter *counter = check_counter(L, 1);
	int member = check_member(L, counter, 2);
	struct pev_err err;
	int rc = pev_counter_map(counter, member, &err);

	return l_result(L, rc, &err);
}

/* c:attr(member) -> the attr as the kernel accepted it */
static int l_counter_attr(lua_State *L)
{
	struct pev_counter *counter = check_counter(L, 1);

	l_attr_push(L, &counter->members[check_member(L, counter, 2)].attr);
	return 1;
}

/* c:fds(member) -> { {fd =, id =, pid =, cpu =}, ... } of those that are open */
static int l_counter_fds(lua_State *L)
{
	struct pev_counter *counter = check_counter(L, 1);
	const struct pev_member *m = &counter->members[check_member(L, counter, 2)];

	lua_newtable(L);
	for (int p = 0, n = 0; p < counter->nr_places; p++) {
		if (m->at[p].fd < 0)
			continue;
		lua_createtable(L, 0, 4);
		set_number(L, "fd", (uint64_t)m->at[p].fd);
		set_number(L, "id", m->at[p].id);
		set_number(L, "pid", (uint64_t)counter->places[p].pid);
		set_number(L, "cpu", (uint64_t)counter->places[p].cpu);
		lua_rawseti(L, -2, ++n);
	}
	return 1;
}

static int l_counter_gc(lua_State *L)
{
	struct pev_counter *counter = check_any(L, 1);

	if (counter->sys)
		pev_counter_close(counter);
	return 0;
}

/* c:close(): a second call does nothing */
static int l_counter_close(lua_State *L)
{
	l_counter_gc(L);
	l_raise_pending(L);
	return 0;
}

/* task_switch(on) -> 0 | nil, message, errno: switches all events that this process opened */
static int l_task_switch(lua_State *L)
{
	const struct pev_sys *sys = l_hooks_push(L);
	int on = lua_toboolean(L, 1);
	struct pev_err err;
	int rc = sys->prctl(sys->ctx, on ? PR_TASK_PERF_EVENTS_ENABLE :
			    PR_TASK_PERF_EVENTS_DISABLE);

	if (rc < 0)
		pev_fail(&err, rc, "cannot %s this task's events", on ? "enable" : "disable");
	return l_result(L, rc, &err);
}

static const luaL_Reg methods[] = {
	{ "is_ours", l_counter_is_ours },
	{ "add", l_counter_add },
	{ "remove", l_counter_remove },
	{ "read", l_counter_read },
	{ "switch", l_counter_switch },
	{ "ioctl", l_counter_ioctl },
	{ "output", l_counter_output },
	{ "signal", l_counter_signal },
	{ "query_bpf", l_counter_query_bpf },
	{ "map", l_counter_map },
	{ "attr", l_counter_attr },
	{ "fds", l_counter_fds },
	{ "close", l_counter_close },
	{ NULL, NULL },
};

void l_counter_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_counter_gc);
	lua_pushcfunction(L, l_counter);
	lua_setfield(L, -2, "counter");
	lua_pushcfunction(L, l_task_switch);
	lua_setfield(L, -2, "task_switch");
}
