/*
 * ljit_dump.h - the userdata perfev.core.jit_dump: functions of a JIT compiler, from its dump.
 */
#pragma once

#include <lua.h>

#include "task/jit_dump.h"

/* Pushes the next wanted dump, or nil. */
void l_jit_dump_push_wanted(lua_State *L, struct pev_jit_dumps *dumps);
