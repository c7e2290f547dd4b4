/*
 * lblock.h - blocks of C's that Lua frees, for calls that fill one and may raise then.
 */
#ifndef PEV_LBLOCK_H
#define PEV_LBLOCK_H

#include <lua.h>

/*
 * Push what frees a block of malloc's whatever is raised meanwhile, and whose it is
 * from then on: where the block's address belongs. Nothing is there as yet.
 */
void **l_block_push(lua_State *L);

/* Free it at once. */
void l_block_free(void **block);

/* Make the type known to this state. */
void l_block_register(lua_State *L);

#endif
