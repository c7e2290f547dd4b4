/*
 * input_files.h - what a recording is read from: one input, or the files of a directory.
 *
 * perf record --threads makes a directory: its file "data" is a recording as any
 * other, and each "data.N" holds the records of one ring, as they came and without
 * marks of rounds (record__mmap_read_evlist()). The files are read side by side,
 * always the one that is behind in time, so that they go forward together and a
 * window of bytes is enough to put their records in order.
 */
#ifndef PEV_INPUT_FILES_H
#define PEV_INPUT_FILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "perfdata/blocks.h"
#include "base/merge.h"

struct pev_input {
	struct pev_blocks in;
	char *name;
};

/* The owner sets up main, its pool excepted, and points at to it. */
struct pev_input_files {
	struct pev_blocks main;
	struct pev_blocks *at;      /* what is read now: main, or another's */
	struct pev_pool pool;      /* of the blocks of all */
	struct pev_input *others;  /* of a directory: data.0, data.1, ... */
	uint32_t nr_others;
	struct pev_merge order;    /* those that go on, by how far; of one input, empty */
	bool done;                 /* all are at their end */
};

/*
 * Open every data.N in the directory, in the order of N; each is like main. 0, or -errno,
 * and then what is open is for pev_input_files_close() to close.
 */
int pev_input_files_open(struct pev_input_files *inputs, const char *directory,
			 struct pev_err *err);
/* Everything but main's descriptor. */
void pev_input_files_close(struct pev_input_files *inputs);

/* Of several: the one at hand gave a record of that time; on with whichever is behind now. */
void pev_input_files_passed(struct pev_input_files *inputs, uint64_t time);
/* The one at hand is at its end: on with the next, or done. */
void pev_input_files_ended(struct pev_input_files *inputs);

/* Why one of them ended early, or NULL. */
const struct pev_err *pev_input_files_failure(const struct pev_input_files *inputs);
/* How many bytes they have together, of those that can be asked. */
uint64_t pev_input_files_size(const struct pev_input_files *inputs);
/* Bytes read, of COMPRESSED records, and of what was in those; of all inputs. */
void pev_input_files_count(const struct pev_input_files *inputs, uint64_t *bytes,
			   uint64_t *compressed,
			   uint64_t *inflated);

#endif
