/*
 * lcore.h - what all bindings share: the one way from a result to Lua.
 */
#ifndef PEV_LCORE_H
#define PEV_LCORE_H

#include <lua.h>

#include "../err.h"
#include "../sys.h"

/*
 * rc >= 0: the integer; below: nil, message, errno, and the fields if they are set. An error that
 * a hook or the log raised on the way is raised again here.
 */
int l_result(lua_State *L, long long rc, const struct pev_err *err);

/*
 * The message handler of every callback. A string gets where it was raised; any other error
 * object stays the same object, and take_traceback() has where. Never raises itself.
 */
int l_traceback(lua_State *L);

/* Push { dev=, ino=, mode=, uid=, size= }. */
void l_stat_push(lua_State *L, const struct pev_stat *st);
/*
 * Call field note, a function, of the table that is user value uv of the userdata at idx, with the
 * message and the fields. From inside the core: an error in it, or of memory, stays here.
 */
void l_note(lua_State *L, int idx, int uv, const struct pev_err *what);

/* Raise what a hook or the log raised, if it did; for a binding that has no l_result. */
void l_raise_pending(lua_State *L);

#endif
