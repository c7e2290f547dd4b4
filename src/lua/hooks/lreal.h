/*
 * lreal.h - hooks.real: the Linux calls, for a hook that delegates.
 */
#ifndef PEV_LREAL_H
#define PEV_LREAL_H

#include <lua.h>

/* Push the table of functions, one for every hook. */
void l_real_push(lua_State *L);

#endif
