/*
 * lstack_table.h - where the stacks of one session or recording are interned.
 */
#ifndef PEV_LSTACK_TABLE_H
#define PEV_LSTACK_TABLE_H

#include <lua.h>

#include "symbol/stack.h"

enum {
	L_STACK_TABLE_UV_SEEN = 1, /* id -> stack, as long as somebody has it */
	L_STACK_TABLE_UV_CFIS,     /* list of perfev.cfi, as long as unwind knows their files */
	L_STACK_TABLE_UV_KEPT,     /* the files that the Lua half keeps open for names */
	L_STACK_TABLE_UV_NR = L_STACK_TABLE_UV_KEPT
};

/* Make the metatable perfev.stack_table. */
void l_stack_table_register(lua_State *L);

/*
 * Push an empty one. It goes into the context table of the views (lview.h), as its field
 * stacks; every stack keeps it.
 */
void l_stack_table_push(lua_State *L);

/* Sets pev_stacks.watched of the stacks at idx. */
void l_stack_table_watch(lua_State *L, int idx);

/* The stacks at idx if they are open, or NULL. */
struct pev_stacks *l_stack_table_test(lua_State *L, int idx);
/* The one at idx, open. Raises where there is no memory for it. */
struct pev_stacks *l_stack_table_check(lua_State *L, int idx);
/* Theirs, and that of the aggregators of the same session; as long as the one at idx is kept. */
struct pev_budget *l_stack_table_budget(lua_State *L, int idx);
/* What unwinds for them. */
struct pev_unwind *l_stack_table_unwind(lua_State *L, int idx);

#endif
