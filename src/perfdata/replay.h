/*
 * replay.h - replays a recording: decides which listeners receive each record.
 *
 * A listener has a slot. A route lists the listeners for an event and a record type; the
 * caller sets it once, when it is needed for the first time. The clock is the records' time:
 * a timer expires when a record reaches its time. Every record updates the task table, also
 * one without listeners.
 */
#ifndef PEV_REPLAY_H
#define PEV_REPLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "perfdata/reader.h"
#include "record/deferred_callchain.h"
#include "base/err.h"
#include "event/group_read.h"
#include "record/lost.h"
#include "record/record.h"
#include "task/record_filter.h"
#include "task/task.h"

/* Result of pev_replay_next(): why it returned. */
enum pev_turn {
	PEV_TURN_NONE,    /* internal: continue */
	PEV_TURN_RECORD,  /* deliver rec to slot */
	PEV_TURN_TIMER,   /* timer has expired */
	PEV_TURN_ROUTE,   /* set the route of (event, type) with pev_replay_set_route() */
	PEV_TURN_NEWS,    /* the reader found new events or sections */
	PEV_TURN_DAMAGED, /* a record is malformed and skipped; err has the reason */
	PEV_TURN_ROUND,   /* budget is used up; there may be more records */
	PEV_TURN_END
};

enum pev_stage { PEV_STAGE_READ, PEV_STAGE_EXAMINE, PEV_STAGE_TIME, PEV_STAGE_DELIVER };

struct pev_route {
	uint32_t first, nr; /* range in listeners */
	bool known;
	bool has_callback;        /* a listener has a callback */
	bool wants_deferred;         /* a listener wants CALLCHAIN_DEFERRED */
	uint32_t fast_generation;  /* fast path valid if equal to the replay's: deliver to slot */
	uint32_t slot;
};

struct pev_replay_slot {
	uint32_t wanted_types; /* bit n: has a callback for type n; bit 0: unknown types */
	bool off;
};

struct pev_replay_timer {
	uint64_t first, every; /* ns; every 0: expires once */
	uint64_t due;          /* 0: the clock has not started */
};

struct pev_replay {
	struct pev_reader *reader;       /* borrowed */
	struct pev_source_run *run;      /* the reader's */
	struct pev_tasks *tasks;       /* borrowed */
	struct pev_record_filter wanted;   /* filled by the caller before the first record */
	int exclude_pid;               /* skip records of this process; 0: none */
	bool without_callback;                 /* deliver to listeners without a callback too */
	uint64_t budget;               /* records to read before PEV_TURN_ROUND */
	/*
	 * Fast path: a sample in this time range goes to the
	 * same slot as the last one of its route.
	 */
	uint32_t generation;
	bool fast_without_callback;              /* without_callback when the path was set */
	uint64_t fast_from, fast_to;

	/* The current record. */
	const struct pev_source_record *source;
	struct pev_record rec;
	uint32_t event, type;          /* number + 1, or 0; type < PEV_RECORD_NR */
	uint32_t slot, timer;
	enum pev_stage stage;
	bool is_joined;                    /* a deferred sample that is complete: ready */
	struct pev_source_record ready; /* that sample, or the record of the last loss */
	struct pev_deferred deferred;
	struct pev_group_read group;    /* splits a leader's sample into samples of its group */
	struct pev_source_record part; /* one of these samples; is_part: it is the current one */
	bool is_part;
	uint32_t next_listener, end_listener; /* not reached by the record yet */

	struct pev_route *routes;      /* [event * PEV_RECORD_NR + type] */
	uint32_t nr_routes;
	uint32_t *listeners;
	uint32_t nr_listeners, cap_listeners;
	bool reset_routes;
	struct pev_replay_slot *slots;
	uint32_t nr_slots;
	struct pev_replay_timer *timers;
	uint32_t nr_timers;
	uint64_t due;                  /* of the first timer; 0: unknown, look at all timers */
	uint64_t lost_own;             /* set by the caller: lost records of hidden events */
	uint64_t delivered_lost;           /* sum of the delivered LOST records */
	bool reported_loss;
	uint64_t last_loss[PEV_LOSS_WORDS]; /* LOST record for the remaining losses, and its plan */
	struct pev_plan plain;
	bool *keeps;                   /* by event: exclude_pid does not apply */
	uint32_t nr_keeps;
	bool begun;
	uint64_t news, excluded;
};

/* Ends the fast path: a subscription, filter or timer has changed. */
static inline void pev_replay_end_fast_path(struct pev_replay *replay) { replay->generation++; }

/* Prepares a replay of a reader and its task table; both are borrowed. Allocates nothing. */
void pev_replay_init(struct pev_replay *replay, struct pev_reader *reader, struct pev_tasks *tasks);
void pev_replay_free(struct pev_replay *replay);

/* Adds a listener. Returns its slot or -ENOMEM. wanted_types as in struct pev_replay_slot. */
int pev_replay_add_listener(struct pev_replay *replay, uint32_t wanted_types);
/*
 * Answers PEV_TURN_ROUTE with the slots that receive these records, in order. Returns 0 or
 * -ENOMEM.
 */
int pev_replay_set_route(struct pev_replay *replay, const uint32_t *slots, uint32_t nr);
/* Resets all routes: from the next record on PEV_TURN_ROUTE asks for them again. */
void pev_replay_reset_routes(struct pev_replay *replay);
/* Switches the delivery to a slot on or off. */
void pev_replay_switch_slot(struct pev_replay *replay, uint32_t slot, bool on);
/* Skips the records of this process; 0: none. */
void pev_replay_exclude_pid(struct pev_replay *replay, int pid);
/*
 * Adds a timer. Returns its number or -ENOMEM. The clock starts
 * with the first sample or the first delivered record.
 */
int pev_replay_add_timer(struct pev_replay *replay, uint64_t first, uint64_t every);
/* Delivers records of this event also if exclude_pid wrote them. Returns 0 or -ENOMEM. */
int pev_replay_keep_excluded(struct pev_replay *replay, uint32_t event);

/*
 * Continues to the next record or event for the caller. Returns an enum pev_turn.
 * Returns -errno with the reason when reading ends early, after all records before
 * the error, or -ENOMEM. A record and its bytes are valid until the next call.
 */
static inline int pev_replay_next(struct pev_replay *replay, struct pev_err *err);
/* Skips the remaining listeners of the current record. */
void pev_replay_skip_listeners(struct pev_replay *replay);

/* As pev_replay_next(), without the fast path. */
int pev_replay_next_any(struct pev_replay *replay, struct pev_err *err);

/* Returns the route of a sample that can take the fast path, or NULL. */
static inline const struct pev_route *pev_replay_fast_route(const struct pev_replay *r,
							    const struct pev_source_record *from)
{
	uint32_t place = (from->event + 1) * PEV_RECORD_NR + PERF_RECORD_SAMPLE;

	if (from->type != PERF_RECORD_SAMPLE || place >= r->nr_routes ||
	    r->routes[place].fast_generation != r->generation ||
	    r->without_callback != r->fast_without_callback || from->time < r->fast_from ||
	    from->time > r->fast_to)
		return NULL;
	return &r->routes[place];
}

/*
 * Returns how many samples, at most most, follow in the run with the same event as the current one
 * and on the fast path. slot receives them, but they are not located. The caller may consume some
 * if that changes no subscription, and reports their number to pev_replay_skip_run().
 */
static inline uint32_t pev_replay_count_run(const struct pev_replay *r, uint64_t most)
{
	const struct pev_source_record *from = r->run->at, *end = r->run->end, *next = from;
	uint32_t event = r->source->event;

	if (r->stage != PEV_STAGE_READ || from == end || from->event != event ||
	    !pev_replay_fast_route(r, from))
		return 0;
	most = r->budget < most ? r->budget : most;
	end = most < (uint64_t)(end - from) ? from + most : end;
	while (next < end && next->event == event && next->type == PERF_RECORD_SAMPLE &&
	       next->time >= r->fast_from && next->time <= r->fast_to)
		next++;
	return (uint32_t)(next - from);
}

static inline void pev_replay_skip_run(struct pev_replay *r, uint32_t nr)
{
	r->run->at += nr;
	r->budget -= nr;
}

static inline int pev_replay_next(struct pev_replay *r, struct pev_err *err)
{
	const struct pev_source_record *from = r->run->at;
	const struct pev_route *route;

	if (r->stage != PEV_STAGE_READ || from == r->run->end || !r->budget)
		return pev_replay_next_any(r, err);
	route = pev_replay_fast_route(r, from);
	if (!route ||
	    !pev_record_locate_sample(&r->rec, from->plan, from->bytes, from->size))
		return pev_replay_next_any(r, err);
	r->run->at++;
	r->budget--;
	r->source = from;
	r->slot = route->slot;
	return PEV_TURN_RECORD;
}

#endif
