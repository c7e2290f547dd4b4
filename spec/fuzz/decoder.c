/*
 * decoder.c - libFuzzer: several attrs, their ids, and a stream of their records.
 *
 * The binding (src/lua/record/ldecoder.c) demultiplexes records of files, and Lua encodes them. So
 * this target is a Lua with the core linked in and instrumented bindings; decoder.lua reads the
 * input and makes the checks. Runs in the tree's root.
 */
#include <stdint.h>

#include "lua_state.h"

const char *__asan_default_options(void);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The garbage collector frees later, so a leak check after each input is wrong. */
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static lua_State *L;

	if (!L)
		L = make_state("spec/fuzz/decoder.lua");
	lua_pushvalue(L, 2);
	lua_pushlstring(L, (const char *)data, size);
	if (lua_pcall(L, 1, 0, 1) != LUA_OK)
		die(L);
	return 0;
}
