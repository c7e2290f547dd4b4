/*
 * laggregator_values.c - values of an aggregator as methods: adds, merges and reads them.
 */
#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "lua/aggregate/laggregator_keys.h"
#include "lua/aggregate/lfollower.h"
#include "lua/base/lregister.h"
#include "lua/base/lset.h"

/* ---- adding values ---- */

static int add(lua_State *L, struct l_agg *self, int64_t value)
{
	if (l_agg_add(self, value) < 0)
		return luaL_error(L, "no memory for a value");
	return 0;
}

/* a:add(value, key...) */
static int l_agg_add_value(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);
	lua_Integer value = luaL_checkinteger(L, 2);

	luaL_argcheck(L, value >= 0 || self->all.config.kind != PEV_AGG_TOP, 2, "negative");
	l_agg_take_key(L, self, 3);
	return add(L, self, value);
}

/* a:inc(key...) */
static int l_agg_inc(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);

	l_agg_take_key(L, self, 2);
	return add(L, self, 1);
}

/* a:clear(): removes all values */
static int l_agg_clear(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);

	lua_settop(L, 1);
	l_follower_clear(L, self);
	pev_agg_clear(&self->all);
	pev_agg_clear(&self->recent);
	pev_agg_clear(&self->named);
	self->uncounted = (struct l_uncounted){ 0 };
	self->times.any = false;
	return 0;
}

/* The first argument keeps the stack tables of the second, too. */
static void merge_homes(lua_State *L)
{
	int top = lua_gettop(L);

	lua_getiuservalue(L, 1, L_AGG_UV_HOMES);
	lua_getiuservalue(L, 2, L_AGG_UV_HOMES);
	lua_pushnil(L);
	while (!lua_rawequal(L, top + 1, top + 2) && lua_next(L, top + 2)) {
		lua_pushvalue(L, -2);
		lua_insert(L, -2);
		lua_rawset(L, top + 1);
	}
	lua_settop(L, top);
}

static void add_uncounted(struct l_agg *self, const struct l_agg *from)
{
	for (int i = 0; i <= L_AGG_COLUMNS; i++)
		self->uncounted.absent[i] += from->uncounted.absent[i];
	self->uncounted.no_memory += from->uncounted.no_memory;
	self->uncounted.undecided += from->uncounted.undecided;
}

/* a:merge(b) -> a, as if the values of b had been added to a; or nil, message */
static int l_agg_merge(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1), *from = l_agg_check(L, 2);
	struct pev_err err;

	luaL_argcheck(L, self->nr_by == from->nr_by, 2, "its keys have another number of columns");
	merge_homes(L); /* first: it may raise */
	l_agg_check_passed(L, from);
	/* The followers of this one need the values of from, too. */
	if (pev_agg_merge(l_agg_current(self), &from->all, &err) < 0) {
		lua_pushnil(L);
		lua_pushstring(L, err.text);
		return 2;
	}
	add_uncounted(self, from);
	self->unnamed = self->symbols;
	lua_settop(L, 1);
	return 1;
}

/*
 * a:put_under(text, b): adds the values of b, whose keys have one column less, with text as the
 * first column. If it raises, some may have been added.
 */
static int l_agg_put_under(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1), *from = l_agg_check(L, 3);
	const struct pev_agg *all = &from->all;
	size_t len;
	const char *text = luaL_checklstring(L, 2, &len);
	int rc = 0;

	luaL_argcheck(L, self->nr_by == from->nr_by + 1, 3, "one column less expected");
	luaL_argcheck(L, self->all.config.kind == all->config.kind, 3, "another kind");
	for (uint32_t i = 0; i < all->nr && rc == 0; i++) {
		const struct pev_cell *cell = all->cells[i];

		self->key.len = 0;
		rc = pev_key_string(&self->key, text, len);
		if (rc == 0 && !pev_key_reserve(&self->key, cell->key_len))
			rc = -ENOMEM;
		if (rc == 0) {
			memcpy(self->key.bytes + self->key.len, pev_agg_key(all, cell),
			       cell->key_len);
			self->key.len += cell->key_len;
			rc = pev_agg_put(&self->all, self->key.bytes, self->key.len, cell);
		}
	}
	if (rc == 0)
		rc = pev_agg_put_other(&self->all, &all->other);
	if (rc < 0)
		return luaL_error(L, "no memory for the values of an aggregator");
	add_uncounted(self, from);
	return 0;
}

/* a:delta() -> an aggregator with the values since the last delta(), or all */
static int l_agg_delta(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);

	lua_settop(L, 1);
	l_agg_settle(L, self);
	if (lua_getiuservalue(L, 1, L_AGG_UV_OWN) == LUA_TNIL) {
		l_follower_push(L, 1, false);
		lua_pushvalue(L, -1);
		lua_setiuservalue(L, 1, L_AGG_UV_OWN);
	}
	l_follower_push_delta(L, lua_touserdata(L, -1), 1);
	return 1;
}

/* ---- reading values ---- */

/* Pushes the buckets from the first to the last that is not empty. */
static void push_buckets(lua_State *L, const struct pev_agg *agg, const struct pev_buckets *buckets)
{
	uint32_t first = 0, end = buckets->nr;

	while (first < end && !buckets->n[first])
		first++;
	while (end > first && !buckets->n[end - 1])
		end--;
	lua_createtable(L, (int)(end - first), 0);
	for (uint32_t i = first; i < end; i++) {
		struct pev_bounds bounds = pev_agg_bounds(&agg->config, buckets->first + i);

		lua_createtable(L, 0, 3);
		if (bounds.has_low)
			l_set_u64(L, "low", (uint64_t)bounds.low);
		if (bounds.has_high)
			l_set_u64(L, "high", (uint64_t)bounds.high);
		l_set_u64(L, "count", buckets->n[i]);
		lua_rawseti(L, -2, (lua_Integer)(i - first) + 1);
	}
}

static void push_quantiles(lua_State *L, const struct pev_cell *cell)
{
	static const struct {
		const char *name;
		double q;
	} usual[] = { { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 }, { "p999", 0.999 } };

	for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
		l_set_u64(L, usual[i].name, (uint64_t)pev_agg_quantile(cell, usual[i].q));
}

/* { count =, sum =, avg =, min =, max =[, buckets =][, p50 = ...] } */
static void push_table(lua_State *L, const struct pev_agg *agg, const struct pev_cell *cell)
{
	lua_createtable(L, 0, 9);
	l_set_u64(L, "count", cell->n);
	l_set_u64(L, "sum", (uint64_t)pev_cell_sum(cell));
	l_set_u64(L, "min", (uint64_t)cell->min);
	l_set_u64(L, "max", (uint64_t)cell->max);
	lua_pushnumber(L, pev_cell_mean(cell));
	lua_setfield(L, -2, "avg");
	if (agg->config.kind == PEV_AGG_QUANTILE) {
		push_quantiles(L, cell);
	} else if (agg->config.kind != PEV_AGG_STATS) {
		push_buckets(L, agg, &cell->up);
		lua_setfield(L, -2, "buckets");
	}
}

static void push_value(lua_State *L, const struct pev_agg *agg, const struct pev_cell *cell)
{
	switch (agg->config.kind) {
	case PEV_AGG_COUNT:
		lua_pushinteger(L, (lua_Integer)cell->n);
		break;
	case PEV_AGG_TOP:
		lua_createtable(L, 0, 2);
		l_set_u64(L, "count", cell->n);
		l_set_u64(L, "error", cell->sum_low);
		break;
	case PEV_AGG_SUM:
		lua_pushinteger(L, pev_cell_sum(cell));
		break;
	case PEV_AGG_AVG:
		lua_pushnumber(L, pev_cell_mean(cell));
		break;
	case PEV_AGG_MIN:
		lua_pushinteger(L, cell->min);
		break;
	case PEV_AGG_MAX:
		lua_pushinteger(L, cell->max);
		break;
	default:
		push_table(L, agg, cell);
	}
}

/* a:get(key...) -> the value, or nil */
static int l_agg_get(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);
	const struct pev_agg *all = l_agg_settle(L, self);
	const struct pev_cell *cell;

	l_agg_take_key(L, self, 2);
	cell = pev_agg_find(all, self->key.bytes, self->key.len);
	if (cell)
		push_value(L, all, cell);
	else
		lua_pushnil(L);
	return 1;
}

/* a:quantile(q, key...) -> a value, or nil */
static int l_agg_quantile(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);
	lua_Number q = luaL_checknumber(L, 2);
	const struct pev_cell *cell;

	luaL_argcheck(L, self->all.config.kind == PEV_AGG_QUANTILE, 1, "it has no quantiles");
	luaL_argcheck(L, q >= 0 && q <= 1, 2, "0 .. 1");
	l_agg_settle(L, self);
	l_agg_take_key(L, self, 3);
	cell = pev_agg_find(&self->all, self->key.bytes, self->key.len);
	if (cell)
		lua_pushinteger(L, pev_agg_quantile(cell, q));
	else
		lua_pushnil(L);
	return 1;
}

/*
 * Appends { low =, high =, count = } to the list on top, of the bucket of values below 0 if
 * mirrored.
 */
static void append_bucket(lua_State *L, struct pev_bounds bounds, uint64_t count, bool mirrored)
{
	lua_createtable(L, 0, 3);
	if (mirrored ? bounds.has_high : bounds.has_low)
		l_set_integer(L, "low", mirrored ? 1 - bounds.high : bounds.low);
	if (mirrored ? bounds.has_low : bounds.has_high)
		l_set_integer(L, "high", mirrored ? 1 - bounds.low : bounds.high);
	l_set_u64(L, "count", count);
	lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
}

/* a:buckets(key...) -> list of { low =, high =, count = } without empty ones, or nil */
static int l_agg_buckets(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);
	const struct pev_agg_config *config = &self->all.config;
	const struct pev_cell *cell;

	luaL_argcheck(L,
		      config->kind == PEV_AGG_QUANTILE || config->kind == PEV_AGG_HIST ||
			      config->kind == PEV_AGG_LINEAR,
		      1, "it has no buckets");
	l_agg_settle(L, self);
	l_agg_take_key(L, self, 2);
	cell = pev_agg_find(&self->all, self->key.bytes, self->key.len);
	if (!cell)
		return 0;
	lua_newtable(L);
	for (uint32_t i = cell->down.nr; i-- > 0;) {
		if (cell->down.n[i])
			append_bucket(L, pev_agg_bounds(config, cell->down.first + i),
				      cell->down.n[i], true);
	}
	for (uint32_t i = 0; i < cell->up.nr; i++) {
		if (cell->up.n[i])
			append_bucket(L, pev_agg_bounds(config, cell->up.first + i), cell->up.n[i],
				      false);
	}
	return 1;
}

/* Upvalues: the aggregator, the number of cells already visited, the struct with the cells. */
static int l_agg_next(lua_State *L)
{
	const struct pev_agg *all = lua_touserdata(L, lua_upvalueindex(3));
	lua_Integer i = lua_tointeger(L, lua_upvalueindex(2));
	int homes, nr;

	if (i >= (lua_Integer)all->nr)
		return 0;
	luaL_checkstack(L, L_AGG_COLUMNS + 3, "key");
	lua_getiuservalue(L, lua_upvalueindex(1), L_AGG_UV_HOMES);
	homes = lua_gettop(L);
	nr = l_agg_push_key(L, homes, all, all->cells[i]);
	push_value(L, all, all->cells[i]);
	/* Last, so that the next call repeats this cell if memory ran out. */
	lua_pushinteger(L, i + 1);
	lua_replace(L, lua_upvalueindex(2));
	return nr + 1;
}

/* a:pairs(): key..., value, in the order the keys were first seen */
static int l_agg_pairs(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);
	const struct pev_agg *all;

	lua_settop(L, 1);
	all = l_agg_settle(L, self);
	lua_pushinteger(L, 0);
	lua_pushlightuserdata(L, (void *)all);
	lua_pushcclosure(L, l_agg_next, 3);
	return 1;
}

/*
 * a:other() -> the value of the records whose key had no room, their number, the number of
 * those that exceeded the session's max_bytes; or nil
 */
static int l_agg_other(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);

	l_agg_check_passed(L, self);
	if (!self->all.other.n || self->all.config.kind == PEV_AGG_TOP)
		return 0;
	push_value(L, &self->all, &self->all.other);
	lua_pushinteger(L, (lua_Integer)self->all.other.n);
	lua_pushinteger(L, (lua_Integer)self->all.unfit);
	return 3;
}

/* a:floor() -> kind "top": the largest possible count of a key that is not in the list */
static int l_agg_floor(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);

	l_agg_check_passed(L, self);
	lua_pushinteger(L, (lua_Integer)pev_agg_floor(&self->all));
	return 1;
}

/*
 * a:uncounted() -> records in no cell: { [field] = records without it, where = }. Key "value":
 * those of an aggregator with a field, merged into one without
 */
static int l_agg_uncounted(lua_State *L)
{
	const struct l_agg *self = l_agg_check(L, 1);
	const char *value = self->value ? self->value : "value";

	lua_newtable(L);
	for (uint32_t i = 0; i <= self->nr_by; i++)
		if (self->uncounted.absent[i])
			l_set_u64(L, i ? self->by[i - 1] : value, self->uncounted.absent[i]);
	if (self->uncounted.undecided)
		l_set_u64(L, "where", self->uncounted.undecided);
	return 1;
}

/* a:times() -> the times of the first and the last record, or nothing */
static int l_agg_times(lua_State *L)
{
	const struct l_agg *self = l_agg_check(L, 1);

	if (!self->times.any)
		return 0;
	lua_pushinteger(L, (lua_Integer)self->times.first);
	lua_pushinteger(L, (lua_Integer)self->times.last);
	return 2;
}

/* a:refused() -> the number of values that did not fit in memory */
static int l_agg_refused(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)l_agg_check(L, 1)->uncounted.no_memory);
	return 1;
}

/* #a: the number of keys */
static int l_agg_len(lua_State *L)
{
	struct l_agg *self = l_agg_check(L, 1);

	lua_pushinteger(L, l_agg_settle(L, self)->nr);
	return 1;
}

/* print(a): shows that a:print() prints the table */
static int l_agg_tostring(lua_State *L)
{
	lua_Integer nr = (lua_Integer)l_agg_settle(L, l_agg_check(L, 1))->nr;

	lua_pushfstring(L, "aggregator of %I key%s: a:print() shows %s", (LUAI_UACINT)nr,
			nr == 1 ? "" : "s", nr == 1 ? "it" : "them");
	return 1;
}

static const luaL_Reg methods[] = {
	{ "add", l_agg_add_value },
	{ "inc", l_agg_inc },
	{ "clear", l_agg_clear },
	{ "merge", l_agg_merge },
	{ "put_under", l_agg_put_under },
	{ "buckets", l_agg_buckets },
	{ "delta", l_agg_delta },
	{ "get", l_agg_get },
	{ "quantile", l_agg_quantile },
	{ "pairs", l_agg_pairs },
	{ "other", l_agg_other },
	{ "floor", l_agg_floor },
	{ "uncounted", l_agg_uncounted },
	{ "refused", l_agg_refused },
	{ "times", l_agg_times },
	{ NULL, NULL },
};

static const luaL_Reg metamethods[] = {
	{ "__len", l_agg_len },
	{ "__tostring", l_agg_tostring },
	{ NULL, NULL },
};

void l_agg_values_register(lua_State *L)
{
	l_agg_add_methods(L, methods, metamethods);
}
