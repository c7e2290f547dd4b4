/*
 * histogram.c - buckets of values; see histogram.h.
 */
#include "aggregate/histogram.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKET_STEP = 16 }; /* buckets are allocated in multiples of this */

int pev_agg_check_steps(const struct pev_agg_config *config, struct pev_err *err)
{
	uint64_t width = (uint64_t)config->high - (uint64_t)config->low;

	if (config->low >= config->high)
		return pev_fail(err, -EINVAL, "low is not below high");
	if (config->step <= 0)
		return pev_fail(err, -EINVAL, "step is not above 0");
	if ((width - 1) / (uint64_t)config->step >= PEV_AGG_MOST_STEPS)
		return pev_fail(err, -EINVAL, "more than %d steps between low and high",
				PEV_AGG_MOST_STEPS);
	return 0;
}

int pev_buckets_reserve(struct pev_buckets *buckets, uint32_t first, uint32_t last)
{
	uint32_t end = last / BUCKET_STEP * BUCKET_STEP + BUCKET_STEP;
	uint64_t *n;

	first = first / BUCKET_STEP * BUCKET_STEP;
	if (buckets->nr) {
		first = first < buckets->first ? first : buckets->first;
		end = end > buckets->first + buckets->nr ? end : buckets->first + buckets->nr;
		if (first == buckets->first && end == first + buckets->nr)
			return 0;
	}
	n = calloc(end - first, sizeof(*n));
	if (!n)
		return -ENOMEM;
	if (buckets->nr)
		memcpy(n + (buckets->first - first), buckets->n, buckets->nr * sizeof(*n));
	free(buckets->n);
	*buckets = (struct pev_buckets){ .n = n, .first = first, .nr = end - first };
	return 0;
}

int pev_buckets_add(struct pev_buckets *buckets, uint32_t bucket, uint64_t n)
{
	int rc = pev_buckets_reserve(buckets, bucket, bucket);

	if (rc == 0)
		buckets->n[bucket - buckets->first] += n;
	return rc;
}

void pev_buckets_merge(struct pev_buckets *to, const struct pev_buckets *from)
{
	for (uint32_t i = 0; i < from->nr; i++)
		to->n[from->first - to->first + i] += from->n[i];
}

void pev_cell_free_buckets(struct pev_cell *cell)
{
	free(cell->up.n);
	free(cell->down.n);
}

/* ---- bounds ---- */

uint32_t pev_agg_buckets(const struct pev_agg_config *config)
{
	if (config->kind == PEV_AGG_LINEAR)
		return pev_agg_count_steps(config) + 2;
	if (config->kind == PEV_AGG_QUANTILE)
		return pev_bucket_sketch(UINT64_C(1) << 63) + 1;
	return pev_bucket_log2(INT64_MAX) + 1;
}

static struct pev_bounds log2_bounds(uint32_t bucket)
{
	/* The bound above the last bucket does not fit an integer. */
	struct pev_bounds bounds = { .has_low = bucket > 0, .has_high = bucket < 64 };

	if (bucket > 1)
		bounds.low = (int64_t)(UINT64_C(1) << (bucket - 2));
	if (bucket > 0 && bounds.has_high)
		bounds.high = (int64_t)(UINT64_C(1) << (bucket - 1));
	return bounds;
}

static struct pev_bounds linear_bounds(const struct pev_agg_config *config, uint32_t bucket)
{
	uint32_t steps = pev_agg_count_steps(config);
	uint64_t low = (uint64_t)config->low + (bucket - UINT64_C(1)) * (uint64_t)config->step;

	if (bucket == 0)
		return (struct pev_bounds){ .high = config->low, .has_high = true };
	if (bucket > steps)
		return (struct pev_bounds){ .low = config->high, .has_low = true };
	return (struct pev_bounds){
		.low = (int64_t)low,
		.high = bucket == steps ? config->high : (int64_t)(low + (uint64_t)config->step),
		.has_low = true,
		.has_high = true,
	};
}

/* The least magnitude in the bucket of a quantile, and the number of magnitudes in it. */
static uint64_t sketch_low(uint32_t bucket, uint64_t *width)
{
	uint32_t shift = bucket < PEV_SKETCH_EXACT ? 0 : bucket / PEV_SKETCH_PARTS - 1;

	*width = UINT64_C(1) << shift;
	return (uint64_t)(bucket - shift * PEV_SKETCH_PARTS) << shift;
}

static struct pev_bounds sketch_bounds(uint32_t bucket)
{
	uint64_t width, low = sketch_low(bucket, &width);
	bool has_high = low + width <= INT64_MAX;

	return (struct pev_bounds){
		.low = low > INT64_MAX ? INT64_MAX : (int64_t)low,
		.high = has_high ? (int64_t)(low + width) : 0,
		.has_low = true,
		.has_high = has_high,
	};
}

struct pev_bounds pev_agg_bounds(const struct pev_agg_config *config, uint32_t bucket)
{
	if (config->kind == PEV_AGG_QUANTILE)
		return sketch_bounds(bucket);
	return config->kind == PEV_AGG_LINEAR ? linear_bounds(config, bucket) : log2_bounds(bucket);
}

/* ---- quantiles ---- */

/* The middle of the bucket. */
static uint64_t sketch_middle(uint32_t bucket)
{
	uint64_t width, low = sketch_low(bucket, &width);

	return low + (width - 1) / 2;
}

/* The estimate, limited to the least and the greatest value. */
static int64_t clamp_value(const struct pev_cell *cell, uint64_t size, bool negative)
{
	int64_t value = size > INT64_MAX ? INT64_MAX : (int64_t)size;

	value = negative ? -value : value;
	if (value < cell->min)
		return cell->min;
	return value > cell->max ? cell->max : value;
}

/* ceil(product) - 1. A product within rounding of a whole number counts as that number. */
static uint64_t nearest_rank(double product)
{
	uint64_t rank = (uint64_t)product;

	if (rank && product - (double)rank <= product * 0x1p-50)
		rank--;
	return rank;
}

int64_t pev_agg_quantile(const struct pev_cell *cell, double q)
{
	uint64_t rank;

	if (!cell->n)
		return 0;
	if (!(q > 0))
		return cell->min;
	rank = q < 1 ? nearest_rank(q * (double)cell->n) : cell->n - 1;
	if (rank >= cell->n - 1)
		return cell->max;
	for (uint32_t i = cell->down.nr; i-- > 0;) {
		if (rank < cell->down.n[i])
			return clamp_value(cell, sketch_middle(cell->down.first + i), true);
		rank -= cell->down.n[i];
	}
	for (uint32_t i = 0; i < cell->up.nr; i++) {
		if (rank < cell->up.n[i])
			return clamp_value(cell, sketch_middle(cell->up.first + i), false);
		rank -= cell->up.n[i];
	}
	return cell->max;
}
