/*
 * lallocator.h - memory of a Lua state that starts faster than with malloc(3).
 *
 * A start loads thousands of small blocks that are kept to the end. They are placed one after
 * another in a room that the kernel populates in one call, without a page fault for each page.
 * Freed blocks in it are not reused, except the last one. Without room malloc(3) is used.
 */
#pragma once

#include <lua.h>

/*
 * Places the state's new blocks in a room. For one state of the process.
 * Without memory for the room malloc(3) is used for everything.
 */
void l_allocator_use_room(lua_State *L);
