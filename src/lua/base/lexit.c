/*
 * lexit.c - calls Lua functions when the process ends or the state is closed.
 *
 * os.exit() does not close the state, so __gc alone cannot remove something that
 * outlives the process, such as a definition in tracefs. A userdata's __gc and one
 * atexit(3) handler share a list; whichever runs first calls the function. The handler
 * has no argument, so the list is the only global variable of the bindings.
 */
#include <lauxlib.h>
#include <stdlib.h>

#include "base/sys.h"
#include "lua/base/lclass.h"
#include "lua/base/lregister.h"

#define TYPENAME "perfev.core.at_exit"

struct exit_handler {
	struct exit_handler *next;
	lua_State *L;   /* a thread of its own, user value 1, with an empty stack */
	int pid;        /* a child process must not call the function */
	int done;
};

static struct exit_handler *exit_handlers;

/* The function is the thread's only value. */
static void run_handler(struct exit_handler *handler)
{
	if (handler->done)
		return;
	handler->done = 1;
	if (handler->pid == pev_sys_linux.getpid(NULL) && lua_pcall(handler->L, 0, 0, 0) != LUA_OK)
		lua_pop(handler->L, 1); /* the process ends: no one can handle the error */
}

static void run_handlers(void)
{
	for (struct exit_handler *handler = exit_handlers; handler; handler = handler->next)
		run_handler(handler);
}

static void unlink_handler(struct exit_handler *handler)
{
	struct exit_handler **at = &exit_handlers;

	while (*at && *at != handler)
		at = &(*at)->next;
	if (*at)
		*at = handler->next;
}

static int l_exit_handler_gc(lua_State *L)
{
	struct exit_handler *handler = luaL_checkudata(L, 1, TYPENAME);

	run_handler(handler);
	unlink_handler(handler);
	return 0;
}

/* handler:cancel(): the function will not be called */
static int l_cancel(lua_State *L)
{
	struct exit_handler *handler = luaL_checkudata(L, 1, TYPENAME);

	handler->done = 1;
	unlink_handler(handler);
	lua_pushnil(L);
	lua_rawsetp(L, LUA_REGISTRYINDEX, handler);
	return 0;
}

static const luaL_Reg methods[] = {
	{ "cancel", l_cancel },
	{ NULL, NULL },
};

/*
 * at_exit(f) -> handler; f is called once, when the state is closed or the process ends. Lua
 * finalizes newer objects first, so f can use objects that are older than the handler.
 */
static int l_at_exit(lua_State *L)
{
	static int watching;
	struct exit_handler *handler;

	luaL_checktype(L, 1, LUA_TFUNCTION);
	lua_settop(L, 1);
	handler = lua_newuserdatauv(L, sizeof(*handler), 1);
	*handler = (struct exit_handler){ .done = 1 };
	luaL_setmetatable(L, TYPENAME);
	handler->L = lua_newthread(L);
	lua_setiuservalue(L, 2, 1);
	lua_pushvalue(L, 1);
	lua_xmove(L, handler->L, 1);
	lua_pushvalue(L, -1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, handler);
	handler->pid = pev_sys_linux.getpid(NULL);
	handler->done = 0;
	handler->next = exit_handlers;
	exit_handlers = handler;
	if (!watching && atexit(run_handlers) == 0)
		watching = 1;
	return 1;
}

void l_exit_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_exit_handler_gc);
	lua_pushcfunction(L, l_at_exit);
	lua_setfield(L, -2, "at_exit");
}
