/*
 * content_summary.h - summary of a recording's content: number of samples, first and last time,
 * mapped files.
 *
 * Taken of the records as they are written, when they are in the cache anyway: a look at
 * each header, at a sample's time, and at a map's name.
 */
#ifndef PEV_CONTENT_SUMMARY_H
#define PEV_CONTENT_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "record/record.h"

/* A file that was mapped, as the first record of its name has it. */
struct pev_content_summary_map {
	char *filename;
	uint16_t misc;
	int pid;
	uint64_t ino;
	bool has_ino;
	uint8_t build_id[20];
	uint8_t build_id_len;    /* 0: not told */
};

struct pev_content_summary_event {
	uint64_t id;
	const struct pev_plan *plan;
};

/* A zeroed one is of nothing. */
struct pev_content_summary {
	uint64_t samples;
	uint64_t first, last;    /* ns: of the samples; last 0: of none it is known */
	struct pev_content_summary_event *events; /* by id, open addressing; id 0: free */
	uint32_t nr_events, cap_events;
	const struct pev_content_summary_event *latest; /* the one that was found last */
	struct pev_content_summary_map *maps; /* in their order */
	uint32_t nr_maps, cap_maps;
	uint32_t *names;         /* maps by their name, open addressing: index + 1; 0: free */
	uint32_t cap_names;
	unsigned char *wrap;     /* a record that is in two pieces, made whole: 64 KiB */
	/* MMAP2 records taken last that have the bit of a build id, and none: where they begin. */
	size_t *leaks;
	uint32_t nr_leaks, cap_leaks;
};

void pev_content_summary_free(struct pev_content_summary *survey);

/* An id of an event; plan is borrowed. -ENOMEM. */
int pev_content_summary_event(struct pev_content_summary *survey, uint64_t id,
			      const struct pev_plan *plan);

/*
 * Bytes of records, whole as such or together with the next piece. What cannot be a record
 * ends it. leaks tells of these pieces, taken as one. Files beyond the 65,536th, and what
 * there is no memory for, go unnoticed.
 */
void pev_content_summary_take(struct pev_content_summary *survey, const struct iovec *pieces,
			      int nr);

#endif
