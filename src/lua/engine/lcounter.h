/* lcounter.h - the userdata perfev.core.counter: events that are counted. */
#ifndef PEV_LCOUNTER_H
#define PEV_LCOUNTER_H

#include <lua.h>

/* Adds counter() and task_switch() to the table on top of the stack. */
void l_counter_register(lua_State *L);

#endif
