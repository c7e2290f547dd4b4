/* lsession_unordered.c - feeds a recording's aggregators without order of time; see lsession.h. */
#include "lua/engine/lsession.h"

#include <stdlib.h>

#include "engine/route.h"
#include "lua/base/lerror.h"

/* Returns why the order of time is needed, whatever the callbacks; or NULL. */
static const char *needs_order(const struct pev_engine *e, const struct pev_reader *reader)
{
	for (uint32_t i = 0; i < e->nr_listeners; i++)
		if (!e->listeners[i].off &&
		    e->listeners[i].wanted_types & ~(1u << PERF_RECORD_SAMPLE))
			return "a callback gets records that are no samples";
	for (uint32_t i = 0; i < pev_reader_count_events(reader); i++) {
		const struct pev_attr *attr = &pev_reader_event(reader, i)->attr;

		if (attr->flags & PEV_ATTR_DEFER_CALLCHAIN || pev_group_read_splits(attr))
			return "samples are joined or split";
	}
	if (e->nr_timers)
		return "a timer runs";
	if (e->wanted.from_first || e->wanted.to_first)
		return "--from or --to is relative to the first sample";
	return pev_record_filter_asks(&e->wanted) ? "records are selected by task or CPU" : NULL;
}

/* Copies the slots of a route, without those that are off, to slots. Returns their number. */
static uint32_t copy_slots(const struct pev_engine *e, const struct pev_route *route,
			   uint32_t *slots)
{
	uint32_t nr = 0;

	for (uint32_t i = 0; i < route->nr; i++) {
		uint32_t slot = e->listening[route->first + i];

		slots[nr] = slot;
		nr += !e->listeners[slot].off && !e->listeners[slot].hidden;
	}
	return nr;
}

/* Pushes the slots of each event, which config borrows. */
static void read_routes(lua_State *L, struct l_session *self, struct l_unordered_config *config)
{
	struct pev_engine *e = &self->engine;
	struct l_unordered_route *routes;

	config->nr_routes = pev_reader_count_events(self->recording.reader);
	config->routes = routes =
		lua_newuserdatauv(L, sizeof(*routes) * (config->nr_routes + (size_t)1), 0);
	for (uint32_t n = 0; n < config->nr_routes; n++) {
		const struct pev_route *route = pev_route_find(e, n, PERF_RECORD_SAMPLE);
		uint32_t *slots;

		if (!route) {
			luaL_error(L, "no memory to read the recording");
			__builtin_unreachable(); /* it raises */
		}
		luaL_checkstack(L, 2, "routes");
		slots = lua_newuserdatauv(L, sizeof(*slots) * (route->nr + (size_t)1), 0);
		routes[n].nr = copy_slots(e, route, slots);
		routes[n].slots = slots;
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

static bool *read_keeps(lua_State *L, const struct pev_engine *e, uint32_t nr)
{
	bool *keeps = lua_newuserdatauv(L, nr + (size_t)1, 0);

	for (uint32_t i = 0; i < nr; i++)
		keeps[i] = pev_engine_keeps(e, i);
	return keeps;
}

/*
 * s:unordered(jobs) -> number of threads | nil, why the order of time is needed. jobs 0: one for
 * each CPU, at most 8. Call s:feed_unordered() next.
 */
static int l_session_unordered(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	lua_Integer jobs = luaL_checkinteger(L, 2);
	struct l_unordered_config config = { 0 };
	const char *why;

	luaL_argcheck(L, self->file, 1, "a session of a recording expected");
	luaL_argcheck(L, jobs >= 0 && jobs <= PEV_UNORDERED_JOBS_MAX, 2, "0 .. 64");
	lua_settop(L, 2);
	lua_getiuservalue(L, 1, L_SESSION_UV_FILE);
	if (!l_reader_enter(self->file, L, 3))
		return luaL_error(L, "the recording is closed");
	why = needs_order(&self->engine, self->recording.reader);
	if (!why && !pev_reader_get_area(self->recording.reader, &config.core.area))
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
	config.core.from = self->engine.wanted.from;
	config.core.to = self->engine.wanted.to;
	config.core.exclude_pid = self->engine.exclude_pid;
	config.keeps_excluded = read_keeps(L, &self->engine, config.nr_routes);
	config.budget = l_dispatch_budget(L, 1);
	l_unordered_close(self->unordered);
	self->unordered = l_unordered_open(&config);
	if (!self->unordered)
		return luaL_error(L, "no memory to read the recording");
	lua_pushinteger(L, config.core.jobs);
	return 1;
}

/*
 * s:feed_unordered(is_last) -> true and how many bytes were read, if there is more to feed;
 * false and the number of delivered records: s:dispatch() delivers the others; nil, a reason: it
 * delivers all, because the order of time is needed. is_last: reads no more.
 */
static int l_session_feed_unordered(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	struct l_unordered_counts counts;
	int rc = 0;

	luaL_argcheck(L, self->unordered, 1, "unordered() comes first");
	lua_settop(L, 2);
	lua_getiuservalue(L, 1, L_SESSION_UV_FILE);
	if (!l_reader_enter(self->file, L, 3))
		return luaL_error(L, "the recording is closed");
	if (!lua_toboolean(L, 2))
		rc = l_unordered_step(self->unordered);
	l_raise_pending(L);
	if (rc > 0) {
		lua_pushboolean(L, 1);
		lua_pushinteger(L, (lua_Integer)l_unordered_offset(self->unordered));
		return 2;
	}
	if (rc == 0) {
		counts = l_unordered_settle(self->unordered, self->recording.reader);
		self->delivered += counts.delivered;
		self->d.undecided += counts.undecided;
		self->engine.excluded += counts.excluded;
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

#define SMALL_FILE ((uint64_t)1 << 20) /* read before a thread has begun */

/*
 * s:read_ahead(jobs) -> true if a thread reads the recording ahead of dispatch(), with more than
 * one job. jobs 0: as for unordered(), and no thread for a small recording.
 */
static int l_session_read_ahead(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	lua_Integer jobs = luaL_checkinteger(L, 2);
	struct pev_reader *reader;

	luaL_argcheck(L, self->file, 1, "a session of a recording expected");
	lua_settop(L, 2);
	lua_getiuservalue(L, 1, L_SESSION_UV_FILE);
	reader = l_reader_enter(self->file, L, 3);
	if (!reader)
		return luaL_error(L, "the recording is closed");
	if (!jobs && pev_reader_facts(reader)->size >= SMALL_FILE)
		jobs = default_jobs(self->sys);
	lua_pushboolean(L, jobs > 1 && pev_reader_start_thread(reader));
	return 1;
}

const luaL_Reg l_session_unordered_methods[] = {
	{ "read_ahead", l_session_read_ahead },
	{ "unordered", l_session_unordered },
	{ "feed_unordered", l_session_feed_unordered },
	{ NULL, NULL },
};
