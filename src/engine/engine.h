/*
 * engine.h - takes records from a source, live or recorded, to the listeners that want them.
 *
 * A listener has callbacks for some record types of an event. The engine knows which listeners
 * receive the records of an event and a type (route.h), leaves out the records of an excluded
 * process and those that a filter leaves out, joins samples with their deferred call chains,
 * splits samples of groups, and updates the task table with every record. The clock of a
 * recording is its records' time: a timer expires when a record reaches its time, and ends the
 * round before that record.
 *
 * pev_engine_next() has a fast path. While nothing changes (listeners, filters, timers), a sample
 * goes to the same listener as the sample of its event before, whatever it contains.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "event/group_read.h"
#include "record/deferred_callchain.h"
#include "record/record.h"
#include "record/source.h"
#include "task/record_filter.h"
#include "task/task.h"

#define PEV_EVERY_RECORD UINT64_MAX /* budget: no limit */
#define PEV_NO_SLOT UINT32_MAX

struct pev_listener {
	uint32_t wanted_types; /* bit n: has a callback for type n; bit 0: unknown types */
	uint32_t named_types;  /* the same, without a callback for all types */
	uint32_t event;        /* its number; PEV_NO_EVENT: any event's side-band records */
	uint32_t declaration;  /* listeners of one declaration have the same number */
	bool takes_others;     /* receives side-band records of other events, too */
	bool hidden;           /* receives nothing */
	bool off;
};

/* Who receives the records of an event and a type: a range of pev_engine.listening. */
struct pev_route {
	uint32_t first, nr;
	bool known;
	bool has_callback;        /* a listener has a callback */
	bool wants_deferred;      /* a listener wants CALLCHAIN_DEFERRED */
	bool defers;              /* the event's samples lack user frames */
	bool splits;              /* they are split into samples of a group */
	uint32_t fast_generation; /* fast path valid if equal to the engine's: deliver to slot */
	uint16_t pid_offset;      /* in a sample, to leave out an excluded process; 0: not needed */
	uint32_t slot;
};

struct pev_engine_timer {
	uint64_t first, every; /* ns; every 0: expires once */
	uint64_t due;          /* 0: the clock has not started */
};

struct pev_engine {
	struct pev_source *source;       /* borrowed */
	struct pev_record_filter wanted; /* filled by the caller before the first record */
	int exclude_pid;                 /* leave out records of this process; 0: none */
	uint64_t budget;                 /* records to take before the round ends */
	enum pev_drain drain;
	bool everything;                 /* listeners receive records without a callback, too */

	/* The current record. */
	const struct pev_source_record *from;
	struct pev_record rec;
	uint32_t slot;                   /* the listener that receives it, or PEV_NO_SLOT */

	/* Why pev_engine_next() returned 0. */
	bool ended;                      /* the recording has no more records */
	bool has_news;                   /* it has new events; reset by the caller */
	bool has_expired;                /* the timer has expired and was not read yet */
	uint32_t timer;

	/* Internal. */
	uint32_t generation;             /* of the fast path */
	uint64_t fast_from, fast_to;     /* it is for samples of these times */
	struct pev_deferred deferred;
	struct pev_group_read group;
	struct pev_source_record made;   /* a joined sample, a group's sample, the last loss */
	uint32_t next_listener, end_listener; /* not reached by the record yet */
	struct pev_listener *listeners;
	uint32_t nr_listeners;
	struct pev_route *routes;        /* [(event + 1) * PEV_RECORD_NR + type] */
	uint32_t nr_routes;
	uint32_t *listening;
	uint32_t nr_listening, cap_listening;
	bool reset_routes;
	bool *keeps;                     /* by event: exclude_pid does not apply */
	uint32_t nr_keeps;
	struct pev_engine_timer *timers;
	uint32_t nr_timers;
	uint64_t due;                    /* of the first timer; 0: unknown */
	uint64_t changes;                /* the source's, as of the last run */
	uint64_t delivered_lost;         /* sum of the delivered LOST records */
	uint64_t excluded;               /* records that exclude_pid or wanted names left out */
	bool begun;                      /* the clock of a recording has started */
	bool reported_loss;
};

/* Starts an engine; wanted and exclude_pid can be set then. Allocates nothing. */
void pev_engine_init(struct pev_engine *engine);
/* Sets the source, which is borrowed, before the first listener. */
void pev_engine_set_source(struct pev_engine *engine, struct pev_source *source);
void pev_engine_free(struct pev_engine *engine);

/* Adds a listener. Returns its slot, from 0 on, or -ENOMEM. */
int pev_engine_add_listener(struct pev_engine *engine, const struct pev_listener *listener);
/* Switches the delivery to a listener on or off. */
void pev_engine_switch(struct pev_engine *engine, uint32_t slot, bool on);
/* Sets the types that a listener wants; nothing for it any more with hidden. */
void pev_engine_want(struct pev_engine *engine, uint32_t slot, uint32_t types, bool hidden);
/* Leaves out the records of this process; 0: none. */
void pev_engine_exclude_pid(struct pev_engine *engine, int pid);
/* Delivers records of this event also if exclude_pid wrote them. Returns 0 or -ENOMEM. */
int pev_engine_keep_excluded(struct pev_engine *engine, uint32_t event);
static inline bool pev_engine_keeps(const struct pev_engine *engine, uint32_t event)
{
	return event < engine->nr_keeps && engine->keeps[event];
}
/*
 * Adds a timer on the clock of a recording, which starts with the first sample or the first
 * delivered record. Returns its number or -ENOMEM.
 */
int pev_engine_add_timer(struct pev_engine *engine, uint64_t first, uint64_t every);
/* Lets the clock go on after the timer has expired. False if it has not. */
bool pev_engine_read_timer(struct pev_engine *engine, uint32_t timer);

/*
 * One round: begin, then next until it returns no 1, then end. next returns 1 and the next record
 * in rec, for slot; 0 at the end of the round; or -errno with the reason when reading ends early,
 * after all records before. A record is valid until the next call of any of the three. The last
 * record is a LOST record of the losses that no other record had, if a listener wants it.
 * end returns -errno if the kernel does not resume the output that a snapshot paused.
 */
int pev_engine_begin(struct pev_engine *engine, enum pev_drain drain);
static inline int pev_engine_next(struct pev_engine *engine, struct pev_err *err);
int pev_engine_end(struct pev_engine *engine);
/* Skips the remaining listeners of the current record. */
static inline void pev_engine_skip_listeners(struct pev_engine *engine)
{
	engine->next_listener = engine->end_listener;
}

/* Returns 0 to continue, 1 to stop behind this record, or -errno to stop with this error. */
typedef int (*pev_deliver_fn)(void *ctx, uint32_t slot, const struct pev_record *rec);

/* Delivers a whole round. Returns the number of records, or -errno. */
int64_t pev_engine_dispatch(struct pev_engine *engine, enum pev_drain drain,
			    pev_deliver_fn deliver, void *ctx, struct pev_err *err);

/* ---- the fast path ---- */

/* As pev_engine_next(), without the fast path. */
int pev_engine_next_any(struct pev_engine *engine, struct pev_err *err);

/* Ends the fast path: a listener, filter or timer has changed. */
static inline void pev_engine_end_fast_path(struct pev_engine *engine) { engine->generation++; }

/* Returns the route of a sample that can take the fast path, or NULL. */
static inline const struct pev_route *pev_engine_fast_route(const struct pev_engine *e,
							    const struct pev_source_record *from)
{
	uint32_t place = (from->event + 1) * PEV_RECORD_NR + PERF_RECORD_SAMPLE;
	const struct pev_route *route;

	if (from->type != PERF_RECORD_SAMPLE || place >= e->nr_routes ||
	    from->time < e->fast_from || from->time > e->fast_to)
		return NULL;
	route = &e->routes[place];
	if (route->fast_generation != e->generation)
		return NULL;
	if (route->pid_offset && route->pid_offset + 4u <= from->size &&
	    (int)pev_load32(from->bytes + route->pid_offset, from->plan->swap) == e->exclude_pid)
		return NULL;
	return route;
}

/*
 * Returns how many samples, at most most, follow in the run with the same event as the current one
 * and on the fast path. slot receives them, but they are not located. The caller may consume some
 * if that changes no listener, and reports their number to pev_engine_skip_run().
 */
static inline uint32_t pev_engine_count_run(const struct pev_engine *e, uint64_t most)
{
	const struct pev_source_record *from = e->source->run->at, *end = e->source->run->end;
	const struct pev_source_record *next = from;
	uint32_t event = e->from->event;

	most = e->budget < most ? e->budget : most;
	end = most < (uint64_t)(end - from) ? from + most : end;
	while (next < end && next->event == event && pev_engine_fast_route(e, next))
		next++;
	return e->next_listener == e->end_listener ? (uint32_t)(next - from) : 0;
}

static inline void pev_engine_skip_run(struct pev_engine *e, uint32_t nr)
{
	e->source->run->at += nr;
	e->budget -= nr;
}

/*
 * Returns how many samples of one event, at most most, follow on the fast path to slot whose
 * numbers were read ahead: *numbers, sample by sample.
 */
static inline uint32_t pev_engine_count_rows(const struct pev_engine *e, uint64_t most,
					     uint32_t *slot, const int64_t **numbers)
{
	const struct pev_source_run *run = e->source->run;
	const struct pev_source_record *from = run->at;
	const struct pev_route *route;

	if (!run->rows || from == run->end || !from->row || e->next_listener != e->end_listener)
		return 0;
	route = pev_engine_fast_route(e, from);
	if (!route || route->pid_offset)
		return 0;
	*slot = route->slot;
	*numbers = run->rows + from->row - 1;
	most = e->budget < most ? e->budget : most;
	if (from->nr_alike >= most || from[from->nr_alike].time > e->fast_to)
		return most > 0;
	return from->nr_alike + 1u;
}

/* Takes the next of these samples. Of rec, only the type is set. */
static inline void pev_engine_take_row(struct pev_engine *e, uint32_t slot)
{
	e->budget--;
	e->from = e->source->run->at++;
	e->rec.type = PERF_RECORD_SAMPLE;
	e->slot = slot;
}

static inline int pev_engine_next(struct pev_engine *e, struct pev_err *err)
{
	const struct pev_source_record *from = e->source->run->at;
	const struct pev_route *route;

	if (e->next_listener != e->end_listener || from == e->source->run->end || !e->budget)
		return pev_engine_next_any(e, err);
	route = pev_engine_fast_route(e, from);
	if (!route || !pev_record_locate_sample(&e->rec, from->plan, from->bytes, from->size))
		return pev_engine_next_any(e, err);
	e->source->run->at++;
	e->budget--;
	e->from = from;
	e->slot = route->slot;
	return 1;
}
