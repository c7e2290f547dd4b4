/*
 * lwriter.h - the userdata perfev.core.recorder: a recording that is being written.
 */
#ifndef PEV_LWRITER_H
#define PEV_LWRITER_H

#include <lua.h>

#include "perfdata/writer.h"

/*
 * The recorder at idx for a session to write to, which keeps the userdata and detaches it
 * before it lets go of that. Raises when it is none, or is a session's already.
 */
struct pev_writer *l_recorder_attach(lua_State *L, int idx);
void l_recorder_detach(lua_State *L, int idx);

/* Add recorder to the table on top of the stack. */
void l_recorder_register(lua_State *L);

#endif
