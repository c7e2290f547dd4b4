/*
 * lstack.h - r.stack: a call chain as a value of Lua's; and r.symbol.
 */
#ifndef PEV_LSTACK_H
#define PEV_LSTACK_H

#include <lua.h>

#include "../record.h"
#include "../task.h"

/* Make the metatables, and add stack_class, stack_frames and map_at to the table on top. */
void l_stack_register(lua_State *L);

/*
 * Push the record's stack, or nil for one without a callchain. The same stack is the same
 * userdata. The context table is at idx; its field world, if it has one, says what a
 * recording's addresses are looked up in.
 */
void l_stack_push(lua_State *L, int idx, struct pev_tasks *tasks, const struct pev_record *rec);

/* Push the name of the function at the record's ip, or nil. */
void l_symbol_push(lua_State *L, int idx, struct pev_tasks *tasks, const struct pev_record *rec);

#endif
