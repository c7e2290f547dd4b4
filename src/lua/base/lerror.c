/*
 * lerror.c - see lerror.h.
 */
#include "lua/base/lerror.h"
#include "lua/base/lregister.h"
#include "lua/base/lset.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NAMES_MAX 65536 /* in the list of nearest() */

/* Registry: the pending error, or no_error(), so that the entry always exists. */
static const char pending_key;

static void *no_error(void)
{
	return (void *)(uintptr_t)&pending_key;
}

void l_keep_error(lua_State *L)
{
	/* Keep the first error: it may have caused this one. */
	lua_rawgetp(L, LUA_REGISTRYINDEX, &pending_key);
	if (lua_touserdata(L, -1) != no_error()) {
		lua_pop(L, 2);
		return;
	}
	lua_pop(L, 1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &pending_key);
}

void l_raise_pending(lua_State *L)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &pending_key);
	if (lua_touserdata(L, -1) == no_error()) {
		lua_pop(L, 1);
		return;
	}
	lua_pushlightuserdata(L, no_error());
	lua_rawsetp(L, LUA_REGISTRYINDEX, &pending_key);
	lua_error(L);
}

/* Pushes a table with the fields that err has: operation, errno, pid, cpu, bytes, cause, remedy. */
static int push_fields(lua_State *L, const struct pev_err *err)
{
	static const char *const operations[] = {
		[PEV_OP_OPEN] = "open event", [PEV_OP_MAP_RING] = "map ring",
		[PEV_OP_MAP_AUX] = "map AUX area", [PEV_OP_WATCH] = "watch descriptor",
	};

	if (err->operation == PEV_OP_OTHER && !err->remedy)
		return 0;
	lua_newtable(L);
	if (err->remedy) {
		lua_pushlstring(L, err->text, err->remedy - 2); /* "; " */
		lua_setfield(L, -2, "cause");
		l_set_string(L, "remedy", err->text + err->remedy);
	}
	if (err->operation == PEV_OP_OTHER)
		return 1;
	l_set_string(L, "operation", operations[err->operation]);
	l_set_integer(L, "errno", -err->code);
	l_set_integer(L, "pid", err->pid);
	l_set_integer(L, "cpu", err->cpu);
	l_set_u64(L, "bytes", err->bytes);
	return 1;
}

int l_result(lua_State *L, long long rc, const struct pev_err *err)
{
	l_raise_pending(L);
	if (rc >= 0) {
		lua_pushinteger(L, rc);
		return 1;
	}
	lua_pushnil(L);
	lua_pushstring(L, err && err->text[0] ? err->text : pev_errno_name((int)rc));
	lua_pushinteger(L, -rc);
	return 3 + (err ? push_fields(L, err) : 0);
}

static const char traceback_key; /* registry key: traceback of the last error object */

int l_traceback(lua_State *L)
{
	bool is_string = lua_type(L, 1) == LUA_TSTRING;
	const char *text = is_string ? lua_tostring(L, 1) : NULL;

	/* nil and false would read as "no error" wherever the object goes. */
	if (!is_string && !lua_toboolean(L, 1))
		text = lua_pushfstring(L, "(error object is a %s value)", luaL_typename(L, 1));
	luaL_traceback(L, L, text, 1);
	if (text)
		return 1;
	lua_rawsetp(L, LUA_REGISTRYINDEX, &traceback_key);
	lua_settop(L, 1);
	return 1;
}

/* take_traceback() -> traceback of the last error object; nil at the second call */
static int l_take_traceback(lua_State *L)
{
	lua_rawgetp(L, LUA_REGISTRYINDEX, &traceback_key);
	lua_pushnil(L);
	lua_rawsetp(L, LUA_REGISTRYINDEX, &traceback_key);
	return 1;
}

/* (handlers, err): handlers.note(message, fields) */
static int l_call_note(lua_State *L)
{
	const struct pev_err *what = lua_touserdata(L, 2);

	if (lua_getfield(L, 1, "note") != LUA_TFUNCTION)
		return 0;
	lua_pushstring(L, what->text);
	lua_call(L, 1 + push_fields(L, what), 0);
	return 0;
}

void l_note(lua_State *L, int idx, int uv, const struct pev_err *what)
{
	if (!lua_checkstack(L, 4))
		return;
	idx = lua_absindex(L, idx);
	/* Protected: pushing the string can raise, which must not unwind the core's C frames. */
	lua_pushcfunction(L, l_call_note);
	lua_getiuservalue(L, idx, uv);
	lua_pushlightuserdata(L, (void *)(uintptr_t)what);
	if (lua_pcall(L, 2, 0, 0) != LUA_OK)
		lua_pop(L, 1);
}

/*
 * protect(f, ...) -> true, results... | false, error. As xpcall, but a
 * callback cannot yield through it, because the session could not continue.
 */
static int l_protect(lua_State *L)
{
	bool ok;

	luaL_checkany(L, 1);
	lua_pushcfunction(L, l_traceback);
	lua_insert(L, 1);
	ok = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 1) == LUA_OK;
	lua_pushboolean(L, ok);
	lua_replace(L, 1);
	return lua_gettop(L);
}

/* nearest(word, names) -> the name that is nearest to word, or nil */
static int l_nearest(lua_State *L)
{
	const char *word = luaL_checkstring(L, 1), *near;
	const char **names;
	size_t nr;

	luaL_checktype(L, 2, LUA_TTABLE);
	nr = lua_rawlen(L, 2);
	luaL_argcheck(L, nr <= NAMES_MAX, 2, "too many names");
	names = lua_newuserdatauv(L, sizeof(*names) * (nr + 1), 0);
	for (size_t i = 0; i < nr; i++) {
		/* The table keeps the string. Other types are refused, not converted. */
		if (lua_rawgeti(L, 2, (lua_Integer)i + 1) != LUA_TSTRING)
			return luaL_argerror(L, 2, "a list of names expected");
		names[i] = lua_tostring(L, -1);
		lua_pop(L, 1);
	}
	near = pev_nearest(word, names, nr);
	if (near)
		lua_pushstring(L, near);
	else
		lua_pushnil(L);
	return 1;
}

/* core.errno: both ways, errno.EACCES = 13 and errno[13] = "EACCES". */
static void push_errno(lua_State *L)
{
	lua_newtable(L);
	for (int code = 1; code < 134; code++) {
		const char *name = pev_errno_name(code);

		if (name[1] == '?')
			continue;
		l_set_integer(L, name, code);
		lua_pushstring(L, name);
		lua_rawseti(L, -2, code);
	}
}

/* core.strerror(errno) -> the C library's message */
static int l_strerror(lua_State *L)
{
	lua_pushstring(L, strerror((int)luaL_checkinteger(L, 1)));
	return 1;
}

static const luaL_Reg functions[] = {
	{ "nearest", l_nearest },
	{ "protect", l_protect },
	{ "take_traceback", l_take_traceback },
	{ "strerror", l_strerror },
	{ NULL, NULL },
};

void l_error_register(lua_State *L)
{
	lua_pushlightuserdata(L, no_error());
	lua_rawsetp(L, LUA_REGISTRYINDEX, &pending_key);
	luaL_setfuncs(L, functions, 0);
	push_errno(L);
	lua_setfield(L, -2, "errno");
}
