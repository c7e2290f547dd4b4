/*
 * reorder.c - runs of items and their merge; see reorder.h.
 */
#include "perfdata/reorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS_MIN 1024
#define RUNS_MIN 16

void pev_reorder_free(struct pev_reorder *window)
{
	free(window->items);
	free(window->runs);
	pev_merge_free(&window->merge);
	*window = (struct pev_reorder){ 0 };
}

/* Runs and items move together, in order, and the heap's numbers with them. */
static void compact(struct pev_reorder *window)
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

static int grow_items(struct pev_reorder *window)
{
	uint32_t cap = window->cap_items ? 2 * window->cap_items : ITEMS_MIN;
	struct pev_reorder_item *items = realloc(window->items, sizeof(*items) * cap);

	if (!items)
		return -ENOMEM;
	window->items = items;
	window->cap_items = cap;
	return 0;
}

static int grow_runs(struct pev_reorder *window)
{
	uint32_t cap = window->cap_runs ? 2 * window->cap_runs : RUNS_MIN;
	struct pev_reorder_run *runs = realloc(window->runs, sizeof(*runs) * cap);

	if (!runs)
		return -ENOMEM;
	window->runs = runs;
	window->cap_runs = cap;
	return pev_merge_reserve(&window->merge, cap);
}

/* Room for one more of each; what is gone is squeezed out before more is taken. */
static int make_room(struct pev_reorder *window)
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

/* A run that is being taken from: what is left of it. */
struct rest {
	const struct pev_reorder_item *at, *end;
	uint32_t who;
};

static struct rest rest_of(const struct pev_reorder *window, uint32_t who)
{
	const struct pev_reorder_run *run = &window->runs[who];

	return (struct rest){ &window->items[run->start], &window->items[run->end], who };
}

static void keep_rest(struct pev_reorder *window, const struct rest *rest)
{
	window->runs[rest->who].start = (uint32_t)(rest->at - window->items);
}

/* The first time that the heap has below its top. */
static uint64_t second_time(const struct pev_merge *merge)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = 1; i < 3 && i < merge->nr; i++)
		first = merge->heap[i].time < first ? merge->heap[i].time : first;
	return first;
}

/*
 * The oldest item of two runs, and what of them is before end, until one has none left. None is
 * later than limit. How many, nr at most.
 */
static uint32_t take_two(struct rest *one, struct rest *other, uint64_t end, uint64_t limit,
			 struct pev_reorder_item *items, uint32_t nr)
{
	const struct pev_reorder_item *a = one->at, *b = other->at, *next;
	uint64_t tie = other->who < one->who;
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
	struct rest top = rest_of(window, window->merge.heap[0].who);

	pev_merge_pop(&window->merge);
	return top;
}

/*
 * Runs take turns by stretches, and mostly it is two of them that do: one is held outside of the
 * heap, the other is its top, and up to what comes next in there nobody else is asked.
 */
static uint32_t take_runs(struct pev_reorder *window, uint64_t limit,
			  struct pev_reorder_item *items,
			  uint32_t nr)
{
	struct pev_merge *merge = &window->merge;
	struct rest held = take_top(window);
	uint32_t taken = 0, some = 1;

	while (taken < nr && merge->nr && some) {
		struct rest top = rest_of(window, merge->heap[0].who);

		some = take_two(&held, &top, second_time(merge), limit, items + taken, nr - taken);
		taken += some;
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
		pev_merge_push(merge, held.at->time, held.who);
	return taken;
}

uint32_t pev_reorder_take(struct pev_reorder *window, uint64_t limit,
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
