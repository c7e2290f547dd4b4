/*
 * reorder.h - sorts records by time that arrive nearly in order.
 *
 * A recorder drains one ring after the other, so records arrive in sorted runs. An item that
 * is not older than the previous one extends the run. The heap of merge.h merges the runs,
 * so sorting costs one or two comparisons per item. Independent of perf.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/merge.h"

struct pev_reorder_item {
	uint64_t time;
	const unsigned char *bytes; /* the caller's */
	uint32_t block, event; /* the caller's */
	uint16_t type, size;   /* the caller's: copied here to avoid a cache miss on bytes */
};

struct pev_reorder_run {
	uint32_t start, end; /* indices of items; empty when equal */
	uint32_t to; /* its index after a compaction */
};

struct pev_reorder {
	struct pev_merge merge; /* the runs that are not empty, by the time of their first item */
	struct pev_reorder_item *items;
	struct pev_reorder_run *runs; /* in the order of their items; the last run is open */
	uint32_t nr_items, cap_items, nr_runs, cap_runs;
	uint32_t live; /* number of items that were not taken yet */
	uint64_t last; /* time of the item added last */
};

/* Zeroed: empty. */
void pev_reorder_free(struct pev_reorder *window);
/* Adds any item, also one that begins a run or needs room. Returns 0 or -ENOMEM. */
int pev_reorder_add_any(struct pev_reorder *window, const struct pev_reorder_item *item);

/*
 * True if an item of this time extends the last run. An
 * exhausted run has left the heap and cannot be extended.
 */
static inline bool pev_reorder_extends(const struct pev_reorder *window, uint64_t time)
{
	const struct pev_reorder_run *next = window->runs + window->nr_runs;

	return window->nr_runs && time >= window->last && next[-1].start != next[-1].end;
}

/* Adds an item. Returns 0 or -ENOMEM. */
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

/*
 * Returns the free items at the end of the last run, and their
 * number. The caller fills them and calls pev_reorder_extend().
 */
static inline uint32_t pev_reorder_room(const struct pev_reorder *window,
					struct pev_reorder_item **items)
{
	*items = window->items + window->nr_items;
	return pev_reorder_extends(window, window->last) ? window->cap_items - window->nr_items : 0;
}

/* Adds the nr > 0 items that the caller wrote there, in order and not older than the last one. */
static inline void pev_reorder_extend(struct pev_reorder *window, uint32_t nr)
{
	window->nr_items += nr;
	window->runs[window->nr_runs - 1].end = window->nr_items;
	window->last = window->items[window->nr_items - 1].time;
	window->live += nr;
}

/* Returns the time of the oldest item; UINT64_MAX if empty. */
static inline uint64_t pev_reorder_first(const struct pev_reorder *window)
{
	const struct pev_merge_item *top = pev_merge_top(&window->merge);

	return top ? top->time : UINT64_MAX;
}

/*
 * Takes the oldest items up to the time limit, in order, at most nr. Returns their
 * number. Items of the same time come in the order in which they were added.
 */
uint32_t pev_reorder_take_oldest(struct pev_reorder *window, uint64_t limit,
				 struct pev_reorder_item *items,
				 uint32_t nr);
