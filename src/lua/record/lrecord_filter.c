/* lrecord_filter.c - reads the conditions that select records; see lrecord_filter.h. */
#include "lua/record/lrecord_filter.h"

#include <lauxlib.h>

#include "lua/base/loption.h"

static void read_numbers(lua_State *L, int at, const char *name, struct pev_numbers *numbers)
{
	int top = lua_gettop(L), nr;
	const int *list;

	if (lua_getfield(L, at, name) == LUA_TNIL) {
		lua_settop(L, top);
		return;
	}
	list = l_option_ints(L, at, name, &nr);
	for (int i = 0; i < nr; i++)
		if (pev_numbers_add(numbers, list[i]) < 0)
			luaL_error(L, "no memory for %s", name);
	lua_settop(L, top);
}

static void read_comms(lua_State *L, int at, struct pev_record_filter *wanted)
{
	int top = lua_gettop(L);

	if (lua_getfield(L, at, "comms") == LUA_TTABLE) {
		for (lua_Integer i = 1; lua_rawgeti(L, -1, i) == LUA_TSTRING; i++) {
			if (pev_record_filter_comm(wanted, lua_tostring(L, -1)) < 0)
				luaL_error(L, "no memory for comms");
			lua_pop(L, 1);
		}
	}
	lua_settop(L, top);
}

void l_record_filter_read(lua_State *L, int idx, struct pev_record_filter *wanted)
{
	int at = lua_absindex(L, idx);

	wanted->from = (uint64_t)l_option_integer(L, at, "from", 0);
	wanted->to = (uint64_t)l_option_integer(L, at, "to", -1);
	wanted->from_first = l_option_bool(L, at, "from_first");
	wanted->to_first = l_option_bool(L, at, "to_first");
	read_numbers(L, at, "cpus", &wanted->cpus);
	read_numbers(L, at, "pids", &wanted->pids);
	read_numbers(L, at, "tids", &wanted->tids);
	read_comms(L, at, wanted);
}
