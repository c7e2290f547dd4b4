/*
 * lmemory.h - bytes that Lua and C share: the answer of a mmap hook.
 */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stddef.h>

struct l_memory {
	size_t len;
	unsigned char *bytes; /* page-aligned; behind this struct unless mapped */
	bool mapped;          /* by the kernel, for munmap to give back */
};

/* The memory at idx, or NULL when it is something else. */
struct l_memory *l_memory_test(lua_State *L, int idx);

/* Push a memory that the kernel mapped: munmap frees its bytes, not the collector. */
void l_memory_push_mapped(lua_State *L, void *addr, size_t len);

/* Remember the memory on top of the stack as an event's page that the kernel mapped. */
void l_memory_keep_page(lua_State *L);

/* True if the page of an event on this counter lets user space read it now (Linux 4.11). */
bool l_memory_allows_counter(lua_State *L, lua_Integer counter);

/* Add memory to the table on top of the stack. */
void l_memory_register(lua_State *L);
