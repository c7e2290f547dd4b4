/* lwriter.h - the userdata perfev.core.writer: a recording that is being written. */
#pragma once

#include <lua.h>

#include "perfdata/writer.h"

/*
 * Attaches the writer at idx to a session. The session keeps the userdata alive and detaches
 * it before it releases it. Raises if it is not a writer, or is attached already.
 */
struct pev_writer *l_writer_attach(lua_State *L, int idx);
void l_writer_detach(lua_State *L, int idx);
/* Returns the open writer at idx, for one call; raises if it is closed or not a writer. */
struct pev_writer *l_writer_enter(lua_State *L, int idx);
