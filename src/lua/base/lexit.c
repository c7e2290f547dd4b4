/*
 * lexit.c - a Lua function that is called when the process ends, however it does.
 *
 * os.exit() leaves without closing the state, so __gc alone is not enough for
 * what outlives a process, such as a definition in tracefs. Here a userdata's __gc
 * and one atexit(3) handler share a list; whoever comes first calls the function.
 * The handler has no argument, hence the only variable of the bindings.
 */
#include "lua/base/lexit.h"

#include <lauxlib.h>
#include <stdlib.h>

#include "base/sys.h"
#include "lua/base/lclass.h"

#define TYPENAME "perfev.core.at_exit"

struct last_word {
	struct last_word *next;
	lua_State *L;   /* a thread of its own, user value 1: nobody's stack is in the way */
	int pid;        /* a process that was forked off has nothing to undo */
	int done;
};

static struct last_word *last_words;

/* The function is the thread's only value. */
static void speak(struct last_word *word)
{
	if (word->done)
		return;
	word->done = 1;
	if (word->pid == pev_sys_linux.getpid(NULL) && lua_pcall(word->L, 0, 0, 0) != LUA_OK)
		lua_pop(word->L, 1); /* there is nobody left to tell */
}

static void speak_all(void)
{
	for (struct last_word *word = last_words; word; word = word->next)
		speak(word);
}

static void unlink_word(struct last_word *word)
{
	struct last_word **at = &last_words;

	while (*at && *at != word)
		at = &(*at)->next;
	if (*at)
		*at = word->next;
}

static int l_forget(lua_State *L)
{
	struct last_word *word = luaL_checkudata(L, 1, TYPENAME);

	speak(word);
	unlink_word(word);
	return 0;
}

/* word:cancel(): the function is not called any more */
static int l_cancel(lua_State *L)
{
	struct last_word *word = luaL_checkudata(L, 1, TYPENAME);

	word->done = 1;
	unlink_word(word);
	lua_pushnil(L);
	lua_rawsetp(L, LUA_REGISTRYINDEX, word);
	return 0;
}

static const luaL_Reg methods[] = {
	{ "cancel", l_cancel },
	{ NULL, NULL },
};

/*
 * at_exit(f) -> word; f is called once, when the state is closed or the process ends. On closing
 * Lua calls finalizers of later objects first: f finds those alive that were there before.
 */
static int l_at_exit(lua_State *L)
{
	static int watching;
	struct last_word *word;

	luaL_checktype(L, 1, LUA_TFUNCTION);
	lua_settop(L, 1);
	word = lua_newuserdatauv(L, sizeof(*word), 1);
	*word = (struct last_word){ .done = 1 };
	luaL_setmetatable(L, TYPENAME);
	word->L = lua_newthread(L);
	lua_setiuservalue(L, 2, 1);
	lua_pushvalue(L, 1);
	lua_xmove(L, word->L, 1);
	lua_pushvalue(L, -1);
	lua_rawsetp(L, LUA_REGISTRYINDEX, word);
	word->pid = pev_sys_linux.getpid(NULL);
	word->done = 0;
	word->next = last_words;
	last_words = word;
	if (!watching && atexit(speak_all) == 0)
		watching = 1;
	return 1;
}

void l_exit_register(lua_State *L)
{
	l_class(L, TYPENAME, methods, l_forget);
	lua_pushcfunction(L, l_at_exit);
	lua_setfield(L, -2, "at_exit");
}
