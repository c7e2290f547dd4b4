/*
 * lattr.h - a struct pev_attr as the userdata perfev.attr.
 */
#ifndef PEV_LATTR_H
#define PEV_LATTR_H

#include <lua.h>

#include "event/attr.h"

/* The attr at idx, borrowed while the userdata lives; raises when it is none. */
struct pev_attr *l_attr_check(lua_State *L, int idx);

/* Push a perfev.attr that holds a copy of attr. */
void l_attr_push(lua_State *L, const struct pev_attr *attr);

/*
 * Add to the table on top of the stack: attr_new(fields), attr_parse(bytes,
 * order), attr_fields(). Makes the metatable, so it comes before any push.
 */
void l_attr_register(lua_State *L);

#endif
