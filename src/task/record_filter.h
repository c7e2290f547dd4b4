/*
 * record_filter.h - which records of a recording are wanted: by time, CPU, process, thread, name.
 *
 * Asked of a record as it is shown: of its own pid and tid, where its kind has some, else of
 * its trailer's. What a record does not say it cannot be wanted for.
 */
#ifndef PEV_RECORD_FILTER_H
#define PEV_RECORD_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"
#include "task/task.h"

/* Ascending, none twice; empty: any. */
struct pev_numbers {
	int *list; /* owned */
	uint32_t nr;
};

/* A zeroed one, with to UINT64_MAX, wants everything. */
struct pev_record_filter {
	uint64_t from, to;         /* ns, both included */
	bool from_first, to_first; /* they count from pev_record_filter_begin() on */
	struct pev_numbers cpus, pids, tids;
	char **comms;              /* owned; patterns as a shell's, of fnmatch(3) */
	uint32_t nr_comms;
};

void pev_record_filter_free(struct pev_record_filter *wanted);

/* -ENOMEM. */
int pev_numbers_add(struct pev_numbers *numbers, int n);
int pev_record_filter_comm(struct pev_record_filter *wanted, const char *pattern);

/* The recording's time begins: what counts from there is a time of its own from here on. */
void pev_record_filter_begin(struct pev_record_filter *wanted, uint64_t time);

/* Is that time wanted? 0, of a record without one, is before all others. */
static inline bool pev_record_filter_time(const struct pev_record_filter *wanted, uint64_t time)
{
	return time >= wanted->from && time <= wanted->to;
}

/* Is it more than times that are selected by? */
static inline bool pev_record_filter_asks(const struct pev_record_filter *wanted)
{
	return wanted->cpus.nr || wanted->pids.nr || wanted->tids.nr || wanted->nr_comms;
}

/* Is the record wanted, its time aside? tasks has been fed with all up to it. */
bool pev_record_filter_has(const struct pev_record_filter *wanted, const struct pev_record *rec,
			   struct pev_tasks *tasks);

#endif
