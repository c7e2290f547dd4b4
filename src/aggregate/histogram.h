/*
 * histogram.h - buckets of values: by powers of two, by equal steps, and for quantiles.
 */
#pragma once

#include <stddef.h>

#include "aggregate/cell.h"
#include "base/err.h"

enum {
	PEV_SKETCH_PARTS_LOG2 = 6, /* a quantile's buckets per power of two */
	PEV_SKETCH_PARTS = 1 << PEV_SKETCH_PARTS_LOG2,
	PEV_SKETCH_EXACT = 2 * PEV_SKETCH_PARTS /* smaller magnitudes have a bucket each */
};

/* -EINVAL with the reason: the bounds or the step of a PEV_AGG_LINEAR are wrong. */
int pev_agg_check_steps(const struct pev_agg_config *config, struct pev_err *err);
/* Makes room for the buckets first .. last. -ENOMEM. */
int pev_buckets_reserve(struct pev_buckets *buckets, uint32_t first, uint32_t last);
/* Adds counts for which there is room. */
void pev_buckets_merge(struct pev_buckets *to, const struct pev_buckets *from);
void pev_cell_free_buckets(struct pev_cell *cell);

/* The bounds of a bucket: low <= value < high. has_low, has_high: the bound exists. */
struct pev_bounds {
	int64_t low, high;
	bool has_low, has_high;
};
/* The most buckets that the kind can have on one side. */
uint32_t pev_agg_buckets(const struct pev_agg_config *config);
/* Adds n to the bucket. -ENOMEM: nothing has changed. */
int pev_buckets_add(struct pev_buckets *buckets, uint32_t bucket, uint64_t n);
/* Of a quantile: the bounds of the magnitudes in the bucket. */
struct pev_bounds pev_agg_bounds(const struct pev_agg_config *config, uint32_t bucket);

/*
 * Returns the least value v such that at least a share q (0 to 1) of all values is <= v: the p99 of
 * ten values is the greatest. The error is less than 1/128 of the value (0.8 %); values below 128,
 * the minimum and the maximum are exact. A DDSketch whose buckets divide each power of two into 64
 * equal parts (Masson, Rim, Lee: DDSketch, VLDB 2019; "linearly interpolated mapping"), so that
 * integers suffice and a merge is exact. 0 without values.
 */
int64_t pev_agg_quantile(const struct pev_cell *cell, double q);

/* ---- a value's bucket ---- */

/* The number of steps; the last one may be shorter. */
static inline uint32_t pev_agg_count_steps(const struct pev_agg_config *config)
{
	uint64_t width = (uint64_t)config->high - (uint64_t)config->low;

	return (uint32_t)((width - 1) / (uint64_t)config->step + 1);
}

/* 0: below 0; 1: 0; n: 2^(n-2) .. 2^(n-1) - 1 */
static inline uint32_t pev_bucket_log2(int64_t value)
{
	if (value <= 0)
		return value == 0;
	return 65u - (uint32_t)__builtin_clzll((uint64_t)value);
}

/* 0: below low; 1 ..: the steps; the last: high and above */
static inline uint32_t pev_bucket_linear(const struct pev_agg_config *config, int64_t value)
{
	if (value < config->low)
		return 0;
	if (value >= config->high)
		return pev_agg_count_steps(config) + 1;
	return (uint32_t)(((uint64_t)value - (uint64_t)config->low) / (uint64_t)config->step + 1);
}

/* PEV_SKETCH_PARTS buckets per power of two, except for small magnitudes. */
static inline uint32_t pev_bucket_sketch(uint64_t value)
{
	uint32_t shift;

	if (value < PEV_SKETCH_EXACT)
		return (uint32_t)value;
	shift = 63u - (uint32_t)__builtin_clzll(value) - PEV_SKETCH_PARTS_LOG2;
	return shift * PEV_SKETCH_PARTS + (uint32_t)(value >> shift);
}

/*
 * Returns the buckets for values of this sign, and the index of the value's bucket. NULL: the kind
 * has no buckets.
 */
static inline struct pev_buckets *pev_buckets_find(const struct pev_agg_config *config,
						   struct pev_cell *cell, int64_t value,
						   uint32_t *bucket)
{
	switch (config->kind) {
	case PEV_AGG_HIST:
		*bucket = pev_bucket_log2(value);
		return &cell->up;
	case PEV_AGG_LINEAR:
		*bucket = pev_bucket_linear(config, value);
		return &cell->up;
	case PEV_AGG_QUANTILE:
		*bucket = pev_bucket_sketch(value < 0 ? -(uint64_t)value : (uint64_t)value);
		return value < 0 ? &cell->down : &cell->up;
	default:
		return NULL;
	}
}
