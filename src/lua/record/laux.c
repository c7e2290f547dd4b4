/*
 * laux.c - the userdata perfev.aux; see laux.h.
 *
 * It has a string's operations (#, sub, tostring) and copies only the requested
 * bytes, because a record may refer to megabytes.
 */
#include "lua/record/laux.h"

#include <lauxlib.h>
#include <string.h>

#include "base/sys.h"
#include "lua/base/lregister.h"

#define TYPENAME "perfev.aux"

static const struct l_aux *check_area(lua_State *L)
{
	const struct l_aux *area = luaL_checkudata(L, 1, TYPENAME);

	if (area->gen != *area->now)
		luaL_error(L, "AUX bytes used after their callback; keep tostring(bytes)");
	if (area->process != pev_sys_process())
		luaL_error(L, "AUX bytes used in a process forked since");
	return area;
}

static size_t area_length(const struct l_aux *area)
{
	return area->aux.len[0] + area->aux.len[1];
}

/* Pushes bytes from .. to - 1. The area is in one or two pieces. */
static void push_bytes(lua_State *L, const struct l_aux *area, size_t from, size_t to)
{
	size_t first = area->aux.len[0];
	luaL_Buffer buffer;

	luaL_buffinit(L, &buffer);
	if (from < first)
		luaL_addlstring(&buffer, (const char *)area->aux.p[0] + from,
				(to < first ? to : first) - from);
	if (to > first) {
		size_t start = from > first ? from - first : 0;

		luaL_addlstring(&buffer, (const char *)area->aux.p[1] + start, to - first - start);
	}
	luaL_pushresult(&buffer);
}

static int l_aux_len(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)area_length(check_area(L)));
	return 1;
}

static int l_aux_tostring(lua_State *L)
{
	const struct l_aux *area = check_area(L);

	push_bytes(L, area, 0, area_length(area));
	return 1;
}

/* bytes:sub(i [, j]) -> string; indices as in string.sub */
static int l_aux_sub(lua_State *L)
{
	const struct l_aux *area = check_area(L);
	lua_Integer len = (lua_Integer)area_length(area);
	lua_Integer i = luaL_checkinteger(L, 2), j = luaL_optinteger(L, 3, -1);

	if (i < 0)
		i = i < -len ? 1 : len + i + 1;
	else if (i == 0)
		i = 1;
	if (j < 0)
		j = j < -len ? 0 : len + j + 1;
	else if (j > len)
		j = len;
	if (i > j)
		lua_pushliteral(L, "");
	else
		push_bytes(L, area, (size_t)i - 1, (size_t)j);
	return 1;
}

static const luaL_Reg area_meta[] = {
	{ "__len",      l_aux_len },
	{ "__tostring", l_aux_tostring },
	{ NULL, NULL }
};

static const luaL_Reg area_methods[] = {
	{ "sub", l_aux_sub },
	{ NULL, NULL }
};

struct l_aux *l_aux_push(lua_State *L, const uint64_t *now)
{
	struct l_aux *area = lua_newuserdatauv(L, sizeof(*area), 0);

	*area = (struct l_aux){ .now = now, .gen = *now - 1 };
	luaL_setmetatable(L, TYPENAME);
	return area;
}

void l_aux_register(lua_State *L)
{
	luaL_newmetatable(L, TYPENAME); /* sets __name too */
	luaL_setfuncs(L, area_meta, 0);
	luaL_newlib(L, area_methods);
	lua_setfield(L, -2, "__index");
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_pop(L, 1);
}
