/*
 * ldebuginfod.c - perfev.debuginfod: programs and debug files from a server.
 *
 * A shared object of its own, loaded when the user has allowed servers.
 */
#include <lauxlib.h>
#include <lua.h>
#include <stdlib.h>

#include "symbol/debuginfod.h"
#include "lua/base/lerror.h"

int luaopen_perfev_debuginfod(lua_State *L);

enum { AT_GO_ON = 3 };

/* An error in go_on() does not end the download; find() raises it afterwards. */
static bool go_on(void *ctx)
{
	lua_State *L = ctx;
	bool more;

	if (lua_isnoneornil(L, AT_GO_ON))
		return true;
	lua_pushvalue(L, AT_GO_ON);
	more = lua_pcall(L, 0, 1, 0) != LUA_OK || lua_toboolean(L, -1);
	lua_pop(L, 1);
	return more;
}

/*
 * find(build_id, kind, go_on) -> path | nil, why, errno. build_id: hexadecimal; kind: "executable"
 * or "debuginfo". go_on, or nil: called during the download; false ends it.
 */
static int l_find(lua_State *L)
{
	static const char *const kinds[] = { "debuginfo", "executable", NULL };
	const char *build_id = luaL_checkstring(L, 1);
	bool program = luaL_checkoption(L, 2, NULL, kinds) == 1;
	struct pev_err err;
	char *path;
	int rc;

	lua_settop(L, AT_GO_ON);
	luaL_checkstack(L, LUA_MINSTACK, "debuginfod");
	rc = pev_debuginfod_find(build_id, program, go_on, L, &path, &err);
	if (rc < 0)
		return l_fail(L, rc, &err);
	lua_pushstring(L, path);
	free(path);
	return 1;
}

static const luaL_Reg functions[] = {
	{ "find", l_find },
	{ NULL, NULL },
};

__attribute__((visibility("default"))) int luaopen_perfev_debuginfod(lua_State *L)
{
	luaL_newlib(L, functions);
	return 1;
}
