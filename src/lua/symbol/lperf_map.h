/*
 * lperf_map.h - functions that were made in memory, by address.
 */
#ifndef PEV_LPERF_MAP_H
#define PEV_LPERF_MAP_H

#include <lua.h>

/* Make the metatable perfev.core.perf_map, and add jitmap to the table on top. */
void l_perf_map_register(lua_State *L);

#endif
