/*
 * lsession.c - the userdata perfev.core.session: a pev_session, its callbacks and the
 * descriptors it watches.
 *
 * Internal: users see lua/perfev/live/session.lua. ldispatch.h calls the callbacks.
 */
#include "lua/engine/lsession.h"

#include <errno.h>
#include <lauxlib.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "live/session.h"
#include "symbol/kallsyms.h"
#include "tracepoint/tracepoint.h"
#include "lua/event/lattr.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/engine/ldispatch.h"
#include "lua/hooks/lhooks.h"
#include "lua/base/loption.h"
#include "lua/perfdata/lwriter.h"
#include "lua/symbol/lstack.h"
#include "lua/symbol/lstack_table.h"
#include "lua/record/ltask.h"

#define TYPENAME "perfev.core.session"
#define MAX_READY 64

/* Further user value: a perfev.core.writer, or nil. */
enum { UV_RECORDER = L_UV_NR + 1, UV_LAST = UV_RECORDER };

enum { ARGS_UV_OWNER = 2 }; /* user value of a payload view: see l_args_push() */

struct l_session {
	struct pev_session *s;       /* owned; NULL once closed */
	const struct pev_sys *sys;
	struct pev_tracepoints *tps; /* owned */
	struct pev_kallsyms *symbols; /* owned; read when the first address is printed */
	bool no_symbols;             /* the kernel's symbols could not be read */
	struct l_dispatch d;
	int *fds;                    /* timers and signals, owned and watched */
	int nr_fds;
	uint64_t blocked;            /* signals blocked by us, bit n-1: signal n */
	struct pev_record rec;       /* the iterator's record */
	bool closing;
};

static struct l_session *check_any(lua_State *L)
{
	struct l_session *self = luaL_checkudata(L, 1, TYPENAME);

	if (self->sys)
		l_hooks_enter(L, self->sys);
	self->d.L = L;
	return self;
}

static struct l_session *check_session(lua_State *L)
{
	struct l_session *self = check_any(L);

	if (!self->s)
		luaL_error(L, "the session is closed");
	if (!pev_session_is_ours(self->s))
		luaL_error(L, "the session is the parent's: this process was forked since");
	return self;
}

static void note(void *ctx, const struct pev_err *what)
{
	const struct l_session *self = ctx;

	l_note(self->d.L, 1, L_UV_HANDLERS, what);
}

static const char *view_comm(void *ctx, int tid)
{
	struct l_session *self = ctx;

	return pev_session_comm(self->s, tid);
}

/* Names an address that a payload prints (%pS and the like). */
static const char *find_symbol(void *ctx, uint64_t addr, uint64_t *start)
{
	struct l_session *self = ctx;

	if (!self->symbols && !self->no_symbols)
		self->no_symbols = pev_kallsyms_kernel(&self->symbols, self->sys, NULL) < 0;
	return self->symbols ? pev_kallsyms_find(self->symbols, addr, start) : NULL;
}

/* Pushes the perfev.stack_table of the session at idx. */
static void push_stacks(lua_State *L, int idx)
{
	lua_getiuservalue(L, idx, L_UV_CONTEXT);
	lua_getfield(L, -1, "stacks");
	lua_remove(L, -2);
}

/*
 * session{ring_bytes=, clockid=, exclude_pid=, unordered=, max_bytes=, note=, on_error=}
 * -> session | nil, message, errno
 */
static int l_session(lua_State *L)
{
	struct pev_session_config config = { 0 };
	struct l_session *self;
	struct pev_err err;
	uint64_t max_bytes;
	int rc;

	luaL_checktype(L, 1, LUA_TTABLE);
	config.ring_bytes = (size_t)l_option_integer(L, 1, "ring_bytes", 0);
	config.clockid = (int)l_option_integer(L, 1, "clockid", CLOCK_MONOTONIC);
	config.exclude_pid = (int)l_option_integer(L, 1, "exclude_pid", 0);
	config.unordered = l_option_bool(L, 1, "unordered");
	max_bytes = (uint64_t)l_option_integer(L, 1, "max_bytes", -1);
	/* The userdata comes first: if the open fails, its metatable frees it. */
	self = lua_newuserdatauv(L, sizeof(*self), UV_LAST);
	*self = (struct l_session){ .d = { .L = L } };
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, 2, L_UV_HANDLERS);
	l_dispatch_init(L, &self->d, 2, view_comm, self);
	push_stacks(L, 2);
	l_stack_table_watch(L, -1);
	lua_pop(L, 1);
	l_dispatch_budget(L, 2)->limit = max_bytes;
	self->sys = l_hooks_push(L);
	lua_setiuservalue(L, 2, L_UV_HOOKS);
	lua_replace(L, 1); /* methods have the session at 1 */
	config.note = note;
	config.note_ctx = self;
	rc = pev_session_open(&self->s, self->sys, &config, &err);
	if (rc < 0)
		return l_result(L, rc, &err);
	l_dispatch_set_tasks(&self->d, pev_session_tasks(self->s));
	lua_settop(L, 1);
	return 1;
}

/* Returns the field with the payload for the spec at 2: a probe's arguments may be in registers. */
static enum pev_field args_from(lua_State *L)
{
	enum pev_field from = PEV_F_RAW;

	if (lua_getfield(L, 2, "args_from") == LUA_TSTRING)
		from = strcmp(lua_tostring(L, -1), "regs_user") == 0 ? PEV_F_REGS_USER :
								       PEV_F_REGS_INTR;
	lua_pop(L, 1);
	return from;
}

/* Sets context[2 * slot + 2] to the payload view of a tracepoint, if the spec has a format. */
static int push_payload_view(lua_State *L, struct l_session *self, uint32_t slot, int context,
			     struct pev_err *err)
{
	const struct pev_tracepoint *tp;
	const char *system, *text, *strings;
	struct l_args *args;
	size_t len, strings_len;
	int rc;

	if (l_dispatch_reserve_slot(&self->d, slot) < 0)
		return pev_fail(err, -ENOMEM, "no memory for an event");
	/* An event that failed to open may have used this slot. */
	lua_pushnil(L);
	lua_rawseti(L, context, 2 * (lua_Integer)slot + 2);
	lua_getfield(L, 2, "system");
	lua_getfield(L, 2, "format");
	system = lua_tostring(L, -2);
	text = lua_tolstring(L, -1, &len);
	if (!system || !text)
		return 0;
	if (!self->tps) {
		self->tps = pev_tracepoints_new(__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__,
						sizeof(long));
		if (!self->tps)
			return pev_fail(err, -ENOMEM, "no memory for a format");
		pev_tracepoints_symbols(self->tps, find_symbol, self);
	}
	if (lua_getfield(L, 2, "strings") == LUA_TSTRING) {
		strings = lua_tolstring(L, -1, &strings_len);
		pev_tracepoints_strings(self->tps, strings, strings_len);
	}
	lua_pop(L, 1);
	rc = pev_tracepoints_add(self->tps, system, text, len, &tp, err);
	if (rc < 0)
		return rc;
	args = l_args_push(L, tp, &self->d.now);
	args->from = args_from(L);
	self->d.slots[slot].args = args;
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, ARGS_UV_OWNER);
	lua_rawseti(L, context, 2 * (lua_Integer)slot + 2);
	return 0;
}

static struct pev_slot *check_slot(lua_State *L, struct l_session *self, int arg)
{
	lua_Integer index = luaL_checkinteger(L, arg);
	struct pev_slot *slot = index < 0 ? NULL : pev_session_slot(self->s, (uint32_t)index);

	if (!slot)
		luaL_argerror(L, arg, "no such event");
	return slot;
}

static const char area_key; /* its address is the key of the AUX view in the context */

/* Reads the options of an AUX area. The view of its bytes takes the payload view's place. */
static void read_aux_options(lua_State *L, struct l_session *self, struct pev_want *want,
			     uint32_t slot, int context)
{
	want->aux_bytes = (size_t)l_option_integer(L, 2, "aux_bytes", 0);
	want->aux_optional = l_option_bool(L, 2, "aux_optional");
	if (!want->aux_bytes)
		return;
	if (!self->d.area) {
		struct l_aux *area = l_aux_push(L, &self->d.now);

		lua_rawsetp(L, context, &area_key);
		self->d.area = area;
	}
	lua_rawgetp(L, context, &area_key);
	lua_rawseti(L, context, 2 * (lua_Integer)slot + 2);
}

/*
 * s:add{attr=, name=, pids=, cpus=, cgroup=, leader=, callbacks=, event=, system=, format=,
 * strings=, hidden=, off=, aux_bytes=, aux_optional=, fields=, where=, where_all=, no_task=,
 * no_time=}
 * -> slot | nil, message, errno; leader: the slot whose group it joins
 */
static int l_session_add(lua_State *L)
{
	struct l_session *self = check_session(L);
	struct pev_target target = { 0 };
	struct pev_slot *slot;
	struct pev_attr *attr;
	struct pev_err err = { 0 };
	struct pev_want want = { 0 };
	const char *name;
	uint32_t index;
	int rc;

	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	lua_getiuservalue(L, 1, L_UV_CONTEXT); /* 3 */
	lua_getfield(L, 2, "attr");            /* 4 */
	attr = l_attr_check(L, 4);
	lua_getfield(L, 2, "name");            /* 5 */
	name = luaL_checkstring(L, 5);
	target.pids = l_option_ints(L, 2, "pids", &target.nr_pids);
	target.cpus = l_option_ints(L, 2, "cpus", &target.nr_cpus);
	if (lua_getfield(L, 2, "cgroup") == LUA_TSTRING) /* stays on the stack */
		target.cgroup = lua_tostring(L, -1);
	if (lua_getfield(L, 2, "leader") != LUA_TNIL)
		target.leader = &check_slot(L, self, -1)->event;
	index = pev_session_slots(self->s);
	rc = push_payload_view(L, self, index, 3, &err);
	if (rc < 0)
		return l_result(L, rc, &err);
	read_aux_options(L, self, &want, index, 3);
	want.wanted_types = l_dispatch_set_callbacks(L, 1, &self->d, index);
	want.no_task = l_option_bool(L, 2, "no_task");
	want.no_time = l_option_bool(L, 2, "no_time");
	lua_getfield(L, 2, "event");
	lua_rawseti(L, 3, 2 * (lua_Integer)index + 1);
	rc = pev_session_add(self->s, attr, name, &target, &want, &slot, &err);
	if (rc < 0)
		return l_result(L, rc, &err);
	slot->hidden = l_option_bool(L, 2, "hidden");
	slot->off = l_option_bool(L, 2, "off");
	lua_pushinteger(L, slot->index);
	return 1;
}

/* s:remove(slot): stops the event for good */
static int l_session_remove(lua_State *L)
{
	struct l_session *self = check_session(L);

	pev_session_remove(self->s, check_slot(L, self, 2));
	return 0;
}

/* s:filter(slot, text) -> 0 | nil, message, errno */
static int l_session_filter(lua_State *L)
{
	struct l_session *self = check_session(L);
	struct pev_slot *slot = check_slot(L, self, 2);
	struct pev_err err;

	return l_result(L, pev_event_filter(&slot->event, luaL_checkstring(L, 3), &err), &err);
}

/* s:keep_own(slot): exclude_pid does not apply to this event */
static int l_session_keep_own(lua_State *L)
{
	struct l_session *self = check_session(L);

	check_slot(L, self, 2)->keep_own = true;
	return 0;
}

/* s:period(slot, n) -> 0 | nil, message, errno */
static int l_session_period(lua_State *L)
{
	struct l_session *self = check_session(L);
	struct pev_slot *slot = check_slot(L, self, 2);
	lua_Integer period = luaL_checkinteger(L, 3);
	struct pev_err err;
	int rc = pev_event_period(&slot->event, (uint64_t)period);

	if (rc < 0)
		pev_fail(&err, rc, "%s: cannot set the period %lld", slot->event.name,
			 (long long)period);
	else
		slot->plan.period = 0; /* samples in the rings have the old period */
	return l_result(L, rc, &err);
}

/* s:signal(slot, number; 0: none) -> 0 | nil, message, errno: sends it to us at each overflow */
static int l_session_signal(lua_State *L)
{
	struct l_session *self = check_session(L);
	struct pev_slot *slot = check_slot(L, self, 2);
	lua_Integer number = luaL_checkinteger(L, 3);
	struct pev_err err;
	int rc;

	luaL_argcheck(L, number >= 0 && number <= 64, 3, "no such signal");
	rc = pev_event_signal(&slot->event, (int)number);
	if (rc < 0)
		pev_fail(&err, rc, "%s: cannot have it send a signal", slot->event.name);
	return l_result(L, rc, &err);
}

static int switch_event(lua_State *L, bool on, const char *verb)
{
	struct l_session *self = check_session(L);
	struct pev_slot *slot = check_slot(L, self, 2);
	struct pev_err err;
	int rc = pev_session_switch_slot(slot, on);

	if (rc < 0)
		pev_fail(&err, rc, "cannot %s %s", verb, slot->event.name);
	return l_result(L, rc, &err);
}

/* s:enable_event(slot), s:disable_event(slot) -> 0 | nil, message, errno */
static int l_session_enable_event(lua_State *L)
{
	return switch_event(L, true, "enable");
}

static int l_session_disable_event(lua_State *L)
{
	return switch_event(L, false, "disable");
}

/* s:attr(slot) -> the attr as the kernel accepted it */
static int l_session_attr(lua_State *L)
{
	struct l_session *self = check_session(L);

	l_attr_push(L, &check_slot(L, self, 2)->event.attr);
	return 1;
}

/* s:fds(slot) -> { {fd =, id =, pid =, cpu =}, ... } of those that are open */
static int l_session_fds(lua_State *L)
{
	struct l_session *self = check_session(L);
	const struct pev_event *event = &check_slot(L, self, 2)->event;

	lua_createtable(L, event->nr, 0);
	for (int i = 0, n = 0; i < event->nr; i++) {
		if (event->fds[i].fd < 0)
			continue;
		lua_createtable(L, 0, 4);
		lua_pushinteger(L, event->fds[i].fd);
		lua_setfield(L, -2, "fd");
		lua_pushinteger(L, (lua_Integer)event->fds[i].id);
		lua_setfield(L, -2, "id");
		lua_pushinteger(L, event->fds[i].pid);
		lua_setfield(L, -2, "pid");
		lua_pushinteger(L, event->fds[i].cpu);
		lua_setfield(L, -2, "cpu");
		lua_rawseti(L, -2, ++n);
	}
	return 1;
}

/* s:enable() -> 0 | nil, message, errno: enables all events and starts the tick */
static int l_session_enable(lua_State *L)
{
	struct l_session *self = check_session(L);
	struct pev_err err;

	return l_result(L, pev_session_enable(self->s, &err), &err);
}

static int l_session_disable(lua_State *L)
{
	struct l_session *self = check_session(L);

	return l_result(L, pev_session_disable(self->s), NULL);
}

/*
 * s:scan(pid, maps): reads the names of the process's threads,
 * or of all (-1), from /proc; with maps also its mappings
 */
static int l_session_scan(lua_State *L)
{
	struct l_session *self = check_session(L);
	int pid = (int)luaL_checkinteger(L, 2);
	struct pev_tasks *tasks = pev_session_tasks(self->s);

	return l_result(L, lua_toboolean(L, 3) ? pev_tasks_scan_maps(tasks, pid) :
						 pev_tasks_scan(tasks, pid), NULL);
}

/* s:scan_new(pid): the same, only for threads that began since the last scan */
static int l_session_scan_new(lua_State *L)
{
	struct l_session *self = check_session(L);
	int pid = (int)luaL_checkinteger(L, 2);

	return l_result(L, pev_tasks_scan_new(pev_session_tasks(self->s), pid), NULL);
}

/* s:comm(tid) -> name */
static int l_session_comm(lua_State *L)
{
	struct l_session *self = check_session(L);

	lua_pushstring(L, pev_session_comm(self->s, (int)luaL_checkinteger(L, 2)));
	return 1;
}

/* s:task(tid) -> table | nil */
static int l_session_task(lua_State *L)
{
	struct l_session *self = check_session(L);

	return l_task_push(L, pev_session_tasks(self->s), luaL_checkinteger(L, 2));
}

/* ---- the poll set ---- */

static int l_session_fd(lua_State *L)
{
	struct l_session *self = check_session(L);

	lua_pushinteger(L, pev_session_fd(self->s));
	return 1;
}

/*
 * s:watch(fd) -> 0 | nil, message, errno: wait() returns fd when it is readable; not closed by us
 */
static int l_session_watch(lua_State *L)
{
	struct l_session *self = check_session(L);
	int fd = (int)luaL_checkinteger(L, 2), rc = pev_session_watch(self->s, fd);
	struct pev_err err;

	if (rc < 0) {
		pev_fail(&err, rc, "cannot watch descriptor %d", fd);
		pev_err_set(&err, PEV_OP_WATCH, -1, -1, 0);
	}
	return l_result(L, rc, &err);
}

/* s:unwatch(fd) -> 0 | nil, message, errno */
static int l_session_unwatch(lua_State *L)
{
	struct l_session *self = check_session(L);

	return l_result(L, pev_session_unwatch(self->s, (int)luaL_checkinteger(L, 2)), NULL);
}

/* s:again() -> 0 | nil, message, errno: makes fd() readable until the next wait() */
static int l_session_again(lua_State *L)
{
	return l_result(L, pev_session_wake(check_session(L)->s), NULL);
}

static int watch_owned(lua_State *L, struct l_session *self, int fd, const char *what)
{
	int *fds = fd < 0 ? NULL : realloc(self->fds, sizeof(*fds) * (size_t)(self->nr_fds + 1));
	struct pev_err err;
	int rc = fd;

	if (fds) {
		self->fds = fds;
		rc = pev_session_watch(self->s, fd);
		if (rc == 0) {
			fds[self->nr_fds++] = fd;
			lua_pushinteger(L, fd);
			return 1;
		}
	} else if (fd >= 0) {
		rc = -ENOMEM;
	}
	if (fd >= 0)
		self->sys->close(self->sys->ctx, fd);
	return l_result(L, pev_fail(&err, rc, "cannot make a %s", what), &err);
}

/* s:timer(first_ns, every_ns) -> fd | nil, message, errno: watched, closed with the session */
static int l_session_timer(lua_State *L)
{
	struct l_session *self = check_session(L);
	uint64_t first = (uint64_t)luaL_checkinteger(L, 2);
	uint64_t every = (uint64_t)luaL_checkinteger(L, 3);

	return watch_owned(L, self, self->sys->timerfd(self->sys->ctx, first, every), "timer");
}

/*
 * s:signals(set) -> fd | nil, message, errno: a signalfd (bit n-1: signal
 * n), watched, closed with the session; the signals are blocked until then
 */
static int l_session_signals(lua_State *L)
{
	struct l_session *self = check_session(L);
	uint64_t set = (uint64_t)luaL_checkinteger(L, 2), changed = 0;
	struct pev_err err;
	int rc = self->sys->sigblock(self->sys->ctx, set, 1, &changed);

	if (rc < 0)
		return l_result(L, pev_fail(&err, rc, "cannot block signals"), &err);
	self->blocked |= changed;
	return watch_owned(L, self, self->sys->signalfd(self->sys->ctx, set), "signal descriptor");
}

/* s:read(fd, len) -> bytes | nil, message, errno */
static int l_session_read(lua_State *L)
{
	struct l_session *self = check_session(L);
	int fd = (int)luaL_checkinteger(L, 2);
	char buf[512];
	lua_Integer len = luaL_checkinteger(L, 3);
	struct pev_err err;
	int64_t n;

	luaL_argcheck(L, len > 0 && len <= (lua_Integer)sizeof(buf), 3, "1 .. 512 bytes");
	n = self->sys->read(self->sys->ctx, fd, buf, (size_t)len);
	if (n < 0)
		return l_result(L, pev_fail(&err, (int)n, "cannot read descriptor %d", fd), &err);
	lua_pushlstring(L, buf, (size_t)n);
	return 1;
}

/* s:wait(timeout_ms) -> watched descriptors that are ready ... | nil, message, errno */
static int l_session_wait(lua_State *L)
{
	struct l_session *self = check_session(L);
	int timeout_ms = (int)luaL_checkinteger(L, 2), ready[MAX_READY];
	struct pev_err err;
	int nr = pev_session_wait(self->s, timeout_ms, ready, MAX_READY);

	/* A signal: its handler has run; the caller checks for its effect and waits again. */
	if (nr == -EINTR)
		return 0;
	if (nr < 0)
		return l_result(L, pev_fail(&err, nr, "cannot wait for events"), &err);
	l_raise_pending(L);
	luaL_checkstack(L, nr, "ready descriptors");
	for (int i = 0; i < nr; i++)
		lua_pushinteger(L, ready[i]);
	return nr;
}

/* s:over() -> true when no target is left */
static int l_session_over(lua_State *L)
{
	struct l_session *self = check_session(L);

	lua_pushboolean(L, pev_session_is_over(self->s));
	return 1;
}

/* s:time_on(cpu) -> ns that the CPU's events were on, as a sum */
static int l_session_time_on(lua_State *L)
{
	struct l_session *self = check_session(L);
	int cpu = (int)luaL_checkinteger(L, 2);

	lua_pushinteger(L, (lua_Integer)pev_session_time_on(self->s, cpu));
	return 1;
}

/* ---- records ---- */

/* Points the next view at the record. Returns the view's number. */
static unsigned point_view(struct l_session *self, const struct pev_slot *slot,
			   const struct pev_record *rec)
{
	unsigned process = pev_sys_process();
	unsigned turn = l_dispatch_point_view(&self->d, slot->index, rec, process);
	struct l_view *view = self->d.views[turn];

	view->has_aux = self->d.area && pev_session_aux(self->s, rec, &self->d.area->aux);
	if (view->has_aux) {
		self->d.area->gen = self->d.now;
		self->d.area->process = process;
	}
	return turn;
}

/* True if the event's condition excludes the record: it does not count as delivered. */
static bool is_unwanted(struct l_session *self, const struct pev_slot *slot,
			const struct pev_record *rec)
{
	if (l_dispatch_is_wanted(&self->d, slot->index, rec))
		return false;
	pev_session_uncount(self->s);
	return true;
}

static int deliver_record(void *ctx, struct pev_slot *slot, const struct pev_record *rec)
{
	struct l_session *self = ctx;
	bool stop;

	if (is_unwanted(self, slot, rec))
		return 0;
	if (l_dispatch_feed_slot(&self->d, slot->index, rec))
		return 0;
	if (l_dispatch_takes_numbers_only(&self->d, slot->index, rec))
		stop = l_dispatch_call_with_numbers(&self->d, slot->index, rec);
	else
		stop = l_dispatch_call_callback(&self->d, slot->index, rec,
						point_view(self, slot, rec));
	l_hooks_enter(self->d.L, self->sys);
	/* The callback has forked: the remaining records are for the parent. */
	self->d.stop = self->d.stop || stop || !pev_session_is_ours(self->s);
	return self->d.stop;
}

static enum pev_drain check_drain(lua_State *L, int arg)
{
	static const char *const names[] = { "round", "round_all", "rest", "rest_all", "discard",
					     NULL };

	return (enum pev_drain)luaL_checkoption(L, arg, "round", names);
}

static void free_rest(struct l_session *self)
{
	uint64_t changed;

	if (self->blocked)
		self->sys->sigblock(self->sys->ctx, self->blocked, 0, &changed);
	self->blocked = 0;
	for (int i = 0; i < self->nr_fds; i++)
		self->sys->close(self->sys->ctx, self->fds[i]);
	free(self->fds);
	self->fds = NULL;
	self->nr_fds = 0;
	l_dispatch_free(&self->d);
	pev_tracepoints_free(self->tps);
	pev_kallsyms_free(self->symbols);
	self->tps = NULL;
	self->symbols = NULL;
}

/* Delivers to the callbacks -> delivered, stopped | nil, message, errno */
static int dispatch(lua_State *L, struct l_session *self, enum pev_drain drain, uint64_t max)
{
	int64_t nr;

	if (self->d.dispatching)
		return luaL_error(L, "dispatch() called from a callback of the same session");
	l_dispatch_prepare_stack(L, &self->d);
	self->d.dispatching = true;
	self->d.stop = false;
	self->closing = false;
	nr = drain == PEV_DRAIN_SNAPSHOT
		     ? pev_session_snapshot(self->s, deliver_record, self)
		     : pev_session_dispatch(self->s, drain, max, deliver_record, self);
	self->d.dispatching = false;
	if (self->closing) {
		self->s = NULL;
		free_rest(self);
	}
	l_raise_pending(L);
	if (nr < 0)
		return l_result(L, nr, NULL);
	lua_pushinteger(L, nr);
	lua_pushboolean(L, self->d.stop);
	return 2;
}

/* s:dispatch(drain, max) */
static int l_session_dispatch(lua_State *L)
{
	struct l_session *self = check_session(L);
	enum pev_drain drain = check_drain(L, 2);
	lua_Integer max = luaL_optinteger(L, 3, 0);

	luaL_argcheck(L, max >= 0, 3, "negative");
	return dispatch(L, self, drain, (uint64_t)max);
}

/* s:snapshot(): delivers the content of the backward rings */
static int l_session_snapshot(lua_State *L)
{
	return dispatch(L, check_session(L), PEV_DRAIN_SNAPSHOT, 0);
}

/* s:copy() -> bytes | nil, message, errno: copies all records to the recorder, delivers none */
static int l_session_copy(lua_State *L)
{
	struct l_session *self = check_session(L);

	return l_result(L, pev_session_copy_rings(self->s), NULL);
}

/* s:record_kept(): records the content of backward rings, after the events are disabled */
static int l_session_record_kept(lua_State *L)
{
	pev_session_record_backward(check_session(L)->s);
	return 0;
}

/* s:record(recorder or nil): sets the recorder for records read from here on */
static int l_session_record(lua_State *L)
{
	struct l_session *self = check_session(L);
	bool on = !lua_isnoneornil(L, 2);
	struct pev_writer *rec = on ? l_writer_attach(L, 2) : NULL;

	pev_session_set_recorder(self->s, rec);
	lua_settop(L, 2);
	lua_getiuservalue(L, 1, UV_RECORDER);
	l_writer_detach(L, 3);
	lua_pushvalue(L, 2);
	lua_setiuservalue(L, 1, UV_RECORDER);
	return 0;
}

/* s:record_losses() -> lost records of hidden events since the last call */
static int l_session_record_losses(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)pev_session_record_losses(check_session(L)->s));
	return 1;
}

/*
 * s:sampled(keep, kept): calls keep(sampled) for each entry of pev_stacks.sampled and empties the
 * list; keep returns true if the dso is not to be listed again. kept lives as long as the stacks.
 */
static int l_session_sampled(lua_State *L)
{
	struct pev_stacks *stacks;

	check_any(L);
	lua_settop(L, 3);
	push_stacks(L, 1);
	stacks = l_stack_table_test(L, 4);
	if (!stacks || stacks->nr_sampled == 0)
		return 0;
	lua_pushvalue(L, 3);
	lua_setiuservalue(L, 4, L_STACK_TABLE_UV_KEPT);
	for (uint32_t i = 0; i < stacks->nr_sampled; i++) {
		if (stacks->sampled[i].dso->kept)
			continue;
		lua_pushvalue(L, 2);
		l_stack_push_sampled(L, &stacks->sampled[i]);
		lua_call(L, 1, 1);
		stacks->sampled[i].dso->kept = lua_toboolean(L, -1);
		lua_pop(L, 1);
	}
	pev_stacks_forget_sampled(stacks);
	return 0;
}

static void push_ids(lua_State *L, const struct pev_event *event)
{
	lua_createtable(L, event->nr, 0);
	for (int i = 0; i < event->nr; i++) {
		lua_pushinteger(L, (lua_Integer)event->fds[i].id);
		lua_rawseti(L, -2, i + 1);
	}
}

/* s:slots() -> { {name=, attr=, ids=, hidden=, keep_own=, closed=}, ... }: by slot from 0 on */
static int l_session_slots(lua_State *L)
{
	struct l_session *self = check_session(L);
	uint32_t nr = pev_session_slots(self->s);

	lua_createtable(L, (int)nr, 0);
	for (uint32_t i = 0; i < nr; i++) {
		const struct pev_slot *slot = pev_session_slot(self->s, i);

		lua_createtable(L, 0, 6);
		lua_pushstring(L, slot->event.name);
		lua_setfield(L, -2, "name");
		l_attr_push(L, &slot->event.attr);
		lua_setfield(L, -2, "attr");
		push_ids(L, &slot->event);
		lua_setfield(L, -2, "ids");
		lua_pushboolean(L, slot->hidden);
		lua_setfield(L, -2, "hidden");
		lua_pushboolean(L, slot->keep_own);
		lua_setfield(L, -2, "keep_own");
		lua_pushboolean(L, slot->closed);
		lua_setfield(L, -2, "closed");
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return 1;
}

/* s:halt(): called by a callback, ends the dispatch after this record */
static int l_session_halt(lua_State *L)
{
	check_any(L)->d.stop = true;
	return 0;
}

/*
 * s:want_comm(pattern): delivers only records of tasks with this name, or that of an earlier call
 */
static int l_session_want_comm(lua_State *L)
{
	struct l_session *self = check_session(L);

	return l_result(L, pev_session_want_comm(self->s, luaL_checkstring(L, 2)), NULL);
}

/* s:dispatching() -> true inside a callback */
static int l_session_dispatching(lua_State *L)
{
	lua_pushboolean(L, check_any(L)->d.dispatching);
	return 1;
}

/*
 * s:begin(drain): starts a round; then call the iterator of s:puller() until nil, then s:finish()
 */
static int l_session_begin(lua_State *L)
{
	struct l_session *self = check_session(L);
	int rc = pev_session_begin(self->s, check_drain(L, 2));

	self->d.now++;
	if (rc < 0)
		return luaL_error(L, "records() called from a callback of the same session");
	return 0;
}

/*
 * s:pull(names): the iterator of puller() returns these fields of samples; nil: it gets no records
 */
static int l_session_pull(lua_State *L)
{
	struct l_session *self = check_session(L);
	uint32_t wanted_types;

	lua_settop(L, 2);
	wanted_types = l_dispatch_pull_fields(L, 1, 2, &self->d);
	for (uint32_t i = 0; i < pev_session_slots(self->s); i++) {
		struct pev_slot *slot = pev_session_slot(self->s, i);

		if (!slot->hidden && !slot->closed)
			slot->wanted_types = wanted_types;
	}
	return 0;
}

/* The iterator's upvalues: saves a method's lookups at each call. */
enum { PULL_SESSION = 1, PULL_VIEWS, PULL_GO_ON = PULL_VIEWS + L_DISPATCH_VIEWS };

/* Returns the slot of the round's next record, or NULL. */
static struct pev_slot *next_pulled(lua_State *L, struct l_session *self)
{
	struct pev_slot *slot;

	/* The loop may have closed the session. */
	if (!self->s)
		return NULL;
	if (!pev_session_is_ours(self->s))
		luaL_error(L, "the session is closed");
	l_hooks_enter(L, self->sys);
	self->d.L = L;
	self->d.now++;
	if (l_dispatch_is_at_limit(&self->d))
		return NULL;
	do {
		if (pev_session_next(self->s, &slot, &self->rec) == 0)
			return NULL;
	} while (is_unwanted(self, slot, &self->rec));
	return slot;
}

/* The iterator. Returns a view or fields. Calls go_on at the end of a round. */
static int l_pull(lua_State *L)
{
	struct l_session *self = lua_touserdata(L, lua_upvalueindex(PULL_SESSION));
	const struct pev_slot *slot;
	unsigned turn;

	do {
		lua_settop(L, 0);
		slot = next_pulled(L, self);
		if (slot) {
			turn = point_view(self, slot, &self->rec);
			return l_dispatch_push_pulled(L, &self->d, slot->index, turn,
						      lua_upvalueindex(PULL_VIEWS + (int)turn));
		}
		lua_pushvalue(L, lua_upvalueindex(PULL_GO_ON));
		lua_call(L, 0, 1);
	} while (lua_toboolean(L, -1));
	return 0;
}

/*
 * s:puller(go_on, max) -> next() -> view or fields ... | nil. The
 * iterator covers the round that begin() starts. It calls go_on() ->
 * boolean at the end of the round and after max records; nil: no limit.
 */
static int l_session_puller(lua_State *L)
{
	struct l_session *self = check_session(L);

	luaL_checktype(L, 2, LUA_TFUNCTION);
	lua_settop(L, 3);
	l_dispatch_set_limit(L, &self->d, 3);
	lua_pushvalue(L, 1);
	l_dispatch_push_views(L, 1);
	lua_pushvalue(L, 2);
	lua_pushcclosure(L, l_pull, PULL_GO_ON);
	return 1;
}

static int l_session_finish(lua_State *L)
{
	struct l_session *self = check_session(L);

	self->d.now++;
	pev_session_end(self->s);
	return 0;
}

/* ---- the end ---- */

static void set_count(lua_State *L, const char *name, uint64_t value)
{
	lua_pushinteger(L, (lua_Integer)value);
	lua_setfield(L, -2, name);
}

/* s:totals() -> totals by name */
static int l_session_totals(lua_State *L)
{
	struct l_session *self = check_session(L);
	struct pev_totals totals;

	pev_session_totals(self->s, &totals);
	lua_createtable(L, 0, 22);
	set_count(L, "records", totals.records);
	set_count(L, "delivered", totals.delivered);
	set_count(L, "lost", totals.lost);
	set_count(L, "lost_own", totals.lost_own);
	set_count(L, "lost_samples", totals.lost_samples);
	set_count(L, "late", totals.late);
	set_count(L, "malformed", totals.malformed);
	set_count(L, "corrupt", totals.corrupt);
	set_count(L, "unknown_id", totals.unknown_id);
	set_count(L, "throttled", totals.throttled);
	set_count(L, "unjoined", totals.unjoined);
	set_count(L, "excluded", totals.excluded);
	set_count(L, "untold", self->d.undecided);
	set_count(L, "aux_bytes", totals.aux_bytes);
	set_count(L, "aux_skipped", totals.aux_skipped);
	set_count(L, "aux_truncated", totals.aux_truncated);
	set_count(L, "callback_errors", self->d.raised);
	set_count(L, "wakeups", totals.wakeups);
	set_count(L, "rings", totals.rings);
	set_count(L, "ring_bytes", totals.ring_bytes);
	set_count(L, "beyond_memory", l_dispatch_budget(L, 1)->refused);
	set_count(L, "no_memory", l_dispatch_budget(L, 1)->failed);
	return 1;
}

/* s:close(): frees everything; called by a callback, after its return. Also __gc and __close. */
static int l_session_close(lua_State *L)
{
	struct l_session *self = check_any(L);

	if (!self->s)
		return 0;
	if (self->d.dispatching) {
		self->closing = true;
		self->d.stop = true;
		pev_session_close(self->s);
		return 0;
	}
	pev_session_close(self->s);
	self->s = NULL;
	free_rest(self);
	l_raise_pending(L);
	return 0;
}

/* s:abandon(): the process ends: returns the kernel's resources at once */
static int l_session_abandon(lua_State *L)
{
	struct l_session *self = check_any(L);

	self->d.now++; /* views become invalid */
	if (self->s)
		pev_session_drop(self->s);
	self->s = NULL;
	return 0;
}

static int l_session_gc(lua_State *L)
{
	struct l_session *self = check_any(L);

	/* Collected in a callback: the state is being closed, as by os.exit(true, true). */
	if (self->s)
		pev_session_drop(self->s);
	self->s = NULL;
	if (self->sys)
		free_rest(self);
	return 0;
}

static const luaL_Reg methods[] = {
	{ "add", l_session_add },
	{ "remove", l_session_remove },
	{ "filter", l_session_filter },
	{ "keep_own", l_session_keep_own },
	{ "period", l_session_period },
	{ "signal", l_session_signal },
	{ "enable_event", l_session_enable_event },
	{ "disable_event", l_session_disable_event },
	{ "attr", l_session_attr },
	{ "fds", l_session_fds },
	{ "enable", l_session_enable },
	{ "disable", l_session_disable },
	{ "scan", l_session_scan },
	{ "scan_new", l_session_scan_new },
	{ "comm", l_session_comm },
	{ "task", l_session_task },
	{ "fd", l_session_fd },
	{ "watch", l_session_watch },
	{ "unwatch", l_session_unwatch },
	{ "again", l_session_again },
	{ "timer", l_session_timer },
	{ "signals", l_session_signals },
	{ "read", l_session_read },
	{ "wait", l_session_wait },
	{ "over", l_session_over },
	{ "time_on", l_session_time_on },
	{ "dispatch", l_session_dispatch },
	{ "snapshot", l_session_snapshot },
	{ "sampled", l_session_sampled },
	{ "copy", l_session_copy },
	{ "record", l_session_record },
	{ "record_kept", l_session_record_kept },
	{ "record_losses", l_session_record_losses },
	{ "slots", l_session_slots },
	{ "halt", l_session_halt },
	{ "dispatching", l_session_dispatching },
	{ "want_comm", l_session_want_comm },
	{ "begin", l_session_begin },
	{ "pull", l_session_pull },
	{ "puller", l_session_puller },
	{ "finish", l_session_finish },
	{ "totals", l_session_totals },
	{ "close", l_session_close },
	{ "abandon", l_session_abandon },
	{ "__close", l_session_close },
	{ NULL, NULL },
};

void l_session_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_session_gc);
	lua_pushcfunction(L, l_session);
	lua_setfield(L, -2, "session");
}
