/*
 * lservice.c - the module perfev.service: workers behind pipes, messages to systemd.
 */
#include <lauxlib.h>
#include <lua.h>

#include "fleet/service.h"
#include "lua/base/lerror.h"
#include "lua/base/lset.h"

int luaopen_perfev_service(lua_State *L);

/*
 * start({ program, word, ... } [, input]) -> { pid =, out =, err = } | nil, message, errno; out and
 * err are descriptors, to be read without blocking and closed; input: a file for standard input
 */
static int l_start(lua_State *L)
{
	const char *input = luaL_optstring(L, 2, NULL);
	struct pev_worker worker;
	struct pev_err err;
	lua_Integer argc;
	char **argv;
	int rc;

	luaL_checktype(L, 1, LUA_TTABLE);
	argc = (lua_Integer)lua_rawlen(L, 1);
	luaL_argcheck(L, argc > 0, 1, "a program and its arguments expected");
	argv = lua_newuserdatauv(L, sizeof(*argv) * ((size_t)argc + 1), 0);
	for (lua_Integer i = 0; i < argc; i++) {
		if (lua_rawgeti(L, 1, i + 1) != LUA_TSTRING)
			return luaL_argerror(L, 1, "arguments are strings");
		argv[i] = (char *)lua_tostring(L, -1); /* execv() does not change it */
		lua_pop(L, 1);
	}
	argv[argc] = NULL;
	rc = pev_worker_start(&worker, argv, input, &err);
	if (rc < 0)
		return l_fail(L, rc, &err);
	lua_createtable(L, 0, 3);
	l_set_integer(L, "pid", worker.pid);
	l_set_integer(L, "out", worker.out);
	l_set_integer(L, "err", worker.err);
	return 1;
}

/* notify(text) -> true if it is sent, false without a service manager | nil, message, errno */
static int l_notify(lua_State *L)
{
	struct pev_err err;
	int rc = pev_service_notify(luaL_checkstring(L, 1), &err);

	if (rc < 0)
		return l_fail(L, rc, &err);
	lua_pushboolean(L, rc == 0);
	return 1;
}

static const luaL_Reg functions[] = {
	{ "notify", l_notify },
	{ "start", l_start },
	{ NULL, NULL },
};

__attribute__((visibility("default"))) int luaopen_perfev_service(lua_State *L)
{
	luaL_newlib(L, functions);
	return 1;
}
