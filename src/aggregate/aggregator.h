/*
 * aggregator.h - values aggregated by key as they arrive: counts, sums, histograms, quantiles.
 *
 * Each key (key.h) has a cell with the aggregate of its values. Keys beyond max_keys or the
 * budget share one cell, other, so no value is lost. Cells are in the order in which their keys
 * were first seen.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregate/cell.h"
#include "aggregate/cell_table.h"
#include "aggregate/histogram.h"
#include "aggregate/key.h"
#include "base/err.h"
#include "base/memory_budget.h"

/* Returns -EINVAL with the reason for an invalid config; then the caller frees nothing. */
int pev_agg_init(struct pev_agg *agg, const struct pev_agg_config *config, struct pev_err *err);
void pev_agg_free(struct pev_agg *agg);
/*
 * Counts the memory of the aggregator in this budget from now on. If a new key or bucket does not
 * fit, the value goes to other; a PEV_AGG_TOP replaces the key that has least.
 */
void pev_agg_budget(struct pev_agg *agg, struct pev_budget *budget);
/* Frees the content of agg and moves by into it. The budget of agg stays. */
void pev_agg_replace(struct pev_agg *agg, const struct pev_agg *by);
/* Removes all keys. */
void pev_agg_clear(struct pev_agg *agg);

/* Adds a value. -ENOMEM: nothing has changed. */
int pev_agg_add(struct pev_agg *agg, const void *key, size_t len, int64_t value);
/* The same for a key that is one integer; faster, because the key is not encoded. */
int pev_agg_add_integer(struct pev_agg *agg, int64_t key, int64_t value);
/* Adds 1 for each of these keys. Returns the number of keys without memory. */
uint32_t pev_agg_count_integers(struct pev_agg *agg, const int64_t *keys, uint32_t nr);

int pev_agg_add_empty(struct pev_agg *agg, uint64_t nr);
/* Adds nr values of 1 for the empty key, which is usually the only one. -ENOMEM. */
static inline int pev_agg_count(struct pev_agg *agg, uint64_t nr)
{
	if (!agg->nr || agg->cells[0]->key_len || agg->config.kind != PEV_AGG_COUNT)
		return pev_agg_add_empty(agg, nr);
	agg->cells[0]->n += nr;
	return 0;
}

/*
 * Adds all values of from, as if they had been added to agg; the time depends on the keys of from
 * alone. -EINVAL: the kinds or steps differ. -ENOMEM: nothing has changed. from may be agg.
 */
int pev_agg_merge(struct pev_agg *agg, const struct pev_agg *from, struct pev_err *err);

/*
 * The same in two steps, to merge into several aggregators or none: begin() takes the memory, and
 * fails as pev_agg_merge(). Then end() or cancel() follows; neither can fail. Between them, from
 * and agg must not change.
 */
struct pev_agg_merge {
	struct pev_agg *agg;
	const struct pev_agg *from;
	struct pev_cell **targets; /* for each cell of from */
	struct pev_cells_mark before;
	struct pev_agg *both; /* PEV_AGG_TOP: the result, unless it is merged in place */
	uint64_t unfit; /* values of keys and buckets that do not fit into the budget */
};
int pev_agg_merge_begin(struct pev_agg_merge *merge, struct pev_agg *agg,
			const struct pev_agg *from, struct pev_err *err);
void pev_agg_merge_end(struct pev_agg_merge *merge);
void pev_agg_merge_cancel(struct pev_agg_merge *merge);

/* Adds one cell of another aggregator, or its other. -ENOMEM: the cell may be added in part. */
int pev_agg_put(struct pev_agg *agg, const void *key, size_t len, const struct pev_cell *cell);
int pev_agg_put_other(struct pev_agg *agg, const struct pev_cell *cell);

/*
 * The upper bound of n for a key without a cell; 0: every key has a cell.
 * PEV_AGG_TOP is Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent
 * and Top-k Elements in Data Streams, ICDT 2005): without room, a new key replaces the key that
 * has least and starts with its n, which is the new key's error. So the true n of a key is at
 * most n and at least n - sum_low, and the floor is at most the sum of all values divided by
 * max_keys. A merge adds the errors (Agarwal and others: Mergeable Summaries, PODS 2012).
 */
uint64_t pev_agg_floor(const struct pev_agg *agg);

/* Bytes allocated for everything. */
uint64_t pev_agg_bytes(const struct pev_agg *agg);

/* The key's cell, or NULL. Valid until the next add, merge or clear, as all cells. */
const struct pev_cell *pev_agg_find(const struct pev_agg *agg, const void *key, size_t len);

/* ---- read a cell ---- */

/* The sum modulo 2^64, as a Lua integer. The mean uses all 128 bits; it is 0 without values. */
int64_t pev_cell_sum(const struct pev_cell *cell);
double pev_cell_mean(const struct pev_cell *cell);
