/*
 * ldispatch.h - from a record to its callback: what a session's sources share.
 *
 * An event has a slot; its callbacks, itself and its payload view are found by the
 * slot's number. The record is shown by reused views, and what a callback needs stands
 * on the stack before the first record, so that nothing is allocated between record
 * and callback. Part of the userdata of a source, whose user values it numbers.
 */
#ifndef PEV_LDISPATCH_H
#define PEV_LDISPATCH_H

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
#include "lua/record/lrecord.h"

#define L_DISPATCH_VIEWS 8 /* take turns, so that a view kept from the last callback is found out */

/* User values of the userdata that a dispatch is part of. */
enum {
	L_UV_HOOKS = 1, /* what keeps sys alive */
	L_UV_CALLBACKS, /* [slot * PEV_RECORD_NR + type + 1] = function, or what a sink is of:
			   at minus the same its sink; [0] = the names that are pulled; fields
			   and guards by their addresses */
	L_UV_CONTEXT,   /* [0] = owner, [2 * slot + 1] = event, [2 * slot + 2] = payload view */
	L_UV_HANDLERS,  /* { note = f(text), on_error = f(text, callback, event) } */
	L_UV_VIEWS,
	L_UV_NR = L_UV_VIEWS
};

/* Where a slot's records go. */
struct l_dispatch_slot {
	struct l_args *args;     /* NULL: there is no payload */
	struct l_fields *fields; /* what sample gets in the place of the view, or NULL */
	struct l_guard *guard;   /* what its records are under, or NULL */
	struct l_sink *sinks[PEV_RECORD_NR]; /* by type, of those that have no callback; or NULL */
};

/* A zeroed one, then l_dispatch_init(). */
struct l_dispatch {
	lua_State *L;         /* of the call that is going on */
	uint64_t now;         /* counts callbacks; views compare with it */
	struct l_view *views[L_DISPATCH_VIEWS + 1]; /* the last is what aggregators read by */
	unsigned turn;
	struct l_dispatch_slot *slots;
	uint32_t nr_slots;
	struct l_area *area;  /* the AUX bytes of the record at hand; NULL: nobody has any */
	uint64_t raised;      /* errors in callbacks */
	uint64_t untold;      /* records that no guard let through as a field was missing */
	int first;            /* stack index of what l_dispatch_set_up() put there */
	bool dispatching, stop;
	bool pulls;           /* what l_dispatch_give() gives: fields, and no view */
	uint64_t left;        /* how many it gives until the loop is asked */
	bool guarded;         /* errors of callbacks are caught by who calls l_dispatch_call() */
};

/* Give the userdata at idx its views; comm names a task, as in struct l_view, by ctx. */
void l_dispatch_init(lua_State *L, struct l_dispatch *d, int idx,
		     const char *(*comm)(void *ctx, int tid), void *ctx);
/* That of its stacks and aggregators; borrowed of the userdata at idx. */
struct pev_budget *l_dispatch_budget(lua_State *L, int idx);
/* Whose maps tell what the records' addresses meant; borrowed. */
void l_dispatch_tasks(struct l_dispatch *d, struct pev_tasks *tasks);
/* Payload views are stale from here on. */
void l_dispatch_free(struct l_dispatch *d);

/*
 * Of the spec at 2: which record types have a callback; they are the slot's. Its list
 * "fields" names what sample gets; "where" is what its samples are under or, with
 * "where_all", all its records.
 */
uint32_t l_dispatch_callbacks(lua_State *L, int idx, struct l_dispatch *d,
			      uint32_t slot);
/*
 * From here on l_dispatch_give() gives those of a sample that the list at names does, whatever
 * the slot, and no other record is heard; of nil there, none. What is heard. Raises.
 */
uint32_t l_dispatch_pull(lua_State *L, int idx, int names, struct l_dispatch *d);
/* Room for a payload view of the slot, which has none yet. -ENOMEM. */
int l_dispatch_reserve(struct l_dispatch *d, uint32_t slot);

/*
 * Point the next view at the record, and the slot's payload view; its number. process
 * is whose memory the record lies in, as in struct l_view.
 */
unsigned l_dispatch_show(struct l_dispatch *d, uint32_t slot, const struct pev_record *rec,
			 unsigned process);

/*
 * What a loop gets of the record that was shown, whose view is at the index at: the view, or its
 * fields, of which the first is false in the place of nil, which would end the loop. How many.
 */
int l_dispatch_give(lua_State *L, struct l_dispatch *d, uint32_t slot, unsigned turn, int at);
/* After so many the loop is asked: the number at idx; none: no limit. */
void l_dispatch_limit(lua_State *L, struct l_dispatch *d, int idx);
/* Is that now? From then on there is no limit. */
static inline bool l_dispatch_is_at_limit(struct l_dispatch *d)
{
	if (d->left)
		return false;
	d->left = UINT64_MAX;
	return true;
}

/* Does the condition that the slot is under, which has one, let the record through? */
bool l_dispatch_lets(struct l_dispatch *d, uint32_t slot, const struct pev_record *rec);
/* Is it for the slot's callbacks, by the condition that it is under? Asked before it is shown. */
static inline bool l_dispatch_wants(struct l_dispatch *d, uint32_t slot,
				    const struct pev_record *rec)
{
	return !d->slots[slot].guard || l_dispatch_lets(d, slot, rec);
}

/* What l_dispatch_call() needs, on the stack; the owner is at 1. Raises. */
void l_dispatch_set_up(lua_State *L, struct l_dispatch *d);

/* Push the L_DISPATCH_VIEWS views that take turns, in their order, of the source at idx. */
void l_dispatch_push_views(lua_State *L, int idx);
/*
 * Feed the aggregator or line that stands in the place of the slot's callback; false: there is
 * none.
 * No Lua is called, and no view points at the record: it costs what the aggregator does.
 */
static inline bool l_dispatch_feed(struct l_dispatch *d, uint32_t slot,
				   const struct pev_record *rec);
/*
 * Is the record, which was fed, one of those of which a number is counted and nothing more? Then
 * samples of its event that come behind it, as they are in a recording, can be counted as many at
 * a time: of how many, from the first on.
 */
static inline bool l_dispatch_counts(const struct l_dispatch *d, uint32_t slot,
				     const struct pev_record *rec)
{
	const struct l_dispatch_slot *to = &d->slots[slot];
	const struct l_sink *sink = to->sinks[PERF_RECORD_SAMPLE];

	return sink && !to->guard && rec->type == PERF_RECORD_SAMPLE &&
	       l_sink_counts(sink, rec->plan, to->args);
}
uint32_t l_dispatch_count(struct l_dispatch *d, uint32_t slot, const struct pev_file_record *from,
			  uint32_t nr);
/*
 * Call the slot's callback with that view, protected; an error is on_error's, once it is
 * counted. True: it wants no more. Never raises, unless guarded: then an error is the caller's
 * to catch, by the handler that set_up() put first, and to hand to l_dispatch_failed().
 */
bool l_dispatch_call(struct l_dispatch *d, uint32_t slot, const struct pev_record *rec,
		     unsigned turn);
/*
 * Is the record, like one before it, a sample whose callback gets numbers alone? Then no view has
 * to show it: the same by l_dispatch_pass().
 */
bool l_dispatch_passes(const struct l_dispatch *d, uint32_t slot, const struct pev_record *rec);
bool l_dispatch_pass(struct l_dispatch *d, uint32_t slot, const struct pev_record *rec);
/* What the slot's callback raised is on top, and popped. True: no more is wanted. */
bool l_dispatch_failed(struct l_dispatch *d, uint32_t slot, uint32_t type);

void l_dispatch_feed_to(struct l_dispatch *d, uint32_t slot, struct l_sink *sink,
			const struct pev_record *rec);

static inline bool l_dispatch_feed(struct l_dispatch *d, uint32_t slot,
				   const struct pev_record *rec)
{
	uint32_t type = rec->type < PEV_RECORD_NR ? rec->type : 0;
	struct l_sink *sink = d->slots[slot].sinks[type];

	if (sink)
		l_dispatch_feed_to(d, slot, sink, rec);
	return sink;
}

#endif
