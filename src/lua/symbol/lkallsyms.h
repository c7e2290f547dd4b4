/*
 * lkallsyms.h - the userdata perfev.core.kallsyms: finds kernel functions by address.
 */
#ifndef PEV_LKALLSYMS_H
#define PEV_LKALLSYMS_H

#include <lua.h>

/* Makes the metatable perfev.kallsyms; adds kallsyms, hooked, build_id to the table on top. */
void l_kallsyms_register(lua_State *L);

#endif
