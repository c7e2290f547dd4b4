/*
 * ljit_dump.c - the userdata perfev.core.jit_dump; see ljit_dump.h.
 */
#include "lua/symbol/ljit_dump.h"

#include <errno.h>
#include <lauxlib.h>
#include <string.h>

#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/base/lregister.h"

#define TYPENAME "perfev.core.jit_dump"

struct l_jit_dump {
	struct pev_jit_dump *dump; /* counted */
};

static struct l_jit_dump *push_empty(lua_State *L)
{
	struct l_jit_dump *self = lua_newuserdatauv(L, sizeof(*self), 0);

	self->dump = NULL;
	luaL_setmetatable(L, TYPENAME);
	return self;
}

void l_jit_dump_push_wanted(lua_State *L, struct pev_jit_dumps *dumps)
{
	struct l_jit_dump *self = push_empty(L);

	self->dump = pev_jit_dumps_next(dumps);
	if (self->dump)
		return;
	lua_pop(L, 1);
	lua_pushnil(L);
}

/* core.jit_dump(pid, path) -> an empty dump */
static int l_jit_dump(lua_State *L)
{
	int pid = (int)luaL_checkinteger(L, 1);
	size_t len;
	const char *path = luaL_checklstring(L, 2, &len);
	struct l_jit_dump *self = push_empty(L);

	self->dump = pev_jit_dump_new(NULL, pid, path, len, 0);
	return self->dump ? 1 : luaL_error(L, "no memory for a dump");
}

static struct pev_jit_dump *check_dump(lua_State *L)
{
	const struct l_jit_dump *self = luaL_checkudata(L, 1, TYPENAME);

	luaL_argcheck(L, self->dump, 1, "it is empty");
	return self->dump;
}

/* d:facts() -> pid, path, inode or nil */
static int l_facts(lua_State *L)
{
	const struct pev_jit_dump *dump = check_dump(L);
	const uint64_t ino = pev_jit_dump_ino(dump);

	lua_pushinteger(L, pev_jit_dump_pid(dump));
	lua_pushstring(L, pev_jit_dump_path(dump));
	if (ino)
		lua_pushinteger(L, (lua_Integer)ino);
	else
		lua_pushnil(L);
	return 3;
}

/* d:offset() -> the file's offset from which read() wants bytes */
static int l_offset(lua_State *L)
{
	lua_pushinteger(L, (lua_Integer)pev_jit_dump_offset(check_dump(L)));
	return 1;
}

/* d:set_known(time): read up to that time; -1: it will not grow */
static int l_set_known(lua_State *L)
{
	pev_jit_dump_set_known(check_dump(L), (uint64_t)luaL_checkinteger(L, 2));
	return 0;
}

static int push_result(lua_State *L, int rc)
{
	struct pev_err err;

	if (rc == -EFBIG)
		return l_result(L, pev_fail(&err, rc, "it has more than %u functions, or their "
						      "names more than %u MiB",
					    PEV_JIT_MAX, PEV_JIT_NAMES_MAX >> 20),
				&err);
	if (rc == -EBADMSG)
		return l_result(L, pev_fail(&err, rc, "it is damaged, or of an unknown version"),
				&err);
	return l_result(L, rc < 0 ? pev_fail(&err, rc, "no memory for its functions") : 0, &err);
}

/* d:read(bytes) -> 0 | nil, reason, errno */
static int l_read(lua_State *L)
{
	struct pev_jit_dump *dump = check_dump(L);
	size_t len;
	const char *bytes = luaL_checklstring(L, 2, &len);

	return push_result(L, pev_jit_dump_read(dump, bytes, len));
}

/* d:add(time, start, size, name) -> 0 | nil, reason, errno */
static int l_add(lua_State *L)
{
	struct pev_jit_dump *dump = check_dump(L);
	struct pev_jit_function function = {
		.time = (uint64_t)luaL_checkinteger(L, 2),
		.start = (uint64_t)luaL_checkinteger(L, 3),
	};
	const uint64_t size = (uint64_t)luaL_checkinteger(L, 4);
	size_t len;

	function.name = luaL_checklstring(L, 5, &len);
	function.len = len < PEV_JIT_NAME_MAX ? (uint32_t)len : PEV_JIT_NAME_MAX;
	function.end = function.start + size < size ? UINT64_MAX : function.start + size;
	/* Not an offset of a file; a number of its own, because frames are told apart by it. */
	function.load = 1 + (uint64_t)pev_jit_dump_loads(dump, PEV_JIT_NEWEST);
	function.load |= UINT64_C(1) << 63;
	return push_result(L, pev_jit_dump_add(dump, &function));
}

/* d:find(address) -> name, start of the newest function there, offset of its lines or nil | nil */
static int l_find(lua_State *L)
{
	struct pev_jit_function function;

	if (!pev_jit_dump_find(check_dump(L), (uint64_t)luaL_checkinteger(L, 2), PEV_JIT_NEWEST,
			       &function))
		return 0;
	lua_pushlstring(L, function.name, function.len);
	lua_pushinteger(L, (lua_Integer)function.start);
	if (!function.lines)
		return 2;
	lua_pushinteger(L, (lua_Integer)function.lines);
	return 3;
}

static int l_gc(lua_State *L)
{
	struct l_jit_dump *self = luaL_checkudata(L, 1, TYPENAME);

	pev_jit_dump_put(self->dump);
	self->dump = NULL;
	return 0;
}

static const luaL_Reg methods[] = {
	{ "facts", l_facts },
	{ "offset", l_offset },
	{ "set_known", l_set_known },
	{ "read", l_read },
	{ "add", l_add },
	{ "find", l_find },
	{ NULL, NULL },
};

void l_jit_dump_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_gc);
	lua_pushcfunction(L, l_jit_dump);
	lua_setfield(L, -2, "jit_dump");
}
