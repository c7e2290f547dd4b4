/*
 * lstack_tree.h - the userdata perfev.stack_tree: the stacks of a profile.
 */
#ifndef PEV_LSTACK_TREE_H
#define PEV_LSTACK_TREE_H

#include <lua.h>

/* Makes the metatable; adds stack_tree() to the table on top of the stack. */
void l_stack_tree_register(lua_State *L);

#endif
