/*
 * lspan.c - the userdata perfev.span; see lspan.h. What is done per record is lsink.c's.
 */
#include "lspan.h"

#include <lauxlib.h>

#include "lclass.h"

#define TYPENAME "perfev.span"

static struct l_agg *check_agg(lua_State *L, int arg)
{
	struct l_agg *agg = l_agg_test(L, arg);

	luaL_argexpected(L, agg, arg, "aggregator");
	return agg;
}

/* The end at idx keeps the span on top, and the stacks of its keys are those of into. */
static void take_end(lua_State *L, int idx, struct l_span *self, bool stops)
{
	struct l_agg *end = l_agg_test(L, idx);

	lua_pushvalue(L, -1);
	lua_setiuservalue(L, idx, L_AGG_UV_SPAN);
	lua_getiuservalue(L, 3, L_AGG_UV_HOMES);
	lua_setiuservalue(L, idx, L_AGG_UV_HOMES);
	end->span = self;
	end->stops = stops;
}

/* span(start, stop, into, how many columns are the key, most that wait, ns per unit) */
static int l_span(lua_State *L)
{
	struct l_agg *start = check_agg(L, 1), *stop = check_agg(L, 2), *into = check_agg(L, 3);
	lua_Integer nr_by = luaL_checkinteger(L, 4), most = luaL_checkinteger(L, 5);
	lua_Integer unit = luaL_checkinteger(L, 6);
	struct l_span *self;

	luaL_argcheck(L, nr_by > 0 && (uint32_t)nr_by == start->nr_by, 4, "columns of the start");
	luaL_argcheck(L, (uint32_t)nr_by + into->nr_by == stop->nr_by, 2, "columns of the stop");
	luaL_argcheck(L, most > 0 && most <= PEV_AGG_MOST_KEYS, 5, "1 .. 2^28");
	luaL_argcheck(L, unit > 0, 6, "at least 1");
	self = lua_newuserdatauv(L, sizeof(*self), 1);
	*self = (struct l_span){ .into = into, .nr_by = (uint32_t)nr_by, .unit = (uint64_t)unit };
	if (pev_spans_init(&self->spans, (uint32_t)most) < 0)
		return luaL_error(L, "no memory for spans");
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, 3);
	lua_setiuservalue(L, -2, 1);
	take_end(L, 1, self, false);
	take_end(L, 2, self, true);
	return 1;
}

static int l_span_gc(lua_State *L)
{
	struct l_span *self = luaL_checkudata(L, 1, TYPENAME);

	pev_spans_free(&self->spans);
	return 0;
}

/* span_counts(span) -> { waiting=, unstarted=, restarted=, dropped= } */
static int l_span_counts(lua_State *L)
{
	const struct l_span *self = luaL_checkudata(L, 1, TYPENAME);
	const struct {
		const char *name;
		uint64_t n;
	} counts[] = {
		{ "waiting", self->spans.nr },
		{ "unstarted", self->spans.unstarted },
		{ "restarted", self->spans.restarted },
		{ "dropped", self->spans.dropped },
	};

	lua_createtable(L, 0, 4);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		lua_pushinteger(L, (lua_Integer)counts[i].n);
		lua_setfield(L, -2, counts[i].name);
	}
	return 1;
}

void l_span_register(lua_State *L)
{
	l_class(L, TYPENAME, NULL, l_span_gc);
	lua_pushcfunction(L, l_span);
	lua_setfield(L, -2, "span");
	lua_pushcfunction(L, l_span_counts);
	lua_setfield(L, -2, "span_counts");
}
