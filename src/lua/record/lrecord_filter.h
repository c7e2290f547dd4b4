/* lrecord_filter.h - reads the conditions that select records of a recording. */
#pragma once

#include <lua.h>

#include "task/record_filter.h"

/*
 * Sets wanted from the table at idx: { from =, to = (ns), from_first =, to_first = (true: they
 * count from the first sample), cpus =, pids =, tids = (lists of integers), comms = (patterns) }.
 * The caller frees wanted, also after an error.
 */
void l_record_filter_read(lua_State *L, int idx, struct pev_record_filter *wanted);
