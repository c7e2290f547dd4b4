/*
 * session_state.h - the state of struct pev_session, shared by the files of this folder.
 *
 * session_open.c opens events and rings and waits. round.c takes records from the rings in order of
 * time, ring_samples.c takes samples without it. ring_recorder.c gives the rings' bytes to a
 * recorder, aux_area.c reads AUX areas, and losses.c knows the records that the kernel lost.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/merge.h"
#include "live/ring.h"
#include "live/session.h"
#include "perfdata/reorder.h"
#include "record/lost.h"
#include "task/history.h"

/* A ring and its next record. */
struct pev_session_ring {
	struct pev_ring ring;
	int cpu;
	int clockid;
	bool backward;              /* overwritten by the kernel; read by snapshots only */
	const struct pev_slot *owner; /* the only event that writes here; NULL: shared */
	bool early;                 /* the owner's records are delivered when they are read */
	uint64_t idle_aux_head;            /* AUX head when the ring was last empty */
	int fd;                     /* mapped event, borrowed; others are redirected here */
	int epfd;                   /* the poll set: the session's, or a reader's */
	int poll_fd;                /* descriptor in the poll set; -1 when all have hung up */
	const unsigned char *next;  /* next record, or NULL */
	struct pev_slot *slot;      /* its event, or NULL */
	uint64_t time;              /* of the last parsed record */
	uint16_t next_size;
	uint16_t next_end;          /* bytes that the kernel wrote, of next_size */
	uint32_t type;              /* of the next record */
	uint64_t recorded;          /* the recorder is done with all before this position */
	bool urgent;               /* more than three quarters full when the round began */
	bool reported_corrupt;
	bool skips;                 /* the bytes from skipped on could not be parsed */
	uint64_t skipped;
};

struct pev_session_id {
	uint64_t id;                /* 0: free; the kernel counts from 1 */
	uint32_t slot;
};

/* Where a record of the run was taken from. */
struct pev_session_taken {
	struct pev_session_ring *ring;
	uint64_t position;
};

struct pev_session {
	const struct pev_sys *sys;
	struct pev_session_config config;
	int epfd, tick;
	uint64_t tick_ns;                /* the tick's interval */
	bool delivered_since_tick;       /* a round has delivered a record since the last tick */
	int wake_timer;                  /* an expired timer that is never read; -1: none yet */
	bool wake_timer_armed;                 /* the timer is in the poll set */
	struct pev_session_ring **rings;
	uint32_t nr_rings;
	struct pev_slot **slots;
	uint32_t nr_slots;
	struct pev_session_id *ids;       /* open addressing */
	uint32_t nr_ids, cap_ids;
	uint64_t last_id;           /* last lookup: id (0: none) and slot */
	struct pev_slot *last_slot;
	struct pev_merge merge;
	struct pev_tasks tasks;
	struct pev_totals totals;

	/* The round and its run of records. */
	struct pev_source source;
	struct pev_source_run run;
	struct pev_source_record records[PEV_SOURCE_RUN_MAX];
	struct pev_session_taken taken[PEV_SOURCE_RUN_MAX];
	const struct pev_source_record *counted; /* totals include the run's records before it */
	enum pev_drain drain;
	bool in_round;
	uint32_t urgent;           /* number of urgent rings */
	uint32_t skips;            /* number of rings with skipped bytes */
	struct pev_session_ring *unparsed; /* the record behind the taken one is not parsed */
	size_t lift_room;           /* bytes that rings may still move to memory */
	bool memory_full;           /* a ring had no room there, and was left full */
	uint64_t lost_before;       /* then: losses up to that time */
	uint32_t unchecked;         /* records since the last check for full rings */
	uint64_t last_time;         /* of the newest record that was taken */

	struct pev_session_feed *feed; /* NULL: all records are in order of time */
	struct pev_reorder kept;    /* records of the feed that wait for their time */
	bool run_is_kept;           /* the run's records are from there */
	bool has_fed;               /* the round has passed samples */

	struct pev_session_ring *aux_ring; /* the last record of the run announces AUX bytes */
	uint64_t aux_offset, aux_size, aux_flags;

	uint64_t last_loss[PEV_LOSS_WORDS]; /* LOST record for the remaining losses */
	struct pev_writer *recorder; /* borrowed; NULL: no recording */
	struct pev_task_history history; /* for snapshots, if source.history is set */
	uint64_t next_mark;         /* earliest time to mark a round of copying */
	bool own_clock;             /* an event uses another clock: no order across rings */
	unsigned process;           /* opened the session: pev_sys_process() */
};

/* Calls config.note with a text for the user. */
void pev_session_note(struct pev_session *session, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Returns the event of an id in a record, or NULL. Remembers the last one. */
struct pev_slot *pev_session_slot_of_record(struct pev_session *session,
					    const unsigned char *bytes, uint16_t size);
/* Returns the index of the slot with that id, or PEV_NO_EVENT. */
uint32_t pev_session_slot_of_id(const struct pev_session *session, uint64_t id);

/* Moves the ring's descriptor to another poll set, which pev_session_hand_over_ring() reads. */
void pev_session_move_ring(struct pev_session *session, uint32_t index, int epfd);
/* A reader's descriptor with that tag has hung up: lets the session handle it. Any thread. */
void pev_session_hand_over_ring(const struct pev_session *session, int epfd, uint64_t tag);

/* Parses the record at r->next, of r->next_size bytes: its type, event and time. */
void pev_session_parse_record(struct pev_session *session, struct pev_session_ring *r);

/* ring_samples.c: while a feed is on, its lock guards the rings and pev_session_has_fed(). */
void pev_session_lock_rings(struct pev_session *session);
void pev_session_unlock_rings(struct pev_session *session);
bool pev_session_has_fed(const struct pev_session *session);
/* Passes what was read, and what the rings have, to the consumer. */
void pev_session_collect(struct pev_session *session);
/* Fills the run with kept records before that time. False if there are none. */
bool pev_session_fill_kept(struct pev_session *session, uint64_t horizon);
void pev_session_release_kept(struct pev_session *session);
/* Ends the feed and the kept records, without the consumer. */
void pev_session_close_feed(struct pev_session *session);

/* Sets the interval of the tick. On failure the tick stays as it is. */
int pev_session_set_tick(struct pev_session *session, uint64_t ns);
/* Makes the session a source of records (round.c). */
void pev_session_init_source(struct pev_session *session);
/* Ends the round, if there is one. Returns as end of struct pev_source_calls. */
int pev_session_end_round(struct pev_session *session);

/*
 * Gives the recorder the bytes read from all rings, in ring order:
 * records of the same time are delivered in this order too.
 */
void pev_session_record_read(struct pev_session *session, int marks);
/* Marks behind delivered records: later records are younger, or late in a replay as live. */
#define PEV_ALL_OLDER 2
/* Returns space to the kernel, after the recorder has received it. */
void pev_session_return_space(struct pev_session *session, struct pev_session_ring *ring);
/* Records what the rings had before bytes that could not be parsed; these are not recorded. */
void pev_session_record_skips(struct pev_session *session);

/* Pauses or resumes the output into backward rings. Returns the first error. */
int pev_session_pause_output(struct pev_session *session, bool pause);

/* True if the record announces bytes of the ring's AUX area, which pev_session_aux() returns. */
bool pev_session_announces_aux(struct pev_session *session, struct pev_session_ring *ring);
/* Returns the announced bytes to the kernel; they were read or ignored. */
void pev_session_return_aux(struct pev_session *session);
/* True if the area is half full, when the kernel wakes us: the PMU cannot wait for the order. */
bool pev_session_aux_is_urgent(const struct pev_session_ring *ring);
/* Skips AUX bytes whose record was lost, which would fill the area for ever. */
void pev_session_skip_lost_aux(struct pev_session *session, struct pev_session_ring *ring);

/* The memory for lifted records is full, or no longer: losses in between have this cause. */
void pev_session_set_memory_full(struct pev_session *session, bool full);
/* Counts the records of the run that were consumed. */
void pev_session_count_taken(struct pev_session *session);
/* Makes a record of the losses beyond those delivered; see struct pev_source_calls. */
bool pev_session_last_loss(struct pev_source *source, uint32_t event, uint64_t delivered,
			   struct pev_source_record *out);

static inline struct pev_session *pev_session_of(const struct pev_source *source)
{
	return (struct pev_session *)((uintptr_t)source - offsetof(struct pev_session, source));
}
