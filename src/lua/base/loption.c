/*
 * loption.c - fields of an option table; see loption.h.
 */
#include "lua/base/loption.h"

#include <lauxlib.h>
#include <limits.h>

#define MAX_INTS (1 << 20)

/* Pushes the field and returns its type. */
static int push_field(lua_State *L, int idx, const char *name)
{
	idx = lua_absindex(L, idx);
	lua_pushstring(L, name);
	return lua_rawget(L, idx);
}

bool l_option_bool(lua_State *L, int idx, const char *name)
{
	bool value;

	push_field(L, idx, name);
	value = lua_toboolean(L, -1);
	lua_pop(L, 1);
	return value;
}

lua_Integer l_option_integer(lua_State *L, int idx, const char *name, lua_Integer otherwise)
{
	lua_Integer value = otherwise;
	int exact = 1;

	if (push_field(L, idx, name) != LUA_TNIL)
		value = lua_tointegerx(L, -1, &exact);
	if (!exact)
		luaL_error(L, "%s: an integer expected, not a %s", name, luaL_typename(L, -1));
	lua_pop(L, 1);
	return value;
}

int *l_option_ints(lua_State *L, int idx, const char *name, int *nr)
{
	lua_Integer n;
	int *list;

	if (push_field(L, idx, name) != LUA_TTABLE)
		luaL_error(L, "%s: a list expected, not a %s", name, luaL_typename(L, -1));
	n = (lua_Integer)lua_rawlen(L, -1);
	if (n < 1 || n > MAX_INTS)
		luaL_error(L, "%s: a list of 1 to %d integers expected", name, MAX_INTS);
	list = lua_newuserdatauv(L, sizeof(*list) * (size_t)n, 0);
	for (lua_Integer i = 0; i < n; i++) {
		lua_Integer value;
		int exact;

		lua_rawgeti(L, -2, i + 1);
		value = lua_tointegerx(L, -1, &exact);
		/* Cut to 32 bits it would be another pid, CPU or descriptor. */
		if (!exact || value < INT_MIN || value > INT_MAX)
			luaL_error(L, "%s: element %d is not a 32-bit integer", name, (int)i + 1);
		list[i] = (int)value;
		lua_pop(L, 1);
	}
	*nr = (int)n;
	return list;
}
