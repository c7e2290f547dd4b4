/*
 * source.h - records in order, from a recording or from a live session.
 *
 * A source fills a run of records. The caller takes records from the begin of the run and asks
 * for the next run when it is empty. Records that were not taken when a round ends come again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/abi.h"
#include "base/err.h"
#include "record/record.h"

#define PEV_NO_EVENT UINT32_MAX
#define PEV_SOURCE_RUN_MAX 64 /* records in a run */

/* A record in place, valid until the source fills its run again. */
struct pev_source_record {
	const unsigned char *bytes; /* the header, in the source's byte order */
	const struct pev_plan *plan; /* NULL: live, of an unknown event */
	uint64_t time;              /* ns; 0: the record has no time */
	uint64_t offset;            /* in the file: of the record, or of its COMPRESSED record */
	uint32_t type;
	uint32_t event;             /* the event's number, or PEV_NO_EVENT */
	uint16_t size;              /* 65528 for a longer record of simpleperf */
	uint16_t row;               /* its numbers are rows[row - 1] and the next; 0: not read */
	uint8_t nr_alike;           /* so many samples of its event follow in order of time, and
				       their numbers behind its numbers */
	bool synthesised;           /* the recorder made it: earlier state, or a count */
	bool early;                 /* it comes before its place in the order of time */
};

/* Consecutive records: at is the first, end is behind the last. */
struct pev_source_run {
	const struct pev_source_record *at, *end;
	const int64_t *rows; /* numbers of samples, read ahead; NULL: none */
};

/* The records of a round. A recording has no rings to drain: it has records in ROUND and _ALL. */
enum pev_drain {
	PEV_DRAIN_ROUND,     /* records that the order allows now, for listeners */
	PEV_DRAIN_ROUND_ALL, /* the same, but every record of every event that is not hidden */
	PEV_DRAIN_REST,      /* all records: events are disabled */
	PEV_DRAIN_REST_ALL,
	PEV_DRAIN_DISCARD,   /* read and count all records, deliver none */
	PEV_DRAIN_SNAPSHOT   /* content of the backward rings */
};

struct pev_tasks;
struct pev_task_history;
struct pev_attr;
struct pev_source;

struct pev_source_calls {
	/* Starts a round. Returns 0 or -errno; then there is no round. */
	int (*begin)(struct pev_source *source, enum pev_drain drain);
	/* Returns 1 and a run of records, 0 when the round is over, or -errno at damage. */
	int (*fill)(struct pev_source *source, struct pev_err *err);
	/*
	 * Ends the round. delivered: a listener received a record. Returns -errno if the kernel
	 * does not resume the output that a snapshot paused.
	 */
	int (*end)(struct pev_source *source, bool delivered);
	/* As pev_record_locate(). Counts and reports a malformed record. */
	int (*locate)(struct pev_source *source, const struct pev_source_record *from,
		      struct pev_record *rec);
	/* Returns the attr of the n-th event. */
	const struct pev_attr *(*attr)(const struct pev_source *source, uint32_t n);
	/* Returns the number of events. */
	uint32_t (*count_events)(const struct pev_source *source);
	/* A pev_number_fn: returns the number of the event with this id, or PEV_NO_EVENT. */
	uint32_t (*find_event)(const void *source, uint64_t id);
	/*
	 * At the end: makes a LOST record, of this event if it is live, of the losses beyond those
	 * that were delivered. False if there are none or their number is unknown.
	 */
	bool (*last_loss)(struct pev_source *source, uint32_t event, uint64_t delivered,
			  struct pev_source_record *out);
};

struct pev_source {
	const struct pev_source_calls *calls;
	struct pev_source_run *run;
	struct pev_tasks *tasks; /* learns from the records */
	struct pev_task_history *history; /* keeps those about tasks; NULL: none */
	uint64_t changes;        /* increases with each new event of a recording */
	bool is_recording;       /* its clock is the records'; it ends when fill returns 0 */
};
