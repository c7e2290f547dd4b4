/*
 * lhooks.h - Lua functions in the place of system calls.
 *
 * A set of hooks is a struct pev_sys whose functions call Lua, or Linux for the
 * calls that the set lacks. Sets form a stack in a Lua state; an object keeps the
 * set that was on top when it was opened.
 */
#pragma once

#include <lua.h>

#include "base/sys.h"

/*
 * Returns the table of functions in force, and pushes its owner, a userdata or nil: an object
 * that goes on using the table stores the owner.
 */
const struct pev_sys *l_hooks_push(lua_State *L);

/* Push the set in force without the logs above it, or nil for Linux. */
void l_hooks_push_deciding(lua_State *L);

/* Hooks run on L from here on; a binding calls this before it uses a sys. */
void l_hooks_enter(lua_State *L, const struct pev_sys *sys);
