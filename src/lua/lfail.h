/*
 * lfail.h - what the world refuses, as Lua sees it. Inline for modules that are shared objects of
 * their own, which have none of the core's functions; the core has l_result().
 */
#ifndef PEV_LFAIL_H
#define PEV_LFAIL_H

#include <lua.h>

#include "../err.h"

/* nil, why, errno */
static inline int l_fail(lua_State *L, int rc, const struct pev_err *err)
{
	lua_pushnil(L);
	lua_pushstring(L, err->text);
	lua_pushinteger(L, -rc);
	return 3;
}

#endif
