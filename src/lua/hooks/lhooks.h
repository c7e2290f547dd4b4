/*
 * lhooks.h - Lua functions in the place of system calls.
 *
 * A hook set is a struct pev_sys whose functions call Lua, or the Linux
 * instance where the set names none. Sets form a stack in a Lua state; an object
 * keeps the one on top when it was opened.
 */
#ifndef PEV_LHOOKS_H
#define PEV_LHOOKS_H

#include <lua.h>

#include "base/sys.h"

/* Add hooks to the table on top of the stack. */
void l_hooks_register(lua_State *L);

/*
 * The table of functions in force, and on the stack what keeps it alive (a
 * userdata or nil): the object that goes on using it stores that.
 */
const struct pev_sys *l_hooks_push(lua_State *L);

/* Push the set in force without the logs above it, or nil for Linux. */
void l_hooks_push_deciding(lua_State *L);

/* Hooks called from here on run on L; every binding that uses a sys says so first. */
void l_hooks_enter(lua_State *L, const struct pev_sys *sys);

#endif
