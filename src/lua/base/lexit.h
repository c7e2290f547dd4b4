/*
 * lexit.h - calls Lua functions when the process ends.
 */
#ifndef PEV_LEXIT_H
#define PEV_LEXIT_H

#include <lua.h>

/* Adds at_exit() to the table on top of the stack. */
void l_exit_register(lua_State *L);

#endif
