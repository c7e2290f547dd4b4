/*
 * lsyscall.c - system calls answered by Lua functions; see lsyscall.h.
 *
 * An error that a hook raises never jumps across C frames, nor does an error of the work around
 * it when memory runs out: it is kept, the call returns -ECANCELED, and the binding raises it
 * again.
 */
#include "lua/hooks/lsyscall.h"

#include <errno.h>
#include <inttypes.h>
#include <lauxlib.h>
#include <stdio.h>

#include "base/err.h"
#include "lua/base/lerror.h"

enum l_sys_way l_sys_push_hook(struct l_hooks *h, const char *name)
{
	lua_State *L = h->L;
	bool strict;

	if (!lua_checkstack(L, LUA_MINSTACK))
		return L_SYS_LINUX;
	lua_rawgeti(L, LUA_REGISTRYINDEX, h->functions);
	lua_getfield(L, -1, "strict");
	strict = lua_toboolean(L, -1);
	lua_pop(L, 1);
	if (lua_getfield(L, -1, name) != LUA_TNIL) {
		lua_remove(L, -2);
		return L_SYS_HOOK;
	}
	lua_pop(L, 2);
	if (!strict)
		return L_SYS_LINUX;
	lua_pushfstring(L, "no hook '%s' in a strict table of hooks", name);
	l_keep_error(L);
	return L_SYS_ERROR;
}

int l_sys_push_parameters(lua_State *L, const struct l_sys_call *call, void *args)
{
	int nr = 0;

	for (int i = 0; call->parameters[i].kind; i++) {
		if (!call->parameters[i].kind->push)
			continue;
		call->parameters[i].kind->push(L, args, i);
		nr++;
	}
	return nr;
}

int64_t l_sys_bad_answer(struct l_hooks *h, const struct l_sys_call *call, const char *wanted)
{
	lua_State *L = h->L;

	lua_pushfstring(L, "hook '%s' returned %s; expected %s, or nil and an errno",
			call->name, luaL_typename(L, -2), wanted);
	lua_insert(L, -3);
	lua_pop(L, 2);
	l_keep_error(L);
	return -ECANCELED;
}

int64_t l_sys_ask(struct l_hooks *h, const struct l_sys_call *call, int nr)
{
	lua_State *L = h->L;
	int rc = lua_pcall(L, nr, 2, 0);
	lua_Integer code;

	h->L = L; /* a hook may have used the library from a coroutine */
	if (rc != LUA_OK) {
		l_keep_error(L);
		return -ECANCELED;
	}
	if (!lua_isnil(L, -2))
		return 0;
	code = lua_tointeger(L, -1);
	if (code <= 0)
		return l_sys_bad_answer(h, call, "a result");
	lua_pop(L, 2);
	return -code;
}

int64_t l_sys_ask_hook(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	return l_sys_ask(h, call, l_sys_push_parameters(h->L, call, args));
}

/* ---- hooks.log ---- */

#define LINE_SIZE 1536
#define RESULT_SIZE 32 /* " = -1 ENOTRECOVERABLE" */

/* Many parameters are shown with their names: those after the first when there are 4. */
#define NAMED_FROM 4

/* "close(5", as much as has room. Returns the length. */
static size_t show_call(const struct l_sys_call *call, void *args, char *line)
{
	const size_t size = LINE_SIZE - RESULT_SIZE;
	int shown = 0, nr = 0;
	size_t len = 0;

#define ADD(expression)                                          \
	do {                                                     \
		int n_ = (expression);                           \
		len += n_ < 0 ? 0 : (size_t)n_;                  \
		len = len < size ? len : size - 1;               \
	} while (0)
	for (int i = 0; call->parameters[i].kind; i++)
		nr += call->parameters[i].kind->show != NULL;
	ADD(snprintf(line, size, "%s(", call->name));
	for (int i = 0; call->parameters[i].kind; i++) {
		const struct l_sys_kind *kind = call->parameters[i].kind;

		if (!kind->show)
			continue;
		if (shown)
			ADD(snprintf(line + len, size - len, ", "));
		if (shown++ && nr >= NAMED_FROM)
			ADD(snprintf(line + len, size - len, "%s=", call->parameters[i].name));
		ADD(kind->show(line + len, size - len, args, i));
	}
#undef ADD
	return len;
}

static void show_result(int64_t rc, char *line, size_t len)
{
	if (rc < 0)
		snprintf(line + len, LINE_SIZE - len, ") = -1 %s", pev_errno_name((int)rc));
	else
		snprintf(line + len, LINE_SIZE - len, ") = %" PRId64, rc);
}

/* (log, text): log(text) */
static int l_log_line(lua_State *L)
{
	lua_pushstring(L, lua_touserdata(L, 2));
	lua_replace(L, 2);
	lua_call(L, 1, 0);
	return 0;
}

static void log_line(struct l_hooks *h, char *line)
{
	lua_State *L = h->L;

	/* In protected mode: the call is made, and its result must not be lost. */
	lua_pushcfunction(L, l_log_line);
	lua_rawgeti(L, LUA_REGISTRYINDEX, h->log);
	lua_pushlightuserdata(L, line);
	if (lua_pcall(L, 2, 0, 0) != LUA_OK)
		l_keep_error(L);
	h->L = L;
}

/* ---- one call ---- */

static int64_t run_call(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	if (call->answer->run)
		return call->answer->run(h, call, args);
	switch (l_sys_push_hook(h, call->name)) {
	case L_SYS_LINUX:
		return call->invoke(h->under, args);
	case L_SYS_HOOK:
		return call->answer->ask(h, call, args);
	default:
		return -ECANCELED;
	}
}

static int64_t run_and_log(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	char line[LINE_SIZE];
	size_t len = 0;
	int64_t rc;

	if (h->log == LUA_NOREF || call->answer->unlogged)
		return run_call(h, call, args);
	if (!call->answer->logged_after)
		len = show_call(call, args, line);
	rc = run_call(h, call, args);
	if (call->answer->logged_after)
		len = show_call(call, args, line);
	show_result(rc, line, len);
	log_line(h, line);
	return rc;
}

struct protected_call {
	struct l_hooks *h;
	const struct l_sys_call *call;
	void *args;
	int64_t rc;
};

static int run_protected(lua_State *L)
{
	struct protected_call *p = lua_touserdata(L, 1);

	p->rc = run_and_log(p->h, p->call, p->args);
	return 0;
}

/* Every function of l_sys_hooked: -ECANCELED when the call could not be made. */
static int64_t call_hooked(struct l_hooks *h, const struct l_sys_call *call, void *args)
{
	struct protected_call p = { .h = h, .call = call, .args = args, .rc = -ECANCELED };
	lua_State *L = h->L;

	if (lua_checkstack(L, LUA_MINSTACK)) {
		lua_pushcfunction(L, run_protected);
		lua_pushlightuserdata(L, &p);
		if (lua_pcall(L, 1, 0, 0) != LUA_OK)
			l_keep_error(L);
		h->L = L;
	}
	if (p.rc < 0 && call->answer->must_succeed)
		return call->invoke(h->under, args);
	return p.rc;
}

/* ---- all calls ---- */

/* clang-format off */
/* The parameters of a call, 8 bytes for each: NAME_args. */
#define FIELD(kind, name) _Alignas(8) PEV_SYS_TYPE_##kind name;
#define MEMBER(kind, name) , args->name
#define VALUE(kind, name) name,
#define ROW(kind, name) { &l_sys_kind_##kind, #name },

#define CALL(type, name, answer, returns, text, ...) INDEX_##name,
enum {
#include "base/sys_calls.h"
};

#define CALL(type, name, answer, returns, text, ...)                                               \
	struct name##_args {                                                                       \
		PEV_SYS_EACH(FIELD, __VA_ARGS__)                                                   \
	};                                                                                         \
	static int64_t invoke_##name(const struct pev_sys *sys, void *args_)                       \
	{                                                                                          \
		const struct name##_args *args = args_;                                            \
		(void)args;                                                                        \
		return sys->name(sys->ctx PEV_SYS_EACH(MEMBER, __VA_ARGS__));                      \
	}                                                                                          \
	static type hooked_##name(void *ctx PEV_SYS_EACH(PEV_SYS_PARAMETER, __VA_ARGS__))          \
	{                                                                                          \
		struct name##_args args = { PEV_SYS_EACH(VALUE, __VA_ARGS__) };                    \
		return (type)call_hooked(ctx, &l_sys_calls[INDEX_##name], &args);                  \
	}
#include "base/sys_calls.h"

const struct l_sys_call l_sys_calls[] = {
#define CALL(type, name, answer, returns, text, ...)                                               \
	{ #name, &l_sys_answer_##answer, invoke_##name,                                            \
	  { PEV_SYS_EACH(ROW, __VA_ARGS__) { NULL, NULL } }, returns, text },
#include "base/sys_calls.h"
	{ NULL, NULL, NULL, { { NULL, NULL } }, NULL, NULL },
};

const struct pev_sys l_sys_hooked = {
#define CALL(type, name, answer, returns, text, ...) .name = hooked_##name,
#include "base/sys_calls.h"
};
/* clang-format on */
