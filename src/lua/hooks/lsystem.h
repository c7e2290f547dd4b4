/*
 * lsystem.h - files, clocks and facts of the system for Lua, through the hooks in force.
 */
#ifndef PEV_LSYSTEM_H
#define PEV_LSYSTEM_H

#include <lua.h>

/* Add slurp, list, clock, pid, ..., and the table signals to the table on top of the stack. */
void l_system_register(lua_State *L);

#endif
