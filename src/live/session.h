/*
 * session.h - a live session: events, their rings, and their records in time order.
 *
 * The caller adds events. The session is a source of records (record/source.h) for an engine
 * (engine/engine.h), which delivers them.
 *
 * Order: the rings are the queue. A round reads the clock, then the head of every ring, and
 * delivers the records that are older than PEV_GAP_NS (merge.h). The order is exact as long as
 * the kernel needs less than that to write a record.
 *
 * A round starts when a ring passes its watermark, and on a tick. The kernel does not signal the
 * first record in an empty ring (perf_output_put_handle()), so an idle session still has a tick,
 * every PEV_IDLE_TICK_NS. Once a round delivers a record, it is every PEV_TICK_NS, until no
 * record is delivered between two ticks. So a record waits at most PEV_TICK_NS + PEV_GAP_NS and
 * the time of the callbacks; the first one after a pause PEV_IDLE_TICK_NS + PEV_GAP_NS.
 *
 * If a ring is more than a quarter full of waiting records, or half while records are delivered,
 * they are moved to memory, of all rings together at most max_lifted bytes. If that is not
 * enough, a ring more than three quarters full is drained to its half at once.
 * Records that arrive too late for their place are delivered all the same, and counted.
 *
 * The records of an early event are delivered as soon as a round reads them, before their place in
 * the order of time, and are not recorded. Each of them wakes the reader.
 *
 * A sample with a deferred user part is delivered when that arrives (deferred_callchain.h),
 * behind younger records. An event that wants CALLCHAIN_DEFERRED gets both as they are.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "event/event.h"
#include "record/record.h"
#include "record/sample_batch.h"
#include "record/source.h"
#include "perfdata/writer.h"
#include "live/ring.h"
#include "base/sys.h"
#include "task/task.h"

#define PEV_TICK_NS UINT64_C(100000000)
#define PEV_IDLE_TICK_NS UINT64_C(500000000)
#define PEV_GAP_NS UINT64_C(10000000)

struct pev_session_config {
	size_t ring_bytes;     /* data bytes per CPU, a power of two of pages; 0: 2 MiB */
	size_t max_lifted;     /* bytes that all rings may move to memory; 0: 128 MiB */
	int clockid;           /* of all times; default: CLOCK_MONOTONIC */
	bool names_tasks;      /* each record needs the pid and tid of its task */
	bool unordered;        /* deliver ring by ring, at once */
	/* Called with a note: a dropped option, smaller size or skipped event. May be NULL. */
	void (*note)(void *ctx, const struct pev_err *what);
	void *note_ctx;
};

/* What the caller needs from an event. */
struct pev_want {
	size_t aux_bytes;      /* of its AUX area per CPU, a power of two of pages; 0: none */
	bool aux_optional;     /* continue without, with a note, if the PMU has no AUX area */
	bool no_task;         /* samples do not need pid and tid */
	bool no_cpu;          /* samples do not need the CPU */
	bool no_time;         /* records have no time; each stays behind the one before it */
	bool no_records;      /* the event only counts: it has no ring */
	bool early;           /* deliver its records when they are read, without order of time */
};

/* An event in a session. */
struct pev_slot {
	struct pev_event event;
	struct pev_plan plan;
	uint32_t index;        /* number of the event in the session; never reused */
	bool hidden;           /* the session's own side-band event, whose losses count apart */
	bool own_rings;        /* no other event writes into its rings: AUX areas, early events */
	bool early;            /* its records are delivered when they are read */
	bool off;              /* switched off by us, not by the kernel */
	bool closed;
	bool counts;           /* it has no ring, see pev_session_take_count() */
	uint64_t counted;      /* the part of its count that was taken */
	uint64_t lost;         /* PERF_FORMAT_LOST, as last read */
	uint64_t recorded_lost; /* the part of it that recordings contain */
};

struct pev_totals {
	uint64_t records;      /* read from the rings, of every type */
	uint64_t lost;         /* not written by the kernel: PERF_FORMAT_LOST, else LOST */
	uint64_t lost_waiting; /* of lost: while the memory for lifted records was full */
	uint64_t lost_own;     /* lost by hidden events: names of tasks may be missing */
	uint64_t lost_samples; /* lost by the hardware: LOST_SAMPLES */
	uint64_t late;         /* older than a record delivered before */
	uint64_t malformed;    /* skipped: a length inside was wrong */
	uint64_t corrupt;      /* resynchronised rings */
	uint64_t unknown_id;   /* with an unknown event id */
	uint64_t throttled;    /* THROTTLE records */
	uint64_t aux_bytes;    /* of AUX areas, announced by a record and present */
	uint64_t aux_skipped;  /* without a record: it was lost */
	uint64_t aux_truncated; /* AUX records with the flag that bytes are missing */
	uint64_t wakeups;
	uint64_t rings, ring_bytes; /* number of rings, and data bytes of the smallest */
	uint64_t ring_peak;    /* most unread bytes in a ring, as of the last time it was read */
	uint64_t moved_peak;   /* most bytes that waited in memory, moved there from full rings */
};

struct pev_session; /* opaque; owns its events, rings and task table */

/* Opens a session; copies the config. Opens no descriptor except an epoll set. */
int pev_session_open(struct pev_session **session, const struct pev_sys *sys,
		     const struct pev_session_config *config, struct pev_err *err);
/* The session as a source of records. Borrowed. */
struct pev_source *pev_session_source(struct pev_session *session);

/*
 * False in a process that was forked since. Rings are not mapped there, and
 * operations on events affect the parent, so such a session can only be closed.
 */
bool pev_session_is_ours(const struct pev_session *session);

/*
 * Opens attr on the target, reads the ids and redirects the output into the CPUs' rings.
 * The event is disabled. The session adds to the attr the fields that it needs:
 * sample_id_all, IDENTIFIER, TIME, TID, CPU, its clock, a watermark unless the attr has
 * one, and read_format's times, id and lost. Of the latter, those that an older kernel
 * refuses are dropped and reported as a note. *slot belongs to the session.
 */
int pev_session_add(struct pev_session *session, const struct pev_attr *attr, const char *name,
		    const struct pev_target *target, const struct pev_want *want,
		    struct pev_slot **slot, struct pev_err *err);

/*
 * pev_session_slot() returns the slot of that index, or NULL; pev_session_slots() the next index.
 */
struct pev_slot *pev_session_slot(const struct pev_session *session, uint32_t index);
uint32_t pev_session_slots(const struct pev_session *session);

/* Stops an event for good: it is disabled, and its records are not delivered any more. */
void pev_session_remove(struct pev_session *session, struct pev_slot *slot);

/* Switches one event on or off. */
int pev_session_switch_slot(struct pev_slot *slot, bool on);

/* Switches all events on or off. Enabling starts the tick that bounds how long a record waits. */
int pev_session_enable(struct pev_session *session, struct pev_err *err);
int pev_session_disable(struct pev_session *session);

/*
 * Returns how often an event that only counts happened since the last call, as read records; 0 for
 * other events; or -errno.
 */
int64_t pev_session_take_count(struct pev_session *session, struct pev_slot *slot);

/* The poll descriptor; readable when a dispatch has work. */
int pev_session_fd(const struct pev_session *session);
/* Adds a descriptor of the caller to the poll set, or removes it. */
int pev_session_watch(struct pev_session *session, int fd);
int pev_session_unwatch(struct pev_session *session, int fd);

/*
 * Makes the poll descriptor readable until the next wait. Needed when records are left
 * in a ring: the kernel signals a ring once, and not again before more has arrived.
 */
int pev_session_wake(struct pev_session *session);

/*
 * Waits until a descriptor is ready. ready[0..max) receives the watched ones. Without a timeout
 * (-1) a tick that finds all rings empty does not end the wait. Returns how many, or -errno; the
 * caller decides about -EINTR.
 */
int pev_session_wait(struct pev_session *session, int timeout_ms, int *ready, int max);

/* True when no target of any event is left (POLLHUP on every ring). */
bool pev_session_is_over(const struct pev_session *session);

/*
 * Returns how long the events of that CPU were on, in ns, as a sum. It does
 * not advance while all are off, nor for a CPU that was offline: its events
 * do not come back (perf_event_exit_cpu(), kernel/events/core.c).
 */
uint64_t pev_session_time_on(const struct pev_session *session, int cpu);

/*
 * Returns the bytes of the AUX area that the current record announces;
 * false if it announces none. Valid as long as the record.
 */
bool pev_session_aux(const struct pev_session *session, const struct pev_record *rec,
		     struct pev_aux *aux);

/*
 * Sets the recorder: from here on it receives the rings' bytes as they are, before
 * the kernel gets the space back. NULL: no recorder. Borrowed. It receives the
 * delivered records, in rounds that are older than all later records. It gets
 * nothing from PEV_DRAIN_DISCARD, backward rings and AUX areas.
 */
void pev_session_set_recorder(struct pev_session *session, struct pev_writer *rec);
/* At the end, when events are off: records the content of backward rings. */
void pev_session_record_backward(struct pev_session *session);

/*
 * From here on, keeps what the recordings of snapshots need to name tasks: the tasks as of now, and
 * the records of this event since then, which have that id (task/history.h). held: a process before
 * its exec, or 0. Returns 0 or -ENOMEM.
 */
int pev_session_keep_tasks(struct pev_session *session, const struct pev_slot *slot, uint64_t id,
			   int held);
/*
 * Writes the kept records about tasks and the content of the backward rings, whose output it pauses
 * meanwhile. Callbacks may call it. Returns 0 or -errno; the recorder keeps errors of its own.
 */
int pev_session_record_snapshot(struct pev_session *session, struct pev_writer *recorder);

/*
 * A round for the recorder only: copies all bytes to it and parses no record. Returns the number
 * of bytes. Marks rounds so that a reader can sort their records as a session would.
 */
int64_t pev_session_copy_rings(struct pev_session *session);

/*
 * Records the losses of each event that is not hidden, as LOST_SAMPLES records, as far as
 * no earlier recording has them. Returns the losses of hidden events. Returns 0 without a
 * recorder or if an event cannot be read: then the recording has LOST records only.
 */
uint64_t pev_session_record_losses(struct pev_session *session);

/*
 * A session without order of time: rounds PEV_DRAIN_ROUND and _REST pass samples straight to a
 * consumer; all other records, and samples of unknown layout, come to the engine as before.
 * Threads read the rings between two rounds. A change of events, another kind of round or a
 * recorder ends it.
 */
struct pev_session_feed_config {
	const struct pev_batch_config *batch; /* borrowed */
	uint32_t threads;      /* 0: only the rounds read. Else sys must allow several threads */
	/*
	 * In a round, with the ctx of batch: the part has samples, and is not fed meanwhile.
	 * Thread i feeds the parts 2 * i and 2 * i + 1; without threads there is part 0.
	 */
	void (*collect)(void *ctx, uint32_t part, uint64_t excluded);
};

/* Returns why the session needs the order of time, or NULL. */
const char *pev_session_feed_refusal(const struct pev_session *session);
/* Returns the number of threads, at most one for each ring, or -errno. */
int pev_session_feed(struct pev_session *session, const struct pev_session_feed_config *config);
void pev_session_stop_feed(struct pev_session *session);
bool pev_session_feeds(const struct pev_session *session);

/* Returns the totals so far; reads the kernel's count of lost records. */
void pev_session_totals(struct pev_session *session, struct pev_totals *totals);
/* Returns ring_peak of the n-th ring, and its CPU (-1: of a thread); or -ENOENT. */
int64_t pev_session_ring_peak(struct pev_session *session, uint32_t n, int *cpu);

/* Returns the comm of a task; ":TID", as perf prints it, if unknown. Borrowed. */
const char *pev_session_comm(struct pev_session *session, int tid);
struct pev_tasks *pev_session_tasks(struct pev_session *session);

/* Frees everything in reverse order. Not from a deliver function: it closes what it reads. */
void pev_session_close(struct pev_session *session);
