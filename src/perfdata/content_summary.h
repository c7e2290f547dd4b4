/*
 * content_summary.h - summary of a recording's content: number of samples, first and last time,
 * mapped files.
 *
 * The writer makes it from the records that it writes, while they are in the cache. It reads
 * each header, the time of samples and the file name of maps.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "record/record.h"

/* A mapped file, from the first record with its name. */
struct pev_content_summary_map {
	char *filename;
	uint16_t misc;
	int pid;
	uint64_t ino;
	bool has_ino;
	uint8_t build_id[20];
	uint8_t build_id_len;    /* 0: unknown */
};

struct pev_content_summary_event {
	uint64_t id;
	const struct pev_plan *plan;
};

/* Zeroed: empty. */
struct pev_content_summary {
	uint64_t samples;
	uint64_t first, last;    /* ns, of the samples; last 0: no sample has a time */
	struct pev_content_summary_event *events; /* hash table; id 0: free */
	uint32_t nr_events, cap_events;
	const struct pev_content_summary_event *latest; /* the latest lookup's result */
	struct pev_content_summary_map *maps; /* in the order of their records */
	uint32_t nr_maps, cap_maps;
	uint32_t *names;         /* hash table by name, open addressing: index + 1; 0: free */
	uint32_t cap_names;
	unsigned char *wrap;     /* 64 KiB, to join a record that is split over two pieces */
	/*
	 * Offsets of MMAP2 records in the last pieces that
	 * have the bit of a build id but no build id.
	 */
	size_t *false_build_ids;
	uint32_t nr_false_build_ids, cap_false_build_ids;
};

void pev_content_summary_free(struct pev_content_summary *summary);

/* Adds an id of an event; plan is borrowed. Returns 0 or -ENOMEM. */
int pev_content_summary_add_event(struct pev_content_summary *summary, uint64_t id,
				  const struct pev_plan *plan);

/*
 * Adds records to the summary. A piece ends with a whole record, or with one that goes on in the
 * next piece. Stops at bytes that are not a record. leaks has offsets into these pieces, as if
 * they were one. Files beyond the 65,536th, and all that memory is missing for, are ignored.
 */
void pev_content_summary_add_records(struct pev_content_summary *summary,
				     const struct iovec *pieces, int nr);
