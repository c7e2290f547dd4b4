/*
 * laggregator.c - the userdata perfev.aggregator; see laggregator.h.
 *
 * This file makes and frees aggregators. laggregator_values.c and lsink.c do the work per value.
 * lua/perfev/aggregate/aggregator.lua has options, rows and printing, and adds its methods to the
 * table of these.
 */
#include "lua/aggregate/laggregator.h"

#include <lauxlib.h>
#include <string.h>

#include "lua/aggregate/lcondition.h"
#include "lua/base/lregister.h"
#include "lua/base/lset.h"

#define TYPENAME "perfev.aggregator"

struct l_agg *l_agg_test(lua_State *L, int idx)
{
	return luaL_testudata(L, idx, TYPENAME);
}

struct l_agg *l_agg_check(lua_State *L, int arg)
{
	return luaL_checkudata(L, arg, TYPENAME);
}

void l_agg_keep(lua_State *L, int idx, const void *what)
{
	idx = lua_absindex(L, idx);
	lua_getiuservalue(L, idx, L_AGG_UV_HOMES);
	lua_insert(L, -2);
	lua_rawsetp(L, -2, what);
	lua_pop(L, 1);
}

static void set_budget(struct l_agg *self, struct pev_budget *budget)
{
	if (self->all.budget)
		return;
	pev_agg_budget(&self->all, budget);
	pev_agg_budget(&self->named, budget);
	for (struct l_follower *at = self->followers; at; at = at->next)
		pev_agg_budget(&at->unread, budget);
	if (self->total)
		pev_agg_budget(&self->total->all, budget);
}

void l_agg_budget(lua_State *L, int idx, struct pev_budget *budget)
{
	struct l_agg *self = l_agg_check(L, idx);

	l_agg_keep(L, idx, budget);
	set_budget(self, budget);
	if (self->span_into)
		set_budget(self->span_into, budget);
}

/* ---- construction ---- */

static enum pev_agg_kind check_kind(lua_State *L)
{
	static const char *const kinds[] = { "count", "top", "sum", "avg", "min", "max", "stats",
					     "hist", "linear", "quantile", NULL };

	lua_getfield(L, 1, "kind");
	return (enum pev_agg_kind)luaL_checkoption(L, -1, NULL, kinds);
}

static lua_Integer number_of(lua_State *L, const char *name)
{
	lua_Integer value;

	lua_getfield(L, 1, name);
	value = luaL_optinteger(L, -1, 0);
	lua_pop(L, 1);
	return value;
}

static bool flag_of(lua_State *L, const char *name)
{
	bool set;

	lua_getfield(L, 1, name);
	set = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return set;
}

/* True if keys of the column are named when they are read; also of a span's start or via. */
static bool is_named(const char *name)
{
	if (strncmp(name, "start.", 6) == 0)
		name += 6;
	else if (strncmp(name, "via.", 4) == 0)
		name += 4;
	return strcmp(name, "symbol") == 0 || strcmp(name, "line") == 0 ||
	       strcmp(name, "caller") == 0;
}

/* Borrows the names from the spec. */
static void take_names(lua_State *L, struct l_agg *self)
{
	const bool by_address = flag_of(L, "addresses");

	if (lua_getfield(L, 1, "value") == LUA_TSTRING)
		self->value = lua_tostring(L, -1);
	lua_getfield(L, 1, "by");
	luaL_checktype(L, -1, LUA_TTABLE);
	while (lua_rawgeti(L, -1, (lua_Integer)self->nr_by + 1) == LUA_TSTRING) {
		if (self->nr_by == L_AGG_COLUMNS)
			luaL_error(L, "more than %d columns", L_AGG_COLUMNS);
		self->by[self->nr_by] = lua_tostring(L, -1);
		if (is_named(self->by[self->nr_by]) && !by_address)
			self->symbols |= UINT32_C(1) << self->nr_by;
		if (self->slot && strcmp(self->by[self->nr_by], "time") == 0)
			self->timed = self->nr_by + 1;
		self->nr_by++;
		lua_pop(L, 1);
	}
	lua_getfield(L, 1, "where");
	self->where = l_condition_test(L, -1);
}

struct l_agg *l_agg_push(lua_State *L, const struct pev_agg_config *config, int spec)
{
	struct l_agg *self;
	struct pev_err err;

	spec = lua_absindex(L, spec);
	self = lua_newuserdatauv(L, sizeof(*self), L_AGG_UV_NR);
	*self = (struct l_agg){ 0 };
	if (pev_agg_init(&self->all, config, &err) < 0)
		luaL_error(L, "%s", err.text);
	pev_agg_init(&self->recent, config, NULL);
	self->recent.config.max_keys = PEV_AGG_MOST_KEYS; /* pass_on() limits it */
	pev_agg_init(&self->named, config, NULL);
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, spec);
	lua_setiuservalue(L, -2, L_AGG_UV_SPEC);
	return self;
}

struct l_agg *l_agg_push_like(lua_State *L, int idx)
{
	const struct l_agg *self = l_agg_check(L, idx);
	struct l_agg *like;

	idx = lua_absindex(L, idx);
	lua_getiuservalue(L, idx, L_AGG_UV_SPEC);
	like = l_agg_push(L, &self->all.config, -1);
	lua_remove(L, -2);
	lua_getiuservalue(L, idx, L_AGG_UV_HOMES);
	lua_setiuservalue(L, -2, L_AGG_UV_HOMES);
	like->value = self->value;
	like->nr_by = self->nr_by;
	like->slot = self->slot;
	like->timed = self->timed;
	like->symbols = self->symbols;
	like->unnamed = self->symbols;
	for (uint32_t i = 0; i < self->nr_by; i++)
		like->by[i] = self->by[i];
	return like;
}

/*
 * aggregator{kind=, by={names}, value=, max_keys=, low=, high=, step=, slot_ns=, lacking=, times=};
 * keeps the table, which a:spec() returns
 */
static int l_aggregator(lua_State *L)
{
	struct pev_agg_config config = { 0 };
	struct l_agg *self;
	lua_Integer most, slot;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	config.kind = check_kind(L);
	most = number_of(L, "max_keys");
	luaL_argcheck(L, most >= 0 && most <= PEV_AGG_MOST_KEYS, 1, "max_keys");
	config.max_keys = (uint32_t)most;
	config.low = number_of(L, "low");
	config.high = number_of(L, "high");
	config.step = number_of(L, "step");
	slot = number_of(L, "slot_ns");
	luaL_argcheck(L, slot >= 0, 1, "slot_ns");
	lua_settop(L, 1);
	self = l_agg_push(L, &config, 1);
	self->slot = slot;
	self->lacking = flag_of(L, "lacking");
	self->keeps_times = flag_of(L, "times");
	take_names(L, self);
	lua_settop(L, 2);
	lua_newtable(L);
	lua_setiuservalue(L, 2, L_AGG_UV_HOMES);
	return 1;
}

static int l_agg_spec(lua_State *L)
{
	l_agg_check(L, 1);
	lua_getiuservalue(L, 1, L_AGG_UV_SPEC);
	return 1;
}

static int l_agg_gc(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);

	for (struct l_follower *at = self->followers; at; at = at->next)
		at->agg = NULL;
	pev_agg_free(&self->all);
	pev_agg_free(&self->recent);
	pev_agg_free(&self->named);
	pev_key_free(&self->key);
	return 0;
}

static const luaL_Reg methods[] = {
	{ "spec", l_agg_spec },
	{ NULL, NULL },
};

static const luaL_Reg metamethods[] = {
	{ "__gc", l_agg_gc },
	{ NULL, NULL },
};

void l_agg_register(lua_State *L)
{
	luaL_newmetatable(L, TYPENAME);
	luaL_setfuncs(L, metamethods, 0);
	luaL_newlib(L, methods);
	lua_pushvalue(L, -1);
	lua_setfield(L, -4, "aggregator_methods");
	lua_setfield(L, -2, "__index");
	l_set_boolean(L, "__metatable", 0);
	lua_pop(L, 1);
	l_set_function(L, "aggregator", l_aggregator);
}

void l_agg_add_methods(lua_State *L, const luaL_Reg *more_methods, const luaL_Reg *more_metamethods)
{
	luaL_getmetatable(L, TYPENAME);
	if (more_metamethods)
		luaL_setfuncs(L, more_metamethods, 0);
	lua_getfield(L, -1, "__index");
	luaL_setfuncs(L, more_methods, 0);
	lua_pop(L, 2);
}
