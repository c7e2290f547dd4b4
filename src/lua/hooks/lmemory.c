/*
 * lmemory.c - the userdata perfev.memory; see lmemory.h.
 *
 * Its bytes are a part of the userdata, so it needs no __gc. While the stack is full (a
 * callback recurses without end, and the error's message is made), Lua refuses to run
 * finalizers, prints a warning, and frees the object (lgc.c, GCTM). The collector also
 * sees the size of the bytes.
 */
#include "lua/hooks/lmemory.h"

#include <lauxlib.h>
#include <stdint.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "base/sys.h"
#include "lua/base/lclass.h"

#define TYPENAME "perfev.memory"
#define PAGE ((size_t)4096)

struct l_memory *l_memory_test(lua_State *L, int idx)
{
	return luaL_testudata(L, idx, TYPENAME);
}

void l_memory_push_mapped(lua_State *L, void *addr, size_t len)
{
	struct l_memory *m = lua_newuserdatauv(L, sizeof(*m), 0);

	*m = (struct l_memory){ .len = len, .bytes = addr, .mapped = true };
	luaL_setmetatable(L, TYPENAME);
}

/* Registry: pages that the kernel mapped, as weak keys, with the process that mapped them. */
static const char pages_key;

void l_memory_keep_page(lua_State *L)
{
	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &pages_key) == LUA_TNIL) {
		lua_pop(L, 1);
		lua_newtable(L);
		lua_createtable(L, 0, 1);
		lua_pushliteral(L, "k");
		lua_setfield(L, -2, "__mode");
		lua_setmetatable(L, -2);
		lua_pushvalue(L, -1);
		lua_rawsetp(L, LUA_REGISTRYINDEX, &pages_key);
	}
	lua_pushvalue(L, -2);
	lua_pushinteger(L, pev_sys_process());
	lua_rawset(L, -3);
	lua_pop(L, 1);
}

bool l_memory_allows_counter(lua_State *L, lua_Integer counter)
{
	int top = lua_gettop(L);
	bool allows = false;

	if (lua_rawgetp(L, LUA_REGISTRYINDEX, &pages_key) == LUA_TTABLE) {
		for (lua_pushnil(L); !allows && lua_next(L, top + 1); lua_pop(L, 1)) {
			const struct l_memory *memory = l_memory_test(L, -2);
			const volatile struct perf_event_mmap_page *page;

			/* Given back, or mapped by the process that forked this one. */
			if (!memory->bytes || lua_tointeger(L, -1) != pev_sys_process())
				continue;
			page = (const void *)memory->bytes;
			allows = page->cap_user_rdpmc && page->index != 0 &&
				 page->index - 1 == counter;
		}
	}
	lua_settop(L, top);
	return allows;
}

static struct l_memory *check_range(lua_State *L, size_t *off, size_t len)
{
	struct l_memory *m = luaL_checkudata(L, 1, TYPENAME);
	lua_Integer at = luaL_checkinteger(L, 2);

	luaL_argcheck(L, at >= 0 && (size_t)at <= m->len && len <= m->len - (size_t)at, 2,
		      "outside the memory");
	*off = (size_t)at;
	return m;
}

/* hooks.memory(len): zeroed bytes for a mmap hook to return; C reads them as a ring. */
static int l_memory(lua_State *L)
{
	lua_Integer len = luaL_checkinteger(L, 1);
	struct l_memory *m;
	size_t room;

	luaL_argcheck(L, len > 0 && len <= 1 << 30, 1, "1 .. 2^30 bytes");
	room = (size_t)len + PAGE - 1;
	m = lua_newuserdatauv(L, sizeof(*m) + room, 0);
	*m = (struct l_memory){ .len = (size_t)len, .bytes = (unsigned char *)(m + 1) };
	m->bytes += -(uintptr_t)m->bytes % PAGE;
	memset(m->bytes, 0, m->len);
	luaL_setmetatable(L, TYPENAME);
#ifdef __SANITIZE_ADDRESS__
	/* Make the rest of the reserved range inaccessible. */
	ASAN_POISON_MEMORY_REGION(m->bytes + m->len,
				  room - (size_t)(m->bytes - (unsigned char *)(m + 1)) - m->len);
#endif
	return 1;
}

/* m:read(offset, len) -> bytes */
static int l_memory_read(lua_State *L)
{
	lua_Integer len = luaL_checkinteger(L, 3);
	struct l_memory *m;
	size_t off;

	luaL_argcheck(L, len >= 0, 3, "negative");
	m = check_range(L, &off, (size_t)len);
	lua_pushlstring(L, (const char *)m->bytes + off, (size_t)len);
	return 1;
}

/* m:write(offset, bytes) */
static int l_memory_write(lua_State *L)
{
	size_t len, off;
	const char *bytes = luaL_checklstring(L, 3, &len);
	struct l_memory *m = check_range(L, &off, len);

	memcpy(m->bytes + off, bytes, len);
	return 0;
}

/* m:u64(offset) -> n; m:u64(offset, n) stores n after all earlier stores */
static int l_memory_u64(lua_State *L)
{
	size_t off;
	struct l_memory *m = check_range(L, &off, 8);

	luaL_argcheck(L, off % 8 == 0, 2, "not 8-aligned");
	if (lua_isnoneornil(L, 3)) {
		lua_pushinteger(L, (lua_Integer)__atomic_load_n(
					   (uint64_t *)(void *)(m->bytes + off), __ATOMIC_ACQUIRE));
		return 1;
	}
	__atomic_store_n((uint64_t *)(void *)(m->bytes + off), (uint64_t)luaL_checkinteger(L, 3),
			 __ATOMIC_RELEASE);
	return 0;
}

static const luaL_Reg methods[] = {
	{ "read", l_memory_read },
	{ "write", l_memory_write },
	{ "u64", l_memory_u64 },
	{ NULL, NULL },
};

void l_memory_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, NULL);
	lua_pushcfunction(L, l_memory);
	lua_setfield(L, -2, "memory");
}
