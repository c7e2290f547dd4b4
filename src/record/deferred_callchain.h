/*
 * deferred_callchain.h - samples that wait for the user part of their call chain.
 *
 * With defer_callchain a sample's chain ends in PERF_CONTEXT_USER_DEFERRED and a cookie:
 * its user part is taken when the task goes back to user space, and comes in a
 * CALLCHAIN_DEFERRED record of that cookie. A sample is copied and held until then; what
 * is given back is one record with the whole chain, as if it had been taken at once.
 * What waits is bounded, and what is let go without its user part is counted.
 */
#ifndef PEV_DEFERRED_CALLCHAIN_H
#define PEV_DEFERRED_CALLCHAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"

/* A sample of ours: what it is the caller's to say. */
struct pev_held_of {
	uint64_t time;
	uint32_t event;
	bool flag;
};

struct pev_held; /* opaque */

struct pev_deferred {
	struct pev_held **chains;      /* those that wait, by tid; NULL: none ever did */
	struct pev_held *oldest, *newest;
	struct pev_held *ready, *last; /* those that do not wait any more, in their order */
	struct pev_held *given;        /* the one that the caller looks at */
	uint32_t nr;                   /* that wait */
	uint64_t bytes;
	uint64_t unjoined;             /* that were let go without their user part */
};

/* Gives all back but the count; a zeroed one is empty. */
void pev_deferred_free(struct pev_deferred *deferred);

/*
 * Hold a copy of a located sample whose chain ends in a cookie; false for any other, and
 * where there is no memory. One too many, and the one that waited longest is ready as it was.
 */
bool pev_deferred_hold(struct pev_deferred *deferred, const struct pev_record *rec,
		       const struct pev_held_of *of);
/*
 * A CALLCHAIN_DEFERRED record: samples of its thread with its cookie are ready with its
 * addresses, and others of its thread as they were: theirs was lost.
 */
void pev_deferred_join(struct pev_deferred *deferred, const struct pev_record *rec);
/* All that wait are ready as they were: nothing more comes. */
void pev_deferred_let_go(struct pev_deferred *deferred);

/* Is pev_deferred_next() to be asked? Of most recordings it never is. */
static inline bool pev_deferred_any(const struct pev_deferred *deferred)
{
	return deferred->ready || deferred->given;
}
/*
 * The bytes of the next one that is ready, or NULL: whole, and good until the next call of
 * this one. They are to be located anew.
 */
const unsigned char *pev_deferred_next(struct pev_deferred *deferred, struct pev_held_of *of,
				       uint16_t *size);

#endif
