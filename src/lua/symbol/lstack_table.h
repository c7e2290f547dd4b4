/*
 * lstack_table.h - the userdata perfev.stack_table: interns the stacks of a session or recording.
 */
#pragma once

#include <lua.h>

#include "symbol/stack.h"

enum {
	L_STACK_TABLE_UV_SEEN = 1, /* id -> perfev.stack, weak values */
	L_STACK_TABLE_UV_CFIS,     /* list of perfev.cfi that the unwinder uses */
	L_STACK_TABLE_UV_KEPT,     /* files that the Lua module keeps open for names */
	L_STACK_TABLE_UV_NAMED,    /* lists of frames with names, by id */
	L_STACK_TABLE_UV_NR = L_STACK_TABLE_UV_NAMED
};

/*
 * Pushes an empty stack table, for the field stacks of the views' table (l_view_push()).
 * Every stack keeps it.
 */
void l_stack_table_push(lua_State *L);

/* Sets pev_stacks.watched of the stacks at idx. */
void l_stack_table_watch(lua_State *L, int idx);

/* Returns the stacks of the table at idx, or NULL before the first stack. */
struct pev_stacks *l_stack_table_test(lua_State *L, int idx);
/* Returns the stacks of the table at idx; opens them first if needed. Raises. */
struct pev_stacks *l_stack_table_check(lua_State *L, int idx);
/* Returns the memory budget of the stacks and the session's aggregators. Borrowed. */
struct pev_budget *l_stack_table_budget(lua_State *L, int idx);
/* Returns the unwinder. */
struct pev_unwind *l_stack_table_unwind(lua_State *L, int idx);
