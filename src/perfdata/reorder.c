/* reorder.c - keeps runs of items and merges them; see reorder.h. */
#include "perfdata/reorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

#define ITEMS_MIN 1024

void pev_reorder_free(struct pev_reorder *window)
{
	free(window->items);
	free(window->runs);
	pev_merge_free(&window->merge);
	*window = (struct pev_reorder){ 0 };
}

/* Removes exhausted runs and taken items, and updates the run numbers in the heap. */
static void compact_runs(struct pev_reorder *window)
{
	struct pev_merge *merge = &window->merge;
	uint32_t runs = 0, items = 0;

	for (uint32_t i = 0; i < window->nr_runs; i++) {
		struct pev_reorder_run *run = &window->runs[i];
		uint32_t nr = run->end - run->start;

		if (!nr)
			continue;
		memmove(&window->items[items], &window->items[run->start],
			sizeof(*window->items) * nr);
		/*
		 * The entry i keeps to, although another run moves
		 * into it: the heap is updated below.
		 */
		run->to = runs;
		window->runs[runs].start = items;
		window->runs[runs++].end = items += nr;
	}
	for (uint32_t i = 0; i < merge->nr; i++)
		merge->heap[i].source = window->runs[merge->heap[i].source].to;
	window->nr_runs = runs;
	window->nr_items = items;
}

static int grow_items(struct pev_reorder *window)
{
	uint64_t nr = window->cap_items ? window->cap_items + UINT64_C(1) : ITEMS_MIN;

	return pev_list_reserve(&window->items, &window->cap_items, nr, sizeof(*window->items))
		       ? 0
		       : -ENOMEM;
}

static int grow_runs(struct pev_reorder *window)
{
	if (!pev_list_reserve(&window->runs, &window->cap_runs, window->cap_runs + UINT64_C(1),
			      sizeof(*window->runs)))
		return -ENOMEM;
	return pev_merge_reserve(&window->merge, window->cap_runs);
}

/* Makes room for one more item and one more run; compacts before it allocates. */
static int make_room(struct pev_reorder *window)
{
	if (window->nr_items < window->cap_items && window->nr_runs < window->cap_runs)
		return 0;
	compact_runs(window);
	if (window->nr_items >= window->cap_items / 2 && grow_items(window) < 0)
		return -ENOMEM;
	if (window->nr_runs >= window->cap_runs / 2 && grow_runs(window) < 0)
		return -ENOMEM;
	return 0;
}

static void begin_run(struct pev_reorder *window, uint64_t time)
{
	window->runs[window->nr_runs] =
		(struct pev_reorder_run){ window->nr_items, window->nr_items, 0 };
	pev_merge_push(&window->merge, time, window->nr_runs++);
}

int pev_reorder_add_any(struct pev_reorder *window, const struct pev_reorder_item *item)
{
	if (make_room(window) < 0)
		return -ENOMEM;
	if (!pev_reorder_extends(window, item->time))
		begin_run(window, item->time);
	window->items[window->nr_items++] = *item;
	window->runs[window->nr_runs - 1].end = window->nr_items;
	window->last = item->time;
	window->live++;
	return 0;
}

/* The rest of a run while items are taken from it. */
struct rest {
	const struct pev_reorder_item *at, *end;
	uint32_t run_index;
};

static struct rest rest_of(const struct pev_reorder *window, uint32_t run_index)
{
	const struct pev_reorder_run *run = &window->runs[run_index];

	return (struct rest){ &window->items[run->start], &window->items[run->end], run_index };
}

static void keep_rest(struct pev_reorder *window, const struct rest *rest)
{
	window->runs[rest->run_index].start = (uint32_t)(rest->at - window->items);
}

/* Returns the lowest time in the heap below its top. */
static uint64_t second_time(const struct pev_merge *merge)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 1; i < 3 && i < merge->nr; i++)
		first = merge->heap[i].time < first ? merge->heap[i].time : first;
	return first;
}

/*
 * Takes the oldest item of two runs, and then those before end, until one run is
 * exhausted. Takes none later than limit. Returns their number, at most nr.
 */
static uint32_t take_two(struct rest *one, struct rest *other, uint64_t end, uint64_t limit,
			 struct pev_reorder_item *items, uint32_t nr)
{
	const struct pev_reorder_item *a = one->at, *b = other->at, *next;
	uint64_t tie = other->run_index < one->run_index;
	uint32_t taken = 0;

	do {
		bool is_b = b->time < a->time + tie;

		next = is_b ? b : a;
		if (next->time > limit || (taken && next->time >= end))
			break;
		items[taken++] = *next;
		a += !is_b;
		b += is_b;
	} while (taken < nr && a < one->end && b < other->end);
	one->at = a;
	other->at = b;
	return taken;
}

static uint32_t take_one(struct rest *one, uint64_t limit, struct pev_reorder_item *items,
			 uint32_t nr)
{
	uint32_t taken = 0;

	while (taken < nr && one->at < one->end && one->at->time <= limit)
		items[taken++] = *one->at++;
	return taken;
}

static struct rest take_top(struct pev_reorder *window)
{
	struct rest top = rest_of(window, window->merge.heap[0].source);

	pev_merge_pop(&window->merge);
	return top;
}

/*
 * Usually two runs alternate over long stretches. So one run is held outside the heap, the other
 * is the heap's top, and both are merged up to the next time in the heap without using it.
 */
static uint32_t take_runs(struct pev_reorder *window, uint64_t limit,
			  struct pev_reorder_item *items,
			  uint32_t nr)
{
	struct pev_merge *merge = &window->merge;
	struct rest held = take_top(window);
	uint32_t taken = 0, step = 1;

	while (taken < nr && merge->nr && step) {
		struct rest top = rest_of(window, merge->heap[0].source);

		step = take_two(&held, &top, second_time(merge), limit, items + taken, nr - taken);
		taken += step;
		keep_rest(window, &top);
		if (top.at == top.end)
			pev_merge_pop(merge);
		else
			pev_merge_replace(merge, top.at->time);
		if (held.at == held.end && merge->nr) {
			keep_rest(window, &held);
			held = take_top(window);
		}
	}
	if (!merge->nr)
		taken += take_one(&held, limit, items + taken, nr - taken);
	keep_rest(window, &held);
	if (held.at < held.end)
		pev_merge_push(merge, held.at->time, held.run_index);
	return taken;
}

uint32_t pev_reorder_take_oldest(struct pev_reorder *window, uint64_t limit,
				 struct pev_reorder_item *items,
				 uint32_t nr)
{
	uint32_t taken = 0;

	if (nr && pev_reorder_first(window) <= limit && window->live)
		taken = take_runs(window, limit, items, nr);
	window->live -= taken;
	if (window->live == 0)
		window->nr_items = window->nr_runs = 0;
	return taken;
}
