/*
 * reorder.h - records that come nearly in order, put in order.
 *
 * A recorder drains one ring after the other, so that what arrives is runs, each
 * sorted in itself. An item that is not older than the one before it extends the
 * run; the runs are merged by the heap of merge.h, so that sorting costs a
 * comparison or two per item. Knows no perf.
 */
#ifndef PEV_REORDER_H
#define PEV_REORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/merge.h"

struct pev_reorder_item {
	uint64_t time;
	const unsigned char *bytes; /* the owner's */
	uint32_t block, event; /* the owner's */
	uint16_t type, size;   /* likewise: so that bytes need not be looked at */
};

struct pev_reorder_run {
	uint32_t start, end; /* of items; empty when equal */
	uint32_t to; /* its number after a compaction */
};

struct pev_reorder {
	struct pev_merge merge; /* the runs that are not empty, by their first item */
	struct pev_reorder_item *items;
	struct pev_reorder_run *runs; /* in the order of their items; the last one is open */
	uint32_t nr_items, cap_items, nr_runs, cap_runs;
	uint32_t live; /* items that are in it */
	uint64_t last; /* time of the item that was added last */
};

/* A zeroed one is empty. */
void pev_reorder_free(struct pev_reorder *window);
/* One that may begin a run, or need room. -ENOMEM. */
int pev_reorder_add_any(struct pev_reorder *window, const struct pev_reorder_item *item);

/* Does the item extend the last run? One that is used up cannot be: the heap has dropped it. */
static inline bool pev_reorder_extends(const struct pev_reorder *window, uint64_t time)
{
	const struct pev_reorder_run *next = window->runs + window->nr_runs;

	return window->nr_runs && time >= window->last && next[-1].start != next[-1].end;
}

/* -ENOMEM. */
static inline int pev_reorder_add(struct pev_reorder *window, const struct pev_reorder_item *item)
{
	if (window->nr_items == window->cap_items || !pev_reorder_extends(window, item->time))
		return pev_reorder_add_any(window, item);
	window->items[window->nr_items++] = *item;
	window->runs[window->nr_runs - 1].end = window->nr_items;
	window->last = item->time;
	window->live++;
	return 0;
}

/* Where items that extend the last run go, and for how many of them there is room. */
static inline uint32_t pev_reorder_room(const struct pev_reorder *window,
					struct pev_reorder_item **items)
{
	*items = window->items + window->nr_items;
	return pev_reorder_extends(window, window->last) ? window->cap_items - window->nr_items : 0;
}

/* So many were put there, at least one, in order and none older than the last. */
static inline void pev_reorder_extend(struct pev_reorder *window, uint32_t nr)
{
	window->nr_items += nr;
	window->runs[window->nr_runs - 1].end = window->nr_items;
	window->last = window->items[window->nr_items - 1].time;
	window->live += nr;
}

/* The oldest item's time; UINT64_MAX: there is none. */
static inline uint64_t pev_reorder_first(const struct pev_reorder *window)
{
	const struct pev_merge_item *top = pev_merge_top(&window->merge);

	return top ? top->time : UINT64_MAX;
}

/*
 * Take out the oldest items of times up to limit, in order: how many, nr at most; of one time
 * those first that were added first.
 */
uint32_t pev_reorder_take(struct pev_reorder *window, uint64_t limit,
			  struct pev_reorder_item *items,
			  uint32_t nr);

#endif
