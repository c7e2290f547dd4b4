/*
 * lzstd.c - the module perfev.zstd: compresses and decompresses a recording's COMPRESSED records.
 *
 * A separate shared object that is loaded for the first such record, so that only compressed
 * recordings need libzstd. It only contains tables of C functions: reader and writer stay in
 * the core.
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
