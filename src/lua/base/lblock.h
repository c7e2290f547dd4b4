/*
 * lblock.h - blocks of malloc() that Lua frees, for functions that may raise while they use one.
 */
#ifndef PEV_LBLOCK_H
#define PEV_LBLOCK_H

#include <lua.h>

/*
 * Pushes a userdata that frees a block when it is collected. Returns where to store the
 * block's address, which is NULL at first.
 */
void **l_block_push(lua_State *L);

/* Frees the block now. */
void l_block_free(void **block);

/* Makes the metatable. */
void l_block_register(lua_State *L);

#endif
