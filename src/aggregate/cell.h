/*
 * cell.h - the aggregate of one key's values, and the kinds of aggregators.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PEV_AGG_MAX_KEYS 65536   /* the default */
#define PEV_AGG_MOST_KEYS (UINT32_C(1) << 28)
#define PEV_AGG_MOST_STEPS 10000 /* of a linear histogram */

enum pev_agg_kind {
	PEV_AGG_COUNT,    /* number of values; a value of n counts as n */
	PEV_AGG_TOP,      /* the same for the keys that have most: see pev_agg_floor() */
	PEV_AGG_SUM,
	PEV_AGG_AVG,
	PEV_AGG_MIN,
	PEV_AGG_MAX,
	PEV_AGG_STATS,    /* count, sum, minimum and maximum */
	PEV_AGG_HIST,     /* by powers of two */
	PEV_AGG_LINEAR,   /* by steps between low and high */
	PEV_AGG_QUANTILE  /* DDSketch: see pev_agg_quantile() */
};

struct pev_agg_config {
	enum pev_agg_kind kind;
	uint32_t max_keys;       /* 0: PEV_AGG_MAX_KEYS */
	int64_t low, high, step; /* PEV_AGG_LINEAR: low < high, step > 0 */
};

/* Counts of the buckets first .. first + nr - 1; all others are empty. */
struct pev_buckets {
	uint64_t *n;
	uint32_t first, nr;
};

/* A cell ends after the fields that its kind needs; its key follows: see key_at. */
struct pev_cell {
	uint64_t hash;
	uint32_t key_len;        /* bytes */
	uint64_t n;              /* number of values, modulo 2^64 */
	/*
	 * All kinds but PEV_AGG_COUNT. PEV_AGG_TOP: sum_low is the part of n that may belong to
	 * other keys; sum_high: see top_keys.c.
	 */
	uint64_t sum_low;        /* 128 bits, so that the sum of a mean cannot wrap */
	int64_t sum_high;
	/* from PEV_AGG_MIN on */
	int64_t min, max;
	/* from PEV_AGG_HIST on */
	struct pev_buckets up;   /* the histogram, or the magnitudes of values >= 0 */
	struct pev_buckets down; /* PEV_AGG_QUANTILE: the magnitudes of values < 0 */
};
