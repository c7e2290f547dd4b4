/*
 * lstack_table.c - the userdata perfev.stack_table; see lstack_table.h.
 */
#include "lua/symbol/lstack_table.h"

#include <lauxlib.h>

#include "lua/base/lclass.h"
#include "lua/base/lregister.h"

#define TYPENAME "perfev.stack_table"

struct l_stack_table {
	struct pev_stacks stacks;
	struct pev_unwind unwind;
	struct pev_budget budget;
	bool open;          /* set at the first stack; most sessions take none */
	bool watched;
};

void l_stack_table_push(lua_State *L)
{
	struct l_stack_table *self = lua_newuserdatauv(L, sizeof(*self), L_STACK_TABLE_UV_NR);

	*self = (struct l_stack_table){ .budget = { .limit = UINT64_MAX } };
	luaL_setmetatable(L, TYPENAME);
	lua_newtable(L);
	lua_createtable(L, 0, 1);
	lua_pushliteral(L, "v");
	lua_setfield(L, -2, "__mode");
	lua_setmetatable(L, -2);
	lua_setiuservalue(L, -2, L_STACK_TABLE_UV_SEEN);
}

void l_stack_table_watch(lua_State *L, int idx)
{
	struct l_stack_table *self = luaL_checkudata(L, idx, TYPENAME);

	self->watched = true;
}

struct pev_stacks *l_stack_table_test(lua_State *L, int idx)
{
	struct l_stack_table *self = luaL_checkudata(L, idx, TYPENAME);

	return self->open ? &self->stacks : NULL;
}

struct pev_stacks *l_stack_table_check(lua_State *L, int idx)
{
	struct l_stack_table *self = luaL_checkudata(L, idx, TYPENAME);

	if (!self->open && pev_stacks_init(&self->stacks) < 0)
		luaL_error(L, "no memory for stacks");
	self->open = true;
	self->stacks.budget = &self->budget;
	self->stacks.watched = self->watched;
	return &self->stacks;
}

struct pev_unwind *l_stack_table_unwind(lua_State *L, int idx)
{
	struct l_stack_table *self = luaL_checkudata(L, idx, TYPENAME);

	return &self->unwind;
}

struct pev_budget *l_stack_table_budget(lua_State *L, int idx)
{
	struct l_stack_table *self = luaL_checkudata(L, idx, TYPENAME);

	return &self->budget;
}

static int l_stack_table_gc(lua_State *L)
{
	struct l_stack_table *self = luaL_checkudata(L, 1, TYPENAME);

	pev_unwind_free(&self->unwind);
	if (self->open)
		pev_stacks_free(&self->stacks);
	self->open = false;
	return 0;
}

void l_stack_table_register(lua_State *L)
{
	l_class(L, TYPENAME, NULL, l_stack_table_gc);
}
