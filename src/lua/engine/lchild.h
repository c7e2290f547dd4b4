/* lchild.h - the userdata perfev.core.child: a command that starts when it is released. */
#ifndef PEV_LCHILD_H
#define PEV_LCHILD_H

#include <lua.h>

/* Adds spawn() to the table on top of the stack. */
void l_child_register(lua_State *L);

#endif
