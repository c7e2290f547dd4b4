/*
 * record_filter.h - selects records of a recording by time, CPU, process, thread and name.
 *
 * Compares the record's own pid and tid if its type has them, else those of its trailer. A record
 * without the field is not selected.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"
#include "task/task.h"

/* Ascending, without duplicates; empty: any. */
struct pev_numbers {
	int *list; /* owned */
	uint32_t nr;
};

/* Zeroed, with to UINT64_MAX, it selects everything. */
struct pev_record_filter {
	uint64_t from, to;         /* ns, both included */
	bool from_first, to_first; /* relative to pev_record_filter_begin() */
	struct pev_numbers cpus, pids, tids;
	char **comms;              /* owned; shell patterns of fnmatch(3) */
	uint32_t nr_comms;
};

void pev_record_filter_free(struct pev_record_filter *wanted);

/* -ENOMEM. */
int pev_numbers_add(struct pev_numbers *numbers, int n);
int pev_record_filter_comm(struct pev_record_filter *wanted, const char *pattern);

/* Sets the recording's first time: relative limits become absolute. */
void pev_record_filter_begin(struct pev_record_filter *wanted, uint64_t time);

/* True if the time is selected. A record without a time has 0, before all others. */
static inline bool pev_record_filter_time(const struct pev_record_filter *wanted, uint64_t time)
{
	return time >= wanted->from && time <= wanted->to;
}

/* True if the filter has conditions other than time. */
static inline bool pev_record_filter_asks(const struct pev_record_filter *wanted)
{
	return wanted->cpus.nr || wanted->pids.nr || wanted->tids.nr || wanted->nr_comms;
}

/* True if the record is selected, apart from its time. tasks is fed up to this record. */
bool pev_record_filter_has(const struct pev_record_filter *wanted, const struct pev_record *rec,
			   struct pev_tasks *tasks);
