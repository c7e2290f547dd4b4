/*
 * window.c - runs of items and their merge; see window.h.
 */
#include "window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MIN 1024
#define RUNS_MIN 16

void pev_window_free(struct pev_window *window)
{
	free(window->items);
	free(window->runs);
	pev_merge_free(&window->merge);
	*window = (struct pev_window){ 0 };
}

/* Runs and items move together, in order, and the heap's numbers with them. */
static void compact(struct pev_window *window)
{
	struct pev_merge *merge = &window->merge;
	uint32_t runs = 0, items = 0;

	for (uint32_t i = 0; i < window->nr_runs; i++) {
		struct pev_window_run *run = &window->runs[i];
		uint32_t nr = run->end - run->start;

		if (!nr)
			continue;
		memmove(&window->items[items], &window->items[run->start],
			sizeof(*window->items) * nr);
		/* The others' to, which the heap has yet to be told, stays where it is. */
		run->to = runs;
		window->runs[runs].start = items;
		window->runs[runs++].end = items += nr;
	}
	for (uint32_t i = 0; i < merge->nr; i++)
		merge->heap[i].who = window->runs[merge->heap[i].who].to;
	window->nr_runs = runs;
	window->nr_items = items;
}

static int grow_items(struct pev_window *window)
{
	uint32_t cap = window->cap_items ? 2 * window->cap_items : ITEMS_MIN;
	struct pev_window_item *items = realloc(window->items, sizeof(*items) * cap);

	if (!items)
		return -ENOMEM;
	window->items = items;
	window->cap_items = cap;
	return 0;
}

static int grow_runs(struct pev_window *window)
{
	uint32_t cap = window->cap_runs ? 2 * window->cap_runs : RUNS_MIN;
	struct pev_window_run *runs = realloc(window->runs, sizeof(*runs) * cap);

	if (!runs)
		return -ENOMEM;
	window->runs = runs;
	window->cap_runs = cap;
	return pev_merge_reserve(&window->merge, cap);
}

/* Room for one more of each; what is gone is squeezed out before more is taken. */
static int make_room(struct pev_window *window)
{
	if (window->nr_items < window->cap_items && window->nr_runs < window->cap_runs)
		return 0;
	compact(window);
	if (window->nr_items >= window->cap_items / 2 && grow_items(window) < 0)
		return -ENOMEM;
	if (window->nr_runs >= window->cap_runs / 2 && grow_runs(window) < 0)
		return -ENOMEM;
	return 0;
}

static void begin_run(struct pev_window *window, uint64_t time)
{
	window->runs[window->nr_runs] =
		(struct pev_window_run){ window->nr_items, window->nr_items, 0 };
	pev_merge_push(&window->merge, time, window->nr_runs++);
}

int pev_window_add_any(struct pev_window *window, const struct pev_window_item *item)
{
	if (make_room(window) < 0)
		return -ENOMEM;
	if (!pev_window_extends(window, item->time))
		begin_run(window, item->time);
	window->items[window->nr_items++] = *item;
	window->runs[window->nr_runs - 1].end = window->nr_items;
	window->last = item->time;
	window->live++;
	return 0;
}

/* The time of the item that comes after all that the top's run has before it. */
static uint64_t others_first(const struct pev_merge *merge)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 1; i < 3 && i < merge->nr; i++)
		first = merge->heap[i].time < first ? merge->heap[i].time : first;
	return first;
}

/* Runs take turns by stretches: what is before all others' first goes without a look at these. */
uint32_t pev_window_take(struct pev_window *window, uint64_t limit, struct pev_window_item *items,
			 uint32_t nr)
{
	struct pev_merge *merge = &window->merge;
	uint32_t taken = 0;

	while (taken < nr && merge->nr && merge->heap[0].time <= limit) {
		struct pev_window_run *run = &window->runs[merge->heap[0].who];
		const struct pev_window_item *at = &window->items[run->start];
		const struct pev_window_item *end = &window->items[run->end];
		uint64_t others = others_first(merge);

		do
			items[taken++] = *at++;
		while (taken < nr && at < end && at->time < others && at->time <= limit);
		run->start = (uint32_t)(at - window->items);
		if (at == end)
			pev_merge_pop(merge);
		else
			pev_merge_replace(merge, at->time);
	}
	window->live -= taken;
	if (window->live == 0)
		window->nr_items = window->nr_runs = 0;
	return taken;
}
