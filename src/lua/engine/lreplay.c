/*
 * lreplay.c - the userdata perfev.core.replay: delivers the records of a recording to callbacks.
 *
 * Internal: lua/perfev/perfdata/replay.lua uses it in place of a session's core. When Lua has to
 * act (call a timer's callback, set a route), the dispatch returns, and the next call
 * continues. So the core calls no Lua except callbacks, and the reader is never on the stack
 * below one.
 */
#include "lua/engine/lreplay.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdio.h>
#include <stdlib.h>

#include "perfdata/replay.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/perfdata/lreader.h"
#include "lua/engine/ldispatch.h"
#include "lua/engine/lunordered.h"
#include "lua/hooks/lhooks.h"
#include "lua/base/loption.h"

#define TYPENAME "perfev.core.replay"
#define ROUND_CALLS 512 /* callbacks, and records read, between two checks for signals */
#define ROUND_READS 8192

enum { UV_FILE = L_UV_NR + 1, UV_LAST = UV_FILE };

enum { ARGS_UV_OWNER = 2 }; /* user value of a payload view: see l_args_push() */

struct l_replay {
	const char *kind; /* &is_replay */
	struct pev_replay replay;
	struct l_reader *file; /* kept by UV_FILE */
	struct l_dispatch d;
	struct l_unordered *unordered; /* NULL: records are delivered in the order of time */
	uint64_t delivered;
};

/* With the size of the userdata, this address proves the type. */
static const char is_replay = 0;

/* Returns the replay at 1, and enters its recording, which is pushed. */
static struct l_replay *check_replay(lua_State *L)
{
	struct l_replay *self = lua_touserdata(L, 1);

	/* Called in each turn of a dispatch; comparing the metatable costs more. */
	if (!self || lua_rawlen(L, 1) != sizeof(*self) || self->kind != &is_replay) {
		luaL_typeerror(L, 1, TYPENAME);
		__builtin_unreachable(); /* it raises */
	}
	lua_getiuservalue(L, 1, UV_FILE);
	if (!l_reader_enter(self->file, L, -1))
		luaL_error(L, "the recording is closed");
	self->d.L = L;
	return self;
}

static const char *view_comm(void *ctx, int tid)
{
	struct l_replay *self = ctx;

	return pev_tasks_name(self->replay.tasks, tid);
}

/* ---- constructor ---- */

static void read_numbers(lua_State *L, const char *name, struct pev_numbers *numbers)
{
	int top = lua_gettop(L), nr;
	const int *list;

	if (lua_getfield(L, 3, name) == LUA_TNIL) {
		lua_settop(L, top);
		return;
	}
	list = l_option_ints(L, 3, name, &nr);
	for (int i = 0; i < nr; i++)
		if (pev_numbers_add(numbers, list[i]) < 0)
			luaL_error(L, "no memory for %s", name);
	lua_settop(L, top);
}

static void read_comms(lua_State *L, struct pev_record_filter *wanted)
{
	int top = lua_gettop(L);

	if (lua_getfield(L, 3, "comms") == LUA_TTABLE) {
		for (lua_Integer i = 1; lua_rawgeti(L, -1, i) == LUA_TSTRING; i++) {
			if (pev_record_filter_comm(wanted, lua_tostring(L, -1)) < 0)
				luaL_error(L, "no memory for comms");
			lua_pop(L, 1);
		}
	}
	lua_settop(L, top);
}

static void read_selection(lua_State *L, struct pev_record_filter *wanted)
{
	wanted->from = (uint64_t)l_option_integer(L, 3, "from", 0);
	wanted->to = (uint64_t)l_option_integer(L, 3, "to", -1);
	wanted->from_first = l_option_bool(L, 3, "from_first");
	wanted->to_first = l_option_bool(L, 3, "to_first");
	read_numbers(L, "cpus", &wanted->cpus);
	read_numbers(L, "pids", &wanted->pids);
	read_numbers(L, "tids", &wanted->tids);
	read_comms(L, wanted);
}

/*
 * replay(reader, {on_error=, max_bytes=}, {from=, to=, from_first=, to_first=, cpus=,
 * pids=, tids=, comms=}): replays the records that the reader has not delivered yet
 */
static int l_replay(lua_State *L)
{
	struct l_reader *file = l_reader_check(L, 1);
	struct pev_reader *reader;
	struct l_replay *self;

	luaL_checktype(L, 2, LUA_TTABLE);
	luaL_checktype(L, 3, LUA_TTABLE);
	lua_settop(L, 3);
	reader = l_reader_enter(file, L, 1);
	luaL_argcheck(L, reader, 1, "the recording is closed");
	self = lua_newuserdatauv(L, sizeof(*self), UV_LAST);
	*self = (struct l_replay){ .kind = &is_replay, .file = file, .d = { .L = L } };
	pev_replay_init(&self->replay, reader, l_reader_tasks(file));
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, 4, UV_FILE);
	lua_pushvalue(L, 2);
	lua_setiuservalue(L, 4, L_UV_HANDLERS);
	l_dispatch_init(L, &self->d, 4, view_comm, self);
	l_dispatch_set_tasks(&self->d, self->replay.tasks);
	l_reader_shown(file, &self->d.now);
	l_dispatch_budget(L, 4)->limit = (uint64_t)l_option_integer(L, 2, "max_bytes", -1);
	read_selection(L, &self->replay.wanted);
	return 1;
}

static int l_replay_gc(lua_State *L)
{
	struct l_replay *self = luaL_checkudata(L, 1, TYPENAME);

	l_reader_shown(self->file, NULL);
	l_unordered_close(self->unordered);
	pev_replay_free(&self->replay);
	l_dispatch_free(&self->d);
	return 0;
}

/* r:know(name, table): adds a table that views use, e.g. the recorder's registers by mask bit */
static int l_replay_know(lua_State *L)
{
	const char *name = luaL_checkstring(L, 2);

	luaL_checktype(L, 3, LUA_TTABLE);
	check_replay(L);
	lua_getiuservalue(L, 1, L_UV_CONTEXT);
	lua_pushvalue(L, 3);
	lua_setfield(L, -2, name);
	return 0;
}

/* ---- listeners ---- */

static uint32_t check_slot(lua_State *L, const struct l_replay *self, int arg)
{
	lua_Integer slot = luaL_checkinteger(L, arg);

	luaL_argcheck(L, slot >= 0 && slot < (lua_Integer)self->replay.nr_slots, arg,
		      "no such event");
	return (uint32_t)slot;
}

/* r:add{callbacks=, event=, fields=, where=, where_all=} -> slot */
static int l_replay_add(lua_State *L)
{
	struct l_replay *self;
	uint32_t slot;

	luaL_checktype(L, 2, LUA_TTABLE);
	lua_settop(L, 2);
	self = check_replay(L); /* the recording is at 3 */
	slot = self->replay.nr_slots;
	if (l_dispatch_reserve_slot(&self->d, slot) < 0)
		return luaL_error(L, "no memory for an event");
	lua_getiuservalue(L, 1, L_UV_CONTEXT);
	lua_getfield(L, 2, "event");
	lua_rawseti(L, 4, 2 * (lua_Integer)slot + 1);
	if (pev_replay_add_listener(&self->replay, l_dispatch_set_callbacks(L, 1, &self->d, slot)) <
	    0)
		return luaL_error(L, "no memory for an event");
	lua_pushinteger(L, slot);
	return 1;
}

/* Makes the payload view expire with our records. The view keeps its former owner and us alive. */
static void adopt_payload(lua_State *L, struct l_replay *self, int idx, struct l_args *args)
{
	if (args->now == &self->d.now)
		return;
	lua_createtable(L, 2, 0);
	lua_getiuservalue(L, idx, ARGS_UV_OWNER);
	lua_rawseti(L, -2, 1);
	lua_pushvalue(L, 1);
	lua_rawseti(L, -2, 2);
	lua_setiuservalue(L, idx, ARGS_UV_OWNER);
	args->now = &self->d.now;
	args->gen = self->d.now - 1;
}

/* r:payload(slot, payload): sets the payload view of the slot's samples */
static int l_replay_payload(lua_State *L)
{
	struct l_args *args = luaL_checkudata(L, 3, "perfev.args");
	struct l_replay *self;
	uint32_t slot;

	lua_settop(L, 3);
	self = check_replay(L);
	slot = check_slot(L, self, 2);
	adopt_payload(L, self, 3, args);
	lua_getiuservalue(L, 1, L_UV_CONTEXT);
	lua_pushvalue(L, 3);
	lua_rawseti(L, -2, 2 * (lua_Integer)slot + 2);
	self->d.slots[slot].args = args;
	return 0;
}

/* r:switch(slot, on) */
static int l_replay_switch(lua_State *L)
{
	struct l_replay *self = check_replay(L);

	pev_replay_switch_slot(&self->replay, check_slot(L, self, 2), lua_toboolean(L, 3));
	return 0;
}

/* r:route(slots): answers the result "route" */
static int l_replay_route(lua_State *L)
{
	struct l_replay *self;
	uint32_t *slots;
	lua_Integer nr;

	luaL_checktype(L, 2, LUA_TTABLE);
	self = check_replay(L);
	nr = (lua_Integer)lua_rawlen(L, 2);
	slots = lua_newuserdatauv(L, sizeof(*slots) * ((size_t)nr + 1), 0);
	for (lua_Integer i = 0; i < nr; i++) {
		lua_rawgeti(L, 2, i + 1);
		slots[i] = check_slot(L, self, -1);
		lua_pop(L, 1);
	}
	if (pev_replay_set_route(&self->replay, slots, (uint32_t)nr) < 0)
		return luaL_error(L, "no memory for an event");
	return 0;
}

/* r:forget(): resets all routes */
static int l_replay_forget(lua_State *L)
{
	pev_replay_reset_routes(&check_replay(L)->replay);
	return 0;
}

/* r:timer(first_ns, every_ns) -> its number, from 0 */
static int l_replay_timer(lua_State *L)
{
	struct l_replay *self = check_replay(L);
	uint64_t first = (uint64_t)luaL_checkinteger(L, 2);
	uint64_t every = (uint64_t)luaL_checkinteger(L, 3);

	return l_result(L, pev_replay_add_timer(&self->replay, first, every), NULL);
}

/* r:exclude(pid): skips the records of this process; 0: none */
static int l_replay_exclude(lua_State *L)
{
	struct l_replay *self = check_replay(L);

	pev_replay_exclude_pid(&self->replay, (int)luaL_checkinteger(L, 2));
	return 0;
}

/* r:lost_own(n): sets how many records of hidden events were lost */
static int l_replay_lost_own(lua_State *L)
{
	check_replay(L)->replay.lost_own = (uint64_t)luaL_checkinteger(L, 2);
	return 0;
}

/* r:keep(n): delivers records of the n-th event, from 1, also of the excluded process */
static int l_replay_keep(lua_State *L)
{
	struct l_replay *self = check_replay(L);
	lua_Integer n = luaL_checkinteger(L, 2);

	luaL_argcheck(L, n >= 1 && n <= pev_reader_count_events(self->replay.reader), 2,
		      "no such event");
	return l_result(L, pev_replay_keep_excluded(&self->replay, (uint32_t)n - 1), NULL);
}

/*
 * r:stacks(n, { no_user=, no_kernel=, of_ip= }): sets the form of the n-th event's stacks; from 1
 */
static int l_replay_stacks(lua_State *L)
{
	struct l_replay *self = check_replay(L);
	lua_Integer n = luaL_checkinteger(L, 2);
	struct pev_stack_form form = { 0 };

	luaL_argcheck(L, n >= 1 && n <= pev_reader_count_events(self->replay.reader), 2,
		      "no such event");
	lua_getfield(L, 3, "no_user");
	form.no_user = lua_toboolean(L, -1);
	lua_getfield(L, 3, "no_kernel");
	form.no_kernel = lua_toboolean(L, -1);
	lua_getfield(L, 3, "of_ip");
	form.of_ip = lua_toboolean(L, -1);
	pev_reader_set_stack_form(self->replay.reader, (uint32_t)n - 1, &form);
	return 0;
}

/* ---- records ---- */

/* Pushes the reason of a return to Lua and its values. Returns how many. */
static int push_turn(lua_State *L, const struct l_replay *self, int turn, const struct pev_err *err)
{
	switch (turn) {
	case PEV_TURN_TIMER:
		lua_pushliteral(L, "timer");
		lua_pushinteger(L, self->replay.timer);
		return 2;
	case PEV_TURN_ROUTE:
		lua_pushliteral(L, "route");
		lua_pushinteger(L, self->replay.event);
		lua_pushinteger(L, self->replay.type);
		return 3;
	case PEV_TURN_NEWS:
		lua_pushliteral(L, "news");
		return 1;
	case PEV_TURN_ROUND:
		return 0;
	case PEV_TURN_END:
		lua_pushliteral(L, "end");
		return 1;
	default:
		lua_pushliteral(L, "end");
		lua_pushstring(L, err->text);
		return 2;
	}
}

/* Returns the next turn. Reports malformed records and skips them. */
static int next_turn(struct l_replay *self, struct pev_err *err)
{
	for (;;) {
		int turn = pev_replay_next(&self->replay, err);

		if (turn != PEV_TURN_DAMAGED)
			return turn;
		l_reader_note(self->file, err->text);
	}
}

static unsigned point_view(struct l_replay *self)
{
	unsigned turn = l_dispatch_point_view(&self->d, self->replay.slot, &self->replay.rec, 0);

	self->d.views[turn]->synthesised = self->replay.source->synthesised;
	return turn;
}

/* State of a dispatch, outside of the protected call, so that it survives an error. */
struct delivery {
	struct l_replay *self;
	uint64_t most, nr; /* limit and number of callbacks */
	int turn;
	struct pev_err err;
};

/* Calls the callback. Returns true if it ends the dispatch. */
static bool call_callback(struct l_replay *self, uint32_t slot, const struct pev_record *rec)
{
	if (l_dispatch_takes_numbers_only(&self->d, slot, rec))
		return l_dispatch_call_with_numbers(&self->d, slot, rec);
	return l_dispatch_call_callback(&self->d, slot, rec, point_view(self));
}

/* Counts following samples like the current one, if that is all they are for. Returns how many. */
static uint32_t count_run(struct l_replay *self, uint64_t most)
{
	struct pev_replay *r = &self->replay;
	uint32_t nr;

	if (!l_dispatch_can_count_run(&self->d, r->slot, &r->rec))
		return 0;
	nr = l_dispatch_count_run(&self->d, r->slot, r->run->at, pev_replay_count_run(r, most));
	pev_replay_skip_run(r, nr);
	return nr;
}

/* Calls up to most callbacks, until Lua has to act. */
static int call_callbacks(lua_State *L, struct l_replay *self, struct delivery *delivery)
{
	while (delivery->nr < delivery->most && !self->d.stop) {
		int turn = next_turn(self, &delivery->err);

		if (turn != PEV_TURN_RECORD)
			return turn;
		if (!l_dispatch_is_wanted(&self->d, self->replay.slot, &self->replay.rec))
			continue;
		delivery->nr++;
		if (l_dispatch_feed_slot(&self->d, self->replay.slot, &self->replay.rec)) {
			delivery->nr += count_run(self, delivery->most - delivery->nr);
			continue;
		}
		if (call_callback(self, self->replay.slot, &self->replay.rec))
			self->d.stop = true;
		/* The callback may have used or closed the recording. */
		if (!l_reader_enter(self->file, L, 3))
			return PEV_TURN_END;
	}
	return PEV_TURN_ROUND;
}

/* (arguments and recording of l_replay_dispatch(), delivery) */
static int l_deliver(lua_State *L)
{
	struct delivery *delivery = lua_touserdata(L, -1);

	lua_pop(L, 1);
	delivery->turn = call_callbacks(L, delivery->self, delivery);
	return 0;
}

/*
 * One protected call covers many callbacks, because it costs half as much as a
 * callback. After an error the loop continues behind the callback that raised it.
 */
static void call_callbacks_guarded(lua_State *L, struct delivery *delivery)
{
	struct l_replay *self = delivery->self;
	int top = lua_gettop(L), rc;

	self->d.guarded = true;
	do {
		lua_pushcfunction(L, l_deliver);
		for (int i = 1; i <= top; i++)
			lua_pushvalue(L, i);
		lua_pushlightuserdata(L, delivery);
		rc = lua_pcall(L, top + 1, 0, self->d.first);
		self->d.L = L;
		if (rc == LUA_OK)
			break;
		if (l_dispatch_report_error(&self->d, self->replay.slot, self->replay.rec.type))
			self->d.stop = true;
		delivery->turn = PEV_TURN_END;
	} while (l_reader_enter(self->file, L, 3));
	self->d.guarded = false;
}

/* r:dispatch(max) -> delivered, stopped[, turn, ...]; max 0: no limit */
static int l_replay_dispatch(lua_State *L)
{
	lua_Integer max = luaL_checkinteger(L, 2);
	struct delivery delivery = { .most = ROUND_CALLS };
	struct l_replay *self;

	luaL_argcheck(L, max >= 0, 2, "negative");
	lua_settop(L, 2);
	self = check_replay(L); /* the recording is at 3 */
	if (self->d.dispatching)
		return luaL_error(L, "dispatch() called from a callback of the same session");
	l_dispatch_prepare_stack(L, &self->d);
	luaL_checkstack(L, 2 * lua_gettop(L) + LUA_MINSTACK, "dispatch");
	self->d.dispatching = true;
	self->d.stop = false;
	self->replay.without_callback = false;
	self->replay.budget = ROUND_READS;
	delivery.self = self;
	if (max && max < ROUND_CALLS)
		delivery.most = (uint64_t)max;
	call_callbacks_guarded(L, &delivery);
	self->d.dispatching = false;
	self->delivered += delivery.nr;
	l_raise_pending(L);
	lua_pushinteger(L, (lua_Integer)delivery.nr);
	lua_pushboolean(L, self->d.stop);
	return 2 + push_turn(L, self, delivery.turn, &delivery.err);
}

/* ---- without order ---- */

/* Returns why the order of time is needed, whatever the callbacks; or NULL. */
static const char *needs_order(const struct pev_replay *r)
{
	for (uint32_t i = 0; i < r->nr_slots; i++)
		if (!r->slots[i].off && r->slots[i].wanted_types & ~(1u << PERF_RECORD_SAMPLE))
			return "a callback gets records that are no samples";
	for (uint32_t i = 0; i < pev_reader_count_events(r->reader); i++) {
		const struct pev_attr *attr = &pev_reader_event(r->reader, i)->attr;

		if (attr->flags & PEV_ATTR_DEFER_CALLCHAIN || pev_group_read_splits(attr))
			return "samples are joined or split";
	}
	if (r->nr_timers)
		return "a timer runs";
	if (r->wanted.from_first || r->wanted.to_first)
		return "--from or --to is relative to the first sample";
	return pev_record_filter_asks(&r->wanted) ? "records are selected by task or CPU" : NULL;
}

/* Reads the slots of each event from the table at 2, without those that are off. */
static void read_routes(lua_State *L, const struct l_replay *self,
			struct l_unordered_config *config)
{
	struct l_unordered_route *routes;

	config->nr_routes = pev_reader_count_events(self->replay.reader);
	config->routes = routes =
		lua_newuserdatauv(L, sizeof(*routes) * (config->nr_routes + (size_t)1), 0);
	for (uint32_t n = 0; n < config->nr_routes; n++) {
		int type = lua_rawgeti(L, 2, (lua_Integer)n + 1);
		uint32_t nr = type == LUA_TTABLE ? (uint32_t)lua_rawlen(L, -1) : 0, *slots;

		/* The routes are below: each list of slots stays on the stack. */
		luaL_checkstack(L, 4, "routes");
		slots = lua_newuserdatauv(L, sizeof(*slots) * (nr + (size_t)1), 0);
		routes[n] = (struct l_unordered_route){ .slots = slots };
		for (uint32_t i = 0; i < nr; i++) {
			lua_rawgeti(L, -2, (lua_Integer)i + 1);
			slots[routes[n].nr] = check_slot(L, self, -1);
			routes[n].nr += !self->replay.slots[slots[routes[n].nr]].off;
			lua_pop(L, 1);
		}
		lua_remove(L, -2);
	}
}

/* The number of CPUs, at most 8. */
static uint32_t default_jobs(const struct pev_sys *sys)
{
	int *cpus, nr = pev_sys_cpus(sys, &cpus);

	if (nr >= 0)
		free(cpus);
	if (nr < 1)
		return 1;
	return nr < 8 ? (uint32_t)nr : 8;
}

static bool *read_keeps(lua_State *L, const struct pev_replay *r, uint32_t nr)
{
	bool *keeps = lua_newuserdatauv(L, nr + (size_t)1, 0);

	for (uint32_t i = 0; i < nr; i++)
		keeps[i] = i < r->nr_keeps && r->keeps[i];
	return keeps;
}

/*
 * r:unordered(slots, jobs) -> number of threads | nil, why the order of time is needed. slots[n]
 * lists the slots that get the samples of event n. jobs 0: one for each CPU, at most 8. Call
 * r:feed_unordered() next.
 */
static int l_replay_unordered(lua_State *L)
{
	lua_Integer jobs = luaL_checkinteger(L, 3);
	struct l_unordered_config config = { 0 };
	struct l_replay *self;
	const char *why;

	luaL_checktype(L, 2, LUA_TTABLE);
	luaL_argcheck(L, jobs >= 0 && jobs <= PEV_UNORDERED_JOBS_MAX, 3, "0 .. 64");
	lua_settop(L, 3);
	self = check_replay(L);
	why = needs_order(&self->replay);
	if (!why && !pev_reader_get_area(self->replay.reader, &config.core.area))
		why = "the input is not one file";
	if (!why) {
		read_routes(L, self, &config);
		config.d = &self->d;
		why = l_unordered_refusal(&config);
	}
	if (why) {
		lua_pushnil(L);
		lua_pushstring(L, why);
		return 2;
	}
	/* Hooks are functions of Lua, which one thread runs. */
	if (config.core.area.sys != &pev_sys_linux)
		jobs = 1;
	config.core.jobs = jobs ? (uint32_t)jobs : default_jobs(config.core.area.sys);
	config.core.from = self->replay.wanted.from;
	config.core.to = self->replay.wanted.to;
	config.core.exclude_pid = self->replay.exclude_pid;
	config.keeps_excluded = read_keeps(L, &self->replay, config.nr_routes);
	config.budget = l_dispatch_budget(L, 1);
	l_unordered_close(self->unordered);
	self->unordered = l_unordered_open(&config);
	if (!self->unordered)
		return luaL_error(L, "no memory to read the recording");
	lua_pushinteger(L, config.core.jobs);
	return 1;
}

/*
 * r:feed_unordered(is_last) -> true and how many bytes were read, if there is more to feed;
 * false and the number of delivered records: r:dispatch() delivers the others; nil, a reason: it
 * delivers all, because the order of time is needed. is_last: reads no more.
 */
static int l_replay_feed_unordered(lua_State *L)
{
	struct l_replay *self = check_replay(L);
	struct l_unordered_counts counts;
	int rc = lua_toboolean(L, 2) ? 0 : l_unordered_step(self->unordered);

	l_raise_pending(L);
	if (rc > 0) {
		lua_pushboolean(L, 1);
		lua_pushinteger(L, (lua_Integer)l_unordered_offset(self->unordered));
		return 2;
	}
	if (rc == 0) {
		counts = l_unordered_settle(self->unordered, self->replay.reader);
		self->delivered += counts.delivered;
		self->d.undecided += counts.undecided;
		self->replay.excluded += counts.excluded;
		lua_pushboolean(L, 0);
		lua_pushinteger(L, (lua_Integer)counts.delivered);
	} else {
		lua_pushnil(L);
		lua_pushliteral(L, "not all keys have room");
	}
	l_unordered_close(self->unordered);
	self->unordered = NULL;
	return 2;
}

/* ---- pulling ---- */

/* r:begin(on): allows the iterator of puller() a round of records, or none */
static int l_replay_begin(lua_State *L)
{
	struct l_replay *self = check_replay(L);

	self->d.now++;
	self->replay.budget = lua_toboolean(L, 2) ? ROUND_READS : 0;
	return 0;
}

/*
 * r:pull(names): the iterator of puller() returns these fields of samples; nil: it gets no records
 */
static int l_replay_pull(lua_State *L)
{
	struct l_replay *self;
	uint32_t wanted_types;

	lua_settop(L, 2);
	self = check_replay(L);
	wanted_types = l_dispatch_pull_fields(L, 1, 2, &self->d);
	for (uint32_t i = 0; i < self->replay.nr_slots; i++)
		self->replay.slots[i].wanted_types = wanted_types;
	pev_replay_reset_routes(&self->replay);
	return 0;
}

/* The iterator's upvalues. */
enum { PULL_REPLAY = 1, PULL_FILE, PULL_VIEWS, PULL_GO_ON = PULL_VIEWS + L_DISPATCH_VIEWS };

/* Reads to the next record for the iterator. */
static int next_pulled(lua_State *L, struct l_replay *self, struct pev_err *err)
{
	int turn;

	/* The loop may have closed the recording. */
	if (!l_reader_enter(self->file, L, lua_upvalueindex(PULL_FILE)))
		return PEV_TURN_ROUND;
	self->d.L = L;
	self->d.now++;
	if (l_dispatch_is_at_limit(&self->d))
		return PEV_TURN_ROUND;
	self->replay.without_callback = !self->d.pulls;
	do {
		turn = next_turn(self, err);
	} while (turn == PEV_TURN_RECORD &&
		 !l_dispatch_is_wanted(&self->d, self->replay.slot, &self->replay.rec));
	return turn;
}

static int push_record(lua_State *L, struct l_replay *self)
{
	unsigned turn;

	pev_replay_skip_listeners(&self->replay);
	self->delivered++;
	turn = point_view(self);
	return l_dispatch_push_pulled(L, &self->d, self->replay.slot, turn,
				      lua_upvalueindex(PULL_VIEWS + (int)turn));
}

/* The iterator. Returns a view or fields. Calls go_on when Lua has to act. */
static int l_pull(lua_State *L)
{
	struct l_replay *self = lua_touserdata(L, lua_upvalueindex(PULL_REPLAY));
	struct pev_err err;
	int turn;

	err.text[0] = '\0'; /* clearing the whole struct for each record is too slow */
	do {
		lua_settop(L, 0);
		turn = next_pulled(L, self, &err);
		if (turn == PEV_TURN_RECORD)
			return push_record(L, self);
		l_raise_pending(L);
		lua_pushvalue(L, lua_upvalueindex(PULL_GO_ON));
		lua_call(L, push_turn(L, self, turn, &err), 1);
	} while (lua_toboolean(L, -1));
	return 0;
}

/*
 * r:puller(go_on, max) -> next() -> view or fields ... | nil. The iterator covers
 * the round that begin() starts. It calls go_on(turn, ...) -> boolean at the end of
 * the round, when Lua has to act, and after max records; nil: no limit.
 */
static int l_replay_puller(lua_State *L)
{
	struct l_replay *self;

	luaL_checktype(L, 2, LUA_TFUNCTION);
	lua_settop(L, 3);
	self = check_replay(L); /* the recording is at 4 */
	l_dispatch_set_limit(L, &self->d, 3);
	lua_pushvalue(L, 1);
	lua_insert(L, 4);
	l_dispatch_push_views(L, 1);
	lua_pushvalue(L, 2);
	lua_pushcclosure(L, l_pull, PULL_GO_ON);
	return 1;
}

/* r:halt(): called by a callback, ends the dispatch after this record */
static int l_replay_halt(lua_State *L)
{
	struct l_replay *self = luaL_checkudata(L, 1, TYPENAME);

	self->d.stop = true;
	return 0;
}

/* r:dispatching() -> true inside a callback */
static int l_replay_dispatching(lua_State *L)
{
	const struct l_replay *self = luaL_checkudata(L, 1, TYPENAME);

	lua_pushboolean(L, self->d.dispatching);
	return 1;
}

/* r:counts() -> delivered, excluded, unjoined, undecided, refused, failed */
static int l_replay_counts(lua_State *L)
{
	const struct l_replay *self = luaL_checkudata(L, 1, TYPENAME);

	lua_pushinteger(L, (lua_Integer)self->delivered);
	lua_pushinteger(L, (lua_Integer)self->replay.excluded);
	lua_pushinteger(L, (lua_Integer)self->replay.deferred.unjoined);
	lua_pushinteger(L, (lua_Integer)self->d.undecided);
	lua_pushinteger(L, (lua_Integer)l_dispatch_budget(L, 1)->refused);
	lua_pushinteger(L, (lua_Integer)l_dispatch_budget(L, 1)->failed);
	return 6;
}

/* clang-format off */
static const luaL_Reg methods[] = {
	{ "know",        l_replay_know },
	{ "add",         l_replay_add },
	{ "payload",     l_replay_payload },
	{ "switch",      l_replay_switch },
	{ "route",       l_replay_route },
	{ "forget",      l_replay_forget },
	{ "timer",       l_replay_timer },
	{ "exclude",     l_replay_exclude },
	{ "lost_own",    l_replay_lost_own },
	{ "keep",        l_replay_keep },
	{ "stacks",      l_replay_stacks },
	{ "dispatch",    l_replay_dispatch },
	{ "unordered",   l_replay_unordered },
	{ "feed_unordered", l_replay_feed_unordered },
	{ "begin",       l_replay_begin },
	{ "pull",        l_replay_pull },
	{ "puller",      l_replay_puller },
	{ "halt",        l_replay_halt },
	{ "dispatching", l_replay_dispatching },
	{ "counts",      l_replay_counts },
	{ NULL,          NULL },
};
/* clang-format on */

void l_replay_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_replay_gc);
	lua_pushcfunction(L, l_replay);
	lua_setfield(L, -2, "replay");
}
