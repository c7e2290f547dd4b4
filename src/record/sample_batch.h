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

/* What an event's samples are for. */
struct pev_batch_event {
	bool is_wanted;          /* pass its samples to the consumer */
	bool keeps_excluded;     /* exclude_pid does not apply */
};

struct pev_batch_config {
	const struct pev_batch_event *events; /* by number */
	int exclude_pid;         /* samples of this process are not passed; 0: none */
	/*
	 * Consumes nr samples of one event. They fit their plan. Threads call it at the same time,
	 * each with the number of its part.
	 */
	void (*feed)(void *ctx, uint32_t part, const struct pev_source_record *samples,
		     uint32_t nr);
	void *ctx;
};

/* The samples of an id. */
struct pev_batch_kind {
	const struct pev_plan *plan; /* NULL: unknown */
	uint64_t id;
	uint32_t event;
	uint16_t time_at, pid_at, least; /* offsets, 0: not there or not needed; bytes */
	bool is_wanted;
};

/* The samples of one part. Zeroed, with config, find and source set: empty. */
struct pev_batch {
	const struct pev_batch_config *config;
	/* Returns the number and the plan of the event with that id; false: not for a batch. */
	bool (*find)(const void *source, uint64_t id, uint32_t *event,
		     const struct pev_plan **plan);
	const void *source;
	uint32_t part, nr;
	uint64_t excluded;       /* samples of exclude_pid */
	struct pev_batch_kind kinds[PEV_BATCH_KINDS];
	struct pev_source_record samples[PEV_BATCH_MAX];
};

void pev_batch_find_kind(struct pev_batch *batch, struct pev_batch_kind *kind, uint64_t id);

/* Returns the kind of a sample with that id, or NULL if its layout is unknown or broken. */
static inline __attribute__((always_inline)) const struct pev_batch_kind *
pev_batch_kind_of(struct pev_batch *batch, uint64_t id, const unsigned char *sample, uint32_t size)
{
	struct pev_batch_kind *kind = &batch->kinds[id % PEV_BATCH_KINDS];

	if (PEV_RARELY(!kind->plan || kind->id != id))
		pev_batch_find_kind(batch, kind, id);
	if (!kind->plan || size < kind->least || size % 8 ||
	    !pev_sample_fits(kind->plan, sample, size))
		return NULL;
	return kind;
}

/* Passes the samples to the consumer: their bytes become invalid. */
static inline void pev_batch_flush(struct pev_batch *batch)
{
	const struct pev_batch_config *config = batch->config;

	if (batch->nr)
		config->feed(config->ctx, batch->part, batch->samples, batch->nr);
	batch->nr = 0;
}

/* Adds a sample of a wanted kind, unless the excluded process wrote it. */
static inline void pev_batch_add(struct pev_batch *batch, const struct pev_batch_kind *kind,
				 const unsigned char *sample, uint16_t size)
{
	struct pev_source_record *record;

	if (kind->pid_at &&
	    (int)pev_load32(sample + kind->pid_at, kind->plan->swap) ==
		    batch->config->exclude_pid) {
		batch->excluded++;
		return;
	}
	if (batch->nr == PEV_BATCH_MAX || (batch->nr && batch->samples[0].event != kind->event))
		pev_batch_flush(batch);
	record = &batch->samples[batch->nr++];
	record->bytes = sample;
	record->plan = kind->plan;
	record->type = PERF_RECORD_SAMPLE;
	record->event = kind->event;
	record->size = size;
}
