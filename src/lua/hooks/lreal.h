/*
 * lreal.h - hooks.real: the Linux calls, for a hook that delegates.
 */
#pragma once

#include <lua.h>

/* Push the table of functions, one for every hook. */
void l_real_push(lua_State *L);
