/*
 * ltask.c - a task as a Lua table; see ltask.h.
 */
#include "lua/record/ltask.h"
#include "lua/base/lset.h"

void l_task_push_table(lua_State *L, const struct pev_who *who)
{
	lua_createtable(L, 0, 6);
	l_set_integer(L, "tid", who->tid);
	l_set_integer(L, "pid", who->pid);
	if (who->ppid != PEV_NOBODY) {
		l_set_integer(L, "ppid", who->ppid);
	}
	l_set_string(L, "comm", who->comm);
	l_set_string(L, "exe", who->exe);
	if (who->dated) {
		l_set_integer(L, "start", who->start);
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
