/*
 * loption.h - fields of an option table, as the Lua half hands them down.
 *
 * Looked up raw, so that no metamethod of the caller's runs; a wrong one raises
 * with the field's name.
 */
#ifndef PEV_LOPTION_H
#define PEV_LOPTION_H

#include <lua.h>
#include <stdbool.h>

/* true unless it is nil or false. */
bool l_option_bool(lua_State *L, int idx, const char *name);

/* otherwise: where it is nil. */
lua_Integer l_option_integer(lua_State *L, int idx, const char *name, lua_Integer otherwise);

/*
 * A list of 1 or more ints (pids, CPUs, descriptors): *nr and the array, which lives as long
 * as the two values that it leaves on the stack.
 */
int *l_option_ints(lua_State *L, int idx, const char *name, int *nr);

#endif
