/*
 * decoder.c - libFuzzer: several attrs, their ids, and a stream of their records.
 *
 * Records from files are demultiplexed in the binding (src/lua/record/ldecoder.c) and encoded in Lua, so
 * this target is a Lua with the core linked in and the core's bindings instrumented; what is
 * asked of them, and how the input is read, stands in decoder.lua. Runs in the tree's root.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

int luaopen_perfev_core(lua_State *L);
const char *__asan_default_options(void);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The state's memory grows and shrinks with its collector: no input leaks by itself. */
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

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

/* The function that decoder.lua returns is left at 2, the message handler at 1. */
static lua_State *start(void)
{
	lua_State *L = luaL_newstate();

	if (!L)
		abort();
	luaL_openlibs(L);
	luaL_requiref(L, "perfev.core", luaopen_perfev_core, 0);
	lua_settop(L, 0);
	lua_pushcfunction(L, add_traceback);
	if (luaL_loadfile(L, "spec/fuzz/decoder.lua") != LUA_OK ||
	    lua_pcall(L, 0, 1, 1) != LUA_OK)
		die(L);
	return L;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static lua_State *L;

	if (!L)
		L = start();
	lua_pushvalue(L, 2);
	lua_pushlstring(L, (const char *)data, size);
	if (lua_pcall(L, 1, 0, 1) != LUA_OK)
		die(L);
	return 0;
}
