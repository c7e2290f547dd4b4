/*
 * lcondition.h - the userdata perfev.condition: a struct pev_condition and its fields' names.
 */
#pragma once

#include <lua.h>

#include "aggregate/condition.h"
#include "lua/record/lrecord_value.h"

/* One block. User values keep the strings. */
struct l_condition {
	struct pev_condition program;
	const char *names[]; /* the field of each test */
};
/* Returns the condition at idx, or NULL. */
struct l_condition *l_condition_test(lua_State *L, int idx);

/* True if the condition holds for the record. sources: the field of each test, looked up. */
bool l_condition_holds(const struct l_condition *where, const struct l_field *sources,
		       const struct l_current *current, bool *blind);
