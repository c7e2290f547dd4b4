/*
 * lattr.h - a struct pev_attr as the userdata perfev.attr.
 */
#pragma once

#include <lua.h>

#include "event/attr.h"

/* Returns the attr at idx, borrowed while the userdata lives. Raises unless it is an attr. */
struct pev_attr *l_attr_check(lua_State *L, int idx);

/* Pushes a perfev.attr with a copy of attr. */
void l_attr_push(lua_State *L, const struct pev_attr *attr);
