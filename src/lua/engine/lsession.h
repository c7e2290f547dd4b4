/* lsession.h - the userdata perfev.core.session: a live session. */
#ifndef PEV_LSESSION_H
#define PEV_LSESSION_H

#include <lua.h>

/* Adds session() to the table on top of the stack. */
void l_session_register(lua_State *L);

#endif
