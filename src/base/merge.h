/*
 * merge.h - which of several sources is next in time, and how far we may go.
 *
 * A min-heap of (time, who) and a watermark: what is older than the horizon
 * cannot be preceded any more by something that a source has yet to show.
 * Knows no perf.
 */
#ifndef PEV_MERGE_H
#define PEV_MERGE_H

#include <stdbool.h>
#include <stdint.h>

struct pev_merge_item {
	uint64_t time;
	uint32_t who;
};

struct pev_merge {
	struct pev_merge_item *heap; /* owned; heap[0] is the oldest */
	uint32_t nr, cap;
	uint64_t gap;                /* ns that a horizon lies at least in the past */
	uint64_t mark;               /* the clock reading that becomes the horizon next */
	uint64_t horizon;            /* what is older may be delivered */
};

void pev_merge_init(struct pev_merge *merge, uint64_t now, uint64_t gap);
void pev_merge_free(struct pev_merge *merge);
/* Room for so many sources, so that push never fails. */
int pev_merge_reserve(struct pev_merge *merge, uint32_t sources);

void pev_merge_clear(struct pev_merge *merge);
void pev_merge_push(struct pev_merge *merge, uint64_t time, uint32_t who);
/* The oldest item, or NULL; ties go to the lower who. */
static inline const struct pev_merge_item *pev_merge_top(const struct pev_merge *merge)
{
	return merge->nr ? merge->heap : 0;
}
void pev_merge_pop(struct pev_merge *merge);
/* What follows down the heap from the top is of that time: as pev_merge_replace(), in full. */
void pev_merge_sift(struct pev_merge *merge, uint64_t time);

/*
 * The top source's next item is of that time: pop and push in one. Sources come in
 * bursts, so that it mostly stays where it is.
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
 * A round begins: now is read before the sources are looked at. The horizon
 * becomes the reading of an earlier round, at least gap ago: whatever is older
 * than that has been visible since, so this round sees all of it. Two rounds
 * that are at least gap apart therefore deliver everything that was there
 * before the first.
 */
void pev_merge_round(struct pev_merge *merge, uint64_t now);

#endif
