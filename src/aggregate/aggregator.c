/*
 * aggregator.c - values aggregated by key as they arrive; see aggregator.h.
 */
#include "aggregate/aggregator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "aggregate/top_keys.h"

/* ---- values of a cell ---- */

static __attribute__((noinline)) int
count_in_new_bucket(struct pev_agg *agg, struct pev_buckets *buckets, uint32_t bucket)
{
	uint32_t before = buckets->nr;
	int rc = pev_buckets_add(buckets, bucket, 1);

	pev_agg_add_held(agg, &agg->bucket_bytes, (buckets->nr - before) * sizeof(*buckets->n));
	return rc;
}

static inline int count_in_bucket(struct pev_agg *agg, struct pev_buckets *buckets,
				  uint32_t bucket)
{
	if (bucket - buckets->first >= buckets->nr)
		return count_in_new_bucket(agg, buckets, bucket);
	buckets->n[bucket - buckets->first]++;
	return 0;
}

/* Makes room for all buckets of from. */
static int reserve_buckets_of(struct pev_agg *agg, struct pev_buckets *to,
			      const struct pev_buckets *from)
{
	uint32_t before = to->nr;
	int rc = from->nr ? pev_buckets_reserve(to, from->first, from->first + from->nr - 1) : 0;

	pev_agg_add_held(agg, &agg->bucket_bytes, (to->nr - before) * sizeof(*to->n));
	return rc;
}

static int count_value(struct pev_agg *agg, struct pev_cell *cell, int64_t value)
{
	uint32_t bucket;
	struct pev_buckets *buckets = pev_buckets_find(&agg->config, cell, value, &bucket);

	return buckets ? count_in_bucket(agg, buckets, bucket) : 0;
}

static void add_sum(struct pev_cell *cell, uint64_t low, int64_t high)
{
	cell->sum_low += low;
	/* Modulo 2^128: a pack may have any sum. */
	cell->sum_high = (int64_t)((uint64_t)cell->sum_high + (uint64_t)high +
				   (cell->sum_low < low));
}

static void widen_range(struct pev_cell *cell, int64_t min, int64_t max)
{
	cell->min = cell->n == 0 || min < cell->min ? min : cell->min;
	cell->max = cell->n == 0 || max > cell->max ? max : cell->max;
}

/* The cell for a key that does not fit into the budget. */
static struct pev_cell *refuse_key(struct pev_agg *agg)
{
	agg->unfit++;
	pev_budget_refuse(agg->budget);
	return &agg->other;
}

/* The budget is used up: a value that needs a new bucket goes to other. */
static __attribute__((noinline)) struct pev_cell *
cell_with_bucket(struct pev_agg *agg, struct pev_cell *cell, int64_t value)
{
	uint32_t bucket;
	const struct pev_buckets *buckets = pev_buckets_find(&agg->config, cell, value, &bucket);

	if (cell == &agg->other || !buckets || bucket - buckets->first < buckets->nr)
		return cell;
	return refuse_key(agg);
}

static int add_value(struct pev_agg *agg, struct pev_cell *cell, int64_t value)
{
	const struct pev_agg_config *config = &agg->config;
	int rc;

	if (config->kind == PEV_AGG_COUNT) {
		cell->n += (uint64_t)value;
		return 0;
	}
	if (!pev_budget_fits(agg->budget, 1))
		cell = cell_with_bucket(agg, cell, value);
	rc = count_value(agg, cell, value);
	if (rc < 0)
		return rc;
	add_sum(cell, (uint64_t)value, value < 0 ? -1 : 0);
	agg->signs |= value;
	if (config->kind >= PEV_AGG_MIN)
		widen_range(cell, value, value);
	cell->n++;
	return 0;
}

static int add_cell(struct pev_agg *agg, struct pev_cell *cell, const struct pev_cell *from)
{
	const struct pev_agg_config *config = &agg->config;

	if (config->kind == PEV_AGG_COUNT || from->n == 0) {
		cell->n += from->n;
		return 0;
	}
	if (config->kind == PEV_AGG_TOP) {
		cell->n += from->n;
		cell->sum_low += from->sum_low;
		return 0;
	}
	if (config->kind >= PEV_AGG_HIST) {
		if (reserve_buckets_of(agg, &cell->up, &from->up) < 0 ||
		    reserve_buckets_of(agg, &cell->down, &from->down) < 0)
			return -ENOMEM;
		pev_buckets_merge(&cell->up, &from->up);
		pev_buckets_merge(&cell->down, &from->down);
	}
	add_sum(cell, from->sum_low, from->sum_high);
	if (config->kind >= PEV_AGG_MIN)
		widen_range(cell, from->min, from->max);
	cell->n += from->n;
	return 0;
}

/* ---- the aggregator ---- */

int pev_agg_init(struct pev_agg *agg, const struct pev_agg_config *config, struct pev_err *err)
{
	int rc = config->kind == PEV_AGG_LINEAR ? pev_agg_check_steps(config, err) : 0;

	if (rc < 0)
		return rc;
	if (config->max_keys > PEV_AGG_MOST_KEYS)
		return pev_fail(err, -EINVAL, "more than %u keys", PEV_AGG_MOST_KEYS);
	pev_cells_init(agg, config);
	if (!config->max_keys)
		agg->config.max_keys = PEV_AGG_MAX_KEYS;
	return 0;
}

void pev_agg_free(struct pev_agg *agg)
{
	if (agg->config.kind >= PEV_AGG_HIST) {
		for (uint32_t i = 0; i < agg->nr; i++)
			pev_cell_free_buckets(agg->cells[i]);
		pev_cell_free_buckets(&agg->other);
	}
	pev_cells_free(agg);
	free(agg->heap);
	agg->heap = NULL;
	agg->other = (struct pev_cell){ 0 };
	pev_budget_return(agg->budget, pev_agg_bytes(agg));
	agg->bytes = agg->bucket_bytes = agg->unfit = 0;
	agg->signs = 0;
}

void pev_agg_budget(struct pev_agg *agg, struct pev_budget *budget)
{
	pev_budget_return(agg->budget, pev_agg_bytes(agg));
	agg->budget = budget;
	pev_budget_use(budget, pev_agg_bytes(agg));
}

void pev_agg_replace(struct pev_agg *agg, const struct pev_agg *by)
{
	struct pev_budget *budget = agg->budget;

	pev_agg_free(agg);
	*agg = *by;
	pev_agg_budget(agg, budget);
}

void pev_agg_clear(struct pev_agg *agg)
{
	pev_agg_free(agg);
}

uint64_t pev_agg_bytes(const struct pev_agg *agg)
{
	return agg->bytes + agg->bucket_bytes;
}

uint64_t pev_agg_floor(const struct pev_agg *agg)
{
	return agg->config.kind == PEV_AGG_TOP ? agg->other.n : 0;
}

/* ---- add ---- */

/* Frees the cell that was made last. */
static void drop_last_cell(struct pev_agg *agg, struct pev_cell *cell)
{
	if (agg->config.kind >= PEV_AGG_HIST)
		pev_cell_free_buckets(cell);
	agg->blocks->used = (size_t)((unsigned char *)cell - (unsigned char *)(agg->blocks + 1));
}

/*
 * The cell that a key's values go to: its own, other, or a new one, which is published
 * when it has its first value. NULL without memory.
 */
static struct pev_cell *cell_for(struct pev_agg *agg, uint64_t hash, const void *key, size_t len,
				 bool *is_new)
{
	const struct pev_agg_slot *slot = agg->cap ? pev_cells_find(agg, hash, key, len) : NULL;

	*is_new = false;
	if (slot && slot->nr)
		return agg->cells[slot->nr - 1];
	if (agg->nr >= agg->config.max_keys)
		return &agg->other;
	if (!pev_cells_has_room(agg, len))
		return refuse_key(agg);
	if (len > UINT32_MAX || pev_cells_grow(agg) < 0)
		return NULL;
	*is_new = true;
	return pev_cells_new(agg, hash, key, len);
}

static int add_to_cell(struct pev_agg *agg, uint64_t hash, const void *key, size_t len,
		       int64_t value)
{
	bool is_new;
	struct pev_cell *cell;

	if (agg->config.kind == PEV_AGG_TOP)
		return pev_top_add(agg, hash, key, len, (uint64_t)value);
	cell = cell_for(agg, hash, key, len, &is_new);
	if (!cell)
		return -ENOMEM;
	if (add_value(agg, cell, value) < 0) {
		if (is_new)
			drop_last_cell(agg, cell);
		return -ENOMEM;
	}
	if (is_new)
		pev_cells_publish(agg, cell);
	return 0;
}

/* The key is new, or the kind does more than count. */
static __attribute__((noinline)) int add_slowly(struct pev_agg *agg, uint64_t hash, const void *key,
						size_t len, int64_t value)
{
	int rc = add_to_cell(agg, hash, key, len, value);

	if (rc < 0)
		pev_budget_fail(agg->budget);
	return rc;
}

int pev_agg_add(struct pev_agg *agg, const void *key, size_t len, int64_t value)
{
	uint64_t hash = pev_key_hash(agg->salt, key, len);
	const struct pev_agg_slot *slot;

	if (agg->config.kind != PEV_AGG_COUNT || !agg->cap)
		return add_slowly(agg, hash, key, len, value);
	slot = pev_cells_find(agg, hash, key, len);
	if (!slot->nr)
		return add_slowly(agg, hash, key, len, value);
	agg->cells[slot->nr - 1]->n += (uint64_t)value;
	return 0;
}

int pev_agg_add_empty(struct pev_agg *agg, uint64_t nr)
{
	uint64_t hash = pev_key_hash_long(agg->salt, NULL, 0);
	uint64_t each = agg->config.kind == PEV_AGG_COUNT ? nr : 1;
	int rc = 0;

	for (; rc == 0 && nr; nr -= each)
		rc = add_slowly(agg, hash, NULL, 0, (int64_t)each);
	return rc;
}

/* The place for the integer's cell. Dense integers and aligned addresses spread (Knuth 6.4). */
static inline struct pev_cell **near_cell(struct pev_agg *agg, int64_t key)
{
	return &agg->near[(uint64_t)key * 0x9e3779b97f4a7c15 >> (64 - PEV_AGG_NEAR_BITS)];
}

static uint64_t hash_of_integer(const struct pev_agg *agg, int64_t key)
{
	return pev_key_hash_ends(agg->salt, pev_key_first_of(key), (uint64_t)key,
				 PEV_KEY_INTEGER_LEN);
}

/* Returns the integer's cell, which is near from now on, or NULL. */
static __attribute__((noinline)) struct pev_cell *find_far_integer(struct pev_agg *agg, int64_t key)
{
	uint64_t hash = hash_of_integer(agg, key), first = pev_key_first_of(key);
	uint32_t mask = agg->cap - 1, at = (uint32_t)(hash >> 32) & mask;

	if (agg->config.kind == PEV_AGG_TOP || !agg->cap)
		return NULL;
	for (;; at = (at + 1) & mask) {
		const struct pev_agg_slot *slot = &agg->slots[at];
		const unsigned char *bytes;
		struct pev_cell *cell;

		if (!slot->nr)
			return NULL;
		if (slot->hash != (uint32_t)hash)
			continue;
		cell = agg->cells[slot->nr - 1];
		bytes = pev_agg_key(agg, cell);
		if (cell->key_len == PEV_KEY_INTEGER_LEN && pev_key_load(bytes) == first &&
		    pev_key_load(bytes + 1) == (uint64_t)key)
			return *near_cell(agg, key) = cell;
	}
}

/* The key is new, or the kind is PEV_AGG_TOP. */
static __attribute__((noinline)) int add_new_integer(struct pev_agg *agg, int64_t key,
						     int64_t value)
{
	unsigned char bytes[PEV_KEY_INTEGER_LEN] = { PEV_KEY_INTEGER };

	memcpy(bytes + 1, &key, sizeof(key));
	return add_slowly(agg, hash_of_integer(agg, key), bytes, sizeof(bytes), value);
}

/*
 * Does not write the key's 9 bytes to memory: loading words of bytes that were just stored waits
 * for the stores, which costs more than everything here.
 */
static inline __attribute__((always_inline)) int add_integer(struct pev_agg *agg, int64_t key,
							     int64_t value)
{
	struct pev_cell *cell = *near_cell(agg, key);

	if (!cell || pev_key_load(pev_agg_key(agg, cell) + 1) != (uint64_t)key) {
		cell = find_far_integer(agg, key);
		if (!cell)
			return add_new_integer(agg, key, value);
	}
	if (agg->config.kind != PEV_AGG_COUNT)
		return add_value(agg, cell, value);
	cell->n += (uint64_t)value;
	return 0;
}

int pev_agg_add_integer(struct pev_agg *agg, int64_t key, int64_t value)
{
	return add_integer(agg, key, value);
}

uint32_t pev_agg_count_integers(struct pev_agg *agg, const int64_t *keys, uint32_t nr)
{
	uint32_t failed = 0;

	for (uint32_t i = 0; i < nr; i++)
		failed += add_integer(agg, keys[i], 1) < 0;
	return failed;
}

int pev_agg_put_other(struct pev_agg *agg, const struct pev_cell *cell)
{
	return add_cell(agg, &agg->other, cell);
}

int pev_agg_put(struct pev_agg *agg, const void *key, size_t len, const struct pev_cell *cell)
{
	uint64_t hash = pev_key_hash(agg->salt, key, len);
	struct pev_cell *to;
	bool is_new;

	if (agg->config.kind == PEV_AGG_TOP)
		return pev_top_add_cell(agg, hash, key, len, cell->n, cell->sum_low);
	to = cell_for(agg, hash, key, len, &is_new);
	if (!to)
		return -ENOMEM;
	if (is_new)
		pev_cells_publish(agg, to);
	if (agg->config.kind == PEV_AGG_SUM)
		agg->signs |= cell->sum_high;
	return add_cell(agg, to, cell);
}

/* ---- merge ---- */

static bool is_alike(const struct pev_agg_config *a, const struct pev_agg_config *b)
{
	return a->kind == b->kind && a->low == b->low && a->high == b->high && a->step == b->step;
}

static bool contains_buckets(const struct pev_buckets *all, const struct pev_buckets *some)
{
	return !some->nr || (all->nr && some->first >= all->first &&
			     some->first + some->nr <= all->first + all->nr);
}

/* The cell that the values of a cell of from go to; its buckets have room. NULL without memory. */
static struct pev_cell *reserve_target(struct pev_agg_merge *merge, const struct pev_cell *cell)
{
	struct pev_agg *agg = merge->agg;
	const void *key = pev_agg_key(merge->from, cell);
	const bool has_buckets = agg->config.kind >= PEV_AGG_HIST;
	bool is_new = false, is_unfit = false;
	const struct pev_agg_slot *slot =
		agg->cap ? pev_cells_find(agg, cell->hash, key, cell->key_len) : NULL;
	struct pev_cell *to = &agg->other;

	if (slot && slot->nr) {
		to = agg->cells[slot->nr - 1];
		is_unfit = has_buckets && !pev_budget_fits(agg->budget, 1) &&
			   (!contains_buckets(&to->up, &cell->up) ||
			    !contains_buckets(&to->down, &cell->down));
	} else if (agg->nr < agg->config.max_keys) {
		is_new = pev_cells_has_room(agg, cell->key_len);
		is_unfit = !is_new;
	}
	if (is_new) {
		to = pev_cells_grow(agg) == 0
			     ? pev_cells_new(agg, cell->hash, key, cell->key_len)
			     : NULL;
		if (!to)
			return NULL;
		pev_cells_publish(agg, to);
	}
	if (is_unfit) {
		to = &agg->other;
		merge->unfit += cell->n;
	}
	if (has_buckets && (reserve_buckets_of(agg, &to->up, &cell->up) < 0 ||
			    reserve_buckets_of(agg, &to->down, &cell->down) < 0))
		return NULL;
	return to;
}

static int reserve_cells(struct pev_agg_merge *merge)
{
	const struct pev_agg *from = merge->from;
	struct pev_agg *agg = merge->agg;

	merge->targets = malloc(sizeof(struct pev_cell *) * (from->nr + (size_t)1));
	if (!merge->targets)
		return -ENOMEM;
	for (uint32_t i = 0; i < from->nr; i++) {
		merge->targets[i] = reserve_target(merge, from->cells[i]);
		if (!merge->targets[i])
			return -ENOMEM;
	}
	if (agg->config.kind < PEV_AGG_HIST)
		return 0;
	if (reserve_buckets_of(agg, &agg->other.up, &from->other.up) < 0)
		return -ENOMEM;
	return reserve_buckets_of(agg, &agg->other.down, &from->other.down);
}

int pev_agg_merge_begin(struct pev_agg_merge *merge, struct pev_agg *agg,
			const struct pev_agg *from, struct pev_err *err)
{
	int rc;

	*merge = (struct pev_agg_merge){ .agg = agg, .from = from };
	if (!is_alike(&agg->config, &from->config)) {
		pev_fail(err, -EINVAL, "they are not of the same kind");
		return -EINVAL;
	}
	merge->before = pev_cells_mark(agg);
	rc = agg->config.kind == PEV_AGG_TOP ? pev_top_reserve(agg, from, &merge->both)
					     : reserve_cells(merge);
	if (rc == 0)
		return 0;
	pev_agg_merge_cancel(merge);
	pev_fail(err, -ENOMEM, "no memory for both");
	return -ENOMEM;
}

void pev_agg_merge_cancel(struct pev_agg_merge *merge)
{
	struct pev_agg *agg = merge->agg;

	if (merge->both) {
		pev_agg_free(merge->both);
		free(merge->both);
	}
	if (agg->config.kind >= PEV_AGG_HIST)
		for (uint32_t i = merge->before.nr; i < agg->nr; i++) {
			struct pev_cell *cell = agg->cells[i];
			uint64_t bytes = (cell->up.nr + (uint64_t)cell->down.nr) * sizeof(uint64_t);

			pev_cell_free_buckets(cell);
			agg->bucket_bytes -= bytes;
			pev_budget_return(agg->budget, bytes);
		}
	pev_cells_drop(agg, &merge->before);
	free(merge->targets);
	*merge = (struct pev_agg_merge){ 0 };
}

static void merge_cells(struct pev_agg_merge *merge)
{
	const struct pev_agg *from = merge->from;
	struct pev_agg *agg = merge->agg;

	agg->unfit += from->unfit + merge->unfit;
	agg->signs |= from->signs;
	if (agg->budget)
		agg->budget->refused += merge->unfit;
	for (uint32_t i = 0; i < from->nr; i++)
		add_cell(agg, merge->targets[i], from->cells[i]);
	add_cell(agg, &agg->other, &from->other);
}

void pev_agg_merge_end(struct pev_agg_merge *merge)
{
	if (merge->both) {
		pev_agg_replace(merge->agg, merge->both);
		free(merge->both);
	} else if (merge->agg->config.kind == PEV_AGG_TOP) {
		pev_top_merge(merge->agg, merge->from);
	} else {
		merge_cells(merge);
	}
	free(merge->targets);
	*merge = (struct pev_agg_merge){ 0 };
}

int pev_agg_merge(struct pev_agg *agg, const struct pev_agg *from, struct pev_err *err)
{
	struct pev_agg_merge merge;
	int rc = pev_agg_merge_begin(&merge, agg, from, err);

	if (rc == 0)
		pev_agg_merge_end(&merge);
	return rc;
}

/* ---- read ---- */

const struct pev_cell *pev_agg_find(const struct pev_agg *agg, const void *key, size_t len)
{
	const struct pev_agg_slot *slot;

	if (!agg->cap)
		return NULL;
	slot = pev_cells_find(agg, pev_key_hash(agg->salt, key, len), key, len);
	return slot->nr ? agg->cells[slot->nr - 1] : NULL;
}

int64_t pev_cell_sum(const struct pev_cell *cell)
{
	return (int64_t)cell->sum_low;
}

double pev_cell_mean(const struct pev_cell *cell)
{
	uint64_t low = cell->sum_low, high = (uint64_t)cell->sum_high;
	double sum;

	if (!cell->n)
		return 0;
	/* The magnitude: a small negative sum must not be the difference of two large numbers. */
	if (cell->sum_high < 0) {
		high = ~high + (low == 0);
		low = -low;
	}
	sum = (double)high * 0x1p64 + (double)low;
	return (cell->sum_high < 0 ? -sum : sum) / (double)cell->n;
}
