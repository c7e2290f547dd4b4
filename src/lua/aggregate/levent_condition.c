/*
 * levent_condition.c - an event's condition; see levent_condition.h.
 */
#include "lua/aggregate/levent_condition.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "lua/record/lrecord_value.h"
#include "lua/aggregate/lcondition.h"

struct l_event_condition {
	const struct l_condition *where; /* user value 1 */
	const char *event;               /* user value 2 */
	const struct pev_tracepoint *tp; /* the tracepoint of the last lookup */
	bool all;
	uint32_t nr;
	struct l_field sources[];
};

struct l_event_condition *l_event_condition_push(lua_State *L, int idx, const char *event, bool all)
{
	const struct l_condition *where = l_condition_test(L, idx);
	uint32_t nr = where ? where->program.nr : 0;
	struct l_event_condition *guard;

	luaL_argcheck(L, where, idx, "a condition expected");
	idx = lua_absindex(L, idx);
	guard = lua_newuserdatauv(L, sizeof(*guard) + nr * sizeof(guard->sources[0]), 2);
	*guard = (struct l_event_condition){ .where = where, .all = all, .nr = nr };
	lua_pushvalue(L, idx);
	lua_setiuservalue(L, -2, 1);
	guard->event = lua_pushstring(L, event);
	lua_setiuservalue(L, -2, 2);
	for (uint32_t i = 0; i < nr; i++)
		guard->sources[i] = l_value_find(where->names[i]);
	return guard;
}

bool l_event_condition_is_of_record(const struct l_event_condition *guard)
{
	for (uint32_t i = 0; i < guard->nr; i++)
		if (!l_value_is_of_record(&guard->sources[i]))
			return false;
	return true;
}

struct l_event_condition *l_event_condition_copy(const struct l_event_condition *guard)
{
	size_t bytes = sizeof(*guard) + guard->nr * sizeof(guard->sources[0]);
	struct l_event_condition *copy = malloc(bytes);

	return copy ? memcpy(copy, guard, bytes) : NULL;
}

static void find_fields(struct l_event_condition *guard, const struct pev_tracepoint *tp)
{
	guard->tp = tp;
	for (uint32_t i = 0; i < guard->nr; i++)
		l_field_find_in_payload(&guard->sources[i], tp);
}

bool l_event_condition_holds(struct l_event_condition *guard, const struct l_view *view,
			     const struct l_args *args, uint64_t *undecided)
{
	struct l_current current = { .view = view, .args = args, .event = guard->event };
	bool blind = false, holds;

	if (!guard->all && view->rec->type != PERF_RECORD_SAMPLE)
		return true;
	if (args && args->tp != guard->tp)
		find_fields(guard, args->tp);
	holds = l_condition_holds(guard->where, guard->sources, &current, &blind);
	*undecided += blind && !holds;
	return holds;
}
