/*
 * lcondition.h - the userdata perfev.where: a struct pev_condition and the names that it reads.
 */
#ifndef PEV_LCONDITION_H
#define PEV_LCONDITION_H

#include <lua.h>

#include "aggregate/condition.h"
#include "lua/record/lrecord_value.h"

/* One block; its strings are those of its user value. */
struct l_where {
	struct pev_condition program;
	const char *names[]; /* of each test the field that it reads */
};

/* Add where() to the table on top of the stack. */
void l_where_register(lua_State *L);
/* The one at idx, or NULL. */
struct l_where *l_where_test(lua_State *L, int idx);

/* Does it hold for the record? sources are its names, found: one for each test. */
bool l_where_holds(const struct l_where *where, const struct l_field *sources,
		   const struct l_shown *shown, bool *blind);

#endif
