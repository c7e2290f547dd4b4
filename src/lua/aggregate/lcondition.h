/*
 * lcondition.h - the userdata perfev.condition: a struct pev_condition and the names that it reads.
 */
#ifndef PEV_LCONDITION_H
#define PEV_LCONDITION_H

#include <lua.h>

#include "aggregate/condition.h"
#include "lua/record/lrecord_value.h"

/* One block; its strings are those of its user value. */
struct l_condition {
	struct pev_condition program;
	const char *names[]; /* of each test the field that it reads */
};

/* Add where() to the table on top of the stack. */
void l_condition_register(lua_State *L);
/* The one at idx, or NULL. */
struct l_condition *l_condition_test(lua_State *L, int idx);

/* Does it hold for the record? sources are its names, found: one for each test. */
bool l_condition_holds(const struct l_condition *where, const struct l_field *sources,
		       const struct l_current *current, bool *blind);

#endif
