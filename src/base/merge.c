/*
 * merge.c - a min-heap of (time, source) with a watermark; see merge.h.
 */
#include "base/merge.h"

#include <errno.h>
#include <stdlib.h>

#include "base/growing_list.h"

void pev_merge_init(struct pev_merge *merge, uint64_t now, uint64_t gap)
{
	*merge = (struct pev_merge){ .gap = gap };
	pev_merge_round(merge, now);
}

void pev_merge_free(struct pev_merge *merge)
{
	free(merge->heap);
	merge->heap = NULL;
	merge->nr = merge->cap = 0;
}

int pev_merge_reserve(struct pev_merge *merge, uint32_t sources)
{
	return pev_list_reserve(&merge->heap, &merge->cap, sources, sizeof(*merge->heap)) ? 0
											  : -ENOMEM;
}

void pev_merge_clear(struct pev_merge *merge)
{
	merge->nr = 0;
}

static bool is_before(const struct pev_merge_item *a, const struct pev_merge_item *b)
{
	return a->time != b->time ? a->time < b->time : a->source < b->source;
}

static void sift_down(struct pev_merge *merge, struct pev_merge_item item)
{
	struct pev_merge_item *heap = merge->heap;
	uint32_t at = 0, child;

	while ((child = 2 * at + 1) < merge->nr) {
		if (child + 1 < merge->nr && is_before(&heap[child + 1], &heap[child]))
			child++;
		if (!is_before(&heap[child], &item))
			break;
		heap[at] = heap[child];
		at = child;
	}
	heap[at] = item;
}

void pev_merge_push(struct pev_merge *merge, uint64_t time, uint32_t source)
{
	struct pev_merge_item item = { .time = time, .source = source };
	struct pev_merge_item *heap = merge->heap;
	uint32_t at = merge->nr++;

	while (at > 0 && is_before(&item, &heap[(at - 1) / 2])) {
		heap[at] = heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	heap[at] = item;
}

void pev_merge_pop(struct pev_merge *merge)
{
	if (--merge->nr)
		sift_down(merge, merge->heap[merge->nr]);
}

void pev_merge_sift(struct pev_merge *merge, uint64_t time)
{
	sift_down(merge, (struct pev_merge_item){ .time = time, .source = merge->heap[0].source });
}

void pev_merge_round(struct pev_merge *merge, uint64_t now)
{
	merge->horizon = now > merge->gap ? now - merge->gap : 0;
}
