/*
 * lreal.c - hooks.real: the Linux calls, for a hook that delegates; see lreal.h.
 *
 * Each function takes the arguments of its hook and returns the answer of its hook, so that
 * `hooks.set { read = hooks.real.read }` changes nothing.
 */
#include "lua/hooks/lreal.h"

#include <lauxlib.h>

#include "lua/hooks/lsyscall.h"

/* The function of one call, which is upvalue 1. */
static int l_real_call(lua_State *L)
{
	const struct l_sys_call *call = lua_touserdata(L, lua_upvalueindex(1));
	_Alignas(8) char args[8 * L_SYS_MAX_PARAMETERS] = { 0 };
	struct l_sys_room room;
	int64_t rc;
	int nr = 0;

	room.refused = 0;
	room.value = 0;
	for (int i = 0; call->parameters[i].kind; i++)
		nr += call->parameters[i].kind->push != NULL;
	/* Values that a kind's set pushes must not be taken for arguments. */
	lua_settop(L, nr);
	for (int i = 0, idx = 0; call->parameters[i].kind; i++) {
		const struct l_sys_kind *kind = call->parameters[i].kind;

		idx += kind->push != NULL;
		if (kind->set)
			kind->set(L, kind->push ? idx : 0, args, i, &room);
	}
	rc = room.refused ? room.refused : call->invoke(pev_sys_real, args);
	if (rc >= 0)
		return call->answer->give(L, &room, rc);
	if (call->answer->fail)
		call->answer->fail(L, &room, rc);
	lua_pushnil(L);
	lua_pushinteger(L, -rc);
	return 2;
}

void l_real_push(lua_State *L)
{
	lua_newtable(L);
	for (const struct l_sys_call *call = l_sys_calls; call->name; call++) {
		lua_pushlightuserdata(L, (void *)(uintptr_t)call);
		lua_pushcclosure(L, l_real_call, 1);
		lua_setfield(L, -2, call->name);
	}
}
