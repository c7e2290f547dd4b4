/*
 * lperf_map.h - the userdata perfev.core.perf_map: functions generated at run time, by address.
 */
#ifndef PEV_LPERF_MAP_H
#define PEV_LPERF_MAP_H

#include <lua.h>

/* Make the metatable perfev.core.perf_map, and add jitmap to the table on top. */
void l_perf_map_register(lua_State *L);

#endif
