/*
 * lstack_table.c - the userdata perfev.stacks; see lstack_table.h.
 */
#include "lua/symbol/lstack_table.h"

#include <lauxlib.h>

#include "lua/base/lclass.h"

#define TYPENAME "perfev.stacks"

struct l_stacks {
	struct pev_stacks stacks;
	struct pev_unwind unwind;
	struct pev_budget budget;
	bool open;          /* when the first is asked for: most sessions take none */
	bool watched;
};

void l_stacks_push(lua_State *L)
{
	struct l_stacks *self = lua_newuserdatauv(L, sizeof(*self), L_STACKS_UV_NR);

	*self = (struct l_stacks){ .budget = { .limit = UINT64_MAX } };
	luaL_setmetatable(L, TYPENAME);
	lua_newtable(L);
	lua_createtable(L, 0, 1);
	lua_pushliteral(L, "v");
	lua_setfield(L, -2, "__mode");
	lua_setmetatable(L, -2);
	lua_setiuservalue(L, -2, L_STACKS_UV_SEEN);
}

void l_stacks_watch(lua_State *L, int idx)
{
	struct l_stacks *self = luaL_checkudata(L, idx, TYPENAME);

	self->watched = true;
}

struct pev_stacks *l_stacks_test(lua_State *L, int idx)
{
	struct l_stacks *self = luaL_checkudata(L, idx, TYPENAME);

	return self->open ? &self->stacks : NULL;
}

struct pev_stacks *l_stacks_check(lua_State *L, int idx)
{
	struct l_stacks *self = luaL_checkudata(L, idx, TYPENAME);

	if (!self->open && pev_stacks_init(&self->stacks) < 0)
		luaL_error(L, "no memory for stacks");
	self->open = true;
	self->stacks.budget = &self->budget;
	self->stacks.watched = self->watched;
	return &self->stacks;
}

struct pev_unwind *l_stacks_unwind(lua_State *L, int idx)
{
	struct l_stacks *self = luaL_checkudata(L, idx, TYPENAME);

	return &self->unwind;
}

struct pev_budget *l_stacks_budget(lua_State *L, int idx)
{
	struct l_stacks *self = luaL_checkudata(L, idx, TYPENAME);

	return &self->budget;
}

static int l_stacks_gc(lua_State *L)
{
	struct l_stacks *self = luaL_checkudata(L, 1, TYPENAME);

	pev_unwind_free(&self->unwind);
	if (self->open)
		pev_stacks_free(&self->stacks);
	self->open = false;
	return 0;
}

void l_stacks_register(lua_State *L)
{
	l_class(L, TYPENAME, NULL, l_stacks_gc);
}
