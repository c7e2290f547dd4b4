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

#include "datafile.h"
#include "deferred.h"
#include "err.h"
#include "record.h"
#include "selection.h"
#include "task.h"

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
	struct pev_datafile *df;       /* borrowed */
	struct pev_tasks *tasks;       /* borrowed */
	struct pev_selection wanted;   /* the caller's to fill before the first record */
	int exclude_pid;               /* its records are heard by nobody; 0: none */
	bool uncalled;                 /* hand out what listeners without a callback hear, too */
	uint64_t budget;               /* records to read until the next PEV_TURN_ROUND */

	/* The record at hand. */
	struct pev_file_record from;
	struct pev_record rec;
	uint32_t event, type;          /* its number + 1, or 0; below PEV_RECORD_NR */
	uint32_t slot, timer;
	enum pev_stage stage;
	bool whole;                    /* it waited, and waits no more */
	struct pev_deferred deferred;
	struct pev_route route;
	uint32_t at;                   /* of the route's hearers */

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
	bool *keeps;                   /* by event: exclude_pid is not for this one */
	uint32_t nr_keeps;
	bool begun;
	uint64_t news, excluded;
};

/* Of a reader and of tasks that know nobody else; both borrowed. Nothing is allocated. */
void pev_replay_init(struct pev_replay *replay, struct pev_datafile *df, struct pev_tasks *tasks);
void pev_replay_free(struct pev_replay *replay);

/* A listener: its slot, or -ENOMEM. heard as in struct pev_replay_slot. */
int pev_replay_listen(struct pev_replay *replay, uint32_t heard);
/* The slots that hear what PEV_TURN_ROUTE asked about, in their order. -ENOMEM. */
int pev_replay_route(struct pev_replay *replay, const uint32_t *slots, uint32_t nr);
/* Ask anew who hears what, from the next record on. */
void pev_replay_forget(struct pev_replay *replay);
/* A timer: its number, or -ENOMEM. Time begins with the first sample, or what somebody hears. */
int pev_replay_timer(struct pev_replay *replay, uint64_t first, uint64_t every);
/* Records of the event of that number are heard though exclude_pid wrote them. -ENOMEM. */
int pev_replay_keep(struct pev_replay *replay, uint32_t event);

/*
 * Go on to what concerns the caller: an enum pev_turn. -errno with the reason where reading
 * ends early, all that was read handed out; or -ENOMEM. A record and its bytes
 * are good until the next call.
 */
int pev_replay_next(struct pev_replay *replay, struct pev_err *err);
/* The other hearers of the record at hand are passed over. */
void pev_replay_pass(struct pev_replay *replay);

#endif
