/*
 * lreal.h - hooks.real: what Linux does, for a hook that delegates.
 */
#ifndef PEV_LREAL_H
#define PEV_LREAL_H

#include <lua.h>

/* The name hooks know a request by ("SET_OUTPUT"), "?" for one that has none. */
const char *l_ioctl_name(unsigned long request);

/* The same for a command of fcntl ("SETSIG"). */
const char *l_fcntl_name(int cmd);

/* Push the table of functions, one for every hook. */
void l_real_push(lua_State *L);

#endif
