/*
 * lsyscall_mapping.c - mmap and munmap in Lua; see lsyscall.h.
 *
 * A mmap hook returns a memory, whose bytes the core then reads as it reads a ring.
 */
#include <lauxlib.h>
#include <sys/mman.h>

#include "lua/hooks/lmemory.h"
#include "lua/hooks/lsyscall.h"

/* ---- parameters ---- */

/* The memory lies below the hook: see run_munmap(). */
static void push_mapped(lua_State *L, void *args, int i)
{
	(void)args;
	(void)i;
	lua_pushvalue(L, -2);
}

static void set_mapped(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	const struct l_memory *memory = l_memory_test(L, idx);

	(void)room;
	luaL_argcheck(L, memory && memory->mapped, idx, "not a mapping from hooks.real.mmap");
	L_SYS_ARG(void *, args, i) = memory->bytes;
	L_SYS_ARG(size_t, args, i + 1) = memory->len;
}

const struct l_sys_kind l_sys_kind_mapped = { push_mapped, set_mapped, NULL };

/* Pushes the memory: all that can raise comes before the mapping that would stay. */
static void set_mapping(lua_State *L, int idx, void *args, int i, struct l_sys_room *room)
{
	(void)idx;
	l_memory_push_mapped(L, NULL, 0);
	/* (length, prot, fd, offset, memory) */
	if (L_SYS_ARG(int, args, 1) & PROT_READ && L_SYS_ARG(uint64_t, args, 3) == 0)
		l_memory_keep_page(L);
	room->map_len = L_SYS_ARG(size_t, args, 0);
	L_SYS_ARG(void **, args, i) = &room->addr;
}

const struct l_sys_kind l_sys_kind_mapping = { NULL, set_mapping, NULL };

/* ---- answers ---- */

/*
 * Reserve a place in the list of mapped memory, which keeps a memory alive until munmap,
 * whatever the script keeps. Before the hook is asked: the list may need memory to grow.
 */
static lua_Integer reserve_place(struct l_hooks *h)
{
	lua_State *L = h->L;
	lua_Integer i = 1, nr;
	bool is_free = false;

	lua_rawgeti(L, LUA_REGISTRYINDEX, h->memory);
	nr = (lua_Integer)lua_rawlen(L, -1);
	for (; i <= nr && !is_free; i += !is_free) {
		lua_rawgeti(L, -1, i);
		is_free = lua_isboolean(L, -1) && !lua_toboolean(L, -1);
		lua_pop(L, 1);
	}
	lua_pushboolean(L, 1);
	lua_rawseti(L, -2, i);
	lua_pop(L, 1);
	return i;
}

/* Pop the value on top into that place; false frees it. */
static void fill_place(struct l_hooks *h, lua_Integer place)
{
	lua_rawgeti(h->L, LUA_REGISTRYINDEX, h->memory);
	lua_insert(h->L, -2);
	lua_rawseti(h->L, -2, place);
	lua_pop(h->L, 1);
}

/* Push the memory at that address that a mmap hook returned, and return its place; or 0. */
static lua_Integer push_memory_at(struct l_hooks *h, const void *addr)
{
	lua_State *L = h->L;
	lua_Integer nr;

	lua_rawgeti(L, LUA_REGISTRYINDEX, h->memory);
	nr = (lua_Integer)lua_rawlen(L, -1);
	for (lua_Integer i = 1; i <= nr; i++) {
		const struct l_memory *memory;

		lua_rawgeti(L, -1, i);
		memory = l_memory_test(L, -1);
		if (memory && memory->bytes == addr) {
			lua_remove(L, -2);
			return i;
		}
		lua_pop(L, 1);
	}
	lua_pop(L, 1);
	return 0;
}

/* A memory of at least the length that was asked for: (length, prot, fd, offset, memory). */
static int64_t ask_mapped(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	lua_Integer place = reserve_place(h);
	int64_t rc = l_sys_ask_hook(h, call, args);
	struct l_memory *memory;

	if (rc == 0) {
		lua_pop(h->L, 1);
		memory = l_memory_test(h->L, -1);
		if (memory && memory->len >= L_SYS_ARG(size_t, args, 0)) {
			*L_SYS_ARG(void **, args, 4) = memory->bytes;
			fill_place(h, place);
			return 0;
		}
		lua_pushnil(h->L);
		rc = l_sys_bad_answer(h, call, "a memory of that length");
	}
	lua_pushboolean(h->L, 0);
	fill_place(h, place);
	return rc;
}

/* The memory is on top of the stack. */
static int give_mapped(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	struct l_memory *memory = l_memory_test(L, -1);

	(void)rc;
	memory->bytes = room->addr;
	memory->len = room->map_len;
	return 1;
}

const struct l_sys_answer l_sys_answer_mapped = { .ask = ask_mapped, .give = give_mapped };

/* A hook unmaps only mappings that a hook made: (memory, length). */
static int64_t run_munmap(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	lua_Integer place = push_memory_at(h, L_SYS_ARG(void *, args, 0));
	struct l_memory *memory;
	int64_t rc = 0;

	if (!place)
		return call->invoke(h->under, args);
	memory = l_memory_test(h->L, -1);
	if (l_sys_push_hook(h, call->name) == L_SYS_HOOK) {
		rc = l_sys_answer_number.ask(h, call, args);
	} else if (memory->mapped) {
		/* The mmap hook delegated to hooks.real, and there is no munmap hook. */
		rc = call->invoke(h->under, args);
		*memory = (struct l_memory){ 0 };
	}
	lua_pushboolean(h->L, 0);
	fill_place(h, place);
	lua_pop(h->L, 1);
	return rc;
}

static int give_unmapped(lua_State *L, struct l_sys_room *room, int64_t rc)
{
	struct l_memory *memory = l_memory_test(L, 1);

	memory->bytes = NULL;
	memory->len = 0;
	return l_sys_answer_number.give(L, room, rc);
}

const struct l_sys_answer l_sys_answer_unmapped = { .give = give_unmapped, .run = run_munmap };
