/*
 * lallocator.c - memory of a Lua state in one room; see lallocator.h.
 */
#include "lua/base/lallocator.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum {
	ROOM = 768 << 10, /* bytes: a little more than most runs load */
	ALIGN = 16        /* as malloc(3) */
};

static struct {
	char *start, *at, *end;
	lua_Alloc others;
} room;

static size_t align_size(size_t size)
{
	return (size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
}

static void *place_block(void *ud, size_t size)
{
	char *p = room.at;

	if (size > (size_t)(room.end - p))
		return room.others(ud, NULL, 0, size);
	room.at += align_size(size);
	return p;
}

/* Resizes a block in the room. */
static void *resize_block(void *ud, char *p, size_t old, size_t size)
{
	bool is_last = p + align_size(old) == room.at;
	void *bigger;

	if (size <= old || (is_last && size <= (size_t)(room.end - p))) {
		if (is_last)
			room.at = p + align_size(size);
		return size ? p : NULL;
	}
	bigger = place_block(ud, size);
	if (bigger)
		memcpy(bigger, p, old);
	return bigger;
}

/* lua_Alloc */
static void *allocate(void *ud, void *p, size_t old, size_t size)
{
	uintptr_t at = (uintptr_t)p;

	if (at >= (uintptr_t)room.start && at < (uintptr_t)room.end)
		return resize_block(ud, p, old, size);
	return p || !size ? room.others(ud, p, old, size) : place_block(ud, size);
}

static struct {
	lua_Alloc others;
	void *ud;
	size_t used, most; /* bytes */
	size_t refused;    /* size of a block: Lua may collect garbage and try again at once */
	bool has_refused;  /* it did not, or in vain */
} limited;

/* lua_Alloc; freeing and shrinking never fail */
static void *allocate_limited(void *ud, void *p, size_t old, size_t size)
{
	size_t before = p ? old : 0; /* without p, old is a type */
	void *block;

	(void)ud;
	if (limited.most && size > before &&
	    size - before > limited.most - (limited.used < limited.most ? limited.used :
					    limited.most)) {
		limited.has_refused = limited.has_refused || limited.refused;
		limited.refused = size;
		return NULL;
	}
	block = limited.others(limited.ud, p, old, size);
	if (block || !size) {
		limited.used += size - before;
		if (size > before && limited.refused) {
			limited.has_refused = limited.has_refused || size != limited.refused;
			limited.refused = 0;
		}
	}
	return block;
}

void l_allocator_limit(lua_State *L, size_t bytes)
{
	limited.most = bytes;
	if (limited.others)
		return;
	limited.used = (size_t)lua_gc(L, LUA_GCCOUNT) * 1024 + (size_t)lua_gc(L, LUA_GCCOUNTB);
	limited.others = lua_getallocf(L, &limited.ud);
	lua_setallocf(L, allocate_limited, NULL);
}

bool l_allocator_has_refused(void)
{
	return limited.has_refused || limited.refused;
}

void l_allocator_use_room(lua_State *L)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
	/* cppcheck-suppress invalidFunctionArg ; MAP_ANONYMOUS needs no descriptor */
	void *start = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, flags, -1, 0);
	void *ud;

	if (start == MAP_FAILED)
		return;
	room.start = room.at = start;
	room.end = room.start + ROOM;
	room.others = lua_getallocf(L, &ud);
	lua_setallocf(L, allocate, ud);
}
