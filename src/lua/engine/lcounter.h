/*
 * lcounter.h - events that are counted, as the userdata perfev.core.counter.
 */
#ifndef PEV_LCOUNTER_H
#define PEV_LCOUNTER_H

#include <lua.h>

/* Add counter() and task_switch() to the table on top of the stack. */
void l_counter_register(lua_State *L);

#endif
