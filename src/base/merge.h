/*
 * merge.h - orders the items of several sources by time, up to a watermark.
 *
 * A min-heap of (time, source). A source may still deliver items that are newer than
 * the horizon, but no older ones; so all items before the horizon can be delivered.
 * Knows nothing of perf.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pev_merge_item {
	uint64_t time;
	uint32_t source;
};

struct pev_merge {
	struct pev_merge_item *heap; /* owned; heap[0] is the oldest */
	uint32_t nr, cap;
	uint64_t gap;                /* ns after which an item is visible */
	uint64_t horizon;            /* older items may be delivered */
};

void pev_merge_init(struct pev_merge *merge, uint64_t now, uint64_t gap);
void pev_merge_free(struct pev_merge *merge);
/* Allocates room for this number of sources; push then never fails. */
int pev_merge_reserve(struct pev_merge *merge, uint32_t sources);

void pev_merge_clear(struct pev_merge *merge);
void pev_merge_push(struct pev_merge *merge, uint64_t time, uint32_t source);
/* Returns the oldest item, or NULL. Of two with equal times, the lower source's is returned. */
static inline const struct pev_merge_item *pev_merge_top(const struct pev_merge *merge)
{
	return merge->nr ? merge->heap : 0;
}
void pev_merge_pop(struct pev_merge *merge);
/* The slow path of pev_merge_replace(): sifts the top item down. */
void pev_merge_sift(struct pev_merge *merge, uint64_t time);

/*
 * Sets the top item to the time of its source's next item: pop and push in one call. Items of
 * one source come in bursts, so the item mostly stays at the top.
 */
static inline void pev_merge_replace(struct pev_merge *merge, uint64_t time)
{
	struct pev_merge_item *heap = merge->heap;

	if ((merge->nr < 2 || time < heap[1].time) && (merge->nr < 3 || time < heap[2].time))
		heap[0].time = time;
	else
		pev_merge_sift(merge, time);
}

/*
 * Begins a round; now is the clock, read before the sources. Items that are older than the gap
 * are visible by then, so this round sees them all: they are before the horizon.
 */
void pev_merge_round(struct pev_merge *merge, uint64_t now);
