/*
 * lspan.c - the userdata perfev.span; see lspan.h. lsink.c does the work per record.
 */
#include "lua/aggregate/lspan.h"

#include <lauxlib.h>

#include "lua/base/lclass.h"
#include "lua/base/lregister.h"
#include "lua/base/lset.h"

#define TYPENAME "perfev.span"

static struct l_agg *check_agg(lua_State *L, int arg)
{
	struct l_agg *agg = l_agg_test(L, arg);

	luaL_argexpected(L, agg, arg, "aggregator");
	return agg;
}

/* Argument numbers of span(): the ends' aggregators, and into. */
enum { AT_ENDS = 1, AT_INTO = AT_ENDS + L_SPAN_NR };

/* The end at idx keeps the span on top and shares the stack tables of into. */
static void take_end(lua_State *L, int idx, struct l_span *self, enum l_span_end end)
{
	struct l_agg *agg = l_agg_test(L, idx);

	lua_pushvalue(L, -1);
	lua_setiuservalue(L, idx, L_AGG_UV_SPAN);
	lua_getiuservalue(L, AT_INTO, L_AGG_UV_HOMES);
	lua_setiuservalue(L, idx, L_AGG_UV_HOMES);
	agg->span = self;
	agg->span_into = self->into;
	agg->end = end;
	agg->keeps_times = end == L_SPAN_START && self->into->keeps_times;
}

static lua_Integer integer_of(lua_State *L, const char *name, lua_Integer least)
{
	lua_Integer value;

	lua_getfield(L, AT_INTO + 1, name);
	value = luaL_checkinteger(L, -1);
	luaL_argcheck(L, value >= least, AT_INTO + 1, name);
	lua_pop(L, 1);
	return value;
}

/* Reads the list "from": the end of each column of into. Counts the columns of each end. */
static void take_columns(lua_State *L, struct l_span *self, uint32_t nr[L_SPAN_NR])
{
	lua_getfield(L, AT_INTO + 1, "from");
	luaL_checktype(L, -1, LUA_TTABLE);
	for (uint32_t i = 0; i < self->into->nr_by; i++) {
		lua_Integer from;

		lua_rawgeti(L, -1, (lua_Integer)i + 1);
		from = luaL_checkinteger(L, -1);
		luaL_argcheck(L, from >= 0 && from < L_SPAN_CANCEL, AT_INTO + 1, "from");
		self->from[i] = (enum l_span_end)from;
		self->joins |= self->from[i] != L_SPAN_STOP;
		nr[from]++;
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
}

/* Reads the list "value": the end of each field of the value; and "f", the function of them. */
static void take_value(lua_State *L, struct l_span *self, uint32_t nr[L_SPAN_NR])
{
	if (lua_getfield(L, AT_INTO + 1, "value") == LUA_TTABLE) {
		luaL_argcheck(L, lua_rawlen(L, -1) <= L_SPAN_VALUES, AT_INTO + 1, "value");
		self->nr_values = (uint32_t)lua_rawlen(L, -1);
	}
	for (uint32_t i = 0; i < self->nr_values; i++) {
		lua_Integer from;

		lua_rawgeti(L, -1, (lua_Integer)i + 1);
		from = luaL_checkinteger(L, -1);
		luaL_argcheck(L, from >= 0 && from <= L_SPAN_TOOK && from != L_SPAN_CANCEL,
			      AT_INTO + 1, "value");
		self->value_from[i] = (int)from;
		if (from != L_SPAN_TOOK)
			nr[from]++;
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
	self->calls = lua_getfield(L, AT_INTO + 1, "f") == LUA_TFUNCTION;
	lua_setiuservalue(L, -2, L_SPAN_UV_FUNCTION);
	self->joins |= self->nr_values > 0;
}

static void take_ends(lua_State *L, struct l_span *self)
{
	uint32_t nr[L_SPAN_NR] = { 0 };

	take_columns(L, self, nr);
	take_value(L, self, nr);
	lua_settop(L, AT_INTO + 2);
	for (int end = 0; end < L_SPAN_NR; end++) {
		const struct l_agg *agg = l_agg_test(L, AT_ENDS + end);

		if (!agg)
			continue;
		luaL_argcheck(L, agg->nr_by == self->nr_by + nr[end], AT_ENDS + end, "columns");
		take_end(L, AT_ENDS + end, self, (enum l_span_end)end);
	}
	self->passes = l_agg_test(L, AT_ENDS + L_SPAN_VIA) != NULL;
	luaL_argcheck(L, self->passes || !nr[L_SPAN_VIA], AT_ENDS + L_SPAN_VIA, "columns");
}

/*
 * span(start, via or nil, stop, cancel or nil, into, { nr_by = columns of the key, most = open
 * spans, unit =, least = ns, from = { enum l_span_end of each column of into }, value = { the same
 * of each field of the value, or L_SPAN_TOOK } or nil, f = function of these or nil }) -> span
 */
static int l_span(lua_State *L)
{
	struct l_agg *into;
	struct l_span *self;
	lua_Integer most;

	lua_settop(L, AT_INTO + 1);
	check_agg(L, AT_ENDS + L_SPAN_START);
	check_agg(L, AT_ENDS + L_SPAN_STOP);
	into = check_agg(L, AT_INTO);
	luaL_checktype(L, AT_INTO + 1, LUA_TTABLE);
	most = integer_of(L, "most", 1);
	luaL_argcheck(L, most <= PEV_AGG_MOST_KEYS, AT_INTO + 1, "most");
	self = lua_newuserdatauv(L, sizeof(*self), L_SPAN_UV_NR);
	*self = (struct l_span){ .into = into };
	if (pev_spans_init(&self->spans, (uint32_t)most) < 0)
		return luaL_error(L, "no memory for spans");
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, AT_INTO);
	lua_setiuservalue(L, -2, L_SPAN_UV_INTO);
	self->nr_by = (uint32_t)integer_of(L, "nr_by", 1);
	self->unit = (uint64_t)integer_of(L, "unit", 1);
	self->least = (uint64_t)integer_of(L, "least", 0);
	take_ends(L, self);
	return 1;
}

static int l_span_gc(lua_State *L)
{
	struct l_span *self = luaL_checkudata(L, 1, TYPENAME);

	pev_spans_free(&self->spans);
	return 0;
}

/*
 * span_counts(span) -> { waiting=, unstarted=, restarted=, dropped= }, and bypassed=, cancelled=,
 * valueless= and failed= unless they are 0; the first error of the value's function
 */
static int l_span_counts(lua_State *L)
{
	const struct l_span *self = luaL_checkudata(L, 1, TYPENAME);
	const struct {
		const char *name;
		uint64_t n;
		bool always;
	} counts[] = {
		{ "waiting", self->spans.nr, true },
		{ "unstarted", self->spans.unstarted, true },
		{ "restarted", self->spans.restarted, true },
		{ "dropped", self->spans.dropped, true },
		{ "bypassed", self->bypassed, false },
		{ "cancelled", self->spans.cancelled, false },
		{ "valueless", self->valueless, false },
		{ "failed", self->failed, false },
	};

	lua_createtable(L, 0, 8);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		if (!counts[i].n && !counts[i].always)
			continue;
		l_set_u64(L, counts[i].name, counts[i].n);
	}
	lua_pushstring(L, self->error);
	return 2;
}

/* span_clear(span): removes all waiting starts and counts */
static int l_span_clear(lua_State *L)
{
	struct l_span *self = luaL_checkudata(L, 1, TYPENAME);

	pev_spans_clear(&self->spans);
	self->bypassed = 0;
	return 0;
}

void l_span_register(lua_State *L)
{
	l_class(L, TYPENAME, NULL, l_span_gc);
	l_set_function(L, "span", l_span);
	l_set_function(L, "span_clear", l_span_clear);
	l_set_function(L, "span_counts", l_span_counts);
}
