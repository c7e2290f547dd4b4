/*
 * input_files.h - the files of a recording: one input, or the files of a directory.
 *
 * perf record --threads makes a directory. Its file "data" is a recording as any other. Each
 * "data.N" holds the records of one ring, as the kernel wrote them and without FINISHED_ROUND
 * (record__mmap_read_evlist()). The reader always continues with the file whose last time is
 * lowest, so the files advance together and a bounded window is enough to sort the records.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "perfdata/blocks.h"
#include "base/merge.h"

struct pev_input {
	struct pev_blocks in;
	char *name;
};

/* The owner sets up main without its pool, and sets at to &main. */
struct pev_input_files {
	struct pev_blocks main;
	struct pev_blocks *at;      /* the file that is read now: main, or one of others */
	struct pev_pool pool;      /* blocks of all files */
	struct pev_input *others;  /* data.0, data.1, ... of a directory */
	uint32_t nr_others;
	struct pev_merge order;    /* unfinished files by time; empty for one input */
	bool done;                 /* all files are at their end */
};

/*
 * Opens every data.N in the directory, in the order of N, with main's settings.
 * Returns 0 or -errno; after an error pev_input_files_close() closes the open ones.
 */
int pev_input_files_open(struct pev_input_files *inputs, const char *directory,
			 struct pev_err *err);
/* Returns main (0), or the file with this number. */
struct pev_blocks *pev_input_files_at(struct pev_input_files *inputs, uint32_t number);
/* Closes and frees everything except main's descriptor. */
void pev_input_files_close(struct pev_input_files *inputs);

/*
 * For several files: the current file has reached this
 * time. Continues with the one that is now behind.
 */
void pev_input_files_advance(struct pev_input_files *inputs, uint64_t time);
/* The current file is at its end. Continues with the next one, or sets done. */
void pev_input_files_next(struct pev_input_files *inputs);

/* Returns the error of the first file that ended early, or NULL. */
const struct pev_err *pev_input_files_failure(const struct pev_input_files *inputs);
/* Returns the sum of the sizes that are known. */
uint64_t pev_input_files_size(const struct pev_input_files *inputs);
/* Sums over all files: bytes read, bytes of COMPRESSED records, and bytes inflated from these. */
void pev_input_files_sum(const struct pev_input_files *inputs, uint64_t *bytes,
			 uint64_t *compressed,
			 uint64_t *inflated);
