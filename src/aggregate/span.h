/*
 * span.h - pairs of events: the time from a start to the stop of the same key.
 *
 * A start waits by key for its stop. The number of waiting starts is bounded: without room the
 * oldest one is dropped, because its stop most likely never comes. Counters keep the starts and
 * stops without a partner. A waiting start keeps bytes of the caller from its start, and from a
 * record between start and stop.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pev_begun;

struct pev_spans {
	struct pev_begun **chains;
	struct pev_begun *oldest, *newest;
	struct pev_begun *spare; /* ended ones, for reuse */
	uint64_t salt[2];
	size_t room;            /* bytes for a key and kept data: the largest so far */
	uint32_t nr, cap, most; /* cap is a power of two */
	uint64_t unstarted;     /* stops without a start, or with a later one */
	uint64_t restarted;     /* starts that another start of the key replaced */
	uint64_t dropped;       /* starts dropped to make room */
	uint64_t cancelled;     /* starts removed by pev_spans_cancel() */
};

/* Bytes to keep; NULL and 0 if empty. */
struct pev_kept {
	const void *bytes;
	size_t len;
};

/* A stopped span; valid until the next start or pass. */
struct pev_spanned {
	uint64_t took;              /* ns */
	struct pev_kept start, via;
	bool passed;                /* pev_spans_pass() was called in between */
};

/* most: at least 1. -ENOMEM. */
int pev_spans_init(struct pev_spans *spans, uint32_t most);
void pev_spans_free(struct pev_spans *spans);
/* Removes all waiting starts, and sets the counters to 0. */
void pev_spans_clear(struct pev_spans *spans);

/* Starts the key's span at time, in ns. -ENOMEM: nothing has changed. */
int pev_spans_start(struct pev_spans *spans, const void *key, size_t len, uint64_t time,
		    struct pev_kept kept);
/* A record between start and stop; keeps the first one's bytes. Returns 0 or -ENOMEM. */
int pev_spans_pass(struct pev_spans *spans, const void *key, size_t len, struct pev_kept kept);
/* Stops the key's span: true and the span. False: no start waits. */
bool pev_spans_stop(struct pev_spans *spans, const void *key, size_t len, uint64_t time,
		    struct pev_spanned *ended);
/* Removes the key's start. */
void pev_spans_cancel(struct pev_spans *spans, const void *key, size_t len);
