/*
 * host.c - a Lua that has the core linked in: host SCRIPT [ARGS...]
 *
 * The sanitizers want the whole program built with them, and a stock lua5.4 that
 * loads an instrumented core.so is not that. So the specs are run by this one.
 */
#include <stdio.h>
#include <stdlib.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

int luaopen_perfev_core(lua_State *L);

static int add_traceback(lua_State *L)
{
	luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
	return 1;
}

static void set_arg(lua_State *L, int argc, char **argv)
{
	lua_createtable(L, argc, 1);
	for (int i = 0; i < argc; i++) {
		lua_pushstring(L, argv[i]);
		lua_rawseti(L, -2, i - 1);
	}
	lua_setglobal(L, "arg");
}

static void preload_core(lua_State *L)
{
	luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
	lua_pushcfunction(L, luaopen_perfev_core);
	lua_setfield(L, -2, "perfev.core");
	lua_pop(L, 1);
}

static int run_script(lua_State *L, const char *path)
{
	lua_pushcfunction(L, add_traceback);
	if (luaL_loadfile(L, path) != LUA_OK || lua_pcall(L, 0, 0, 1) != LUA_OK) {
		fprintf(stderr, "host: %s\n", lua_tostring(L, -1));
		return EXIT_FAILURE;
	}
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: %s SCRIPT [ARGS...]\n", argv[0]);
		return EXIT_FAILURE;
	}
	lua_State *L = luaL_newstate();
	if (!L)
		return EXIT_FAILURE;
	luaL_openlibs(L);
	set_arg(L, argc, argv);
	preload_core(L);
	int rc = run_script(L, argv[1]);
	lua_close(L);
	return rc;
}
