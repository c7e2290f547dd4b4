/*
 * ltask.h - who a task is, as a table: { tid=, pid=, ppid=, comm=, exe=, start= }.
 */
#ifndef PEV_LTASK_H
#define PEV_LTASK_H

#include <lua.h>

#include "../task.h"
#include "lview.h"

/* Push the task, nil where nothing is known of it. 1, for a C function to return. May raise. */
int l_task_push(lua_State *L, struct pev_tasks *tasks, lua_Integer tid);
/* The task of a record's tid, under the name that the record has; nil where it has no tid. */
void l_task_push_of(lua_State *L, const struct l_view *view);

#endif
