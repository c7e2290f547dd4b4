/*
 * storm.c - a signal each millisecond in the process that loads this module.
 *
 * A Lua module, built by spec/live/storm_spec.lua. SIGALRM's handler is set without
 * SA_RESTART, so that every system call which can be interrupted is.
 */
#include <signal.h>
#include <string.h>
#include <sys/time.h>

#include <lauxlib.h>
#include <lua.h>

static volatile sig_atomic_t nr;
static struct sigaction before;

static void count_signal(int number)
{
	(void)number;
	nr++;
}

static int set_timer(long usec)
{
	const struct itimerval every = { { 0, usec }, { 0, usec } };

	return setitimer(ITIMER_REAL, &every, NULL);
}

/* begin() */
static int l_begin(lua_State *L)
{
	struct sigaction action = { .sa_handler = count_signal };

	nr = 0;
	if (sigaction(SIGALRM, &action, &before) < 0 || set_timer(1000) < 0)
		return luaL_error(L, "no storm");
	return 0;
}

/* finish() -> how many signals came */
static int l_finish(lua_State *L)
{
	set_timer(0);
	sigaction(SIGALRM, &before, NULL);
	lua_pushinteger(L, nr);
	return 1;
}

int luaopen_storm(lua_State *L)
{
	lua_newtable(L);
	lua_pushcfunction(L, l_begin);
	lua_setfield(L, -2, "begin");
	lua_pushcfunction(L, l_finish);
	lua_setfield(L, -2, "finish");
	return 1;
}
