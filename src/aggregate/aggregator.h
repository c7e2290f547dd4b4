/*
 * aggregator.h - values by key, put together as they come: counts, sums, histograms, quantiles.
 *
 * A key is a tuple of integers, byte strings and truth values, kept exact: encoded into
 * bytes once, and compared as bytes. Its cell holds what is known of the values. Keys
 * beyond max_keys or the budget share one cell, other, which counts like any; nothing is
 * left out.
 * Cells stand in the order their keys were first seen, whatever the hash.
 */
#ifndef PEV_AGGREGATOR_H
#define PEV_AGGREGATOR_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/memory_budget.h"
#include "base/err.h"

#define PEV_AGG_MAX_KEYS 65536   /* unless the config says otherwise */
#define PEV_AGG_MOST_KEYS (UINT32_C(1) << 28)
#define PEV_AGG_MOST_STEPS 10000 /* of a linear histogram */

enum pev_agg_kind {
	PEV_AGG_COUNT,    /* how many; a value of n is n of them */
	PEV_AGG_TOP,      /* the same of the keys that have most: see pev_agg_floor() */
	PEV_AGG_SUM,
	PEV_AGG_AVG,
	PEV_AGG_MIN,
	PEV_AGG_MAX,
	PEV_AGG_STATS,    /* how many, sum, least and most */
	PEV_AGG_HIST,     /* by powers of two */
	PEV_AGG_LINEAR,   /* by steps between low and high */
	PEV_AGG_QUANTILE  /* DDSketch: see pev_agg_quantile() */
};

struct pev_agg_config {
	enum pev_agg_kind kind;
	uint32_t max_keys;       /* 0: PEV_AGG_MAX_KEYS */
	int64_t low, high, step; /* PEV_AGG_LINEAR: low < high, step > 0 */
};

/* Counts of the buckets first .. first + nr - 1; those outside are empty. */
struct pev_buckets {
	uint64_t *n;
	uint32_t first, nr;
};

/* Of a cell there is what its kind needs, and the key behind that: see key_at. */
struct pev_cell {
	uint64_t hash;
	uint32_t key_len;        /* bytes */
	uint64_t n;              /* how many values; modulo 2^64 */
	/* all but PEV_AGG_COUNT; of PEV_AGG_TOP how much of n may be of others, and its place */
	uint64_t sum_low;        /* 128 bits, so that no mean is of a sum that wrapped */
	int64_t sum_high;
	/* from PEV_AGG_MIN on */
	int64_t min, max;
	/* from PEV_AGG_HIST on */
	struct pev_buckets up;   /* the histogram, or magnitudes of values >= 0 */
	struct pev_buckets down; /* PEV_AGG_QUANTILE: magnitudes of values < 0 */
};

struct pev_agg_slot {
	uint32_t hash, nr;       /* nr: 1 + index in cells; 0: free */
};

struct pev_agg {
	struct pev_agg_config config;
	uint64_t salt[2];
	size_t key_at;               /* bytes from a cell's start to its key */
	struct pev_agg_slot *slots;  /* open addressing; cap of them, a power of two */
	struct pev_cell **cells;     /* in the order of their first value */
	uint32_t *heap;              /* PEV_AGG_TOP that is full: their indices, the least first */
	uint32_t nr, cap;
	struct pev_agg_block *blocks;
	struct pev_cell other;       /* of all keys for which there was no room */
	uint64_t bytes;              /* held for cells and the table, */
	uint64_t bucket_bytes;       /* and for buckets */
	struct pev_budget *budget;   /* borrowed: see pev_agg_budget(). NULL: no limit */
	uint64_t unfit;              /* values of keys that did not fit in it */
};

/* -EINVAL with what is wrong of the config. Then there is nothing to free. */
int pev_agg_init(struct pev_agg *agg, const struct pev_agg_config *config, struct pev_err *err);
void pev_agg_free(struct pev_agg *agg);
/*
 * What it holds counts for that budget from here on. A new key that does not fit, or more buckets,
 * are not made: the value goes to other. Of PEV_AGG_TOP the key that has least makes room.
 */
void pev_agg_budget(struct pev_agg *agg, struct pev_budget *budget);
/* Frees agg, whose budget it keeps, and moves by into it. */
void pev_agg_replace(struct pev_agg *agg, const struct pev_agg *by);
/* As it was when new. */
void pev_agg_clear(struct pev_agg *agg);

/* One value more. -ENOMEM: nothing has changed. */
int pev_agg_add(struct pev_agg *agg, const void *key, size_t len, int64_t value);
/* The same for the key that is that integer alone, which is found without writing it down. */
int pev_agg_add_integer(struct pev_agg *agg, int64_t key, int64_t value);
/* A value of 1 for each of these; of how many there was no memory for theirs. */
uint32_t pev_agg_count_integers(struct pev_agg *agg, const int64_t *keys, uint32_t nr);

/* A value of 1 for the key that has nothing in it, and mostly is the only one. -ENOMEM. */
static inline int pev_agg_count(struct pev_agg *agg)
{
	if (!agg->nr || agg->cells[0]->key_len || agg->config.kind != PEV_AGG_COUNT)
		return pev_agg_add(agg, NULL, 0, 1);
	agg->cells[0]->n++;
	return 0;
}

/*
 * All that from was given, as if it had been given to agg after what it has. Of the
 * same kind and steps, or -EINVAL. -ENOMEM: nothing has changed. from may be agg.
 */
int pev_agg_merge(struct pev_agg *agg, const struct pev_agg *from, struct pev_err *err);

/* The same of one cell of another, or of its other. -ENOMEM: the cell may have a part of it. */
int pev_agg_put(struct pev_agg *agg, const void *key, size_t len, const struct pev_cell *cell);
int pev_agg_put_other(struct pev_agg *agg, const struct pev_cell *cell);

/*
 * PEV_AGG_TOP is Space-Saving (Metwally, Agrawal, El Abbadi: Efficient Computation of Frequent
 * and Top-k Elements in Data Streams, ICDT 2005): when there is no room the key that has least
 * makes it, and the new one begins with what that had, which is its error. So of a key's n there
 * was no more than n and no less than n - sum_low; and of one that is not there at most the floor,
 * which is no more than all values together over max_keys. Two merge with their errors added
 * (Agarwal and others: Mergeable Summaries, PODS 2012). 0: nothing was left out.
 */
uint64_t pev_agg_floor(const struct pev_agg *agg);

/* Bytes held for all of it. */
uint64_t pev_agg_bytes(const struct pev_agg *agg);

/* The key's cell, or NULL. Borrowed until the next add, merge or clear, like all cells. */
const struct pev_cell *pev_agg_find(const struct pev_agg *agg, const void *key, size_t len);
static inline const unsigned char *pev_agg_key(const struct pev_agg *agg,
					       const struct pev_cell *cell)
{
	return (const unsigned char *)cell + agg->key_at;
}

/* ---- what a cell says ---- */

/* The sum as Lua's integers have it, modulo 2^64; the mean of the whole sum, 0 of nothing. */
int64_t pev_cell_sum(const struct pev_cell *cell);
double pev_cell_mean(const struct pev_cell *cell);

/* The bucket's bounds: low <= value < high. False: it has no such bound, to that side. */
struct pev_bounds {
	int64_t low, high;
	bool has_low, has_high;
};
/* How many buckets the kind has at most, of one side. */
uint32_t pev_agg_buckets(const struct pev_agg_config *config);
/* So many more in that bucket. -ENOMEM: nothing has changed. */
int pev_buckets_add(struct pev_buckets *buckets, uint32_t bucket, uint64_t n);
struct pev_bounds pev_agg_bounds(const struct pev_agg_config *config, uint32_t bucket);

/*
 * The least value that q (0 to 1) of all n are not above: of ten values p99 is the greatest. Off
 * by less than 1/128 of itself (0.8 %); exact below 128, and at both ends. A DDSketch whose
 * buckets divide each power of two into 64 equal parts (Masson, Rim, Lee: DDSketch, VLDB 2019;
 * "linearly interpolated mapping"), so that it is of integers alone and two of them merge
 * exactly. 0 of nothing.
 */
int64_t pev_agg_quantile(const struct pev_cell *cell, double q);

/* ---- keys ---- */

enum pev_key_type {
	PEV_KEY_END,
	PEV_KEY_INTEGER,
	PEV_KEY_STRING,
	PEV_KEY_FALSE,
	PEV_KEY_TRUE,
	PEV_KEY_POINTER
};

/* A key being written; a zeroed one is empty. len = 0 begins anew. Owns its bytes. */
struct pev_key {
	unsigned char *bytes;
	size_t len, cap;
};
/* Room for so many bytes more: false without memory. */
bool pev_key_room(struct pev_key *key, size_t len);
/* The bytes of a key that is one integer: its first eight, and its last, which are the value. */
#define PEV_KEY_INTEGER_LEN (1 + sizeof(int64_t))
static inline uint64_t pev_key_first_of(int64_t integer)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return (uint64_t)integer << 8 | PEV_KEY_INTEGER;
#else
	return (uint64_t)integer >> 8 | (uint64_t)PEV_KEY_INTEGER << 56;
#endif
}
/*
 * -ENOMEM. Of sixteen bytes that are written at once these are the first: a word of them that is
 * read soon need not wait until two stores are through.
 */
static inline int pev_key_integer(struct pev_key *key, int64_t value)
{
	typedef uint64_t pair __attribute__((vector_size(16)));
	const pair both = { pev_key_first_of(value),
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
			    (uint64_t)value >> 56 };
#else
			    (uint64_t)value << 56 };
#endif

	if (key->cap - key->len < sizeof(both) && !pev_key_room(key, sizeof(both)))
		return -ENOMEM;
	memcpy(key->bytes + key->len, &both, sizeof(both));
	key->len += PEV_KEY_INTEGER_LEN;
	return 0;
}
int pev_key_string(struct pev_key *key, const void *bytes, size_t len);
int pev_key_bool(struct pev_key *key, bool value);
/* Of what is interned, and outlives the key. */
int pev_key_pointer(struct pev_key *key, const void *value);
void pev_key_free(struct pev_key *key);
/* Two of the same length, by words where they are a number's. */
static inline bool pev_key_same(const unsigned char *a, const unsigned char *b, size_t len)
{
	uint64_t first[2], last[2];

	if (len < 8 || len > 16)
		return !len || memcmp(a, b, len) == 0;
	memcpy(&first[0], a, 8);
	memcpy(&first[1], b, 8);
	memcpy(&last[0], a + len - 8, 8);
	memcpy(&last[1], b + len - 8, 8);
	return first[0] == first[1] && last[0] == last[1];
}
/* Salted: keys are names and numbers that somebody else chose. pev_key_salt() is the process's. */
uint64_t pev_key_hash(const uint64_t salt[2], const void *key, size_t len);
void pev_key_salt(uint64_t salt[2]);
struct pev_key_part;
/* A part that another key has. */
int pev_key_part(struct pev_key *key, const struct pev_key_part *part);

/* A part of a key that is read; strings are borrowed from it. */
struct pev_key_part {
	enum pev_key_type type;
	int64_t integer;
	const void *pointer;
	const unsigned char *p;
	uint32_t len;
};
/* The part at *at, which is moved behind it; PEV_KEY_END at the end of the key's len bytes. */
struct pev_key_part pev_key_next(const unsigned char *key, size_t len, size_t *at);

#endif
