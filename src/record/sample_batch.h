/*
 * sample_batch.h - passes samples to a consumer that needs no order of time, many at once.
 *
 * A batch has samples of one event. The layout and the use of an id's samples are looked up once.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"
#include "record/source.h"

#define PEV_BATCH_MAX 64
#define PEV_BATCH_KINDS 16

/* Samples of one event, which fit their plan. */
struct pev_samples {
	const struct pev_plan *plan;
	uint32_t event, nr;
	const unsigned char *at[PEV_BATCH_MAX];
};

/* Which samples of an event to pass. */
struct pev_batch_event {
	bool is_wanted;          /* pass its samples to the consumer */
	bool keeps_excluded;     /* exclude_pid does not apply */
};

struct pev_batch_config {
	const struct pev_batch_event *events; /* by number */
	int exclude_pid;         /* samples of this process are not passed; 0: none */
	/*
	 * Consumes the samples of one event. Threads call it at the same time, each with the
	 * number of its part.
	 */
	void (*feed)(void *ctx, uint32_t part, const struct pev_samples *samples);
	void *ctx;
};

/* The layout of an id's samples, and whether to pass them. */
struct pev_batch_kind {
	const struct pev_plan *plan; /* NULL: unknown */
	uint64_t id;
	uint32_t event;
	uint16_t time_at, pid_at; /* offsets; 0: not in the sample, or not needed */
	uint16_t least;          /* minimal size */
	bool is_wanted;
	/* All samples of this size with these bits at tail_at fit the plan. */
	uint16_t size, tail_at;  /* size 0: unknown */
	uint64_t tail, tail_mask;
};

/* The samples of one part. Zeroed, with config, find and source set: empty. */
struct pev_batch {
	const struct pev_batch_config *config;
	/* Returns the number and the plan of the event with that id; false: not for a batch. */
	bool (*find)(const void *source, uint64_t id, uint32_t *event,
		     const struct pev_plan **plan);
	const void *source;
	uint32_t part;
	uint64_t excluded;       /* samples of exclude_pid */
	struct pev_batch_kind kinds[PEV_BATCH_KINDS];
	struct pev_samples samples;
};

/* As pev_batch_kind_of(), for samples unlike the one before. */
const struct pev_batch_kind *pev_batch_find_kind(struct pev_batch *batch, uint64_t id,
						 const unsigned char *sample, uint32_t size);

/*
 * Returns the kind of a sample with that id, or NULL if its layout is unknown or broken. size is
 * not 0.
 */
static inline __attribute__((always_inline)) const struct pev_batch_kind *
pev_batch_kind_of(struct pev_batch *batch, uint64_t id, const unsigned char *sample, uint32_t size)
{
	const struct pev_batch_kind *kind = &batch->kinds[id % PEV_BATCH_KINDS];

	if (PEV_RARELY(kind->id != id || kind->size != size ||
		       (pev_load64(sample + kind->tail_at, false) & kind->tail_mask) != kind->tail))
		return pev_batch_find_kind(batch, id, sample, size);
	return kind;
}

/* Passes the samples to the consumer: their bytes become invalid. */
static inline void pev_batch_flush(struct pev_batch *batch)
{
	const struct pev_batch_config *config = batch->config;

	if (batch->samples.nr)
		config->feed(config->ctx, batch->part, &batch->samples);
	batch->samples.nr = 0;
	batch->samples.plan = NULL;
}

/* Adds a sample of a wanted kind, unless the excluded process wrote it. */
static inline void pev_batch_add(struct pev_batch *batch, const struct pev_batch_kind *kind,
				 const unsigned char *sample)
{
	struct pev_samples *samples = &batch->samples;

	if (kind->pid_at &&
	    (int)pev_load32(sample + kind->pid_at, kind->plan->swap) ==
		    batch->config->exclude_pid) {
		batch->excluded++;
		return;
	}
	if (samples->nr == PEV_BATCH_MAX || samples->plan != kind->plan) {
		pev_batch_flush(batch);
		samples->plan = kind->plan;
		samples->event = kind->event;
	}
	samples->at[samples->nr++] = sample;
}
