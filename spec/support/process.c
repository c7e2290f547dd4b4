/*
 * process.c - a Lua module with functions for processes that stock Lua lacks.
 *
 * fork() and wait(pid) as luaposix has them, poll(fd, ms) as another event loop would do it,
 * revents(fd), and state(code): another lua_State in this process. Built by process.lua.
 */
#include <lauxlib.h>
#include <lualib.h>
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int luaopen_process(lua_State *L);

/* fork() -> pid, or 0 in the child */
static int l_fork(lua_State *L)
{
	fflush(NULL);
	lua_pushinteger(L, fork());
	return 1;
}

/* wait(pid) -> exit status, or minus the signal that ended it */
static int l_wait(lua_State *L)
{
	int status = 0;

	if (waitpid((pid_t)luaL_checkinteger(L, 1), &status, 0) < 0)
		return luaL_error(L, "no such child");
	lua_pushinteger(L, WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
	return 1;
}

/* poll(fd, ms) -> true when it is readable */
static int l_poll(lua_State *L)
{
	struct pollfd fd = { .fd = (int)luaL_checkinteger(L, 1), .events = POLLIN };

	lua_pushboolean(L, poll(&fd, 1, (int)luaL_checkinteger(L, 2)) == 1);
	return 1;
}

/* revents(fd) -> the events of poll(2) now: POLLIN and the like, or 0 */
static int l_revents(lua_State *L)
{
	struct pollfd fd = { .fd = (int)luaL_checkinteger(L, 1), .events = POLLIN };

	poll(&fd, 1, 0);
	lua_pushinteger(L, fd.revents);
	return 1;
}

/* state(code, n) -> the code's result as a string; runs in another lua_State with this module */
static int l_state(lua_State *L)
{
	const char *code = luaL_checkstring(L, 1);
	lua_State *other = luaL_newstate();

	luaL_openlibs(other);
	luaL_requiref(other, "process", luaopen_process, 1);
	lua_getglobal(L, "package");
	for (int i = 0; i < 2; i++) {
		static const char *const paths[] = { "path", "cpath" };

		lua_getfield(L, -1, paths[i]);
		lua_getglobal(other, "package");
		lua_pushstring(other, lua_tostring(L, -1));
		lua_setfield(other, -2, paths[i]);
		lua_pop(L, 1);
	}
	lua_settop(other, 0);
	if (luaL_loadstring(other, code) == LUA_OK) {
		lua_pushinteger(other, luaL_optinteger(L, 2, 0));
		lua_pcall(other, 1, 1, 0);
	}
	lua_pushstring(L, luaL_tolstring(other, -1, NULL));
	lua_close(other);
	return 1;
}

int luaopen_process(lua_State *L)
{
	static const luaL_Reg functions[] = {
		{ "fork", l_fork },
		{ "wait", l_wait },
		{ "poll", l_poll },
		{ "revents", l_revents },
		{ "state", l_state },
		{ NULL, NULL },
	};

	luaL_newlib(L, functions);
	return 1;
}
