/* lsession_unordered.c - feeds a session's aggregators without order of time; see lsession.h. */
#include "lua/engine/lsession.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/route.h"
#include "lua/base/lerror.h"

#define NO_MEMORY "no memory to read records without order of time"

/* Returns why the order of time is needed, whatever the callbacks; or NULL. */
static const char *needs_order(const struct pev_engine *e)
{
	for (uint32_t i = 0; i < e->nr_listeners; i++)
		if (!e->listeners[i].off &&
		    e->listeners[i].wanted_types & ~(1u << PERF_RECORD_SAMPLE))
			return "a callback gets records that are no samples";
	for (uint32_t i = 0; i < e->source->calls->count_events(e->source); i++) {
		const struct pev_attr *attr = e->source->calls->attr(e->source, i);

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

	config->nr_routes = e->source->calls->count_events(e->source);
	config->routes = routes =
		lua_newuserdatauv(L, sizeof(*routes) * (config->nr_routes + (size_t)1), 0);
	for (uint32_t n = 0; n < config->nr_routes; n++) {
		const struct pev_route *route = pev_route_find(e, n, PERF_RECORD_SAMPLE);
		uint32_t *slots;

		if (!route) {
			luaL_error(L, NO_MEMORY);
			__builtin_unreachable(); /* it raises */
		}
		luaL_checkstack(L, 2, "routes");
		slots = lua_newuserdatauv(L, sizeof(*slots) * (route->nr + (size_t)1), 0);
		routes[n].nr = copy_slots(e, route, slots);
		routes[n].slots = slots;
		routes[n].keeps_excluded = pev_engine_keeps(e, n);
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

static void add_counts(struct l_session *self, const struct l_unordered_counts *counts)
{
	self->delivered += counts->delivered;
	self->d.undecided += counts->undecided;
	self->engine.excluded += counts->excluded;
}

static void take_counts(struct l_session *self)
{
	struct l_unordered_counts counts = { 0 };

	if (self->unordered)
		counts = l_unordered_take_counts(self->unordered);
	add_counts(self, &counts);
	self->fed += counts.delivered;
}

uint64_t l_session_count_fed(struct l_session *self)
{
	uint64_t fed;

	take_counts(self);
	fed = self->fed;
	self->fed = 0;
	return fed;
}

/* Fills config. Returns why the session's callbacks need the order of time, or NULL. */
static const char *check_callbacks(lua_State *L, struct l_session *self,
				   struct l_unordered_config *config)
{
	read_routes(L, self, config);
	config->d = &self->d;
	config->exclude_pid = self->engine.exclude_pid;
	config->budget = l_dispatch_budget(L, 1);
	return l_unordered_refusal(config);
}

static void open_unordered(lua_State *L, struct l_session *self,
			   const struct l_unordered_config *config)
{
	take_counts(self);
	l_unordered_close(self->unordered);
	self->unordered = l_unordered_open(config);
	if (!self->unordered)
		luaL_error(L, NO_MEMORY);
}

/* Pushes the areas of the files, which config borrows. Returns why there are none, or NULL. */
static const char *read_areas(lua_State *L, const struct pev_reader *reader,
			      struct pev_unordered_config *config)
{
	struct pev_reader_area *areas;
	const char *why = NULL;

	config->nr_areas = pev_reader_facts(reader)->files;
	config->areas = areas = lua_newuserdatauv(L, sizeof(*areas) * config->nr_areas, 0);
	for (uint32_t i = 0; i < pev_reader_count_sections(reader); i++)
		if (pev_reader_section_at(reader, i)->id == PEV_FEAT_COMPRESSED)
			return "the records are compressed";
	for (uint32_t i = 0; i < config->nr_areas && !why; i++)
		why = pev_reader_get_area(reader, i, &areas[i]);
	return why;
}

/* Of a recording: as l_session_unordered(). */
static const char *read_file_unordered(lua_State *L, struct l_session *self, uint32_t *jobs)
{
	struct l_unordered_config config = { 0 };
	struct pev_unordered_config file = { 0 };
	const char *why;

	if (!l_reader_enter(self->file, L, 3))
		luaL_error(L, "the recording is closed");
	why = read_areas(L, self->recording.reader, &file);
	if (!why)
		why = check_callbacks(L, self, &config);
	if (why)
		return why;
	/* Hooks are functions of Lua, which one thread runs. */
	if (file.areas->sys != pev_sys_real)
		*jobs = 1;
	else if (!*jobs)
		*jobs = default_jobs(file.areas->sys);
	config.parts = file.jobs = *jobs;
	config.tasks = self->engine.source->tasks;
	file.from = self->engine.wanted.from;
	file.to = self->engine.wanted.to;
	open_unordered(L, self, &config);
	if (l_unordered_set_file(self->unordered, &file) < 0)
		luaL_error(L, NO_MEMORY);
	return NULL;
}

/* The same for rings. Without threads the dispatch feeds the aggregators. */
static const char *read_rings_unordered(lua_State *L, struct l_session *self, uint32_t *readers)
{
	struct l_unordered_config config = { .is_live = true };
	struct pev_session_feed_config feed = { .collect = l_unordered_collect };
	const char *why = pev_session_feed_refusal(self->s);
	int threads;

	if (!why)
		why = check_callbacks(L, self, &config);
	if (why)
		return why;
	if (*readers < 2 || self->sys != pev_sys_real)
		*readers = 0;
	config.is_direct = !*readers;
	config.parts = *readers ? 2 * *readers : 1;
	pev_session_stop_feed(self->s);
	open_unordered(L, self, &config);
	feed.batch = l_unordered_batch(self->unordered);
	feed.threads = *readers;
	threads = pev_session_feed(self->s, &feed);
	*readers = (uint32_t)threads;
	return threads < 0 ? "a thread cannot be started" : NULL;
}

/*
 * s:unordered(threads) -> number of threads | nil, why the order of time is needed. Of a
 * recording, call s:feed_unordered() next; threads 0: one for each CPU, at most 8. Live,
 * s:dispatch() feeds; threads 0 and 1: none but this one, and 0 is returned.
 */
static int l_session_unordered(lua_State *L)
{
	struct l_session *self = l_session_check(L);
	lua_Integer threads = luaL_checkinteger(L, 2);
	uint32_t nr = (uint32_t)threads;
	const char *why;

	luaL_argcheck(L, threads >= 0 && threads <= PEV_UNORDERED_JOBS_MAX, 2, "0 .. 64");
	lua_settop(L, 2);
	lua_getiuservalue(L, 1, L_SESSION_UV_FILE);
	why = needs_order(&self->engine);
	if (!why)
		why = self->file ? read_file_unordered(L, self, &nr)
				 : read_rings_unordered(L, self, &nr);
	if (why) {
		lua_pushnil(L);
		lua_pushstring(L, why);
		return 2;
	}
	lua_pushinteger(L, nr);
	return 1;
}

/* s:feeds() -> true if the dispatch of a live session feeds aggregators without order of time */
static int l_session_feeds(lua_State *L)
{
	lua_pushboolean(L, pev_session_feeds(l_session_check_live(L)->s));
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

	luaL_argcheck(L, self->file && self->unordered, 1, "unordered() comes first");
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
		add_counts(self, &counts);
		lua_pushboolean(L, 0);
		lua_pushinteger(L, (lua_Integer)counts.delivered);
	} else {
		lua_pushnil(L);
		lua_pushstring(L, rc == -ESTALE ? "the kernel's maps can change between samples"
						: "not all keys have room");
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
	{ "feeds", l_session_feeds },
	{ NULL, NULL },
};
