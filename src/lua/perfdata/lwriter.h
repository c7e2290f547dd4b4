/*
 * lwriter.h - the userdata perfev.core.writer: a recording that is being written.
 */
#ifndef PEV_LWRITER_H
#define PEV_LWRITER_H

#include <lua.h>

#include "perfdata/writer.h"

/*
 * The writer at idx, for a session to write to, which keeps the userdata and detaches it
 * before it lets go of that. Raises when it is none, or is a session's already.
 */
struct pev_writer *l_writer_attach(lua_State *L, int idx);
void l_writer_detach(lua_State *L, int idx);

/* Add writer() to the table on top of the stack. */
void l_writer_register(lua_State *L);

#endif
