/*
 * window.h - records that come nearly in order, put in order.
 *
 * A recorder drains one ring after the other, so that what arrives is runs, each
 * sorted in itself. An item that is not older than the one before it extends the
 * run; the runs are merged by the heap of merge.h, so that sorting costs a
 * comparison or two per item. Knows no perf.
 */
#ifndef PEV_WINDOW_H
#define PEV_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "merge.h"

struct pev_window_item {
	uint64_t time;
	const unsigned char *bytes; /* the owner's */
	uint32_t block, event; /* the owner's */
};

struct pev_window_run {
	uint32_t start, end; /* of items; empty when equal */
	uint32_t to; /* its number after a compaction */
};

struct pev_window {
	struct pev_merge merge; /* the runs that are not empty, by their first item */
	struct pev_window_item *items;
	struct pev_window_run *runs; /* in the order of their items; the last one is open */
	uint32_t nr_items, cap_items, nr_runs, cap_runs;
	uint32_t live; /* items that are in it */
	uint64_t last; /* time of the item that was added last */
};

/* A zeroed one is empty. */
void pev_window_free(struct pev_window *window);
/* -ENOMEM. */
int pev_window_add(struct pev_window *window, const struct pev_window_item *item);
/*
 * The oldest item, or NULL; of one time, the one that was added first. Borrowed
 * until the next call.
 */
const struct pev_window_item *pev_window_top(const struct pev_window *window);
void pev_window_pop(struct pev_window *window);

#endif
