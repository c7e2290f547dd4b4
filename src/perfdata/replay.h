/*
 * replay.h - a recording as the source of a session: record by record, who hears it.
 *
 * A listener has a slot; who hears the records of an event and a type is asked once and
 * kept as a route. Time is the records' own: a timer is due when a record has passed it.
 * Every record feeds the tasks; those that are not wanted are heard by nobody.
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

/* What pev_replay_next() has come to. */
enum pev_turn {
	PEV_TURN_NONE,    /* never given */
	PEV_TURN_RECORD,  /* slot hears rec */
	PEV_TURN_TIMER,   /* timer is due */
	PEV_TURN_ROUTE,   /* who hears event's records of type? pev_replay_route() tells */
	PEV_TURN_NEWS,    /* the reader knows more of events or sections */
	PEV_TURN_DAMAGED, /* a record cannot be located, and is passed over: err says why */
	PEV_TURN_ROUND,   /* budget records were read; there may be more */
	PEV_TURN_END
};

enum pev_stage { PEV_STAGE_READ, PEV_STAGE_LOOK, PEV_STAGE_TIME, PEV_STAGE_HEAR };

struct pev_route {
	uint32_t first, nr; /* of hearers */
	bool known;
	bool called;        /* one of them has a callback */
	bool parts;         /* one of them hears CALLCHAIN_DEFERRED: samples come as they are */
	uint32_t answered;  /* as the replay's answers: a sample is slot's, no more is asked */
	uint32_t slot;
};

struct pev_replay_slot {
	uint32_t heard; /* bit n: it has a callback for type n; bit 0: unknown types */
	bool off;
};

struct pev_replay_timer {
	uint64_t first, every; /* ns; every 0: once */
	uint64_t due;          /* 0: time has not begun */
};

struct pev_replay {
	struct pev_reader *df;       /* borrowed */
	struct pev_file_run *run;      /* its own */
	struct pev_tasks *tasks;       /* borrowed */
	struct pev_record_filter wanted;   /* the caller's to fill before the first record */
	int exclude_pid;               /* its records are heard by nobody; 0: none */
	bool uncalled;                 /* hand out what listeners without a callback hear, too */
	uint64_t budget;               /* records to read until the next PEV_TURN_ROUND */
	/* Samples of these times have the answer that the one before of their route had. */
	uint32_t answers;
	bool of_uncalled;              /* what uncalled was then */
	uint64_t since, until;

	/* The record at hand. */
	const struct pev_file_record *from;
	struct pev_record rec;
	uint32_t event, type;          /* its route's: number + 1, or 0; below PEV_RECORD_NR */
	uint32_t slot, timer;
	enum pev_stage stage;
	bool whole;                    /* it waited, and waits no more: it is ready */
	struct pev_file_record ready;  /* likewise the record of the last loss */
	struct pev_deferred deferred;
	struct pev_group_read group;    /* a leader's sample is heard as those of its group */
	struct pev_file_record part;   /* one of them, and whether it is the record at hand */
	bool is_part;
	uint32_t at, end;              /* of the hearers: those that have yet to hear it */

	struct pev_route *routes;      /* [event * PEV_RECORD_NR + type] */
	uint32_t nr_routes;
	uint32_t *hearers;
	uint32_t nr_hearers, cap_hearers;
	bool forget;
	struct pev_replay_slot *slots;
	uint32_t nr_slots;
	struct pev_replay_timer *timers;
	uint32_t nr_timers;
	uint64_t due;                  /* of the first timer; 0: they are to be looked at */
	uint64_t lost_own;             /* the caller's to fill: lost of hidden events */
	uint64_t heard_lost;           /* of the LOST records that were heard */
	bool told_loss;
	uint64_t last_loss[PEV_LOSS_WORDS]; /* the record of what they did not tell, and its plan */
	struct pev_plan plain;
	bool *keeps;                   /* by event: exclude_pid is not for this one */
	uint32_t nr_keeps;
	bool begun;
	uint64_t news, excluded;
};

/* Who hears what is other than it was: no sample goes without a look at all of it. */
static inline void pev_replay_anew(struct pev_replay *replay) { replay->answers++; }

/* Of a reader and of tasks that know nobody else; both borrowed. Nothing is allocated. */
void pev_replay_init(struct pev_replay *replay, struct pev_reader *df, struct pev_tasks *tasks);
void pev_replay_free(struct pev_replay *replay);

/* A listener: its slot, or -ENOMEM. heard as in struct pev_replay_slot. */
int pev_replay_listen(struct pev_replay *replay, uint32_t heard);
/* The slots that hear what PEV_TURN_ROUTE asked about, in their order. -ENOMEM. */
int pev_replay_route(struct pev_replay *replay, const uint32_t *slots, uint32_t nr);
/* Ask anew who hears what, from the next record on. */
void pev_replay_forget(struct pev_replay *replay);
/* What the slot hears is handed out, or is not. */
void pev_replay_switch(struct pev_replay *replay, uint32_t slot, bool on);
/* That process's records are heard by nobody; 0: no process's. */
void pev_replay_exclude(struct pev_replay *replay, int pid);
/* A timer: its number, or -ENOMEM. Time begins with the first sample, or what somebody hears. */
int pev_replay_timer(struct pev_replay *replay, uint64_t first, uint64_t every);
/* Records of the event of that number are heard though exclude_pid wrote them. -ENOMEM. */
int pev_replay_keep(struct pev_replay *replay, uint32_t event);

/*
 * Go on to what concerns the caller: an enum pev_turn. -errno with the reason where reading
 * ends early, all that was read handed out; or -ENOMEM. A record and its bytes
 * are good until the next call.
 */
static inline int pev_replay_next(struct pev_replay *replay, struct pev_err *err);
/* The other hearers of the record at hand are passed over. */
void pev_replay_pass(struct pev_replay *replay);

/* The same of any record, with all that there is to ask. */
int pev_replay_next_any(struct pev_replay *replay, struct pev_err *err);

/* Who hears a sample, as the one before of the same event was heard; NULL: that is to be asked. */
static inline const struct pev_route *pev_replay_answer(const struct pev_replay *r,
							const struct pev_file_record *from)
{
	uint32_t place = (from->event + 1) * PEV_RECORD_NR + PERF_RECORD_SAMPLE;

	if (from->type != PERF_RECORD_SAMPLE || place >= r->nr_routes ||
	    r->routes[place].answered != r->answers || r->uncalled != r->of_uncalled ||
	    from->time < r->since || from->time > r->until)
		return NULL;
	return &r->routes[place];
}

/*
 * How many samples of the event of the one at hand come next, most at most, that all have the
 * answer that it had: they stand in the run, located by nobody, and slot hears them. What is done
 * with them may change nothing of who hears what. pev_replay_took() says how many it was done with.
 */
static inline uint32_t pev_replay_alike(const struct pev_replay *r, uint64_t most)
{
	const struct pev_file_record *from = r->run->at, *end = r->run->end, *next = from;
	uint32_t event = r->from->event;

	if (r->stage != PEV_STAGE_READ || from == end || from->event != event ||
	    !pev_replay_answer(r, from))
		return 0;
	most = r->budget < most ? r->budget : most;
	end = most < (uint64_t)(end - from) ? from + most : end;
	while (next < end && next->event == event && next->type == PERF_RECORD_SAMPLE &&
	       next->time >= r->since && next->time <= r->until)
		next++;
	return (uint32_t)(next - from);
}

static inline void pev_replay_took(struct pev_replay *r, uint32_t nr)
{
	r->run->at += nr;
	r->budget -= nr;
}

static inline int pev_replay_next(struct pev_replay *r, struct pev_err *err)
{
	const struct pev_file_record *from = r->run->at;
	const struct pev_route *route;

	if (r->stage != PEV_STAGE_READ || from == r->run->end || !r->budget)
		return pev_replay_next_any(r, err);
	route = pev_replay_answer(r, from);
	if (!route ||
	    !pev_record_locate_sample(&r->rec, from->plan, from->bytes, from->size))
		return pev_replay_next_any(r, err);
	r->run->at++;
	r->budget--;
	r->from = from;
	r->slot = route->slot;
	return PEV_TURN_RECORD;
}

#endif
