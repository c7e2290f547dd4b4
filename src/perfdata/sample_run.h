/*
 * sample_run.h - samples that stand one behind the other, taken in as many at a time.
 *
 * They are nearly all of a recording, and alike: of an event that can be told, with a time,
 * none older than the one before it. Whatever is not is left where it stands, for who takes
 * records in one by one.
 */
#ifndef PEV_SAMPLE_RUN_H
#define PEV_SAMPLE_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "perfdata/event_ids.h"
#include "perfdata/reorder.h"

#define PEV_SAMPLE_KINDS 16

/* What samples of an id are like, kept from one run to the next. A zeroed one knows nothing. */
struct pev_sample_kind {
	uint64_t id;
	uint32_t event;        /* its number */
	uint16_t time_off;     /* 0: nothing is known */
	uint16_t min;          /* bytes of one that has its time and id */
};

struct pev_sample_run {
	struct pev_sample_kind *kinds; /* PEV_SAMPLE_KINDS of them, by their ids' low bits */
	const unsigned char *at, *end; /* the bytes of records; at is moved behind those taken */
	uint64_t since;                /* none of an earlier time */
	uint32_t block;                /* whose the bytes are, as items have it */
	size_t room;                   /* with the record that goes beyond so many bytes it ends */
};

/* As items of a window: how many, nr at most. */
uint32_t pev_sample_run_take(struct pev_sample_run *samples, const struct pev_event_ids *of,
			     struct pev_reorder_item *items, uint32_t nr);

#endif
