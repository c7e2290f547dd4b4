/* lsession_live.c - the events and rings of a live session; see lsession.h. */
#include "lua/engine/lsession.h"

#include <errno.h>
#include <string.h>

#include "lua/base/lerror.h"
#include "lua/base/loption.h"
#include "lua/event/lattr.h"
#include "lua/perfdata/lwriter.h"
#include "lua/symbol/lstack.h"
#include "lua/symbol/lstack_table.h"

static struct pev_slot *check_slot(lua_State *L, struct l_session *self, int arg)
{
	return pev_session_slot(self->s, l_session_check_slot(L, self, arg));
}

/* Names an address that a payload prints (%pS and the like). */
static const char *find_symbol(void *ctx, uint64_t addr, uint64_t *start)
{
	struct l_session *self = ctx;

	if (!self->symbols && !self->no_symbols)
		self->no_symbols = pev_kallsyms_kernel(&self->symbols, self->sys, NULL) < 0;
	return self->symbols ? pev_kallsyms_find(self->symbols, addr, start) : NULL;
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
	lua_setiuservalue(L, -2, L_ARGS_UV_OWNER);
	lua_rawseti(L, context, 2 * (lua_Integer)slot + 2);
	return 0;
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

/* Adds the slot's listener, with the same number: an event that failed to open has one, too. */
static int listen(struct l_session *self, const struct pev_slot *slot,
		  struct pev_listener *listener)
{
	const struct pev_listener nothing = { .event = PEV_NO_EVENT, .hidden = true };
	int rc = 0;

	while (rc >= 0 && self->engine.nr_listeners < slot->index)
		rc = pev_engine_add_listener(&self->engine, &nothing);
	/* The task that runs when an AUX record is written need not be the traced one. */
	if (rc >= 0 && slot->own_rings && !slot->early)
		rc = pev_engine_keep_excluded(&self->engine, slot->index);
	listener->event = listener->declaration = slot->index;
	return rc < 0 ? rc : pev_engine_add_listener(&self->engine, listener);
}

/*
 * s:add{attr=, name=, pids=, cpus=, cgroup=, leader=, callbacks=, event=, system=, format=,
 * strings=, hidden=, off=, aux_bytes=, aux_optional=, fields=, where=, where_all=, no_task=,
 * no_cpu=, no_time=, no_records=, early=}
 * -> slot | nil, message, errno; leader: the slot whose group it joins
 */
static int l_session_add(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
	struct pev_target target = { 0 };
	struct pev_slot *slot;
	struct pev_attr *attr;
	struct pev_err err = { 0 };
	struct pev_want want = { 0 };
	struct pev_listener listener = { 0 };
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
	listener.wanted_types =
		l_dispatch_set_callbacks(L, 1, &self->d, index, &listener.named_types);
	want.no_task = l_option_bool(L, 2, "no_task");
	want.no_cpu = l_option_bool(L, 2, "no_cpu");
	want.no_time = l_option_bool(L, 2, "no_time");
	want.no_records = l_option_bool(L, 2, "no_records");
	want.early = l_option_bool(L, 2, "early");
	lua_getfield(L, 2, "event");
	lua_rawseti(L, 3, 2 * (lua_Integer)index + 1);
	rc = pev_session_add(self->s, attr, name, &target, &want, &slot, &err);
	if (rc < 0)
		return l_result(L, rc, &err);
	slot->hidden = l_option_bool(L, 2, "hidden");
	slot->off = l_option_bool(L, 2, "off");
	listener.hidden = slot->hidden;
	rc = listen(self, slot, &listener);
	if (rc < 0) {
		pev_session_remove(self->s, slot);
		return l_result(L, pev_fail(&err, rc, "no memory for an event"), &err);
	}
	lua_pushinteger(L, slot->index);
	return 1;
}

/* s:remove(slot) -> whether it was switched off: stops the event for good */
static int l_session_remove(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	uint32_t index = l_session_check_slot(L, self, 2);
	struct pev_slot *slot = self->file ? NULL : pev_session_slot(self->s, index);

	lua_pushboolean(L, slot && slot->off);
	if (slot)
		pev_session_remove(self->s, slot);
	pev_engine_want(&self->engine, index, 0, true);
	return 1;
}

/*
 * s:take_counts() -> their sum | nil, message, errno: passes what the events without records have
 * counted since the last call to their aggregators
 */
static int l_session_take_counts(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
	int64_t all = 0, more = 0;
	struct pev_err err;

	for (uint32_t i = 0; more >= 0 && i < pev_session_slots(self->s); i++) {
		struct pev_slot *slot = pev_session_slot(self->s, i);

		more = pev_session_take_count(self->s, slot);
		if (more < 0)
			pev_fail(&err, (int)more, "cannot read %s", slot->event.name);
		else
			l_dispatch_count(&self->d, i, (uint64_t)more);
		all += more;
	}
	if (more < 0)
		return l_result(L, (int)more, &err);
	self->delivered += (uint64_t)all;
	lua_pushinteger(L, all);
	return 1;
}

/* s:filter(slot, text) -> 0 | nil, message, errno */
static int l_session_filter(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
	struct pev_slot *slot = check_slot(L, self, 2);
	struct pev_err err;

	return l_result(L, pev_event_filter(&slot->event, luaL_checkstring(L, 3), &err), &err);
}

/* s:keep_own(slot): exclude_pid does not apply to this event */
static int l_session_keep_own(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);

	pev_session_stop_feed(self->s);
	return l_result(L, pev_engine_keep_excluded(&self->engine, check_slot(L, self, 2)->index),
			NULL);
}

/* s:period(slot, n) -> 0 | nil, message, errno */
static int l_session_period(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
	struct pev_slot *slot = check_slot(L, self, 2);
	lua_Integer period = luaL_checkinteger(L, 3);
	struct pev_err err;
	int rc = pev_event_period(&slot->event, (uint64_t)period);

	pev_session_stop_feed(self->s); /* its threads read the plan */
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
	struct l_session *self = l_session_check_live(L);
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

/* s:attr(slot) -> the attr as the kernel accepted it */
static int l_session_attr(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);

	l_attr_push(L, &check_slot(L, self, 2)->event.attr);
	return 1;
}

/* s:fds(slot) -> { {fd =, id =, pid =, cpu =}, ... } of those that are open */
static int l_session_fds(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
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

/*
 * s:scan(pid, maps): reads the names of the process's threads,
 * or of all (-1), from /proc; with maps also its mappings
 */
static int l_session_scan(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
	int pid = (int)luaL_checkinteger(L, 2);
	struct pev_tasks *tasks = pev_session_tasks(self->s);

	return l_result(L, lua_toboolean(L, 3) ? pev_tasks_scan_maps(tasks, pid) :
						 pev_tasks_scan(tasks, pid), NULL);
}

/* s:scan_new(pid): the same, only for threads that began since the last scan */
static int l_session_scan_new(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
	int pid = (int)luaL_checkinteger(L, 2);

	return l_result(L, pev_tasks_scan_new(pev_session_tasks(self->s), pid), NULL);
}

/* s:time_on(cpu) -> ns that the CPU's events were on, as a sum */
static int l_session_time_on(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
	int cpu = (int)luaL_checkinteger(L, 2);

	lua_pushinteger(L, (lua_Integer)pev_session_time_on(self->s, cpu));
	return 1;
}

/* ---- recording ---- */

/* s:copy() -> bytes | nil, message, errno: copies all records to the recorder, delivers none */
static int l_session_copy(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);

	return l_result(L, pev_session_copy_rings(self->s), NULL);
}

/* s:record_kept(): records the content of backward rings, after the events are disabled */
static int l_session_record_kept(lua_State *L)
{
	pev_session_record_backward(l_session_check_live(L)->s);
	return 0;
}

/*
 * s:keep_tasks(slot, id, held) -> 0 | nil, message, errno: from here on, keeps what the recordings
 * of snapshots need to name tasks
 */
static int l_session_keep_tasks(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
	uint64_t id = (uint64_t)luaL_checkinteger(L, 3);
	int held = (int)luaL_optinteger(L, 4, 0);
	struct pev_err err;
	int rc = pev_session_keep_tasks(self->s, check_slot(L, self, 2), id, held);

	if (rc < 0)
		pev_fail(&err, rc, "no memory for the names of tasks");
	return l_result(L, rc, &err);
}

/* s:record_snapshot(recorder) -> 0 | nil, message, errno */
static int l_session_record_snapshot(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
	struct pev_writer *rec = l_writer_enter(L, 2);
	struct pev_err err;
	int rc = pev_session_record_snapshot(self->s, rec);

	if (rc < 0)
		pev_fail(&err, rc, "cannot pause the output of a backward ring");
	return l_result(L, rc, &err);
}

/* s:record(recorder or nil): sets the recorder for records read from here on */
static int l_session_record(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
	bool on = !lua_isnoneornil(L, 2);
	struct pev_writer *rec = on ? l_writer_attach(L, 2) : NULL;

	pev_session_set_recorder(self->s, rec);
	lua_settop(L, 2);
	lua_getiuservalue(L, 1, L_SESSION_UV_RECORDER);
	l_writer_detach(L, 3);
	lua_pushvalue(L, 2);
	lua_setiuservalue(L, 1, L_SESSION_UV_RECORDER);
	return 0;
}

/* s:record_losses() -> lost records of hidden events since the last call */
static int l_session_record_losses(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)pev_session_record_losses(l_session_check_live(L)->s));
	return 1;
}

/*
 * s:sampled(keep, kept): calls keep(sampled) for each entry of pev_stacks.sampled and empties the
 * list; keep returns true if the dso is not to be listed again. kept lives as long as the stacks.
 */
static int l_session_sampled(lua_State *L)
{
	struct pev_stacks *stacks;

	l_session_check_any(L);
	lua_settop(L, 3);
	lua_getiuservalue(L, 1, L_UV_CONTEXT);
	lua_getfield(L, 4, "stacks");
	lua_replace(L, 4);
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

/* s:slots() -> { {name=, attr=, ids=, hidden=, keep_own=, closed=, early=}, ... }: from 0 on */
static int l_session_slots(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
	uint32_t nr = pev_session_slots(self->s);

	lua_createtable(L, (int)nr, 0);
	for (uint32_t i = 0; i < nr; i++) {
		const struct pev_slot *slot = pev_session_slot(self->s, i);

		lua_createtable(L, 0, 7);
		lua_pushstring(L, slot->event.name);
		lua_setfield(L, -2, "name");
		l_attr_push(L, &slot->event.attr);
		lua_setfield(L, -2, "attr");
		push_ids(L, &slot->event);
		lua_setfield(L, -2, "ids");
		lua_pushboolean(L, slot->hidden);
		lua_setfield(L, -2, "hidden");
		lua_pushboolean(L, pev_engine_keeps(&self->engine, i));
		lua_setfield(L, -2, "keep_own");
		lua_pushboolean(L, slot->closed);
		lua_setfield(L, -2, "closed");
		lua_pushboolean(L, slot->early);
		lua_setfield(L, -2, "early");
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return 1;
}

/* s:ring_peaks() -> list of {CPU or -1, most unread bytes}, one for each ring */
static int l_session_ring_peaks(lua_State *L)
{
	struct l_session *self = l_session_check_live(L);
	int64_t peak;
	int cpu;

	lua_newtable(L);
	for (uint32_t i = 0; (peak = pev_session_ring_peak(self->s, i, &cpu)) >= 0; i++) {
		lua_createtable(L, 2, 0);
		lua_pushinteger(L, cpu);
		lua_rawseti(L, -2, 1);
		lua_pushinteger(L, peak);
		lua_rawseti(L, -2, 2);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	return 1;
}

const luaL_Reg l_session_live_methods[] = {
	{ "add", l_session_add },
	{ "remove", l_session_remove },
	{ "take_counts", l_session_take_counts },
	{ "filter", l_session_filter },
	{ "keep_own", l_session_keep_own },
	{ "period", l_session_period },
	{ "signal", l_session_signal },
	{ "attr", l_session_attr },
	{ "fds", l_session_fds },
	{ "scan", l_session_scan },
	{ "scan_new", l_session_scan_new },
	{ "time_on", l_session_time_on },
	{ "copy", l_session_copy },
	{ "record", l_session_record },
	{ "keep_tasks", l_session_keep_tasks },
	{ "record_snapshot", l_session_record_snapshot },
	{ "record_kept", l_session_record_kept },
	{ "record_losses", l_session_record_losses },
	{ "sampled", l_session_sampled },
	{ "slots", l_session_slots },
	{ "ring_peaks", l_session_ring_peaks },
	{ NULL, NULL },
};
