/*
 * sample_run.h - fast path: reads many consecutive samples at once.
 *
 * Nearly all records are samples of a known event, with a time, in order. A run ends at the
 * first record that is not: the reader handles that record by itself.
 */
#ifndef PEV_SAMPLE_RUN_H
#define PEV_SAMPLE_RUN_H

#include <stddef.h>
#include <stdint.h>

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

#endif
