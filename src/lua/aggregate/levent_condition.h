/*
 * levent_condition.h - an event's condition: only records that meet it reach callbacks and sinks.
 *
 * Its fields are looked up when the event is declared; a payload's fields when the first
 * payload arrives.
 */
#pragma once

#include <lua.h>

#include "lua/record/largs.h"
#include "lua/record/lrecord.h"

struct l_event_condition;

/*
 * Pushes an event condition of the perfev.condition at idx, for an event of that name. It
 * applies to samples or, if all is true, to records of every type.
 */
struct l_event_condition *l_event_condition_push(lua_State *L, int idx, const char *event,
						 bool all);

/* True if the condition needs the record alone: l_value_is_of_record(). */
bool l_event_condition_is_of_record(const struct l_event_condition *guard);
/* Returns a copy that free() frees; NULL without memory. The original must outlive it. */
struct l_event_condition *l_event_condition_copy(const struct l_event_condition *guard);

/*
 * True if the record meets the condition. args is NULL without a payload. Counts, in
 * undecided, a record that does not because it lacks a field. Never raises.
 */
bool l_event_condition_holds(struct l_event_condition *guard, const struct l_view *view,
			     const struct l_args *args, uint64_t *undecided);
