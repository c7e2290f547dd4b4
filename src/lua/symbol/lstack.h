/*
 * lstack.h - r.stack: a call chain as a value of Lua's; and r.symbol.
 */
#ifndef PEV_LSTACK_H
#define PEV_LSTACK_H

#include <lua.h>

#include "record/record.h"
#include "symbol/stack.h"
#include "task/task.h"

/* Make the metatables, and add stack_class, stack_frames and map_at to the table on top. */
void l_stack_register(lua_State *L);

/*
 * Push the record's stack, or nil for one without a callchain. The same stack is the same
 * userdata. The context table is at idx; its field world, if it has one, says what a
 * recording's addresses are looked up in.
 */
void l_stack_push(lua_State *L, int idx, struct pev_tasks *tasks, const struct pev_record *rec);
/*
 * The same without a value for Lua, of a record that is to be unwound: borrowed of the stacks
 * in that table, NULL for one without. Never raises: -ECANCELED, and the error is kept.
 */
int l_stack_take(lua_State *L, int idx, struct pev_tasks *tasks, const struct pev_record *rec,
		 const struct pev_stack **stack);

/* Push { path=, pid=, start=, stop=, ... }: a frame's dso and the addresses of its map. */
void l_stack_push_sampled(lua_State *L, const struct pev_sampled *sampled);

/* Push a stack that was taken already. The table at idx has the fields stacks and world. */
void l_stack_push_taken(lua_State *L, int idx, const struct pev_stack *stack);

/* The one at idx, or NULL for what is none. */
const struct pev_stack *l_stack_test(lua_State *L, int idx);

/* Push { stacks =, world = } of the one at idx: what keeps it, and what pushes it again. */
void l_stack_push_home(lua_State *L, int idx);

/* Push the name of the function at the record's ip, or nil. */
void l_symbol_push(lua_State *L, int idx, struct pev_tasks *tasks, const struct pev_record *rec);

#endif
