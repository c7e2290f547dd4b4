/*
 * laggregator.c - the userdata perfev.aggregator; see laggregator.h.
 *
 * This file and lsink.c do the work per value. lua/perfev/aggregate/aggregator.lua has
 * options, rows and printing, and adds its methods to the table of these.
 */
#include "lua/aggregate/laggregator.h"

#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "aggregate/pack.h"
#include "lua/base/lerror.h"
#include "lua/symbol/lstack.h"
#include "lua/aggregate/lcondition.h"

#define TYPENAME "perfev.aggregator"

struct l_agg *l_agg_test(lua_State *L, int idx)
{
	return luaL_testudata(L, idx, TYPENAME);
}

static struct l_agg *check_agg(lua_State *L, int arg)
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
	pev_agg_budget(&self->recent, budget);
	pev_agg_budget(&self->named, budget);
}

void l_agg_budget(lua_State *L, int idx, struct pev_budget *budget)
{
	struct l_agg *self = check_agg(L, idx);

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

/* True for the symbol of a record, or of a span's start or via. */
static bool is_symbol(const char *name)
{
	return strcmp(name, "symbol") == 0 || strcmp(name, "start.symbol") == 0 ||
	       strcmp(name, "via.symbol") == 0;
}

/* Borrows the names from the spec. */
static void take_names(lua_State *L, struct l_agg *self)
{
	if (lua_getfield(L, 1, "value") == LUA_TSTRING)
		self->value = lua_tostring(L, -1);
	lua_getfield(L, 1, "by");
	luaL_checktype(L, -1, LUA_TTABLE);
	while (lua_rawgeti(L, -1, (lua_Integer)self->nr_by + 1) == LUA_TSTRING) {
		if (self->nr_by == L_AGG_COLUMNS)
			luaL_error(L, "more than %d columns", L_AGG_COLUMNS);
		self->by[self->nr_by] = lua_tostring(L, -1);
		if (is_symbol(self->by[self->nr_by]))
			self->symbols |= UINT32_C(1) << self->nr_by;
		if (self->slot && strcmp(self->by[self->nr_by], "time") == 0)
			self->timed = self->nr_by + 1;
		self->nr_by++;
		lua_pop(L, 1);
	}
	lua_getfield(L, 1, "where");
	self->where = l_condition_test(L, -1);
}

static struct l_agg *push_agg(lua_State *L, const struct pev_agg_config *config, int spec)
{
	struct l_agg *self = lua_newuserdatauv(L, sizeof(*self), L_AGG_UV_NR);
	struct pev_err err;

	*self = (struct l_agg){ 0 };
	if (pev_agg_init(&self->all, config, &err) < 0)
		luaL_error(L, "%s", err.text);
	pev_agg_init(&self->recent, config, NULL);
	pev_agg_init(&self->named, config, NULL);
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, spec);
	lua_setiuservalue(L, -2, L_AGG_UV_SPEC);
	return self;
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
	self = push_agg(L, &config, 1);
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
	check_agg(L, 1);
	lua_getiuservalue(L, 1, L_AGG_UV_SPEC);
	return 1;
}

static int l_agg_gc(lua_State *L)
{
	struct l_agg *self = check_agg(L, 1);

	pev_agg_free(&self->all);
	pev_agg_free(&self->recent);
	pev_agg_free(&self->named);
	pev_key_free(&self->key);
	return 0;
}

/* ---- texts in the place of stacks ---- */

static void push_stack(lua_State *L, int homes, const struct pev_stack *stack)
{
	lua_rawgetp(L, homes, stack->owner);
	l_stack_push_taken(L, -1, stack);
	lua_remove(L, -2);
}

/*
 * Adds f(stack) to the table at texts, by the stack's address, for each stack in one of these
 * columns. The aggregator is argument 1.
 */
static void add_texts(lua_State *L, const struct pev_agg *agg, uint32_t columns, int f, int texts)
{
	int homes;

	lua_getiuservalue(L, 1, L_AGG_UV_HOMES);
	homes = lua_gettop(L);
	for (uint32_t i = 0; i < agg->nr; i++) {
		const unsigned char *key = pev_agg_key(agg, agg->cells[i]);
		struct pev_key_part part = { .type = PEV_KEY_TRUE };
		size_t at = 0;

		for (uint32_t column = 0; part.type != PEV_KEY_END; column++) {
			part = pev_key_next(key, agg->cells[i]->key_len, &at);
			if (part.type == PEV_KEY_POINTER && columns >> column & 1 &&
			    lua_rawgetp(L, texts, part.pointer) == LUA_TNIL) {
				lua_pushvalue(L, f);
				push_stack(L, homes, part.pointer);
				lua_call(L, 1, 1);
				luaL_checkstring(L, -1);
				lua_rawsetp(L, texts, part.pointer);
			}
			lua_settop(L, homes);
		}
	}
	lua_settop(L, homes - 1);
}

/* Makes a key with texts in the place of the stacks of these columns. 0 or -ENOMEM. */
static int put_named(lua_State *L, struct pev_key *to, const unsigned char *key, size_t len,
		     uint32_t columns, int texts)
{
	size_t at = 0, text_len;
	const char *text;
	int rc = 0;

	to->len = 0;
	for (uint32_t column = 0; rc == 0; column++) {
		struct pev_key_part part = pev_key_next(key, len, &at);

		if (part.type == PEV_KEY_END)
			break;
		if (part.type != PEV_KEY_POINTER || !(columns >> column & 1)) {
			rc = pev_key_part(to, &part);
			continue;
		}
		lua_rawgetp(L, texts, part.pointer);
		text = lua_tolstring(L, -1, &text_len);
		rc = pev_key_string(to, text, text_len);
		lua_pop(L, 1);
	}
	return rc;
}

/*
 * Does so for all keys, into to, and merges keys that become equal. to may be agg. Returns 0,
 * or -ENOMEM without a change.
 */
static int name_keys(lua_State *L, struct l_agg *self, struct pev_agg *to,
		     const struct pev_agg *agg, int texts)
{
	struct pev_agg named;
	int rc = 0;

	pev_agg_init(&named, &agg->config, NULL);
	for (uint32_t i = 0; i < agg->nr && rc == 0; i++) {
		const struct pev_cell *cell = agg->cells[i];

		rc = put_named(L, &self->key, pev_agg_key(agg, cell), cell->key_len, self->symbols,
			       texts);
		if (rc == 0)
			rc = pev_agg_put(&named, self->key.bytes, self->key.len, cell);
	}
	/* Last: with kind "top" new keys start at the count of the dropped keys. */
	if (rc == 0)
		rc = pev_agg_put_other(&named, &agg->other);
	if (rc < 0) {
		pev_agg_free(&named);
		return rc;
	}
	named.unfit = agg->unfit;
	pev_agg_replace(to, &named);
	return 0;
}

static const char namer_key; /* registry key of name(stack) */

/*
 * Names the symbols of argument 1 before it is read, and merges keys of the same name. Values
 * added later have addresses until the next call. An aggregator of kind "top" keeps the
 * addresses too: otherwise a named symbol that comes again would count as a new key, take the
 * place of another and inherit its error.
 */
static const struct pev_agg *settle(lua_State *L, struct l_agg *self)
{
	bool is_top = self->all.config.kind == PEV_AGG_TOP;
	struct pev_agg *shown = is_top && self->symbols ? &self->named : &self->all;
	int top = lua_gettop(L);

	if (!self->unnamed)
		return shown;
	luaL_checkstack(L, 8, "symbols");
	lua_rawgetp(L, LUA_REGISTRYINDEX, &namer_key);
	lua_newtable(L);
	add_texts(L, &self->all, self->symbols, top + 1, top + 2);
	if (!is_top)
		add_texts(L, &self->recent, self->symbols, top + 1, top + 2);
	if (name_keys(L, self, shown, &self->all, top + 2) < 0 ||
	    (!is_top && name_keys(L, self, &self->recent, &self->recent, top + 2) < 0))
		luaL_error(L, "no memory for names");
	self->unnamed = false;
	lua_settop(L, top);
	return shown;
}

/* aggregator_namer(f): f(stack) returns the name of its innermost frame */
static int l_agg_namer(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TFUNCTION);
	lua_settop(L, 1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &namer_key);
	return 0;
}

/* ---- adding values ---- */

/* The aggregator is argument 1. */
static int put_stack(lua_State *L, struct pev_key *key, int arg)
{
	const struct pev_stack *stack = l_stack_test(L, arg);

	luaL_argcheck(L, stack, arg, "a key is an integer, a string, a truth value or a stack");
	lua_getiuservalue(L, 1, L_AGG_UV_HOMES);
	if (lua_rawgetp(L, -1, stack->owner) == LUA_TNIL) {
		l_stack_push_home(L, arg);
		l_agg_keep(L, 1, stack->owner);
	}
	lua_pop(L, 2);
	return pev_key_pointer(key, stack);
}

/* Adds the argument at arg to the key, as the value of that column. */
static int put_argument(lua_State *L, struct l_agg *self, uint32_t column, int arg)
{
	struct pev_key *key = &self->key;
	lua_Integer n;
	size_t len;
	const char *text;
	int is_integer;

	switch (lua_type(L, arg)) {
	case LUA_TSTRING:
		text = lua_tolstring(L, arg, &len);
		return pev_key_string(key, text, len);
	case LUA_TBOOLEAN:
		return pev_key_bool(key, lua_toboolean(L, arg));
	case LUA_TNUMBER:
		n = lua_tointegerx(L, arg, &is_integer);
		luaL_argcheck(L, is_integer, arg, "number has no integer representation");
		return pev_key_integer(key, l_agg_time(self, column, n));
	default:
		return put_stack(L, key, arg);
	}
}

/* Makes the key from the arguments from first on. */
static void take_key(lua_State *L, struct l_agg *self, int first)
{
	int nr = lua_gettop(L) - first + 1;

	if (nr != (int)self->nr_by)
		luaL_error(L, "a key of %d here has %d", (int)self->nr_by, nr < 0 ? 0 : nr);
	self->key.len = 0;
	for (int i = 0; i < nr; i++)
		if (put_argument(L, self, (uint32_t)i, first + i) < 0)
			luaL_error(L, "no memory for a key");
}

static int add(lua_State *L, struct l_agg *self, int64_t value)
{
	if (l_agg_add(self, value) < 0)
		return luaL_error(L, "no memory for a value");
	return 0;
}

/* a:add(value, key...) */
static int l_agg_add_value(lua_State *L)
{
	struct l_agg *self = check_agg(L, 1);
	lua_Integer value = luaL_checkinteger(L, 2);

	luaL_argcheck(L, value >= 0 || self->all.config.kind != PEV_AGG_TOP, 2, "negative");
	take_key(L, self, 3);
	return add(L, self, value);
}

/* a:inc(key...) */
static int l_agg_inc(lua_State *L)
{
	struct l_agg *self = check_agg(L, 1);

	take_key(L, self, 2);
	return add(L, self, 1);
}

/* a:clear(): removes all values */
static int l_agg_clear(lua_State *L)
{
	struct l_agg *self = check_agg(L, 1);

	pev_agg_clear(&self->all);
	pev_agg_clear(&self->recent);
	pev_agg_clear(&self->named);
	for (int i = 0; i <= L_AGG_COLUMNS; i++)
		self->absent[i] = 0;
	self->no_memory = self->undecided = 0;
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
		self->absent[i] += from->absent[i];
	self->no_memory += from->no_memory;
	self->undecided += from->undecided;
}

/* Returns 0, or -ENOMEM without a change. */
static int merge_recent_too(struct l_agg *self, const struct pev_agg *from, struct pev_err *err)
{
	struct pev_agg recent;
	int rc;

	pev_agg_init(&recent, &self->recent.config, NULL);
	rc = pev_agg_merge(&recent, &self->recent, err);
	if (rc == 0)
		rc = pev_agg_merge(&recent, from, err);
	if (rc == 0)
		rc = pev_agg_merge(&self->all, from, err);
	if (rc < 0) {
		pev_agg_free(&recent);
		return rc;
	}
	pev_agg_replace(&self->recent, &recent);
	return 0;
}

/* a:merge(b) -> a, as if the values of b had been added to a */
static int l_agg_merge(lua_State *L)
{
	struct l_agg *self = check_agg(L, 1), *from = check_agg(L, 2);
	struct pev_err err;
	int rc;

	luaL_argcheck(L, self->nr_by == from->nr_by, 2, "its keys have another number of columns");
	merge_homes(L); /* first: it may raise */
	rc = self->deltas ? merge_recent_too(self, &from->all, &err) :
			    pev_agg_merge(&self->all, &from->all, &err);
	if (rc < 0)
		return luaL_argerror(L, 2, err.text);
	add_uncounted(self, from);
	self->unnamed = self->symbols;
	lua_settop(L, 1);
	return 1;
}

/* a:delta() -> an aggregator with the values since the last delta(), or all */
static int l_agg_delta(lua_State *L)
{
	struct l_agg *self = check_agg(L, 1), *delta;
	struct pev_agg none;
	struct pev_err err;

	lua_settop(L, 1);
	settle(L, self);
	lua_getiuservalue(L, 1, L_AGG_UV_SPEC);
	delta = push_agg(L, &self->all.config, 2);
	lua_getiuservalue(L, 1, L_AGG_UV_HOMES);
	lua_setiuservalue(L, -2, L_AGG_UV_HOMES);
	delta->value = self->value;
	delta->nr_by = self->nr_by;
	delta->slot = self->slot;
	delta->timed = self->timed;
	delta->symbols = self->symbols;
	delta->unnamed = self->symbols;
	for (uint32_t i = 0; i < self->nr_by; i++)
		delta->by[i] = self->by[i];
	if (!self->deltas) {
		if (pev_agg_merge(&delta->all, &self->all, &err) < 0)
			return luaL_error(L, "%s", err.text);
		self->deltas = true;
		return 1;
	}
	none = delta->all;
	delta->all = self->recent;
	self->recent = none;
	pev_agg_budget(&self->recent, self->all.budget);
	return 1;
}

/* ---- reading values ---- */

static void set_integer(lua_State *L, const char *name, uint64_t value)
{
	lua_pushinteger(L, (lua_Integer)value);
	lua_setfield(L, -2, name);
}

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
			set_integer(L, "low", (uint64_t)bounds.low);
		if (bounds.has_high)
			set_integer(L, "high", (uint64_t)bounds.high);
		set_integer(L, "count", buckets->n[i]);
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
		set_integer(L, usual[i].name, (uint64_t)pev_agg_quantile(cell, usual[i].q));
}

/* { count =, sum =, avg =, min =, max =[, buckets =][, p50 = ...] } */
static void push_table(lua_State *L, const struct pev_agg *agg, const struct pev_cell *cell)
{
	lua_createtable(L, 0, 9);
	set_integer(L, "count", cell->n);
	set_integer(L, "sum", (uint64_t)pev_cell_sum(cell));
	set_integer(L, "min", (uint64_t)cell->min);
	set_integer(L, "max", (uint64_t)cell->max);
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
		set_integer(L, "count", cell->n);
		set_integer(L, "error", cell->sum_low);
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

/* Pushes the parts of a key, each as a value. Returns how many. */
static int push_key(lua_State *L, int homes, const struct pev_agg *agg,
		    const struct pev_cell *cell)
{
	const unsigned char *key = pev_agg_key(agg, cell);
	size_t at = 0;

	for (int nr = 0;; nr++) {
		struct pev_key_part part = pev_key_next(key, cell->key_len, &at);

		if (part.type == PEV_KEY_END)
			return nr;
		if (part.type == PEV_KEY_INTEGER)
			lua_pushinteger(L, part.integer);
		else if (part.type == PEV_KEY_STRING)
			lua_pushlstring(L, (const char *)part.p, part.len);
		else if (part.type == PEV_KEY_POINTER)
			push_stack(L, homes, part.pointer);
		else
			lua_pushboolean(L, part.type == PEV_KEY_TRUE);
	}
}

/* a:get(key...) -> the value, or nil */
static int l_agg_get(lua_State *L)
{
	struct l_agg *self = check_agg(L, 1);
	const struct pev_agg *all = settle(L, self);
	const struct pev_cell *cell;

	take_key(L, self, 2);
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
	struct l_agg *self = check_agg(L, 1);
	lua_Number q = luaL_checknumber(L, 2);
	const struct pev_cell *cell;

	luaL_argcheck(L, self->all.config.kind == PEV_AGG_QUANTILE, 1, "it has no quantiles");
	luaL_argcheck(L, q >= 0 && q <= 1, 2, "0 .. 1");
	settle(L, self);
	take_key(L, self, 3);
	cell = pev_agg_find(&self->all, self->key.bytes, self->key.len);
	if (cell)
		lua_pushinteger(L, pev_agg_quantile(cell, q));
	else
		lua_pushnil(L);
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
	nr = push_key(L, homes, all, all->cells[i]);
	push_value(L, all, all->cells[i]);
	/* Last, so that the next call repeats this cell if memory ran out. */
	lua_pushinteger(L, i + 1);
	lua_replace(L, lua_upvalueindex(2));
	return nr + 1;
}

/* a:pairs(): key..., value, in the order the keys were first seen */
static int l_agg_pairs(lua_State *L)
{
	struct l_agg *self = check_agg(L, 1);
	const struct pev_agg *all;

	lua_settop(L, 1);
	all = settle(L, self);
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
	const struct l_agg *self = check_agg(L, 1);

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
	lua_pushinteger(L, (lua_Integer)pev_agg_floor(&check_agg(L, 1)->all));
	return 1;
}

/*
 * a:uncounted() -> records in no cell: { [field] = records without it, where = }. Key "value":
 * those of an aggregator with a field, merged into one without
 */
static int l_agg_uncounted(lua_State *L)
{
	const struct l_agg *self = check_agg(L, 1);
	const char *value = self->value ? self->value : "value";

	lua_newtable(L);
	for (uint32_t i = 0; i <= self->nr_by; i++)
		if (self->absent[i])
			set_integer(L, i ? self->by[i - 1] : value, self->absent[i]);
	if (self->undecided)
		set_integer(L, "where", self->undecided);
	return 1;
}

/* ---- packing ---- */

/* The context of out: the table of the stacks' texts, by address. */
struct packing {
	lua_State *L;
	luaL_Buffer buffer;
	int texts;
};

static void pack_bytes(void *ctx, const void *bytes, size_t len)
{
	struct packing *packing = ctx;

	luaL_addlstring(&packing->buffer, bytes, len);
}

/* The table keeps the string. Uses the stack only above the buffer's slot. */
static const char *pack_text(void *ctx, const void *pointer, size_t *len)
{
	struct packing *packing = ctx;
	const char *text;

	lua_rawgetp(packing->L, packing->texts, pointer);
	text = lua_tolstring(packing->L, -1, len);
	lua_pop(packing->L, 1);
	return text;
}

/* a:pack(head, f) -> bytes: head, the values, a checksum; f(stack) returns the stack's text */
static int l_agg_pack(lua_State *L)
{
	struct l_agg *self = check_agg(L, 1);
	struct packing packing = { .L = L };
	struct pev_pack_out out = { &packing, pack_bytes, pack_text };
	const struct pev_agg *all;
	unsigned char sum[8];
	uint64_t n;

	luaL_checkstring(L, 2);
	luaL_checktype(L, 3, LUA_TFUNCTION);
	lua_settop(L, 3);
	all = settle(L, self);
	lua_newtable(L);
	packing.texts = 4;
	add_texts(L, all, UINT32_MAX, 3, packing.texts);
	luaL_buffinit(L, &packing.buffer);
	lua_pushvalue(L, 2);
	luaL_addvalue(&packing.buffer);
	pev_agg_pack(all, &out);
	for (uint32_t i = 0; i <= self->nr_by; i++)
		pev_pack_number(&out, self->absent[i]);
	pev_pack_number(&out, self->no_memory);
	pev_pack_number(&out, self->undecided);
	n = pev_pack_sum(luaL_buffaddr(&packing.buffer), luaL_bufflen(&packing.buffer),
			 PEV_PACK_SUM);
	for (int i = 0; i < 8; i++)
		sum[i] = (unsigned char)(n >> 8 * i);
	luaL_addlstring(&packing.buffer, (const char *)sum, sizeof(sum));
	luaL_pushresult(&packing.buffer);
	return 1;
}

static int take_counts(struct l_agg *self, struct pev_pack_in *in, struct pev_err *err)
{
	int rc = 0;

	for (uint32_t i = 0; i <= self->nr_by && rc == 0; i++)
		rc = pev_unpack_number(in, &self->absent[i]);
	if (rc == 0)
		rc = pev_unpack_number(in, &self->no_memory);
	if (rc == 0)
		rc = pev_unpack_number(in, &self->undecided);
	if (rc == 0 && in->p != in->end)
		rc = -EBADMSG;
	return rc < 0 ? pev_fail(err, rc, "it does not end where it should") : 0;
}

/* a:unpack(bytes, at, most) -> true | nil, message, errno. Reads the bytes after the head. */
static int l_agg_unpack(lua_State *L)
{
	struct l_agg *self = check_agg(L, 1);
	size_t len;
	const char *bytes = luaL_checklstring(L, 2, &len);
	lua_Integer at = luaL_checkinteger(L, 3), most = luaL_checkinteger(L, 4);
	struct pev_pack_in in;
	struct pev_err err = { 0 };
	int rc;

	luaL_argcheck(L, at > 0 && (size_t)at - 1 <= len - 8 && len >= 8, 3, "no place in it");
	luaL_argcheck(L, self->all.nr == 0, 1, "it has something");
	in.p = (const unsigned char *)bytes + at - 1;
	in.end = (const unsigned char *)bytes + len - 8;
	rc = pev_agg_unpack(&self->all, &in, self->nr_by, (uint64_t)most, &err);
	if (rc == 0)
		rc = take_counts(self, &in, &err);
	self->unnamed = self->symbols;
	return l_result(L, rc, &err);
}

/* pack_sum(bytes, last) -> integer: the checksum of the first last bytes */
static int l_pack_sum(lua_State *L)
{
	size_t len;
	const char *bytes = luaL_checklstring(L, 1, &len);
	lua_Integer last = luaL_checkinteger(L, 2);

	luaL_argcheck(L, last >= 0 && (size_t)last <= len, 2, "more than there are");
	lua_pushinteger(L, (lua_Integer)pev_pack_sum(bytes, (size_t)last, PEV_PACK_SUM));
	return 1;
}

/* a:times() -> the times of the first and the last record, or nothing */
static int l_agg_times(lua_State *L)
{
	const struct l_agg *self = check_agg(L, 1);

	if (!self->times.any)
		return 0;
	lua_pushinteger(L, (lua_Integer)self->times.first);
	lua_pushinteger(L, (lua_Integer)self->times.last);
	return 2;
}

/* a:refused() -> the number of values that did not fit in memory */
static int l_agg_refused(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)check_agg(L, 1)->no_memory);
	return 1;
}

/* #a: the number of keys */
static int l_agg_len(lua_State *L)
{
	struct l_agg *self = check_agg(L, 1);

	lua_pushinteger(L, settle(L, self)->nr);
	return 1;
}

/* print(a): shows that a:print() prints the table */
static int l_agg_tostring(lua_State *L)
{
	lua_Integer nr = (lua_Integer)settle(L, check_agg(L, 1))->nr;

	lua_pushfstring(L, "aggregator of %I key%s: a:print() shows %s", (LUAI_UACINT)nr,
			nr == 1 ? "" : "s", nr == 1 ? "it" : "them");
	return 1;
}

static const luaL_Reg methods[] = {
	{ "spec", l_agg_spec },
	{ "add", l_agg_add_value },
	{ "inc", l_agg_inc },
	{ "clear", l_agg_clear },
	{ "merge", l_agg_merge },
	{ "delta", l_agg_delta },
	{ "get", l_agg_get },
	{ "quantile", l_agg_quantile },
	{ "pairs", l_agg_pairs },
	{ "other", l_agg_other },
	{ "floor", l_agg_floor },
	{ "uncounted", l_agg_uncounted },
	{ "refused", l_agg_refused },
	{ "times", l_agg_times },
	{ "pack", l_agg_pack },
	{ "unpack", l_agg_unpack },
	{ NULL, NULL },
};

static const luaL_Reg metamethods[] = {
	{ "__len", l_agg_len },
	{ "__tostring", l_agg_tostring },
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
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_pop(L, 1);
	lua_pushcfunction(L, l_aggregator);
	lua_setfield(L, -2, "aggregator");
	lua_pushcfunction(L, l_agg_namer);
	lua_setfield(L, -2, "aggregator_namer");
	lua_pushcfunction(L, l_pack_sum);
	lua_setfield(L, -2, "pack_sum");
}
