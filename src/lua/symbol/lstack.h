/*
 * lstack.h - the userdata perfev.stack: a call chain, r.stack. Also r.symbol.
 */
#pragma once

#include <lua.h>

#include "record/record.h"
#include "symbol/stack.h"
#include "task/task.h"

/*
 * Pushes the record's stack, or nil without a callchain. Equal stacks are the same userdata.
 * The views' table (l_view_push()) is at idx; its field world, if set, resolves a recording's
 * addresses.
 */
void l_stack_push(lua_State *L, int idx, struct pev_tasks *tasks, const struct pev_record *rec);
/*
 * Takes the stack of a record that needs unwinding, without a Lua value. *stack is borrowed
 * from the stack table; NULL without a stack. Never raises: returns -ECANCELED and keeps the
 * error.
 */
int l_stack_take(lua_State *L, int idx, struct pev_tasks *tasks, const struct pev_record *rec,
		 const struct pev_stack **stack);

/*
 * Reads the dumps of JIT compilers that the record's stack needs, before it is taken. Never
 * raises: returns -ECANCELED and keeps the error.
 */
int l_stack_read_dumps(lua_State *L, int idx, struct pev_tasks *tasks,
		       const struct pev_record *rec);

/* Pushes { path=, pid=, start=, stop=, ... }: a frame's dso and the addresses of its map. */
void l_stack_push_sampled(lua_State *L, const struct pev_sampled *sampled);

/* Pushes a stack that was taken before. The table at idx has the fields stacks and world. */
void l_stack_push_taken(lua_State *L, int idx, const struct pev_stack *stack);

/* Returns the stack at idx, or NULL. */
const struct pev_stack *l_stack_test(lua_State *L, int idx);

/* Pushes a frame as core.stack_frames() does. */
void l_stack_push_frame(lua_State *L, const struct pev_stack *stack, uint32_t i);

/* Pushes { stacks =, world = } of the stack at idx, for l_stack_push_taken(). */
void l_stack_push_home(lua_State *L, int idx);

/* Pushes the name of the function at the record's ip, or nil. */
void l_symbol_push(lua_State *L, int idx, struct pev_tasks *tasks, const struct pev_record *rec);
