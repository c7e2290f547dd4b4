/*
 * ldispatch.h - calls callbacks with records, for live sessions and replays.
 *
 * An event has a slot; the slot's number finds its callbacks, its event and its payload view.
 * Views of records are reused, and everything that a callback needs is on the stack before
 * the first record. So nothing is allocated between a record and its callback. struct
 * l_dispatch is part of the userdata of a session or replay, whose user values are numbered here.
 */
#pragma once

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "perfdata/reader.h"
#include "record/record.h"
#include "lua/record/laux.h"
#include "lua/record/largs.h"
#include "lua/record/lfield.h"
#include "lua/aggregate/levent_condition.h"
#include "lua/aggregate/lsink.h"
#include "lua/base/llimit.h"
#include "lua/record/lrecord.h"

#define L_DISPATCH_VIEWS 8 /* used in turn to detect a view kept from the last callback */
#define L_DISPATCH_KEPT 8  /* slots whose sample callbacks are on the stack */

/* User values of the userdata that contains a dispatch. */
enum {
	L_UV_HOOKS = 1, /* keeps sys alive */
	/*
	 * [slot * PEV_RECORD_NR + type + 1] = function or aggregator; the negative index = its
	 * sink; [0] = names of pulled fields; fields and guards by their addresses
	 */
	L_UV_CALLBACKS,
	L_UV_CONTEXT,   /* [0] = owner, [2 * slot + 1] = event, [2 * slot + 2] = payload view */
	L_UV_HANDLERS,  /* { note = f(text), on_error = f(text, callback, event) } */
	L_UV_VIEWS,
	L_UV_NR = L_UV_VIEWS
};

/* The consumers of a slot's records. */
struct l_dispatch_slot {
	struct l_args *args;     /* payload view, or NULL */
	struct l_fields *fields; /* arguments of the sample callback instead of the view, or NULL */
	struct l_event_condition *guard;   /* condition on its records, or NULL */
	struct l_sink *sinks[PEV_RECORD_NR]; /* by type, instead of a callback; or NULL */
};

/* Zeroed, then l_dispatch_init(). */
struct l_dispatch {
	lua_State *L;         /* of the current call */
	uint64_t now;         /* counts callbacks; views compare with it */
	struct l_view *views[L_DISPATCH_VIEWS + 1]; /* the last is for aggregators */
	unsigned turn;
	struct l_dispatch_slot *slots;
	uint32_t nr_slots;
	struct l_aux *area;  /* AUX bytes of the current record; NULL: no callback uses them */
	uint64_t raised;      /* errors in callbacks */
	uint64_t undecided;      /* records without a field that a condition needs */
	int first;            /* stack index of the values of l_dispatch_prepare_stack() */
	bool dispatching, stop;
	bool pulls;           /* l_dispatch_push_pulled() pushes fields, not the view */
	uint64_t left;        /* records until the loop's limit */
	uint32_t nr_kept;     /* first slots whose sample callbacks are on the stack */
};

/*
 * Gives the userdata at idx its views. comm names a task, as in struct l_view; ctx is its argument.
 */
void l_dispatch_init(lua_State *L, struct l_dispatch *d, int idx,
		     const char *(*comm)(void *ctx, int tid), void *ctx);
/* Returns the memory budget of stacks and aggregators. Borrowed from the userdata at idx. */
struct pev_budget *l_dispatch_budget(lua_State *L, int idx);
/* Sets the tasks whose maps resolve addresses of the records; borrowed. */
void l_dispatch_set_tasks(struct l_dispatch *d, struct pev_tasks *tasks);
/* Frees the slots; payload views become invalid. */
void l_dispatch_free(struct l_dispatch *d);

/*
 * Sets a slot's callbacks from the spec at 2. Returns the record types that have one, and in
 * *named those with a callback of their own name, not only "record". "fields" lists the
 * arguments of the sample callback. "where" is a condition on its samples or, with
 * "where_all", on all its records. Raises.
 */
uint32_t l_dispatch_set_callbacks(lua_State *L, int idx, struct l_dispatch *d,
				  uint32_t slot, uint32_t *named);
/*
 * From here on l_dispatch_push_pulled() pushes the fields of samples that the list at names has,
 * for all slots; other records are not wanted. nil: nothing is. Returns the wanted types. Raises.
 */
uint32_t l_dispatch_pull_fields(lua_State *L, int idx, int names, struct l_dispatch *d);
/* Makes room for a slot without payload view. Returns 0 or -ENOMEM. */
int l_dispatch_reserve_slot(struct l_dispatch *d, uint32_t slot);

/* Gets the payload of a slot's sample if its event has a readable one. args may be NULL. */
bool l_dispatch_has_payload(const struct l_args *args, const struct pev_record *rec,
			    const unsigned char **raw, uint32_t *len);

/*
 * Points the next view and the slot's payload view at the record. Returns the view's
 * number. process is the one whose memory holds the record, as in struct l_view.
 */
unsigned l_dispatch_point_view(struct l_dispatch *d, uint32_t slot, const struct pev_record *rec,
			       unsigned process);

/*
 * Pushes the values of a loop for the current record, whose view is at index at: the view, or its
 * fields. The first field is false instead of nil, which would end the loop. Returns how many.
 */
int l_dispatch_push_pulled(lua_State *L, struct l_dispatch *d, uint32_t slot, unsigned turn,
			   int at);
/* The same, without a view, if l_dispatch_takes_numbers_only(). */
int l_dispatch_push_pulled_numbers(lua_State *L, struct l_dispatch *d, uint32_t slot,
				   const struct pev_record *rec);
/* Sets the limit of a loop: the number at idx; none: no limit. */
void l_dispatch_set_limit(lua_State *L, struct l_dispatch *d, int idx);
/* True once, when the limit is reached; this removes the limit. */
static inline bool l_dispatch_is_at_limit(struct l_dispatch *d)
{
	if (d->left)
		return false;
	d->left = UINT64_MAX;
	return true;
}

/* True if the record satisfies the slot's condition. The slot must have one. */
bool l_dispatch_meets_condition(struct l_dispatch *d, uint32_t slot, const struct pev_record *rec);
/*
 * True if the record is for the slot's callbacks, by its condition. Called before a view shows it.
 */
static inline bool l_dispatch_is_wanted(struct l_dispatch *d, uint32_t slot,
					const struct pev_record *rec)
{
	return !d->slots[slot].guard || l_dispatch_meets_condition(d, slot, rec);
}

/* Pushes the values that l_dispatch_call_callback() needs. The owner is at 1. Raises. */
void l_dispatch_prepare_stack(lua_State *L, struct l_dispatch *d);

/* Pushes the L_DISPATCH_VIEWS views of the userdata at idx, in order. */
void l_dispatch_push_views(lua_State *L, int idx);
/*
 * Feeds the slot's aggregator or line printer; false if it has neither.
 * Calls no Lua and sets no view, so it costs no more than the aggregator.
 */
static inline bool l_dispatch_feed_slot(struct l_dispatch *d, uint32_t slot,
					const struct pev_record *rec);
/*
 * True if the record, which was fed, is only counted. Then following
 * samples of its event in a recording can be counted in one call,
 * l_dispatch_count_run(), which returns how many it has counted.
 */
static inline bool l_dispatch_can_count_run(const struct l_dispatch *d, uint32_t slot,
					    const struct pev_record *rec)
{
	const struct l_dispatch_slot *to = &d->slots[slot];
	const struct l_sink *sink = to->sinks[PERF_RECORD_SAMPLE];

	return sink && !to->guard && rec->type == PERF_RECORD_SAMPLE &&
	       l_sink_counts(sink, rec->plan, to->args);
}
uint32_t l_dispatch_count_run(struct l_dispatch *d, uint32_t slot,
			      const struct pev_source_record *from, uint32_t nr);
/*
 * Calls the slot's callback with that view. Returns true to end the dispatch. Raises: the caller
 * catches errors with the message handler of l_dispatch_prepare_stack() and passes them to
 * l_dispatch_report_error().
 */
bool l_dispatch_call_callback(struct l_dispatch *d, uint32_t slot, const struct pev_record *rec,
			      unsigned turn);
/*
 * True if the record is a sample whose callback takes numbers only. Then no view is
 * needed: l_dispatch_call_with_numbers() is the fast path of l_dispatch_call_callback().
 */
static inline bool l_dispatch_takes_numbers_only(const struct l_dispatch *d, uint32_t slot,
						 uint32_t type, const struct pev_plan *plan)
{
	const struct l_dispatch_slot *to = &d->slots[slot];
	const struct l_fields *fields = to->fields;

	return fields && type == PERF_RECORD_SAMPLE && plan == fields->placed &&
	       (!to->args || to->args->tp == fields->tp);
}
/* True if the rows of the sample's event are for this slot. */
static inline bool l_dispatch_takes_rows(const struct l_dispatch *d, uint32_t slot,
					 const struct pev_source_record *from)
{
	const struct l_dispatch_slot *to = &d->slots[slot];

	return l_dispatch_takes_numbers_only(d, slot, from->type, from->plan) &&
	       to->fields->has_row;
}
bool l_dispatch_call_with_numbers(struct l_dispatch *d, uint32_t slot,
				  const struct pev_record *rec);
/* Pushes the callback of the slot's samples. */
void l_dispatch_push_callback(lua_State *L, const struct l_dispatch *d, uint32_t slot);
/*
 * Calls the function at index function with the nargs values above it. Returns true if it returned
 * false, which ends the dispatch. Most callbacks return nothing: with LUA_MULTRET, there is no
 * result to remove.
 */
static inline bool l_dispatch_call_function(lua_State *L, struct l_dispatch *d, int function,
					    int nargs)
{
	bool stop;

	l_limit_enter(L_LIMIT_CALLBACK);
	lua_call(L, nargs, LUA_MULTRET);
	l_limit_scale = 0;
	/* The callback may have used the session from a coroutine. */
	d->L = L;
	d->now++;
	if (lua_gettop(L) < function)
		return false;
	stop = lua_isboolean(L, function) && !lua_toboolean(L, function);
	lua_settop(L, function - 1);
	return stop;
}
/*
 * Reports the error on top of the stack, raised by the slot's
 * callback, and pops it. Returns true to end the dispatch.
 */
bool l_dispatch_report_error(struct l_dispatch *d, uint32_t slot, uint32_t type);

/* Counts nr samples by the aggregators of the slot, which have no columns. */
void l_dispatch_count(const struct l_dispatch *d, uint32_t slot, uint64_t nr);

void l_dispatch_feed_sink(struct l_dispatch *d, uint32_t slot, struct l_sink *sink,
			  const struct pev_record *rec);

static inline bool l_dispatch_feed_slot(struct l_dispatch *d, uint32_t slot,
					const struct pev_record *rec)
{
	uint32_t type = rec->type < PEV_RECORD_NR ? rec->type : 0;
	struct l_sink *sink = d->slots[slot].sinks[type];

	if (sink)
		l_dispatch_feed_sink(d, slot, sink, rec);
	return sink;
}
