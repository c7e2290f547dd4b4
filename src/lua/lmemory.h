/*
 * lmemory.h - bytes that Lua and C both see: what a mmap hook gives for a ring.
 */
#ifndef PEV_LMEMORY_H
#define PEV_LMEMORY_H

#include <lua.h>
#include <stddef.h>

struct l_memory {
	size_t len;
	unsigned char *bytes; /* page-aligned, owned */
};

/* The memory at idx, or NULL when it is something else. */
struct l_memory *l_memory_test(lua_State *L, int idx);

/* Add memory to the table on top of the stack. */
void l_memory_register(lua_State *L);

#endif
