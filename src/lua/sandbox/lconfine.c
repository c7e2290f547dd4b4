/*
 * lconfine.c - giving up rights for good, for Lua: the guard, Landlock, capabilities.
 */
#define _GNU_SOURCE /* O_PATH */
#include <fcntl.h>
#include <lauxlib.h>
#include <stdint.h>

#include "lua/base/lerror.h"
#include "lua/base/lregister.h"
#include "lua/hooks/lhooks.h"
#include "sandbox/guard.h"
#include "sandbox/landlock.h"

enum { MAX_PATHS = 128 };

#ifdef __SANITIZE_ADDRESS__
static int is_confined;

/* LeakSanitizer, which starts a process that traces this one, asks at the end. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return is_confined;
}
#define TURN_LEAK_CHECK_OFF() (is_confined = 1)
#else
#define TURN_LEAK_CHECK_OFF() ((void)0)
#endif

/* guard_start(): calls to the outside are limited from here on */
static int l_guard_start(lua_State *L)
{
	(void)L;
	pev_guard_start();
	return 0;
}

/* guard_allow_file(path) */
static int l_guard_allow_file(lua_State *L)
{
	return l_result(L, pev_guard_allow_file(luaL_checkstring(L, 1)), NULL);
}

/* guard_allow_command(words) */
static int l_guard_allow_command(lua_State *L)
{
	lua_Integer nr = luaL_len(L, 1);
	const char **words = lua_newuserdatauv(L, sizeof(*words) * ((size_t)nr + 1), 0);

	for (lua_Integer i = 0; i < nr; i++) {
		lua_geti(L, 1, i + 1);
		words[i] = luaL_checkstring(L, -1); /* the table keeps it */
		lua_pop(L, 1);
	}
	words[nr] = NULL;
	return l_result(L, pev_guard_allow_command((char *const *)(uintptr_t)words), NULL);
}

/* guard_command() -> pid of the started command | nil */
static int l_guard_command(lua_State *L)
{
	if (!pev_guard_command())
		return 0;
	lua_pushinteger(L, pev_guard_command());
	return 1;
}

/* guard_keep_open(path) */
static int l_guard_keep_open(lua_State *L)
{
	pev_guard_keep_open(luaL_checkstring(L, 1));
	return 0;
}

/* guard_refuse_events(): none is opened from here on */
static int l_guard_refuse_events(lua_State *L)
{
	(void)L;
	pev_guard_refuse_events();
	return 0;
}

/*
 * landlock(paths, signals) -> ABI | nil, message, errno: from now on, this process only reads
 * these files and what is below these directories. Paths that do not exist are skipped.
 */
static int l_landlock(lua_State *L)
{
	const struct pev_sys *sys;
	int fds[MAX_PATHS], nr = 0, rc;
	struct pev_err err;

	luaL_checktype(L, 1, LUA_TTABLE);
	TURN_LEAK_CHECK_OFF();
	for (lua_Integer i = 1; nr < MAX_PATHS && lua_geti(L, 1, i) == LUA_TSTRING; i++) {
		fds[nr] = pev_sys_real->open(pev_sys_real->ctx, lua_tostring(L, -1), O_PATH);
		nr += fds[nr] >= 0;
		lua_pop(L, 1);
	}
	sys = l_hooks_push(L);
	rc = pev_landlock_restrict(sys, fds, nr, lua_toboolean(L, 2), &err);
	while (nr)
		pev_sys_real->close(pev_sys_real->ctx, fds[--nr]);
	return l_result(L, rc, &err);
}

/* landlock_abi() -> version | nil, what, errno */
static int l_landlock_abi(lua_State *L)
{
	const struct pev_sys *sys = l_hooks_push(L);

	return l_result(L, sys->landlock_abi(sys->ctx), NULL);
}

/* no_new_privs() -> 0 | nil, what, errno */
static int l_no_new_privs(lua_State *L)
{
	const struct pev_sys *sys = l_hooks_push(L);

	return l_result(L, sys->no_new_privs(sys->ctx), NULL);
}

/* drop_rights() -> 0 | nil, what, errno: all capabilities */
static int l_drop_rights(lua_State *L)
{
	const struct pev_sys *sys = l_hooks_push(L);

	return l_result(L, sys->drop_rights(sys->ctx), NULL);
}

static const luaL_Reg functions[] = {
	{ "drop_rights", l_drop_rights },
	{ "guard_allow_command", l_guard_allow_command },
	{ "guard_allow_file", l_guard_allow_file },
	{ "guard_command", l_guard_command },
	{ "guard_keep_open", l_guard_keep_open },
	{ "guard_refuse_events", l_guard_refuse_events },
	{ "guard_start", l_guard_start },
	{ "landlock", l_landlock },
	{ "landlock_abi", l_landlock_abi },
	{ "no_new_privs", l_no_new_privs },
	{ NULL, NULL },
};

void l_confine_register(lua_State *L)
{
	luaL_setfuncs(L, functions, 0);
}
