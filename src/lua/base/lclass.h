/*
 * lclass.h - makes the metatable of a userdata. Inline, because the modules that are shared
 * objects of their own (lelf.c, lsymtab.c) cannot call the core's functions.
 */
#pragma once

#include <lauxlib.h>

/*
 * Makes the metatable name for luaL_setmetatable() and luaL_checkudata(), hidden from
 * getmetatable(). methods, which can include metamethods, and gc can be NULL.
 */
static inline void l_class(lua_State *L, const char *name, const luaL_Reg *methods,
			   lua_CFunction gc)
{
	luaL_newmetatable(L, name); /* sets __name too */
	if (methods) {
		luaL_setfuncs(L, methods, 0);
		lua_pushvalue(L, -1);
		lua_setfield(L, -2, "__index");
	}
	if (gc) {
		lua_pushcfunction(L, gc);
		lua_setfield(L, -2, "__gc");
	}
	lua_pushboolean(L, 0);
	lua_setfield(L, -2, "__metatable");
	lua_pop(L, 1);
}
