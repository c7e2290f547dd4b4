/*
 * span.h - pairs of events: the time from a start to the stop of the same key.
 *
 * What has begun waits by key for its end. How many wait is bounded: the one that has waited
 * longest makes room, since most likely its end never comes. Nothing is left out unsaid: what
 * found no partner is counted. With what waits there is kept what its start was, and what came
 * in between: bytes that are the caller's own.
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
	size_t room;            /* bytes for a key and what is kept that most had by now */
	uint32_t nr, cap, most; /* cap is a power of two */
	uint64_t unstarted;     /* stops whose start was not seen, or is later */
	uint64_t restarted;     /* starts that another of the same key followed */
	uint64_t dropped;       /* starts that made room */
	uint64_t cancelled;     /* starts that pev_spans_cancel() took */
};

/* Bytes that are kept; of none NULL and 0 will do. */
struct pev_kept {
	const void *bytes;
	size_t len;
};

/* What has ended: borrowed until the next start or pass. */
struct pev_spanned {
	uint64_t took;              /* ns */
	struct pev_kept start, via;
	bool passed;                /* something came in between */
};

/* most: at least 1. -ENOMEM. */
int pev_spans_init(struct pev_spans *spans, uint32_t most);
void pev_spans_free(struct pev_spans *spans);

/* It begins at that time, in ns. -ENOMEM: nothing has changed. */
int pev_spans_start(struct pev_spans *spans, const void *key, size_t len, uint64_t time,
		    struct pev_kept kept);
/* Something comes before its end; the first that does is kept. 0, or -ENOMEM. */
int pev_spans_pass(struct pev_spans *spans, const void *key, size_t len, struct pev_kept kept);
/* It ends: true, and what there was. False: it had not begun. */
bool pev_spans_stop(struct pev_spans *spans, const void *key, size_t len, uint64_t time,
		    struct pev_spanned *ended);
/* It will not end: as if it had not begun. */
void pev_spans_cancel(struct pev_spans *spans, const void *key, size_t len);

#endif
