/*
 * lkallsyms.h - the kernel's functions by address.
 */
#ifndef PEV_LKALLSYMS_H
#define PEV_LKALLSYMS_H

#include <lua.h>

/* Make the metatable perfev.kallsyms, and add kallsyms and hooked to the table on top. */
void l_kallsyms_register(lua_State *L);

#endif
