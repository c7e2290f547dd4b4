/*
 * lchild.h - a held command as userdata.
 */
#ifndef PEV_LCHILD_H
#define PEV_LCHILD_H

#include <lua.h>

/* Add spawn to the table on top of the stack. */
void l_child_register(lua_State *L);

#endif
