/*
 * lallocator.h - memory of a Lua state: faster at the start than with malloc(3), or limited.
 *
 * A start loads thousands of small blocks that are kept to the end. They are placed one after
 * another in a room that the kernel populates in one call, without a page fault for each page.
 * Freed blocks in it are not reused, except the last one. Without room malloc(3) is used.
 */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Places the state's new blocks in a room. For one state of the process.
 * Without memory for the room malloc(3) is used for everything.
 */
void l_allocator_use_room(lua_State *L);

/*
 * Limits the bytes that the state has, from now on, to these; 0: no limit. For one state of the
 * process. Beyond the limit, Lua raises "not enough memory".
 */
void l_allocator_limit(lua_State *L, size_t bytes);
/* True once an allocation failed by the limit, although Lua collected its garbage. */
bool l_allocator_has_refused(void);
