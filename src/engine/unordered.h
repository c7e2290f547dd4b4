/*
 * unordered.h - reads the samples of files for consumers that need no order of time, on threads.
 *
 * A step reads the next slice of the files. Each thread reads one part of the slice. A part
 * begins at a record: its first offset is found by the chain of record sizes, and it is right if
 * the part before ends there. Otherwise the part is dropped and read again. A thread passes
 * samples of known layout to the consumer. It leaves all other records to the reader, which
 * skips the ranges that were read here. At the first record whose end is unknown the work on
 * this file ends, and the reader reads the rest of the file.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "perfdata/reader.h"
#include "record/sample_batch.h"

#define PEV_UNORDERED_JOBS_MAX 64

struct pev_unordered_config {
	const struct pev_reader_area *areas; /* of the files; used by pev_unordered_open() only */
	uint32_t nr_areas;       /* 1 or more */
	struct pev_batch_config batch; /* the parts are 0 .. jobs - 1 */
	uint32_t jobs;           /* threads, 1 .. PEV_UNORDERED_JOBS_MAX */
	uint64_t part_min;       /* bytes for which a thread starts; 0: 128 KiB */
	uint64_t from, to;       /* times of the samples that are passed */
	/* With the ctx of batch. Forgets what the part got in this step; not called for part 0. */
	void (*drop)(void *ctx, uint32_t part);
	/*
	 * NULL: the consumer does not need the kernel's maps. Otherwise called on the caller's
	 * thread for the records of these maps that the recorder put before all samples. False:
	 * order is needed. If these maps can change between samples, order is needed, too.
	 */
	bool (*map_kernel)(void *ctx, const struct pev_record *rec);
	/* Adds the part to part 0, in the order of the file. False: order is needed, give up. */
	bool (*join)(void *ctx, uint32_t part);
};

struct pev_unordered;

/* Returns NULL without memory. The pointers in config must stay valid. */
struct pev_unordered *pev_unordered_open(const struct pev_unordered_config *config);
void pev_unordered_close(struct pev_unordered *self);

/*
 * Reads a slice. Returns 1, 0 if nothing is left to read here, -ECANCELED if a join gave up or
 * memory ran out, or -ESTALE if the kernel's maps can change: then everything is dropped, and the
 * reader reads the files from their begin.
 */
int pev_unordered_step(struct pev_unordered *self);
/* Returns the sum of the offsets up to which the files were read. */
uint64_t pev_unordered_offset(const struct pev_unordered *self);
/* Returns the number of samples of exclude_pid. */
uint64_t pev_unordered_excluded(const struct pev_unordered *self);
/* Returns the ranges of a file that were read, sorted, and their number. The caller frees them. */
struct pev_reader_range *pev_unordered_take_ranges(struct pev_unordered *self, uint32_t number,
						   uint32_t *nr);
