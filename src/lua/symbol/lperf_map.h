/*
 * lperf_map.h - functions that were made in memory, by address.
 */
#ifndef PEV_LPERF_MAP_H
#define PEV_LPERF_MAP_H

#include <lua.h>

/* Make the metatable perfev.jitmap, and add jitmap to the table on top. */
void l_jitmap_register(lua_State *L);

#endif
