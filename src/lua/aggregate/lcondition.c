/*
 * lcondition.c - see lcondition.h. lua/perfev/aggregate/condition.lua compiles its tests.
 */
#include "lua/aggregate/lcondition.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "lua/base/lclass.h"
#include "lua/base/lregister.h"
#include "lua/base/lset.h"

#define TYPENAME "perfev.condition"

struct l_condition *l_condition_test(lua_State *L, int idx)
{
	return luaL_testudata(L, idx, TYPENAME);
}

/* ---- once per condition ---- */

static uint32_t count_literals(lua_State *L, int idx, lua_Integer nr)
{
	lua_Unsigned sum = 0;

	for (lua_Integer i = 1; i <= nr; i++) {
		lua_rawgeti(L, idx, i);
		luaL_checktype(L, -1, LUA_TTABLE);
		sum += lua_rawlen(L, -1);
		lua_pop(L, 1);
	}
	luaL_argcheck(L, sum <= (lua_Unsigned)PEV_WHERE_MOST * PEV_WHERE_MOST, idx, "too long");
	return (uint32_t)sum;
}

static struct pev_key_part literal_at(lua_State *L, int idx)
{
	struct pev_key_part part = { .type = PEV_KEY_FALSE };
	size_t len;

	if (lua_isboolean(L, idx)) {
		part.type = lua_toboolean(L, idx) ? PEV_KEY_TRUE : PEV_KEY_FALSE;
	} else if (lua_type(L, idx) == LUA_TSTRING) {
		part.type = PEV_KEY_STRING;
		part.p = (const unsigned char *)lua_tolstring(L, idx, &len);
		luaL_argcheck(L, len <= UINT32_MAX, 1, "a string of 4 GiB");
		part.len = (uint32_t)len;
	} else {
		part.type = PEV_KEY_INTEGER;
		part.integer = luaL_checkinteger(L, idx);
	}
	return part;
}

static int by_order(const void *a, const void *b)
{
	return pev_condition_order(a, b);
}

static uint16_t target_of(lua_State *L, int idx, const char *name)
{
	int type = lua_getfield(L, idx, name);
	lua_Integer target = luaL_optinteger(L, -1, 0);

	lua_pop(L, 1);
	if (type == LUA_TNIL)
		return PEV_WHERE_NO;
	return target == 0 ? PEV_WHERE_YES : (uint16_t)(target - 1);
}

/* Reads the test on top. Puts its literals into list from *at on. */
static void take_test(lua_State *L, struct pev_condition_test *test, const char **name,
		      struct pev_key_part *list, uint32_t *at)
{
	static const char *const ops[] = { "==", "!=", "<", "<=", ">", ">=", "&", "prefix", NULL };
	int top = lua_gettop(L);

	lua_getfield(L, top, "op");
	test->op = (enum pev_condition_op)luaL_checkoption(L, -1, NULL, ops);
	lua_getfield(L, top, "field");
	*name = luaL_checkstring(L, -1);
	test->yes = target_of(L, top, "yes");
	test->no = target_of(L, top, "no");
	test->first = *at;
	test->nr = (uint32_t)lua_rawlen(L, top);
	for (uint32_t i = 0; i < test->nr; i++) {
		lua_rawgeti(L, top, (lua_Integer)i + 1);
		list[(*at)++] = literal_at(L, -1);
		lua_pop(L, 1);
	}
	qsort(list + test->first, test->nr, sizeof(*list), by_order);
	lua_settop(L, top);
}

/*
 * condition{ {field=, op=, yes=, no=, literal...}, ... } -> condition. yes and no: the number of
 * the next test; 0: the condition holds, nil: it does not. Keeps the table.
 */
static int l_condition(lua_State *L)
{
	struct pev_condition_test *tests;
	struct pev_key_part *list;
	struct l_condition *self;
	struct pev_err err;
	uint32_t nr, nr_literals, at = 0;

	luaL_checktype(L, 1, LUA_TTABLE);
	lua_settop(L, 1);
	luaL_argcheck(L, lua_rawlen(L, 1) <= PEV_WHERE_MOST, 1, "too many tests");
	nr = (uint32_t)lua_rawlen(L, 1);
	nr_literals = count_literals(L, 1, nr);
	self = lua_newuserdatauv(L, sizeof(*self) + nr * sizeof(self->names[0]), 3);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, 2, 1);
	tests = lua_newuserdatauv(L, (nr + 1) * sizeof(*tests), 0);
	lua_setiuservalue(L, 2, 2);
	list = lua_newuserdatauv(L, (nr_literals + 1) * sizeof(*list), 0);
	lua_setiuservalue(L, 2, 3);
	for (uint32_t i = 0; i < nr; i++) {
		lua_rawgeti(L, 1, (lua_Integer)i + 1);
		take_test(L, &tests[i], &self->names[i], list, &at);
		lua_pop(L, 1);
	}
	self->program = (struct pev_condition){ tests, list, nr, nr_literals };
	if (pev_condition_check(&self->program, &err) < 0)
		return luaL_argerror(L, 1, err.text);
	luaL_setmetatable(L, TYPENAME);
	return 1;
}

void l_condition_register(lua_State *L)
{
	l_class(L, TYPENAME, NULL, NULL);
	l_set_function(L, "condition", l_condition);
	l_set_function(L, "value_kind", l_value_kind);
}

/* ---- once per record ---- */

struct reading {
	const struct l_field *sources;
	const struct l_current *current;
};

static struct pev_key_part read_source(void *ctx, uint32_t test, bool *is_unsigned)
{
	const struct reading *reading = ctx;
	const struct l_field *source = &reading->sources[test];

	*is_unsigned = l_value_is_unsigned(source);
	return l_value_read(source, reading->current);
}

bool l_condition_holds(const struct l_condition *where, const struct l_field *sources,
		       const struct l_current *current, bool *blind)
{
	struct reading reading = { sources, current };

	return pev_condition_holds(&where->program, read_source, &reading, blind);
}
