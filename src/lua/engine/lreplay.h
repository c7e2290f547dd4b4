/*
 * lreplay.h - a recording as a session's source.
 */
#ifndef PEV_LREPLAY_H
#define PEV_LREPLAY_H

#include <lua.h>

/* Add replay() to the table on top of the stack. */
void l_replay_register(lua_State *L);

#endif
