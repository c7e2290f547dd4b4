/*
 * lperf_map.c - the userdata perfev.core.perf_map: functions generated at run time, by address.
 */
#include <errno.h>
#include <lauxlib.h>

#include "symbol/perf_map.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/base/lregister.h"

#define TYPENAME "perfev.core.perf_map"

struct l_perf_map {
	struct pev_perf_map *map; /* owned; its text is the user value */
};

/* core.perf_map(text) -> map | nil, reason, errno; text: the content of a perf-PID.map */
static int l_perf_map(lua_State *L)
{
	size_t len;
	const char *text = luaL_checklstring(L, 1, &len);
	struct l_perf_map *self = lua_newuserdatauv(L, sizeof(*self), 1);
	struct pev_err err;
	int rc;

	self->map = NULL;
	luaL_setmetatable(L, TYPENAME);
	lua_pushvalue(L, 1);
	lua_setiuservalue(L, -2, 1);
	rc = pev_perf_map_parse(&self->map, text, len);
	if (rc == -EFBIG)
		return l_result(L, pev_fail(&err, rc, "it has more than %u functions",
					    PEV_PERF_MAP_MAX), &err);
	return rc < 0 ? l_result(L, pev_fail(&err, rc, "no memory for its functions"), &err) : 1;
}

/* m:find(address) -> name, start address | nil */
static int l_find(lua_State *L)
{
	const struct l_perf_map *self = luaL_checkudata(L, 1, TYPENAME);
	struct pev_perf_map_function function;

	if (!pev_perf_map_find(self->map, (uint64_t)luaL_checkinteger(L, 2), &function))
		return 0;
	lua_pushlstring(L, function.name, function.len);
	lua_pushinteger(L, (lua_Integer)function.start);
	return 2;
}

static int l_gc(lua_State *L)
{
	struct l_perf_map *self = luaL_checkudata(L, 1, TYPENAME);

	pev_perf_map_free(self->map);
	self->map = NULL;
	return 0;
}

static const luaL_Reg methods[] = {
	{ "find", l_find },
	{ NULL, NULL },
};

void l_perf_map_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_gc);
	lua_pushcfunction(L, l_perf_map);
	lua_setfield(L, -2, "perf_map");
}
