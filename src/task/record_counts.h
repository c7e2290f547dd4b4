/*
 * record_counts.h - counts the records of a recording: by event and type, samples by the name of
 * their task; and finds the time that they span.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/aggregator.h"
#include "record/record.h"
#include "task/task.h"

enum { PEV_COUNTED_TYPES = 64 }; /* the kernel's; a tool's are from 64 on */

struct pev_event_counts {
	uint64_t samples;
	uint64_t periods; /* their sum, modulo 2^64 */
	uint64_t types[PEV_COUNTED_TYPES];
};

struct pev_time_span {
	uint64_t first, last; /* ns; 0: no record has a time */
};

/* Samples of a task that are not in comms yet. */
struct pev_task_samples {
	int tid;
	char comm[PEV_COMM_LEN];
	uint64_t nr; /* 0: free */
};
enum { PEV_COUNTED_TASKS = 256 };

struct pev_record_counts {
	uint64_t samples;
	struct pev_event_counts *events;
	uint32_t nr_events;
	uint64_t synthesised[PEV_COUNTED_TYPES];
	/* Of the samples, and of other records, without those that a recorder made. */
	struct pev_time_span sampled, others;
	/* Samples by the name of the task, PEV_COMM_LEN bytes; "?" if it is unknown. */
	struct pev_agg comms;
	struct pev_task_samples tasks[PEV_COUNTED_TASKS]; /* by tid */
	bool has_tasks;
};
#define PEV_UNCOUNTED_EVENT UINT32_MAX /* the number of an unknown event */

/* 0 or -ENOMEM. */
int pev_record_counts_init(struct pev_record_counts *counts);
void pev_record_counts_free(struct pev_record_counts *counts);
/*
 * Adds a record of the kernel. The tasks have been fed it, and all records before it. period is
 * that of the event, for a sample without one. 0 or -ENOMEM.
 */
int pev_record_counts_add_sample(struct pev_record_counts *counts, struct pev_tasks *tasks,
				 const struct pev_record *rec, uint32_t event, uint64_t period);
int pev_record_counts_add(struct pev_record_counts *counts, const struct pev_record *rec,
			  uint32_t event, bool synthesised);
/* Completes comms, after the last record. 0 or -ENOMEM. */
int pev_record_counts_finish(struct pev_record_counts *counts);
