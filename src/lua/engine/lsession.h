/*
 * lsession.h - a struct pev_session and its command as userdata.
 */
#ifndef PEV_LSESSION_H
#define PEV_LSESSION_H

#include <lua.h>

/* Add session and its like to the table on top of the stack. */
void l_session_register(lua_State *L);

#endif
