/*
 * decoder.c - libFuzzer: several attrs, their ids, and a stream of their records.
 *
 * The binding (src/lua/record/ldecoder.c) demultiplexes records of files, and Lua encodes them. So
 * this target is a Lua with the core linked in and instrumented bindings; decoder.lua reads the
 * input and makes the checks. Runs in the tree's root.
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

/* The garbage collector frees later, so a leak check after each input is wrong. */
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

/* Leaves the message handler at index 1 and the function of decoder.lua at 2. */
static lua_State *make_state(void)
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
		L = make_state();
	lua_pushvalue(L, 2);
	lua_pushlstring(L, (const char *)data, size);
	if (lua_pcall(L, 1, 0, 1) != LUA_OK)
		die(L);
	return 0;
}
