/*
 * ltask.c - a task as a Lua table; see ltask.h.
 */
#include "lua/record/ltask.h"

void l_task_push_table(lua_State *L, const struct pev_who *who)
{
	lua_createtable(L, 0, 6);
	lua_pushinteger(L, who->tid);
	lua_setfield(L, -2, "tid");
	lua_pushinteger(L, who->pid);
	lua_setfield(L, -2, "pid");
	if (who->ppid != PEV_NOBODY) {
		lua_pushinteger(L, who->ppid);
		lua_setfield(L, -2, "ppid");
	}
	lua_pushstring(L, who->comm);
	lua_setfield(L, -2, "comm");
	lua_pushstring(L, who->exe);
	lua_setfield(L, -2, "exe");
	if (who->dated) {
		lua_pushinteger(L, who->start);
		lua_setfield(L, -2, "start");
	}
}

int l_task_push(lua_State *L, struct pev_tasks *tasks, lua_Integer tid)
{
	struct pev_who who;

	if (tid == (int)tid && pev_tasks_who(tasks, (int)tid, &who))
		l_task_push_table(L, &who);
	else
		lua_pushnil(L);
	return 1;
}
