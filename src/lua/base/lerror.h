/*
 * lerror.h - results and errors of the core as Lua values, and errors raised inside a hook.
 */
#pragma once

#include <lua.h>

#include "base/err.h"

/*
 * nil, message, errno. Inline, because the modules that are shared objects of their own
 * (lelf.c, lsymtab.c) cannot call the core's functions; the core calls l_result().
 */
static inline int l_fail(lua_State *L, int rc, const struct pev_err *err)
{
	lua_pushnil(L);
	lua_pushstring(L, err->text);
	lua_pushinteger(L, -rc);
	return 3;
}

/*
 * rc >= 0: the integer. rc < 0: nil, message, errno, and the fields of err if they are set.
 * First raises the pending error, if a hook or the log callback left one.
 */
int l_result(lua_State *L, long long rc, const struct pev_err *err);

/*
 * Pops an error that cannot be raised here and makes it pending; l_raise_pending() raises it
 * later. Keeps the first one. Allocates nothing.
 */
void l_keep_error(lua_State *L);

/* Raises the pending error, if there is one. For bindings that do not end with l_result(). */
void l_raise_pending(lua_State *L);

/*
 * The message handler of every callback. Adds a traceback to a string; any other error object
 * stays the same object, and take_traceback() returns its traceback. Never raises.
 */
int l_traceback(lua_State *L);

/*
 * Calls the function `note` of the table in user value uv of the userdata at idx, with the message
 * and the fields of what. Callable from inside the core: ignores an error of the function and a
 * lack of memory.
 */
void l_note(lua_State *L, int idx, int uv, const struct pev_err *what);
