/*
 * laggregator_keys.c - keys of an aggregator; see laggregator_keys.h.
 */
#include "lua/aggregate/laggregator_keys.h"

#include <lauxlib.h>

#include "lua/symbol/lstack.h"
#include "lua/base/lregister.h"

/* ---- texts in the place of stacks ---- */

static void push_stack(lua_State *L, int homes, const struct pev_stack *stack)
{
	lua_rawgetp(L, homes, stack->owner);
	l_stack_push_taken(L, -1, stack);
	lua_remove(L, -2);
}

void l_agg_add_texts(lua_State *L, const struct pev_agg *agg, uint32_t columns, int f, int texts)
{
	const struct l_agg *self = l_agg_check(L, 1);
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
				lua_pushstring(L, self->by[column]);
				lua_getiuservalue(L, 1, L_AGG_UV_SPEC);
				lua_call(L, 3, 1);
				luaL_checkstring(L, -1);
				lua_rawsetp(L, texts, part.pointer);
			}
			lua_settop(L, homes);
		}
	}
	lua_settop(L, homes - 1);
}

/*
 * Makes a key with texts in the place of the stacks of these columns. texts is a list of tables, by
 * column. 0 or -ENOMEM.
 */
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
		lua_rawgeti(L, texts, (lua_Integer)column + 1);
		lua_rawgetp(L, -1, part.pointer);
		text = lua_tolstring(L, -1, &text_len);
		rc = pev_key_string(to, text, text_len);
		lua_pop(L, 2);
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

static const char namer_key; /* registry key of name(stack, column, spec) */

/* Pushes a list with a table of texts for each named column. */
static void push_texts(lua_State *L, const struct l_agg *self)
{
	int list;

	lua_createtable(L, (int)self->nr_by, 0);
	list = lua_gettop(L);
	lua_rawgetp(L, LUA_REGISTRYINDEX, &namer_key);
	for (uint32_t i = 0; i < self->nr_by; i++) {
		lua_newtable(L);
		l_agg_add_texts(L, &self->all, self->symbols & UINT32_C(1) << i, list + 1,
				list + 2);
		lua_rawseti(L, list, (lua_Integer)i + 1);
	}
	lua_settop(L, list);
}

const struct pev_agg *l_agg_settle(lua_State *L, struct l_agg *self)
{
	bool is_top = self->all.config.kind == PEV_AGG_TOP;
	struct pev_agg *shown = is_top && self->symbols ? &self->named : &self->all;
	int top = lua_gettop(L);

	l_agg_check_passed(L, self);
	if (!self->unnamed)
		return shown;
	luaL_checkstack(L, 12, "symbols");
	push_texts(L, self);
	if (name_keys(L, self, shown, &self->all, top + 1) < 0)
		luaL_error(L, "no memory for names");
	self->unnamed = false;
	lua_settop(L, top);
	return shown;
}

/* aggregator_namer(f): f(stack, column, spec) returns the name that the column shows */
static int l_agg_namer(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TFUNCTION);
	lua_settop(L, 1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &namer_key);
	return 0;
}

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

void l_agg_take_key(lua_State *L, struct l_agg *self, int first)
{
	int nr = lua_gettop(L) - first + 1;

	if (nr != (int)self->nr_by)
		luaL_error(L, "a key of %d here has %d", (int)self->nr_by, nr < 0 ? 0 : nr);
	self->key.len = 0;
	for (int i = 0; i < nr; i++)
		if (put_argument(L, self, (uint32_t)i, first + i) < 0)
			luaL_error(L, "no memory for a key");
}

void l_agg_push_part(lua_State *L, int homes, const struct pev_key_part *part)
{
	if (part->type == PEV_KEY_INTEGER)
		lua_pushinteger(L, part->integer);
	else if (part->type == PEV_KEY_STRING)
		lua_pushlstring(L, (const char *)part->p, part->len);
	else if (part->type == PEV_KEY_POINTER)
		push_stack(L, homes, part->pointer);
	else
		lua_pushboolean(L, part->type == PEV_KEY_TRUE);
}

int l_agg_push_key(lua_State *L, int homes, const struct pev_agg *agg,
		   const struct pev_cell *cell)
{
	const unsigned char *key = pev_agg_key(agg, cell);
	size_t at = 0;

	for (int nr = 0;; nr++) {
		struct pev_key_part part = pev_key_next(key, cell->key_len, &at);

		if (part.type == PEV_KEY_END)
			return nr;
		l_agg_push_part(L, homes, &part);
	}
}

void l_agg_keys_register(lua_State *L)
{
	lua_pushcfunction(L, l_agg_namer);
	lua_setfield(L, -2, "aggregator_namer");
}
