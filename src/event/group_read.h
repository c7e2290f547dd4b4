/*
 * group_read.h - splits a sample of a group's leader into samples of the group's members.
 *
 * In a group with PERF_SAMPLE_READ and PERF_FORMAT_GROUP only the leader samples, and each sample
 * has the counts of all members. Like perf, this makes one sample for each event with a larger
 * count, and the difference is its period: deliver_sample_group(), tools/perf/util/session.c.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "event/attr.h"
#include "record/record.h"

/* The count of an event at its last sample; of an inherited one, of each thread. */
struct pev_last_count {
	uint64_t id, value;
	uint32_t tid;
	bool used;
};

struct pev_group_part {
	uint32_t event;  /* its number */
	uint64_t period;
};

/* Zeroed, it is empty. */
struct pev_group_read {
	struct pev_last_count *counts; /* by id and thread, open addressing */
	uint32_t nr_counts, cap_counts;
	struct pev_group_part *parts;  /* of the leader's sample split last */
	uint32_t at, nr_parts, cap_parts;
	unsigned char *bytes;          /* that sample, with the period of a part: 64 KiB */
	struct pev_plan plan;          /* likewise */
	uint16_t size;
};

void pev_group_read_free(struct pev_group_read *group);

/*
 * True if the caller must split samples of the event. False if they have a tracepoint's payload,
 * because each member would seem to have it.
 */
bool pev_group_read_splits(const struct pev_attr *attr);

/* The number of the event that has the id, or UINT32_MAX. */
typedef uint32_t (*pev_number_fn)(const void *ctx, uint64_t id);

/*
 * Splits a located sample of such an event, and drops parts of the last one that were not taken.
 * Returns 1; 0 if no count in it has the id of a known event: the sample is not split; or -ENOMEM.
 */
int pev_group_read_split(struct pev_group_read *group, const struct pev_record *rec, bool inherit,
			 pev_number_fn number, const void *ctx);

/* The next part, or NULL; its sample is bytes, decoded by plan. Valid until the next call. */
const struct pev_group_part *pev_group_read_next(struct pev_group_read *group);
