/*
 * lblock.c - the userdata perfev.block; see lblock.h.
 */
#include "lua/base/lblock.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "lua/base/lclass.h"
#include "lua/base/lregister.h"

#define TYPENAME "perfev.block"

void **l_block_push(lua_State *L)
{
	void **block = lua_newuserdatauv(L, sizeof(*block), 0);

	*block = NULL;
	luaL_setmetatable(L, TYPENAME);
	return block;
}

void l_block_free(void **block)
{
	free(*block);
	*block = NULL;
}

static int l_block_gc(lua_State *L)
{
	l_block_free(luaL_checkudata(L, 1, TYPENAME));
	return 0;
}

void l_block_register(lua_State *L)
{
	l_class(L, TYPENAME, NULL, l_block_gc);
}
