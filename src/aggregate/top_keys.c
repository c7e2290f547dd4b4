/*
 * top_keys.c - the keys that have most, in bounded memory; see top_keys.h.
 *
 * When the table is full, a heap by n finds the key that has least. A cell keeps in sum_high its
 * place in the heap and, above that, how many bytes its key may have: a key that replaces it
 * reuses the cell if it fits.
 */
#include "aggregate/top_keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the heap ---- */

static uint32_t heap_place(const struct pev_cell *cell)
{
	return (uint32_t)cell->sum_high;
}

static uint32_t key_room(const struct pev_cell *cell)
{
	return (uint32_t)((uint64_t)cell->sum_high >> 32);
}

static void set_place_and_room(struct pev_cell *cell, uint32_t place, uint32_t room)
{
	cell->sum_high = (int64_t)((uint64_t)room << 32 | place);
}

static void set_heap_place(struct pev_agg *agg, uint32_t place, uint32_t nr)
{
	struct pev_cell *cell = agg->cells[nr];

	agg->heap[place] = nr;
	set_place_and_room(cell, place, key_room(cell));
}

/* The n at this place has grown: move it below smaller ones. */
static void sift_down(struct pev_agg *agg, uint32_t place)
{
	uint32_t nr = agg->heap[place];
	uint64_t n = agg->cells[nr]->n;

	for (;;) {
		size_t below = 2 * (size_t)place + 1;

		if (below >= agg->nr)
			break;
		if (below + 1 < agg->nr && agg->cells[agg->heap[below + 1]]->n <
						   agg->cells[agg->heap[below]]->n)
			below++;
		if (agg->cells[agg->heap[below]]->n >= n)
			break;
		set_heap_place(agg, place, agg->heap[below]);
		place = (uint32_t)below;
	}
	set_heap_place(agg, place, nr);
}

static int make_heap(struct pev_agg *agg)
{
	if (agg->heap)
		return 0;
	agg->heap = malloc(sizeof(*agg->heap) * agg->nr);
	if (!agg->heap)
		return -ENOMEM;
	pev_agg_add_held(agg, &agg->bytes, sizeof(*agg->heap) * agg->nr);
	for (uint32_t i = 0; i < agg->nr; i++)
		set_heap_place(agg, i, i);
	for (uint32_t i = agg->nr / 2; i-- > 0;)
		sift_down(agg, i);
	return 0;
}

/* ---- add ---- */

/* Bytes that a cell has for its key: it can get another key of up to so many. */
static size_t room_for(size_t len)
{
	size_t room = 16;

	while (room < len)
		room *= 2;
	return room;
}

static struct pev_cell *new_reusable_cell(struct pev_agg *agg, size_t len)
{
	size_t room = room_for(len);
	struct pev_cell *cell;

	cell = room <= UINT32_MAX ? pev_cells_allocate(agg, agg->key_at + room) : NULL;
	if (!cell)
		return NULL;
	memset(cell, 0, agg->key_at);
	set_place_and_room(cell, 0, (uint32_t)room);
	return cell;
}

/* Replaces the key that has least. */
static int replace_least(struct pev_agg *agg, uint64_t hash, const void *key, size_t len,
			 uint64_t value)
{
	struct pev_cell *least, *cell;
	struct pev_agg_slot *slot;
	uint32_t nr;

	if (make_heap(agg) < 0)
		return -ENOMEM;
	nr = agg->heap[0];
	least = cell = agg->cells[nr];
	if (len > key_room(least)) {
		cell = new_reusable_cell(agg, len);
		if (!cell)
			return -ENOMEM;
	}
	slot = pev_cells_find(agg, least->hash, pev_agg_key(agg, least), least->key_len);
	pev_cells_remove(agg, slot);
	agg->other.n = cell->sum_low = least->n;
	cell->n = least->n + value;
	agg->cells[nr] = cell;
	pev_cells_set_key(agg, cell, hash, key, len);
	pev_cells_insert(agg->slots, agg->cap, hash, nr + 1);
	sift_down(agg, 0);
	return 0;
}

int pev_top_add(struct pev_agg *agg, uint64_t hash, const void *key, size_t len,
		uint64_t value)
{
	const struct pev_agg_slot *slot = agg->cap ? pev_cells_find(agg, hash, key, len) : NULL;
	struct pev_cell *cell;

	if (slot && slot->nr) {
		cell = agg->cells[slot->nr - 1];
		cell->n += value;
		if (agg->heap)
			sift_down(agg, heap_place(cell));
		return 0;
	}
	/* The heap has places for the keys that existed when it was made. */
	if (agg->nr >= agg->config.max_keys || agg->heap)
		return replace_least(agg, hash, key, len, value);
	if (agg->nr && !pev_cells_has_room(agg, len)) {
		pev_budget_refuse(agg->budget);
		agg->unfit++;
		return replace_least(agg, hash, key, len, value);
	}
	if (pev_cells_grow(agg) < 0)
		return -ENOMEM;
	cell = new_reusable_cell(agg, len);
	if (!cell)
		return -ENOMEM;
	pev_cells_set_key(agg, cell, hash, key, len);
	cell->n = agg->other.n + value;
	cell->sum_low = agg->other.n;
	pev_cells_publish(agg, cell);
	return 0;
}

int pev_top_add_cell(struct pev_agg *agg, uint64_t hash, const void *key, size_t len, uint64_t n,
		     uint64_t error)
{
	int rc = pev_top_add(agg, hash, key, len, n);

	if (rc == 0)
		agg->cells[pev_cells_find(agg, hash, key, len)->nr - 1]->sum_low += error;
	return rc;
}

/* ---- merge ---- */

static int compare_counts(const void *a, const void *b)
{
	const struct pev_cell *const *x = a, *const *y = b;

	return ((*x)->n < (*y)->n) - ((*x)->n > (*y)->n);
}

/*
 * Keeps the greatest of all keys, most at most. floor: the most that a key which both lack may have
 * had.
 */
static int keep_greatest(struct pev_agg *agg, struct pev_agg *all, uint32_t most, uint64_t floor)
{
	int rc = 0;

	if (all->nr)
		qsort(all->cells, all->nr, sizeof(struct pev_cell *), compare_counts);
	for (uint32_t i = 0; i < all->nr && i < most && rc == 0; i++) {
		const struct pev_cell *cell = all->cells[i];

		rc = pev_top_add_cell(agg, cell->hash, pev_agg_key(all, cell), cell->key_len,
				      cell->n, cell->sum_low);
	}
	if (all->nr > most && all->cells[most]->n > floor)
		floor = all->cells[most]->n;
	agg->other.n = floor;
	return rc;
}

static bool has_key(const struct pev_agg *agg, const struct pev_cell *cell,
		    const unsigned char *key)
{
	return agg->cap && pev_cells_find(agg, cell->hash, key, cell->key_len)->nr;
}

/* Adds each key of from; one that other lacks may have had as much there as its floor. */
static int add_all_keys(struct pev_agg *all, const struct pev_agg *from,
			const struct pev_agg *other)
{
	int rc = 0;

	for (uint32_t i = 0; i < from->nr && rc == 0; i++) {
		const struct pev_cell *cell = from->cells[i];
		const unsigned char *key = pev_agg_key(from, cell);
		uint64_t more = has_key(other, cell, key) ? 0 : other->other.n;

		rc = pev_top_add_cell(all, cell->hash, key, cell->key_len, cell->n + more,
				      cell->sum_low + more);
	}
	return rc;
}

/* The keys that agg may have: those that it has, and as many more as fit into the budget. */
static uint32_t most_keys(const struct pev_agg *agg, size_t bytes_each)
{
	const struct pev_budget *budget = agg->budget;
	uint64_t more = UINT32_MAX;

	if (budget)
		more = pev_budget_fits(budget, 0) ? (budget->limit - budget->used) / bytes_each : 0;
	more += agg->nr ? agg->nr : 1;
	return more < agg->config.max_keys ? (uint32_t)more : agg->config.max_keys;
}

/* Merges both into another one. */
static int merge_apart(struct pev_agg *both, const struct pev_agg *a, const struct pev_agg *b,
		       size_t bytes_each)
{
	struct pev_agg all;
	int rc;

	pev_cells_init(both, &a->config);
	pev_cells_init(&all, &a->config);
	all.config.max_keys = UINT32_MAX;
	rc = add_all_keys(&all, a, b);
	if (rc == 0)
		rc = add_all_keys(&all, b, a);
	if (rc == 0)
		rc = keep_greatest(both, &all, most_keys(a, bytes_each), a->other.n + b->other.n);
	both->unfit = a->unfit + b->unfit;
	pev_cells_free(&all);
	return rc;
}

int pev_top_reserve(struct pev_agg *agg, const struct pev_agg *from, struct pev_agg **both)
{
	uint32_t nr = 0;
	size_t bytes = 0;

	for (uint32_t i = 0; i < from->nr; i++) {
		const struct pev_cell *cell = from->cells[i];

		if (has_key(agg, cell, pev_agg_key(from, cell)))
			continue;
		nr++;
		/* At least as much as pev_cells_has_room() asks for. */
		bytes += agg->key_at + room_for(2 * (size_t)cell->key_len);
	}
	if (!from->other.n && (nr == 0 || agg->heap))
		return pev_cells_reserve(agg, 0, bytes);
	if (!from->other.n && agg->nr + (uint64_t)nr <= agg->config.max_keys &&
	    pev_budget_fits(agg->budget, pev_cells_reserve_bytes(agg, nr, bytes)))
		return pev_cells_reserve(agg, nr, bytes);
	*both = malloc(sizeof(**both));
	if (!*both)
		return -ENOMEM;
	return merge_apart(*both, agg, from, agg->key_at + (nr ? bytes / nr : 16) + 16);
}

void pev_top_merge(struct pev_agg *agg, const struct pev_agg *from)
{
	agg->unfit += from->unfit;
	for (uint32_t i = 0; i < from->nr; i++) {
		const struct pev_cell *cell = from->cells[i];

		pev_top_add_cell(agg, cell->hash, pev_agg_key(from, cell), cell->key_len, cell->n,
				 cell->sum_low);
	}
}
