/*
 * lset.h - sets a field of the table on top of the stack. Inline, because the modules
 * that are shared objects of their own cannot call the core's functions.
 */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

static inline void l_set_integer(lua_State *L, const char *name, lua_Integer value)
{
	lua_pushinteger(L, value);
	lua_setfield(L, -2, name);
}

static inline void l_set_u64(lua_State *L, const char *name, uint64_t value)
{
	l_set_integer(L, name, (lua_Integer)value);
}

static inline void l_set_boolean(lua_State *L, const char *name, bool value)
{
	lua_pushboolean(L, value);
	lua_setfield(L, -2, name);
}

/* NULL: nil */
static inline void l_set_string(lua_State *L, const char *name, const char *value)
{
	lua_pushstring(L, value);
	lua_setfield(L, -2, name);
}

static inline void l_set_function(lua_State *L, const char *name, lua_CFunction function)
{
	lua_pushcfunction(L, function);
	lua_setfield(L, -2, name);
}
