/*
 * lblock.h - blocks of malloc() that Lua frees, for functions that may raise while they use one.
 */
#pragma once

#include <lua.h>

/*
 * Pushes a userdata that frees a block when it is collected. Returns where to store the
 * block's address, which is NULL at first.
 */
void **l_block_push(lua_State *L);

/* Frees the block now. */
void l_block_free(void **block);
