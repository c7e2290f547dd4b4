/*
 * span.h - pairs of events: the time from a start to the stop of the same key.
 *
 * What has begun waits by key for its end. How many wait is bounded: the one that has waited
 * longest makes room, since most likely its end never comes. Nothing is left out unsaid: what
 * found no partner is counted.
 */
#ifndef PEV_SPAN_H
#define PEV_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PEV_SPAN_MOST 65536 /* that wait, unless said otherwise */

struct pev_begun;

struct pev_spans {
	struct pev_begun **chains;
	struct pev_begun *oldest, *newest;
	struct pev_begun *spare; /* of ended ones, to be used again */
	uint64_t salt[2];
	uint32_t nr, cap, most; /* cap is a power of two */
	uint64_t unstarted;     /* stops whose start was not seen, or is later */
	uint64_t restarted;     /* starts that another of the same key followed */
	uint64_t dropped;       /* starts that made room */
};

/* most: at least 1. -ENOMEM. */
int pev_spans_init(struct pev_spans *spans, uint32_t most);
void pev_spans_free(struct pev_spans *spans);

/* It begins at that time, in ns. -ENOMEM: nothing has changed. */
int pev_spans_start(struct pev_spans *spans, const void *key, size_t len, uint64_t time);
/* It ends: true, and how long it took. False: it had not begun. */
bool pev_spans_stop(struct pev_spans *spans, const void *key, size_t len, uint64_t time,
		    uint64_t *took);

#endif
