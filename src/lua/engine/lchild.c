/*
 * lchild.c - the userdata perfev.core.child: a command that starts when it is released.
 *
 * Collected or closed while it runs, it is killed and reaped.
 */
#include <lauxlib.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "event/child.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/base/lregister.h"
#include "lua/hooks/lhooks.h"

#define TYPENAME "perfev.core.child"

static struct pev_child *check_child(lua_State *L)
{
	struct pev_child *child = luaL_checkudata(L, 1, TYPENAME);

	if (child->sys)
		l_hooks_enter(L, child->sys);
	return child;
}

static struct pev_child *check_open(lua_State *L)
{
	struct pev_child *child = check_child(L);

	if (!child->sys)
		luaL_error(L, "the command is closed");
	if (!pev_child_is_ours(child))
		luaL_error(L, "the command is the parent's: this process was forked since");
	return child;
}

/* spawn({argv...}, unblock) -> child | nil, message, errno; unblock: bit n-1 for signal n */
static int l_spawn(lua_State *L)
{
	uint64_t unblock = (uint64_t)luaL_optinteger(L, 2, 0);
	const struct pev_sys *sys;
	struct pev_child *child;
	struct pev_err err;
	lua_Integer argc;
	char **argv;
	int rc;

	luaL_checktype(L, 1, LUA_TTABLE);
	argc = (lua_Integer)lua_rawlen(L, 1);
	luaL_argcheck(L, argc > 0, 1, "a command and its arguments expected");
	argv = lua_newuserdatauv(L, sizeof(*argv) * ((size_t)argc + 1), 0);
	for (lua_Integer i = 0; i < argc; i++) {
		if (lua_rawgeti(L, 1, i + 1) != LUA_TSTRING)
			return luaL_argerror(L, 1, "arguments are strings");
		argv[i] = (char *)lua_tostring(L, -1); /* execvp() does not change it */
		lua_pop(L, 1);
	}
	argv[argc] = NULL;
	child = lua_newuserdatauv(L, sizeof(*child), 1);
	*child = (struct pev_child){ .gate = -1, .pidfd = -1 };
	luaL_setmetatable(L, TYPENAME);
	sys = l_hooks_push(L);
	lua_setiuservalue(L, -2, 1);
	rc = pev_child_spawn(child, sys, argv, unblock, &err);
	if (rc < 0)
		return l_result(L, rc, &err);
	return 1;
}

/*
 * c:release(stop) -> 0 | nil, message, errno of the
 * exec; stop: stopped after the exec until resume()
 */
static int l_child_release(lua_State *L)
{
	struct pev_child *child = check_open(L);
	struct pev_err err;

	return l_result(L, pev_child_release(child, lua_toboolean(L, 2), &err), &err);
}

/* c:resume() -> 0 | nil, message, errno */
static int l_child_resume(lua_State *L)
{
	struct pev_child *child = check_open(L);
	struct pev_err err;

	return l_result(L, pev_child_resume(child, &err), &err);
}

/* c:reap(block) -> {exit =} or {signal =} when it has ended, {} if its status is lost, else nil */
static int l_child_reap(lua_State *L)
{
	struct pev_child *child = check_open(L);

	if (!pev_child_reap(child, lua_toboolean(L, 2)))
		return 0;
	lua_createtable(L, 0, 1);
	if (child->taken)
		return 1;
	lua_pushinteger(L, WIFSIGNALED(child->status) ? WTERMSIG(child->status) :
			WEXITSTATUS(child->status));
	lua_setfield(L, -2, WIFSIGNALED(child->status) ? "signal" : "exit");
	return 1;
}

/* c:kill(signal) -> 0 | nil, message, errno */
static int l_child_kill(lua_State *L)
{
	struct pev_child *child = check_open(L);

	return l_result(L, pev_child_kill(child, (int)luaL_checkinteger(L, 2)), NULL);
}

static int l_child_pid(lua_State *L)
{
	lua_pushinteger(L, check_open(L)->pid);
	return 1;
}

/* c:pidfd() -> a descriptor that is readable when it has ended, or nil before Linux 5.3 */
static int l_child_pidfd(lua_State *L)
{
	struct pev_child *child = check_open(L);

	if (child->pidfd < 0)
		return 0;
	lua_pushinteger(L, child->pidfd);
	return 1;
}

static int l_child_close(lua_State *L)
{
	pev_child_close(check_child(L));
	return 0;
}

static const luaL_Reg methods[] = {
	{ "release", l_child_release },
	{ "resume", l_child_resume },
	{ "reap", l_child_reap },
	{ "kill", l_child_kill },
	{ "pid", l_child_pid },
	{ "pidfd", l_child_pidfd },
	{ "close", l_child_close },
	{ "__close", l_child_close },
	{ NULL, NULL },
};

void l_child_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_child_close);
	lua_pushcfunction(L, l_spawn);
	lua_setfield(L, -2, "spawn");
}
