/*
 * lattr.h - a struct pev_attr as the userdata perfev.attr.
 */
#ifndef PEV_LATTR_H
#define PEV_LATTR_H

#include <lua.h>

#include "event/attr.h"

/* Returns the attr at idx, borrowed while the userdata lives. Raises unless it is an attr. */
struct pev_attr *l_attr_check(lua_State *L, int idx);

/* Pushes a perfev.attr with a copy of attr. */
void l_attr_push(lua_State *L, const struct pev_attr *attr);

/*
 * Makes the metatable; adds attr_new(fields), attr_parse(bytes, order) and
 * attr_fields() to the table on top of the stack.
 */
void l_attr_register(lua_State *L);

#endif
