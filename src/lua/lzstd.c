/*
 * lzstd.c - perfev.zstd: the decompressor of a recording's COMPRESSED records.
 *
 * A shared object of its own, loaded when the first such record is met, so that
 * nobody else needs libzstd. All it has is a table of C functions: the reader
 * stays in the core.
 */
#include <lauxlib.h>
#include <lua.h>

#include "../unzstd.h"

int luaopen_perfev_zstd(lua_State *L);

/* { inflate = light userdata, a const struct pev_inflate * } */
__attribute__((visibility("default"))) int luaopen_perfev_zstd(lua_State *L)
{
	lua_createtable(L, 0, 1);
	lua_pushlightuserdata(L, (void *)(uintptr_t)&pev_unzstd);
	lua_setfield(L, -2, "inflate");
	return 1;
}
