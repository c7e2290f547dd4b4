/*
 * sorted_runs.h - runs of records in order of time: consecutive samples, and runs left in a file.
 *
 * Nearly all records are samples of a known event, with a time, in order. A run of these ends at
 * the first record that is not: the reader handles that record by itself.
 *
 * A round of the recorder can be larger than memory should be. Then the reader keeps only where
 * each sorted run begins and ends in the file. The runs are read again, all together, a block of
 * each at a time, and merged by time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/merge.h"
#include "perfdata/blocks.h"
#include "perfdata/event_ids.h"
#include "perfdata/reorder.h"

#define PEV_SAMPLE_KINDS 16

/* Layout of the samples with an id, cached between runs. Zeroed: unknown. */
struct pev_sample_kind {
	uint64_t id;
	uint32_t event;        /* number of the event */
	uint16_t time_off;     /* 0: unknown */
	uint16_t min;          /* minimal size of a sample that has its time and id */
};

struct pev_sample_run {
	struct pev_sample_kind *kinds; /* PEV_SAMPLE_KINDS entries, by the low bits of the id */
	const unsigned char *at, *end; /* records to read; at moves behind those taken */
	uint64_t since;                /* the run ends at an earlier time */
	uint32_t block;                /* index of the bytes' block, for the items */
	size_t room;                   /* the run ends with the record that exceeds it */
};

/* Writes samples as items for the reorder window. Returns their number, at most nr. */
uint32_t pev_sample_run_read(struct pev_sample_run *samples, const struct pev_event_ids *table,
			     struct pev_reorder_item *items, uint32_t nr);

/* ---- runs left in a file ---- */

#define PEV_FILE_RUN_ITEMS 32
#define PEV_FILE_RUNS_MAX 1024

/* A run while it is read again. Tools' records and records without time in it are skipped. */
struct pev_file_run {
	uint64_t at, end;          /* offsets of the records that were not read again yet */
	struct pev_block *block;   /* bytes of the file; holds a reference. NULL: none yet */
	uint32_t next, nr;         /* items that were not taken yet */
	struct pev_reorder_item items[PEV_FILE_RUN_ITEMS];
};

/* Zeroed, with the first part set: empty. */
struct pev_file_runs {
	struct pev_blocks *input;      /* borrowed: the file */
	struct pev_event_ids *events;  /* borrowed */
	struct pev_sample_kind *kinds; /* borrowed */
	struct pev_merge merge;        /* the runs that are not exhausted, by their first time */
	struct pev_file_run **list;    /* in the order of the file; NULL: exhausted */
	uint32_t nr, cap;
	uint64_t last;                 /* time of the last record */
	bool is_open;                  /* the last run can be extended */
};

void pev_file_runs_free(struct pev_file_runs *runs);
/* Adds the record at that offset. Returns 0 or -ENOMEM. */
int pev_file_runs_add(struct pev_file_runs *runs, uint64_t offset, uint32_t size, uint64_t time);
/* The last run goes up to this offset; its last record has this time. */
void pev_file_runs_extend(struct pev_file_runs *runs, uint64_t end, uint64_t time);
/* Returns the time of the oldest record; UINT64_MAX: there is none. */
static inline uint64_t pev_file_runs_first(const struct pev_file_runs *runs)
{
	const struct pev_merge_item *top = pev_merge_top(&runs->merge);

	return top ? top->time : UINT64_MAX;
}
/*
 * Takes the oldest records up to the time limit, in order, at most nr. Each has a reference to
 * its block. Stops the input if the file cannot be read again. Returns their number.
 */
uint32_t pev_file_runs_take(struct pev_file_runs *runs, uint64_t limit,
			    struct pev_reorder_item *items, uint32_t nr);
