/* lreplay.h - the userdata perfev.core.replay: delivers the records of a recording. */
#ifndef PEV_LREPLAY_H
#define PEV_LREPLAY_H

#include <lua.h>

/* Adds replay() to the table on top of the stack. */
void l_replay_register(lua_State *L);

#endif
