/*
 * ldatafile.h - a recording as userdata.
 */
#ifndef PEV_LDATAFILE_H
#define PEV_LDATAFILE_H

#include <lua.h>

/* Add datafile(path, options) to the table on top of the stack. */
void l_datafile_register(lua_State *L);

#endif
