/*
 * llimit.c - limits of the CPU time and the memory of Lua code; see llimit.h.
 */
#define _GNU_SOURCE
#include "lua/base/llimit.h"

#include <errno.h>
#include <lauxlib.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lua/base/lregister.h"

enum {
	TICKS = 4,         /* of the timer, in one limit */
	HOOK_EVERY = 1000, /* Lua instructions between two errors */
	FIRST_HOOK = 100,  /* until the code that runs is looked at */
	EXIT_LIMIT = 124,  /* as timeout(1) */
};

volatile sig_atomic_t l_limit_scale;
volatile unsigned l_limit_calls;

/* One per process, like its signals. */
static struct {
	lua_State *volatile running; /* the coroutine whose code runs, or the main thread */
	volatile unsigned calls;     /* l_limit_calls at the last tick */
	volatile int ticks;          /* since the call began */
	int inner_ticks;             /* in a script's code that perfev's own called, since then */
	volatile sig_atomic_t looked;   /* look_at_code() has counted this tick */
	volatile sig_atomic_t exceeded;
	volatile unsigned first;     /* the call that exceeded it first */
	char text[2][160];           /* of the error, also of a longer limit */
} limit;

static bool is_beyond_limit(int times)
{
	int scale = l_limit_scale;

	return scale && limit.calls == l_limit_calls && limit.ticks > times * TICKS * scale;
}

static void raise_limit(lua_State *L, lua_Debug *ar)
{
	(void)ar;
	if (!is_beyond_limit(1)) {
		lua_sethook(L, NULL, 0, 0);
		return;
	}
	luaL_where(L, 0);
	lua_pushstring(L, limit.text[l_limit_scale > 1]);
	lua_concat(L, 2);
	lua_error(L);
}

/* In a signal handler: nothing is flushed, no finalizer runs. */
static void end_process(void)
{
	static const char lead[] = "perfl: ", rest[] = ", and does not stop\n";
	const char *text = limit.text[l_limit_scale != L_LIMIT_CALLBACK];

	if (write(STDERR_FILENO, lead, sizeof(lead) - 1) < 0 ||
	    write(STDERR_FILENO, text, strlen(text)) < 0 ||
	    write(STDERR_FILENO, rest, sizeof(rest) - 1) < 0)
		_exit(EXIT_LIMIT);
	_exit(EXIT_LIMIT);
}

/*
 * True if the innermost Lua function is a script's. Its name says so: perfev's files are
 * lua/perfev/... and lua/perfl/..., which perfl.sandbox.environment takes from scripts.
 */
static bool runs_script(lua_State *L)
{
	static const char own[] = "lua/perf";
	lua_Debug ar;

	for (int level = 0; lua_getstack(L, level, &ar); level++) {
		lua_getinfo(L, "S", &ar);
		if (*ar.what != 'C')
			return strncmp(ar.source + 1, own, sizeof(own) - 1) != 0;
	}
	return false;
}

/*
 * While perfev's own code runs, a script's runs only if perfev calls a method or metamethod that
 * the script put into an object. It has the longer limit, too.
 */
static void look_at_code(lua_State *L, lua_Debug *ar)
{
	(void)ar;
	if (l_limit_scale || !runs_script(L)) {
		lua_sethook(L, NULL, 0, 0);
		return;
	}
	if (!limit.looked)
		limit.inner_ticks++;
	limit.looked = 1;
	if (limit.inner_ticks <= L_LIMIT_LONG * TICKS) {
		lua_sethook(L, NULL, 0, 0);
		return;
	}
	limit.exceeded = 1;
	if (limit.inner_ticks > 2 * L_LIMIT_LONG * TICKS)
		end_process();
	lua_sethook(L, look_at_code, LUA_MASKCOUNT, HOOK_EVERY);
	luaL_where(L, 0);
	lua_pushstring(L, limit.text[1]);
	lua_concat(L, 2);
	lua_error(L);
}

static void count_tick(int number)
{
	(void)number;
	if (limit.calls != l_limit_calls) {
		limit.calls = l_limit_calls;
		limit.ticks = 0;
		limit.inner_ticks = 0;
	}
	limit.ticks++;
	if (!l_limit_scale) {
		limit.looked = 0;
		lua_sethook(limit.running, look_at_code, LUA_MASKCOUNT, FIRST_HOOK);
		return;
	}
	if (!is_beyond_limit(1))
		return;
	/* The first call gets an error and ends the run; another one shows that it went on. */
	if (is_beyond_limit(2) || (limit.exceeded && limit.first != limit.calls))
		end_process();
	limit.exceeded = 1;
	limit.first = limit.calls;
	/* A signal handler may set a hook (lua.c, laction()). */
	lua_sethook(limit.running, raise_limit, LUA_MASKCOUNT, HOOK_EVERY);
}

static int start_timer(lua_Integer ns)
{
	struct sigaction action = { .sa_handler = count_tick, .sa_flags = SA_RESTART };
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMAX };
	struct itimerspec every = { .it_interval = { .tv_sec = ns / TICKS / 1000000000,
						     .tv_nsec = ns / TICKS % 1000000000 } };
	timer_t timer;

	every.it_value = every.it_interval;
	event._sigev_un._tid = (int)syscall(SYS_gettid);
	sigaction(SIGRTMAX, &action, NULL);
	if (timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) < 0 ||
	    timer_settime(timer, 0, &every, NULL) < 0)
		return -errno;
	return 0;
}

/*
 * limit_time(ns, text, long_text) -> true | nil, message, errno: starts the limit of this thread.
 * The error is "FILE:LINE: text".
 */
static int l_limit_time(lua_State *L)
{
	lua_Integer ns = luaL_checkinteger(L, 1);
	int rc;

	luaL_argcheck(L, ns >= TICKS, 1, "not a time");
	for (int i = 0; i < 2; i++)
		snprintf(limit.text[i], sizeof(limit.text[i]), "%s", luaL_checkstring(L, i + 2));
	lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
	limit.running = lua_tothread(L, -1);
	rc = start_timer(ns);
	errno = -rc;
	return luaL_fileresult(L, rc == 0, "the timer of the time limit");
}

/* limit_enter(scale) -> the scale before; 0: no limit */
static int l_enter(lua_State *L)
{
	lua_pushinteger(L, l_limit_enter((int)luaL_checkinteger(L, 1)));
	return 1;
}

/* limit_leave(scale) */
static int l_leave(lua_State *L)
{
	l_limit_leave((int)luaL_checkinteger(L, 1));
	return 0;
}

/* limit_exceeded() -> true once a call took too long */
static int l_limit_exceeded(lua_State *L)
{
	lua_pushboolean(L, limit.exceeded != 0);
	return 1;
}

/* unlimited(f, ...) -> its results: work of perfev that a script's function may need once */
static int l_unlimited(lua_State *L)
{
	int before = l_limit_enter(0);
	int rc = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);

	l_limit_leave(before);
	return rc == LUA_OK ? lua_gettop(L) : lua_error(L);
}

/*
 * limit_coroutine(f, co, ...) -> the results of f(co, ...): coroutine.resume or coroutine.close,
 * whose code is limited like its caller's.
 */
static int l_limit_coroutine(lua_State *L)
{
	lua_State *before = limit.running;
	int rc;

	luaL_argcheck(L, lua_isthread(L, 2), 2, "coroutine expected");
	limit.running = lua_tothread(L, 2);
	rc = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
	limit.running = before;
	return rc == LUA_OK ? lua_gettop(L) : lua_error(L);
}

/* limit_memory(bytes): of this Lua state from now on; 0: no limit */
static int l_limit_memory(lua_State *L)
{
	lua_Integer bytes = luaL_checkinteger(L, 1);

	luaL_argcheck(L, bytes >= 0, 1, "negative");
	l_allocator_limit(L, (size_t)bytes);
	return 0;
}

/* limit_memory_refused() -> true once an allocation beyond the limit failed */
static int l_limit_memory_refused(lua_State *L)
{
	lua_pushboolean(L, l_allocator_has_refused());
	return 1;
}

static const luaL_Reg functions[] = {
	{ "limit_coroutine", l_limit_coroutine },
	{ "limit_enter", l_enter },
	{ "limit_exceeded", l_limit_exceeded },
	{ "limit_leave", l_leave },
	{ "limit_memory", l_limit_memory },
	{ "limit_memory_refused", l_limit_memory_refused },
	{ "limit_time", l_limit_time },
	{ "unlimited", l_unlimited },
	{ NULL, NULL },
};

void l_limit_register(lua_State *L)
{
	luaL_setfuncs(L, functions, 0);
}
