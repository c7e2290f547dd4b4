/*
 * levent_condition.h - a condition that an event's records are under, whoever gets them.
 *
 * Held against a record before it is shown or fed to anybody; what the condition reads is found
 * when the event is declared, a payload's fields when the first payload comes.
 */
#ifndef PEV_LEVENT_CONDITION_H
#define PEV_LEVENT_CONDITION_H

#include <lua.h>

#include "lua/record/largs.h"
#include "lua/record/lrecord.h"

struct l_event_condition;

/*
 * Push one of the condition at idx (a perfev.condition), for an event of that name: of its samples
 * or, where all is true, of its records of every type.
 */
struct l_event_condition *l_event_condition_push(lua_State *L, int idx, const char *event,
						 bool all);

/*
 * Is the shown record let through? args is NULL where it has no payload. One that is not, as a
 * field is missing, is counted. Never raises.
 */
bool l_event_condition_holds(struct l_event_condition *guard, const struct l_view *view,
			     const struct l_args *args, uint64_t *untold);

#endif
