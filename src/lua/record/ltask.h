/*
 * ltask.h - who a task is, as a table: { tid=, pid=, ppid=, comm=, exe=, start= }.
 */
#ifndef PEV_LTASK_H
#define PEV_LTASK_H

#include <lua.h>

#include "task/task.h"

/* Push the task, nil where nothing is known of it. 1, for a C function to return. May raise. */
int l_task_push(lua_State *L, struct pev_tasks *tasks, lua_Integer tid);
/* Push that table. May raise. */
void l_task_push_table(lua_State *L, const struct pev_who *who);

#endif
