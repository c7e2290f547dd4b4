/*
 * session.h - the engine: live rings -> order -> dispatch.
 *
 * Events go in, located records come out in time order, one call each.
 *
 * Order: the rings are the queue. A round reads the clock, then every head, and
 * delivers what is older than the reading of an earlier round (merge.h). Rounds
 * happen when a ring passes its watermark and on a tick; so a record waits at
 * most two ticks and a gap (2 * PEV_TICK_NS + PEV_GAP_NS) and what callbacks take,
 * and its order is exact as long as writing a record takes the kernel less than
 * PEV_GAP_NS. What has to
 * wait leaves a ring that it fills by more than a quarter, or by more than three while
 * records are delivered, and waits in memory: of a ring at most four times its size, and
 * 4 MiB. When that does not do, a ring over three quarters full is drained to its half at
 * once; records that come too late for their place are delivered all the same and counted.
 *
 * A sample whose user part is deferred is handed out when that has come (deferred.h), behind
 * records that are younger; to an event that hears CALLCHAIN_DEFERRED both come as they are.
 */
#ifndef PEV_SESSION_H
#define PEV_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "record/deferred_callchain.h"
#include "base/err.h"
#include "event/event.h"
#include "base/merge.h"
#include "record/record.h"
#include "perfdata/writer.h"
#include "live/ring.h"
#include "base/sys.h"
#include "task/task.h"

#define PEV_TICK_NS UINT64_C(100000000)
#define PEV_GAP_NS UINT64_C(10000000)

struct pev_session_config {
	size_t ring_bytes;     /* data bytes per CPU, a power of two of pages; 0: 2 MiB */
	int clockid;           /* of all times; CLOCK_MONOTONIC unless set */
	int exclude_pid;       /* records of this process are not delivered; 0: none */
	bool unordered;        /* deliver ring by ring, at once */
	/* Told, never asked: what was dropped, shrunk or skipped, a sentence each. May be NULL. */
	void (*note)(void *ctx, const struct pev_err *what);
	void *note_ctx;
};

/* What is wanted of an event. */
struct pev_want {
	uint32_t heard;        /* bit n: records of type n have a listener; bit 0: unknown types */
	size_t aux_bytes;      /* its AUX area on each CPU, a power of two of pages; 0: none */
	bool aux_optional;     /* goes without where its PMU has no AUX area; noted */
	bool nameless;         /* nobody asks whose its samples are */
	bool timeless;         /* its records have no time, and stay behind the one before them */
};

/* An event in a session. */
struct pev_slot {
	struct pev_event event;
	struct pev_plan plan;
	uint32_t heard;        /* bit n: records of type n have a listener; bit 0: unknown types */
	uint32_t index;        /* its place in session->slots; never re-used */
	bool hidden;           /* the session's own side-band event: nobody asked for its records */
	bool keep_own;         /* exclude_pid is not for this one */
	bool own_rings;        /* nobody else writes into its rings: they have AUX areas */
	bool off;              /* switched off by us, and not by the kernel */
	bool closed;
	bool splits;           /* its samples are split into those of its group */
	uint64_t lost;         /* PERF_FORMAT_LOST when it was last read */
	uint64_t recorded_lost; /* the part of it that recordings have */
};

struct pev_totals {
	uint64_t records;      /* read from the rings, of every type */
	uint64_t delivered;    /* handed to the callback */
	uint64_t lost;         /* that the kernel could not write; PERF_FORMAT_LOST, else LOST */
	uint64_t lost_own;     /* the same of hidden events: names of tasks may be missing */
	uint64_t lost_samples; /* that the hardware lost; LOST_SAMPLES */
	uint64_t late;         /* older than one delivered before */
	uint64_t malformed;    /* skipped by size: a length inside was wrong */
	uint64_t corrupt;      /* rings resynchronised */
	uint64_t unknown_id;   /* of no event we know */
	uint64_t throttled;    /* THROTTLE records */
	uint64_t unjoined;     /* samples whose deferred user part never came */
	uint64_t excluded;     /* of exclude_pid, and of tasks by other names than those wanted */
	uint64_t aux_bytes;    /* of AUX areas that a record told of and that were there */
	uint64_t aux_skipped;  /* that no record told of: it was lost */
	uint64_t aux_truncated; /* AUX records that say that some is missing before or after */
	uint64_t wakeups;
	uint64_t rings, ring_bytes; /* so many, the smallest of so many data bytes */
};

struct pev_session; /* opaque; owns its events, rings and task table */

/* The config is copied. Nothing is opened but an epoll descriptor. */
int pev_session_open(struct pev_session **session, const struct pev_sys *sys,
		     const struct pev_session_config *config, struct pev_err *err);
/*
 * Deliver only records of tasks whose comm matches this pattern (fnmatch(3)), or another one
 * given, when the record is written; records of lost ones are always delivered. -ENOMEM.
 * Call it before the first event, so that each record has the pid and tid of its task.
 */
int pev_session_want_comm(struct pev_session *session, const char *pattern);

/*
 * False in a process that was forked since. There the rings are not mapped, and what is
 * asked of the events happens to the parent: such a session can be closed, and nothing else.
 */
bool pev_session_is_ours(const struct pev_session *session);

/*
 * Open attr on the target, ids known and output routed into the CPUs' rings,
 * not enabled. The session adds to the attr what it stands on: sample_id_all,
 * IDENTIFIER, TIME, TID, CPU, its clock, a watermark unless the attr has one, and
 * read_format's times, id and lost. What an older kernel refuses of the latter is
 * dropped and noted. *slot is the session's.
 *
 * An event with an AUX area has a ring of its own on each CPU. The area is read as it
 * comes: the kernel, which stops tracing when it is full, is given it back record by
 * record, and is asked to go on. It must not have write_backward.
 */
int pev_session_add(struct pev_session *session, const struct pev_attr *attr, const char *name,
		    const struct pev_target *target, const struct pev_want *want,
		    struct pev_slot **slot, struct pev_err *err);

/* The slot of that index, or NULL; and the index that the next one will get. */
struct pev_slot *pev_session_slot(const struct pev_session *session, uint32_t index);
uint32_t pev_session_slots(const struct pev_session *session);

/* Stop an event for good: disabled, its records no longer delivered. */
void pev_session_remove(struct pev_session *session, struct pev_slot *slot);

/* One event on, or off. */
int pev_session_switch(struct pev_slot *slot, bool on);

/* All events on, or off; and the tick that bounds how long a record waits. */
int pev_session_enable(struct pev_session *session, struct pev_err *err);
int pev_session_disable(struct pev_session *session);

/* Pollable: readable when dispatching is worth it. */
int pev_session_fd(const struct pev_session *session);
/* A descriptor of the caller's in the same poll set. */
int pev_session_watch(struct pev_session *session, int fd);
int pev_session_unwatch(struct pev_session *session, int fd);

/*
 * Have the descriptor be readable until it has been waited for: more is there than was taken, and
 * the kernel, which says so once, will not say it again before more has come.
 */
int pev_session_again(struct pev_session *session);

/*
 * Wait until something is ready; which watched descriptors are goes to ready[0..max).
 * How many, or -errno; -EINTR is the caller's to judge.
 */
int pev_session_wait(struct pev_session *session, int timeout_ms, int *ready, int max);

/* True once no target of any event is left (POLLHUP on every ring). */
bool pev_session_over(const struct pev_session *session);

/*
 * For how long the events of that CPU were on, in ns, all of them together. It stands still where
 * all are off, and where the CPU was offline meanwhile: events do not come back with their CPU
 * (perf_event_exit_cpu(), kernel/events/core.c).
 */
uint64_t pev_session_time_on(const struct pev_session *session, int cpu);

enum pev_drain {
	PEV_DRAIN_ROUND,     /* what the order allows now, as far as it is heard */
	PEV_DRAIN_ROUND_ALL, /* the same, but every record of every event that is not hidden */
	PEV_DRAIN_REST,      /* all there is: events are disabled, nothing more comes */
	PEV_DRAIN_REST_ALL,
	PEV_DRAIN_DISCARD,   /* all there is, to nobody: counted as read only */
	PEV_DRAIN_SNAPSHOT   /* what the backward rings hold; of pev_session_snapshot() */
};

/*
 * One round, record by record: begin, next until it gives 0, end. A record and
 * its slot are good until the next call of any of the three. The last record of a REST round
 * is a LOST record of the losses that no other record had, if a slot listens to it. begin ends a
 * round that was left open; end gives the kernel its room back. -EBUSY inside a dispatch.
 */
int pev_session_begin(struct pev_session *session, enum pev_drain drain);
int pev_session_next(struct pev_session *session, struct pev_slot **slot, struct pev_record *rec);
void pev_session_end(struct pev_session *session);

/*
 * The bytes of the AUX area that a record tells of; false for one that tells of none. For
 * the record that was handed out last, and good as long as that is.
 */
bool pev_session_aux(const struct pev_session *session, const struct pev_record *rec,
		     struct pev_aux *aux);

/* The record that was handed out last is nobody's after all: it does not count as delivered. */
void pev_session_unwanted(struct pev_session *session);

/* 0: go on. 1: stop here, this record counts as delivered. -errno: the same, and it is returned. */
typedef int (*pev_deliver_fn)(void *ctx, struct pev_slot *slot, const struct pev_record *rec);

/*
 * A whole round, at most max records (0: no limit). How many were delivered, or
 * -errno. -EBUSY when called from a deliver function.
 */
int64_t pev_session_dispatch(struct pev_session *session, enum pev_drain drain, uint64_t max,
			     pev_deliver_fn deliver, void *ctx);

/*
 * Deliver what the backward rings hold (events with write_backward), oldest
 * first, their output paused meanwhile: what happens then is lost and counted. The
 * records stay; a later snapshot gives again those that are not overwritten by then.
 */
int64_t pev_session_snapshot(struct pev_session *session, pev_deliver_fn deliver, void *ctx);

/*
 * Have rec get the rings' bytes as they are, from here on, before the kernel gets their room
 * back; NULL: nobody. Borrowed. What is delivered is what it gets, in rounds whose
 * records are older than all that come after; of PEV_DRAIN_DISCARD it gets nothing.
 * Backward rings and AUX areas are not for it.
 */
void pev_session_record(struct pev_session *session, struct pev_writer *rec);
/* At the end, when its events are off: what overwritten rings hold goes to the recorder. */
void pev_session_record_kept(struct pev_session *session);

/*
 * A round for the recorder alone: all there is goes to it, and no record is looked at. How
 * much that was, in bytes, or -EBUSY. Rounds are marked so that a reader can put their records
 * in order as we would have.
 */
int64_t pev_session_copy(struct pev_session *session);

/*
 * Gives the recorder the count of lost records of each event that is not hidden, as far as no
 * earlier recording has it: LOST_SAMPLES records. Returns that of the hidden ones, and 0
 * without a recorder or where an event cannot be asked: then there are LOST records alone.
 */
uint64_t pev_session_record_losses(struct pev_session *session);

/* The totals so far; reads the kernel's own count of lost records. */
void pev_session_totals(struct pev_session *session, struct pev_totals *totals);

/* The comm of a record's task, ":TID" as perf prints it for one unknown. Borrowed. */
const char *pev_session_comm(struct pev_session *session, int tid);
struct pev_tasks *pev_session_tasks(struct pev_session *session);

/*
 * Everything back in reverse. From inside a deliver function the session is
 * closed once that has returned.
 */
void pev_session_close(struct pev_session *session);

/* The same at once, when nobody will return to the deliver function that is running. */
void pev_session_drop(struct pev_session *session);

#endif
