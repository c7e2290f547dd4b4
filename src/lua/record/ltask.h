/*
 * ltask.h - a task as a Lua table: { tid=, pid=, ppid=, comm=, exe=, start= }.
 */
#pragma once

#include <lua.h>

#include "task/task.h"

/* Pushes the task's table, or nil for an unknown tid. Returns 1. Raises if memory runs out. */
int l_task_push(lua_State *L, struct pev_tasks *tasks, lua_Integer tid);
/* Pushes that table. Raises if memory runs out. */
void l_task_push_table(lua_State *L, const struct pev_who *who);
