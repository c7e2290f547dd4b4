/*
 * lua_state.h - the Lua of a target whose checks are a Lua file.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

int luaopen_perfev_core(lua_State *L);

static _Noreturn void die(lua_State *L)
{
	fprintf(stderr, "%s\n", luaL_tolstring(L, -1, NULL));
	abort();
}

static int add_traceback(lua_State *L)
{
	luaL_traceback(L, L, luaL_tolstring(L, 1, NULL), 1);
	return 1;
}

/* Leaves the message handler at index 1 and the function that the file returns at 2. */
static lua_State *make_state(const char *path)
{
	lua_State *L = luaL_newstate();

	if (!L)
		abort();
	luaL_openlibs(L);
	luaL_requiref(L, "perfev.core", luaopen_perfev_core, 0);
	lua_settop(L, 0);
	lua_pushcfunction(L, add_traceback);
	if (luaL_loadfile(L, path) != LUA_OK || lua_pcall(L, 0, 1, 1) != LUA_OK)
		die(L);
	return L;
}
