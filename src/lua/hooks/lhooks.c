/*
 * lhooks.c - sets of Lua functions in the place of system calls; see lhooks.h.
 *
 * Decides which set is in force, and makes the table perfev.hooks; lsyscall.c runs the calls.
 */
#include "lua/hooks/lhooks.h"

#include <lauxlib.h>
#include <string.h>

#include "base/err.h"
#include "base/rights.h"
#include "lua/base/lclass.h"
#include "lua/base/lerror.h"
#include "lua/base/lregister.h"
#include "lua/hooks/lmemory.h"
#include "lua/hooks/lreal.h"
#include "lua/hooks/lsyscall.h"
#include "lua/base/lset.h"

#define HOOKS_TYPE "perfev.hooks"
#define STACK_KEY "perfev.hooks.stack"     /* registry: list of hook sets */

/* Registry: the names of all hooks, made once, because memory may be short later. */
static const char names_key;

/* ---- the stack of sets ---- */

const struct pev_sys *l_hooks_push(lua_State *L)
{
	const struct pev_sys *sys = pev_sys_real;

	lua_getfield(L, LUA_REGISTRYINDEX, STACK_KEY);
	lua_rawgeti(L, -1, (lua_Integer)lua_rawlen(L, -1));
	lua_remove(L, -2);
	if (!lua_isnil(L, -1))
		sys = &((struct l_hooks *)lua_touserdata(L, -1))->sys;
	l_hooks_enter(L, sys);
	return sys;
}

void l_hooks_push_deciding(lua_State *L)
{
	const struct l_hooks *h;

	l_hooks_push(L);
	for (h = lua_touserdata(L, -1); h && h->log != LUA_NOREF; h = lua_touserdata(L, -1)) {
		lua_rawgeti(L, LUA_REGISTRYINDEX, h->below);
		lua_replace(L, -2);
	}
}

void l_hooks_enter(lua_State *L, const struct pev_sys *sys)
{
	while (sys->ctx) {
		struct l_hooks *h = sys->ctx;

		h->L = L;
		sys = h->under;
	}
}

/* The names that a table of hooks may have. */
static const char *const hook_names[] = {
#define CALL(type, name, answer, returns, text, ...) #name,
#include "base/sys_calls.h"
	"strict",
};
#define NR_HOOK_NAMES (sizeof(hook_names) / sizeof(hook_names[0]))

static void check_names(lua_State *L, int idx)
{
	lua_pushnil(L);
	while (lua_next(L, idx)) {
		const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
		const char *near = pev_nearest(name, hook_names, NR_HOOK_NAMES);

		if (!near || strcmp(near, name) != 0)
			luaL_error(L, near ? "no hook is called '%s' (did you mean '%s'?)" :
				   "no hook is called '%s'", name, near);
		if (!lua_isfunction(L, -1) && strcmp(name, "strict") != 0)
			luaL_error(L, "hook '%s': a function expected, not a %s", name,
				   luaL_typename(L, -1));
		lua_pop(L, 1);
	}
}

/*
 * Push a set onto the stack of sets: the functions at idx, above Linux, or the log at idx, above
 * the set in force.
 */
static void push_set(lua_State *L, int idx, bool log)
{
	struct l_hooks *h = lua_newuserdatauv(L, sizeof(*h), 0);

	*h = (struct l_hooks){ .sys = l_sys_hooked, .under = pev_sys_real, .L = L,
			       .functions = LUA_NOREF, .log = LUA_NOREF, .below = LUA_NOREF,
			       .memory = LUA_NOREF };
	h->sys.ctx = h;
	luaL_setmetatable(L, HOOKS_TYPE);
	if (log) {
		h->under = l_hooks_push(L);
		h->below = luaL_ref(L, LUA_REGISTRYINDEX);
		lua_newtable(L);
		h->functions = luaL_ref(L, LUA_REGISTRYINDEX);
		lua_pushvalue(L, idx);
		h->log = luaL_ref(L, LUA_REGISTRYINDEX);
	} else {
		lua_pushvalue(L, idx);
		h->functions = luaL_ref(L, LUA_REGISTRYINDEX);
	}
	lua_newtable(L);
	h->memory = luaL_ref(L, LUA_REGISTRYINDEX);
	lua_getfield(L, LUA_REGISTRYINDEX, STACK_KEY);
	lua_insert(L, -2);
	lua_rawseti(L, -2, (lua_Integer)lua_rawlen(L, -2) + 1);
	lua_pop(L, 1);
}

static int l_hooks_gc(lua_State *L)
{
	struct l_hooks *h = luaL_checkudata(L, 1, HOOKS_TYPE);

	luaL_unref(L, LUA_REGISTRYINDEX, h->functions);
	luaL_unref(L, LUA_REGISTRYINDEX, h->log);
	luaL_unref(L, LUA_REGISTRYINDEX, h->below);
	luaL_unref(L, LUA_REGISTRYINDEX, h->memory);
	h->functions = h->log = h->below = h->memory = LUA_NOREF;
	return 0;
}

static void pop_sets(lua_State *L, lua_Integer down_to)
{
	lua_getfield(L, LUA_REGISTRYINDEX, STACK_KEY);
	for (lua_Integer n = (lua_Integer)lua_rawlen(L, -1); n > down_to; n--) {
		lua_pushnil(L);
		lua_rawseti(L, -2, n);
	}
	lua_pop(L, 1);
}

static lua_Integer count_sets(lua_State *L)
{
	lua_Integer n;

	lua_getfield(L, LUA_REGISTRYINDEX, STACK_KEY);
	n = (lua_Integer)lua_rawlen(L, -1);
	lua_pop(L, 1);
	return n;
}

/* Hooks are for tests: a script that runs with file capabilities must not imitate the kernel. */
static void refuse_when_elevated(lua_State *L, const char *verb)
{
	if (pev_rights_held())
		luaL_error(L, "hooks.%s: not available while perfl has file capabilities\n"
			   "  try: a copy of perfl without them, or perfl --sim", verb);
}

/* hooks.set(t): the functions of t replace the kernel, and any set before. */
static int l_set(lua_State *L)
{
	luaL_checktype(L, 1, LUA_TTABLE);
	refuse_when_elevated(L, "set");
	check_names(L, 1);
	push_set(L, 1, false);
	return 0;
}

/* hooks.clear(): Linux again; objects keep the table they were opened with. */
static int l_clear(lua_State *L)
{
	pop_sets(L, 0);
	return 0;
}

/* hooks.with(t, f, ...): calls f with t in force, and returns its results; also undone on error. */
static int l_with(lua_State *L)
{
	lua_Integer before;
	int rc;

	luaL_checktype(L, 1, LUA_TTABLE);
	luaL_checkany(L, 2);
	refuse_when_elevated(L, "with");
	check_names(L, 1);
	before = count_sets(L);
	push_set(L, 1, false);
	rc = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
	pop_sets(L, before);
	if (rc != LUA_OK)
		return lua_error(L);
	return lua_gettop(L) - 1;
}

/* hooks.log(f): f(text) after each call, "close(5) = 0"; hooks.log(nil) ends it. */
static int l_log(lua_State *L)
{
	if (lua_isnoneornil(L, 1)) {
		pop_sets(L, count_sets(L) - 1);
		return 0;
	}
	luaL_checktype(L, 1, LUA_TFUNCTION);
	push_set(L, 1, true);
	return 0;
}

/* core.system_calls() -> { { name =, parameters = { names }, returns =, text = }, ... } */
static int l_system_calls(lua_State *L)
{
	lua_Integer nr = 0;

	lua_newtable(L);
	for (const struct l_sys_call *call = l_sys_calls; call->name; call++) {
		lua_Integer given = 0;

		lua_createtable(L, 0, 4);
		l_set_string(L, "name", call->name);
		lua_newtable(L);
		for (int i = 0; call->parameters[i].kind; i++) {
			if (!call->parameters[i].kind->push)
				continue;
			lua_pushstring(L, call->parameters[i].name);
			lua_rawseti(L, -2, ++given);
		}
		lua_setfield(L, -2, "parameters");
		l_set_string(L, "returns", call->returns);
		l_set_string(L, "text", call->text);
		lua_rawseti(L, -2, ++nr);
	}
	return 1;
}

static const luaL_Reg functions[] = {
	{ "set", l_set },
	{ "clear", l_clear },
	{ "with", l_with },
	{ "log", l_log },
	{ NULL, NULL },
};

void l_hooks_register(lua_State *L)
{
	l_class(L, HOOKS_TYPE, NULL, l_hooks_gc);
	lua_newtable(L);
	lua_setfield(L, LUA_REGISTRYINDEX, STACK_KEY);
	lua_createtable(L, NR_HOOK_NAMES, 0);
	for (size_t i = 0; i < NR_HOOK_NAMES; i++) {
		lua_pushstring(L, hook_names[i]);
		lua_rawseti(L, -2, (lua_Integer)i + 1);
	}
	lua_rawsetp(L, LUA_REGISTRYINDEX, &names_key);
	l_set_function(L, "system_calls", l_system_calls);
	luaL_newlib(L, functions);
	l_memory_register(L);
	l_real_push(L);
	lua_setfield(L, -2, "real");
	lua_setfield(L, -2, "hooks");
}
