/*
 * samples.h - samples that stand one behind the other, taken in as many at a time.
 *
 * They are nearly all of a recording, and alike: of an event that can be told, with a time,
 * none older than the one before it. Whatever is not is left where it stands, for who takes
 * records in one by one.
 */
#ifndef PEV_SAMPLES_H
#define PEV_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "recorded.h"
#include "window.h"

struct pev_samples {
	const unsigned char *at, *end; /* the bytes of records; at is moved behind those taken */
	uint64_t since;                /* none of an earlier time */
	uint32_t block;                /* whose the bytes are, as items have it */
	size_t room;                   /* with the record that goes beyond so many bytes it ends */
};

/* As items of a window: how many, nr at most. */
uint32_t pev_samples_take(struct pev_samples *samples, const struct pev_recorded *of,
			  struct pev_window_item *items, uint32_t nr);

#endif
