/*
 * loption.h - reads fields of an option table that the Lua module passes to the core.
 *
 * Access is raw, so that no metamethod of the caller runs. An invalid field raises an
 * error with the field's name.
 */
#pragma once

#include <lua.h>
#include <stdbool.h>

/* Returns true unless the field is nil or false. */
bool l_option_bool(lua_State *L, int idx, const char *name);

/* Returns the integer, or otherwise if the field is nil. */
lua_Integer l_option_integer(lua_State *L, int idx, const char *name, lua_Integer otherwise);

/*
 * Reads a list of 1 or more ints (pids, CPUs, descriptors). Returns the array, valid while the
 * two values that it pushes are on the stack.
 */
int *l_option_ints(lua_State *L, int idx, const char *name, int *nr);
