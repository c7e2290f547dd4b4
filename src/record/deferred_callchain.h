/*
 * deferred_callchain.h - samples that wait for the user part of their call chain.
 *
 * With defer_callchain a sample's chain ends in PERF_CONTEXT_USER_DEFERRED and a cookie.
 * The kernel takes the user part when the task returns to user space, and writes it in a
 * CALLCHAIN_DEFERRED record with that cookie. The sample is copied and held until then,
 * and returned as one record with the whole chain. The number and bytes of held samples
 * are bounded; a sample that is released without its user part is counted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"

/* The caller's data about a held sample, returned with it. */
struct pev_held_of {
	const struct pev_plan *plan;
	uint64_t time;
	uint32_t event;
	bool flag;
};

struct pev_held; /* opaque */

struct pev_deferred {
	struct pev_held **chains;      /* waiting samples, hashed by tid; NULL before the first */
	struct pev_held *oldest, *newest;
	struct pev_held *ready, *last; /* released samples, in order */
	struct pev_held *given;        /* returned by the last pev_deferred_next() */
	uint32_t nr;                   /* of waiting samples */
	uint64_t bytes;
	uint64_t unjoined;             /* samples that were released without their user part */
};

/* Frees everything and keeps the counter unjoined. A zeroed object is empty. */
void pev_deferred_free(struct pev_deferred *deferred);

/*
 * Holds a copy of a located sample whose chain ends in a cookie. False for other samples and
 * without memory. Beyond the limits, the oldest waiting sample is released without user part.
 */
bool pev_deferred_hold(struct pev_deferred *deferred, const struct pev_record *rec,
		       const struct pev_held_of *of);
/*
 * Takes a CALLCHAIN_DEFERRED record: releases the samples of its thread, those with its cookie
 * with its addresses, others without user part, because their record was lost.
 */
void pev_deferred_join(struct pev_deferred *deferred, const struct pev_record *rec);
/* Releases all waiting samples without user part: no more records come. */
void pev_deferred_release_all(struct pev_deferred *deferred);

/* True if pev_deferred_next() must be called; false throughout most recordings. */
static inline bool pev_deferred_any(const struct pev_deferred *deferred)
{
	return deferred->ready || deferred->given;
}
/*
 * Returns the bytes of the next released sample, or NULL. They are valid until the next call,
 * and must be located again.
 */
const unsigned char *pev_deferred_next(struct pev_deferred *deferred, struct pev_held_of *of,
				       uint16_t *size);
