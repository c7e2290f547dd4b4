/*
 * lzstd.c - perfev.zstd: what makes and reads a recording's COMPRESSED records.
 *
 * A shared object of its own, loaded when the first such record is met or wanted, so that
 * nobody else needs libzstd. All it has are tables of C functions: reader and writer
 * stay in the core.
 */
#include <lauxlib.h>
#include <lua.h>

#include "perfdata/zstd.h"

int luaopen_perfev_zstd(lua_State *L);

/* { inflate, deflate = light userdata, a const struct pev_inflate * and pev_deflate * } */
__attribute__((visibility("default"))) int luaopen_perfev_zstd(lua_State *L)
{
	lua_createtable(L, 0, 2);
	lua_pushlightuserdata(L, (void *)(uintptr_t)&pev_zstd_inflate);
	lua_setfield(L, -2, "inflate");
	lua_pushlightuserdata(L, (void *)(uintptr_t)&pev_zstd_deflate);
	lua_setfield(L, -2, "deflate");
	return 1;
}
