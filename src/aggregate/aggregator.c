/*
 * aggregator.c - values by key, put together as they come; see aggregator.h.
 *
 * A table of hashes and numbers leads to the cells, which stand in blocks and never
 * move. What can fail is done before anything is changed. Hashes have the process's own
 * salt in them: keys are names and numbers that somebody else chose.
 */
#include "aggregate/aggregator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define BLOCK_BYTES ((size_t)1 << 16)
#define FIRST_CAP 64   /* slots of a table that has something in it */
#define BUCKET_STEP 16 /* buckets are made by so many */
#define PARTS_LOG2 6   /* a quantile's buckets to each power of two */
#define PARTS (UINT32_C(1) << PARTS_LOG2)
#define EXACT (UINT32_C(2) << PARTS_LOG2) /* magnitudes below have a bucket each */

struct pev_agg_block {
	struct pev_agg_block *next;
	size_t used, cap; /* bytes behind the head */
};

/* ---- hashing ---- */

struct sip {
	uint64_t a, b, c, d;
};

static inline uint64_t rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

/* In registers, which is half of what a value costs: GCC calls a function of three callers. */
static inline __attribute__((always_inline)) struct sip sip_round(struct sip v)
{
	v.a += v.b;
	v.c += v.d;
	v.b = rotate(v.b, 13) ^ v.a;
	v.d = rotate(v.d, 16) ^ v.c;
	v.a = rotate(v.a, 32);
	v.c += v.b;
	v.a += v.d;
	v.b = rotate(v.b, 17) ^ v.c;
	v.d = rotate(v.d, 21) ^ v.a;
	v.c = rotate(v.c, 32);
	return v;
}

static uint64_t load64(const unsigned char *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

static uint64_t folded(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/*
 * Of 8 to 16 bytes, a number's key: its first and its last eight, salted, as the halves of a
 * product that is folded twice (wyhash, Wang Yi; Go's maps have it for the same reasons).
 */
static inline uint64_t hash_ends(const uint64_t salt[2], uint64_t first, uint64_t last, size_t len)
{
	return folded(folded(first ^ salt[0], last ^ salt[1]), salt[0] ^ len ^ 0x9e3779b97f4a7c15);
}

/* Aumasson, Bernstein: SipHash, 2012; one round a word and three at the end. */
static uint64_t hash_long(const uint64_t salt[2], const unsigned char *key, size_t len)
{
	struct sip v = { salt[0] ^ 0x736f6d6570736575, salt[1] ^ 0x646f72616e646f6d,
			 salt[0] ^ 0x6c7967656e657261, salt[1] ^ 0x7465646279746573 };
	uint64_t word, last = (uint64_t)len << 56;

	/* The key of what has none. */
	if (!len)
		return salt[0];
	for (; len >= 8; key += 8, len -= 8) {
		memcpy(&word, key, 8);
		v.d ^= word;
		v = sip_round(v);
		v.a ^= word;
	}
	for (size_t i = 0; i < len; i++)
		last |= (uint64_t)key[i] << 8 * i;
	v.d ^= last;
	v = sip_round(v);
	v.a ^= last;
	v.c ^= 0xff;
	v = sip_round(sip_round(sip_round(v)));
	return v.a ^ v.b ^ v.c ^ v.d;
}

static inline uint64_t hash_key(const uint64_t salt[2], const unsigned char *key, size_t len)
{
	return len >= 8 && len <= 16 ? hash_ends(salt, load64(key), load64(key + len - 8), len)
				     : hash_long(salt, key, len);
}

uint64_t pev_key_hash(const uint64_t salt[2], const void *key, size_t len)
{
	return hash_key(salt, key, len);
}

/* AT_RANDOM: 16 bytes that the kernel made for this process; getauxval(3). */
void pev_key_salt(uint64_t salt[2])
{
	const void *random = (const void *)getauxval(AT_RANDOM);

	if (random)
		memcpy(salt, random, 2 * sizeof(*salt));
}

/* ---- buckets ---- */

static int check_linear(const struct pev_agg_config *config, struct pev_err *err)
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

/* How many steps there are; the last one may be cut short. */
static uint32_t linear_steps(const struct pev_agg_config *config)
{
	uint64_t width = (uint64_t)config->high - (uint64_t)config->low;

	return (uint32_t)((width - 1) / (uint64_t)config->step + 1);
}

/* 0: below 0; 1: 0; n: 2^(n-2) .. 2^(n-1) - 1 */
static uint32_t log2_bucket(int64_t value)
{
	if (value <= 0)
		return value == 0;
	return 65u - (uint32_t)__builtin_clzll((uint64_t)value);
}

/* 0: below low; 1 ..: the steps; behind them: from high on */
static uint32_t linear_bucket(const struct pev_agg_config *config, int64_t value)
{
	if (value < config->low)
		return 0;
	if (value >= config->high)
		return linear_steps(config) + 1;
	return (uint32_t)(((uint64_t)value - (uint64_t)config->low) / (uint64_t)config->step + 1);
}

static uint64_t magnitude(int64_t value)
{
	return value < 0 ? -(uint64_t)value : (uint64_t)value;
}

/* From EXACT on there are PARTS for each power of two. */
static uint32_t sketch_bucket(uint64_t value)
{
	uint32_t shift;

	if (value < EXACT)
		return (uint32_t)value;
	shift = 63u - (uint32_t)__builtin_clzll(value) - PARTS_LOG2;
	return shift * PARTS + (uint32_t)(value >> shift);
}

/* The middle of it. */
static uint64_t sketch_value(uint32_t bucket)
{
	uint32_t shift;

	if (bucket < EXACT)
		return bucket;
	shift = bucket / PARTS - 1;
	return ((uint64_t)(bucket - shift * PARTS) << shift) + ((UINT64_C(1) << shift) - 1) / 2;
}

/* Room for first .. last. -ENOMEM. */
static int reach(struct pev_buckets *buckets, uint32_t first, uint32_t last)
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
	int rc = reach(buckets, bucket, bucket);

	if (rc == 0)
		buckets->n[bucket - buckets->first] += n;
	return rc;
}

/* So many bytes more are held. */
static void hold(struct pev_agg *agg, uint64_t *held, uint64_t bytes)
{
	*held += bytes;
	pev_budget_use(agg->budget, bytes);
}

static __attribute__((noinline)) int count_in_new(struct pev_agg *agg, struct pev_buckets *buckets,
						  uint32_t bucket)
{
	uint32_t before = buckets->nr;
	int rc = pev_buckets_add(buckets, bucket, 1);

	hold(agg, &agg->bucket_bytes, (buckets->nr - before) * sizeof(*buckets->n));
	return rc;
}

static inline int count_in(struct pev_agg *agg, struct pev_buckets *buckets, uint32_t bucket)
{
	if (bucket - buckets->first >= buckets->nr)
		return count_in_new(agg, buckets, bucket);
	buckets->n[bucket - buckets->first]++;
	return 0;
}

static void add_buckets(struct pev_buckets *to, const struct pev_buckets *from)
{
	for (uint32_t i = 0; i < from->nr; i++)
		to->n[from->first - to->first + i] += from->n[i];
}

static int reach_as(struct pev_agg *agg, struct pev_buckets *to, const struct pev_buckets *from)
{
	uint32_t before = to->nr;
	int rc = from->nr ? reach(to, from->first, from->first + from->nr - 1) : 0;

	hold(agg, &agg->bucket_bytes, (to->nr - before) * sizeof(*to->n));
	return rc;
}

/* The buckets of a value's side, and which of them; NULL: the kind has none. */
static inline struct pev_buckets *find_buckets(const struct pev_agg_config *config,
					       struct pev_cell *cell, int64_t value,
					       uint32_t *bucket)
{
	switch (config->kind) {
	case PEV_AGG_HIST:
		*bucket = log2_bucket(value);
		return &cell->up;
	case PEV_AGG_LINEAR:
		*bucket = linear_bucket(config, value);
		return &cell->up;
	case PEV_AGG_QUANTILE:
		*bucket = sketch_bucket(magnitude(value));
		return value < 0 ? &cell->down : &cell->up;
	default:
		return NULL;
	}
}

static int count_value(struct pev_agg *agg, struct pev_cell *cell, int64_t value)
{
	uint32_t bucket;
	struct pev_buckets *buckets = find_buckets(&agg->config, cell, value, &bucket);

	return buckets ? count_in(agg, buckets, bucket) : 0;
}

/* ---- cells ---- */

static size_t cell_bytes(enum pev_agg_kind kind)
{
	if (kind == PEV_AGG_COUNT)
		return offsetof(struct pev_cell, sum_low);
	if (kind < PEV_AGG_MIN)
		return offsetof(struct pev_cell, min);
	return kind < PEV_AGG_HIST ? offsetof(struct pev_cell, up) : sizeof(struct pev_cell);
}

static void add_sum(struct pev_cell *cell, uint64_t low, int64_t high)
{
	cell->sum_low += low;
	cell->sum_high += high + (cell->sum_low < low);
}

static void widen(struct pev_cell *cell, int64_t min, int64_t max)
{
	cell->min = cell->n == 0 || min < cell->min ? min : cell->min;
	cell->max = cell->n == 0 || max > cell->max ? max : cell->max;
}

/* Has the budget room for bytes more? */
static bool has_room(const struct pev_agg *agg, uint64_t bytes)
{
	return pev_budget_fits(agg->budget, bytes);
}

/* Where a value goes that does not fit. */
static struct pev_cell *refuse(struct pev_agg *agg)
{
	agg->unfit++;
	pev_budget_refuse(agg->budget);
	return &agg->other;
}

/* The budget is used up: a value that needs more buckets goes to other. */
static __attribute__((noinline)) struct pev_cell *cell_that_has(struct pev_agg *agg,
								struct pev_cell *cell,
								int64_t value)
{
	uint32_t bucket;
	const struct pev_buckets *buckets = find_buckets(&agg->config, cell, value, &bucket);

	if (cell == &agg->other || !buckets || bucket - buckets->first < buckets->nr)
		return cell;
	return refuse(agg);
}

static int take_value(struct pev_agg *agg, struct pev_cell *cell, int64_t value)
{
	const struct pev_agg_config *config = &agg->config;
	int rc;

	if (config->kind == PEV_AGG_COUNT) {
		cell->n += (uint64_t)value;
		return 0;
	}
	if (!has_room(agg, 1))
		cell = cell_that_has(agg, cell, value);
	rc = count_value(agg, cell, value);
	if (rc < 0)
		return rc;
	add_sum(cell, (uint64_t)value, value < 0 ? -1 : 0);
	if (config->kind >= PEV_AGG_MIN)
		widen(cell, value, value);
	cell->n++;
	return 0;
}

static int take_cell(struct pev_agg *agg, struct pev_cell *cell, const struct pev_cell *from)
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
		if (reach_as(agg, &cell->up, &from->up) < 0 ||
		    reach_as(agg, &cell->down, &from->down) < 0)
			return -ENOMEM;
		add_buckets(&cell->up, &from->up);
		add_buckets(&cell->down, &from->down);
	}
	add_sum(cell, from->sum_low, from->sum_high);
	if (config->kind >= PEV_AGG_MIN)
		widen(cell, from->min, from->max);
	cell->n += from->n;
	return 0;
}

static void free_buckets(struct pev_cell *cell)
{
	free(cell->up.n);
	free(cell->down.n);
}

/* ---- the table ---- */

static void set_up(struct pev_agg *agg, const struct pev_agg_config *config)
{
	*agg = (struct pev_agg){ .config = *config, .key_at = cell_bytes(config->kind) };
	pev_key_salt(agg->salt);
}

int pev_agg_init(struct pev_agg *agg, const struct pev_agg_config *config, struct pev_err *err)
{
	int rc = config->kind == PEV_AGG_LINEAR ? check_linear(config, err) : 0;

	if (rc < 0)
		return rc;
	if (config->max_keys > PEV_AGG_MOST_KEYS)
		return pev_fail(err, -EINVAL, "more than %u keys", PEV_AGG_MOST_KEYS);
	set_up(agg, config);
	if (!config->max_keys)
		agg->config.max_keys = PEV_AGG_MAX_KEYS;
	return 0;
}

void pev_agg_free(struct pev_agg *agg)
{
	struct pev_agg_block *next;

	if (agg->config.kind >= PEV_AGG_HIST) {
		for (uint32_t i = 0; i < agg->nr; i++)
			free_buckets(agg->cells[i]);
		free_buckets(&agg->other);
	}
	for (; agg->blocks; agg->blocks = next) {
		next = agg->blocks->next;
		free(agg->blocks);
	}
	free(agg->slots);
	free(agg->cells);
	free(agg->heap);
	agg->slots = NULL;
	agg->cells = NULL;
	agg->heap = NULL;
	agg->nr = agg->cap = 0;
	agg->other = (struct pev_cell){ 0 };
	pev_budget_return(agg->budget, pev_agg_bytes(agg));
	agg->bytes = agg->bucket_bytes = agg->unfit = 0;
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

/* The slot of the key, or the free one where it belongs; there is a free one. */
static inline __attribute__((always_inline)) struct pev_agg_slot *
find_slot(const struct pev_agg *agg, uint64_t hash, const void *key, size_t len)
{
	uint32_t mask = agg->cap - 1, at = (uint32_t)(hash >> 32) & mask;

	for (;; at = (at + 1) & mask) {
		struct pev_agg_slot *slot = &agg->slots[at];
		const struct pev_cell *cell;

		if (!slot->nr)
			return slot;
		if (slot->hash != (uint32_t)hash)
			continue;
		cell = agg->cells[slot->nr - 1];
		if (cell->key_len == len && pev_key_same(pev_agg_key(agg, cell), key, len))
			return slot;
	}
}

static void enter(struct pev_agg_slot *slots, uint32_t cap, uint64_t hash, uint32_t nr)
{
	uint32_t at = (uint32_t)(hash >> 32) & (cap - 1);

	while (slots[at].nr)
		at = (at + 1) & (cap - 1);
	slots[at] = (struct pev_agg_slot){ .hash = (uint32_t)hash, .nr = nr };
}

/* Room for one cell more, half of the slots taken at most. */
static int grow(struct pev_agg *agg)
{
	uint32_t cap = agg->cap ? 2 * agg->cap : FIRST_CAP;
	struct pev_agg_slot *slots;
	struct pev_cell **cells;

	if (agg->nr < agg->cap / 2)
		return 0;
	cells = realloc(agg->cells, sizeof(struct pev_cell *) * cap);
	if (!cells)
		return -ENOMEM;
	agg->cells = cells;
	slots = calloc(cap, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < agg->nr; i++)
		enter(slots, cap, cells[i]->hash, i + 1);
	free(agg->slots);
	agg->slots = slots;
	hold(agg, &agg->bytes, (cap - agg->cap) * (sizeof(*slots) + sizeof(struct pev_cell *)));
	agg->cap = cap;
	return 0;
}

/* So many bytes in the first block, which is made when none has them; NULL without memory. */
static void *carve(struct pev_agg *agg, size_t bytes)
{
	struct pev_agg_block *block = agg->blocks;
	size_t cap = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;

	if (!block || block->cap - block->used < bytes) {
		block = malloc(sizeof(*block) + cap);
		if (!block)
			return NULL;
		*block = (struct pev_agg_block){ .next = agg->blocks, .cap = cap };
		agg->blocks = block;
		hold(agg, &agg->bytes, sizeof(*block) + cap);
	}
	block->used += bytes;
	return (unsigned char *)(block + 1) + block->used - bytes;
}

static void set_key(const struct pev_agg *agg, struct pev_cell *cell, uint64_t hash,
		    const void *key, size_t len)
{
	cell->hash = hash;
	cell->key_len = (uint32_t)len;
	if (len)
		memcpy((unsigned char *)cell + agg->key_at, key, len);
}

/* What another cell adds: its block, if the first one is full, and a table of twice the size. */
static bool has_room_for_key(const struct pev_agg *agg, size_t len)
{
	const struct pev_agg_block *block = agg->blocks;
	size_t bytes = agg->key_at + 2 * len, more = 0;

	if (!agg->budget)
		return true;
	if (!block || block->cap - block->used < bytes)
		more = sizeof(*block) + (bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES);
	if (agg->nr >= agg->cap / 2)
		more += (agg->cap ? agg->cap : FIRST_CAP) *
			(sizeof(struct pev_agg_slot) + sizeof(struct pev_cell *));
	return has_room(agg, more);
}

/* An empty cell for the key, not in the table yet; NULL without memory. */
static struct pev_cell *new_cell(struct pev_agg *agg, uint64_t hash, const void *key, size_t len)
{
	struct pev_cell *cell = carve(agg, (agg->key_at + len + 7) & ~(size_t)7);

	if (!cell)
		return NULL;
	memset(cell, 0, agg->key_at);
	set_key(agg, cell, hash, key, len);
	return cell;
}

/* The cell was the last that was made. */
static void drop_cell(struct pev_agg *agg, struct pev_cell *cell)
{
	if (agg->config.kind >= PEV_AGG_HIST)
		free_buckets(cell);
	agg->blocks->used = (size_t)((unsigned char *)cell - (unsigned char *)(agg->blocks + 1));
}

static void publish(struct pev_agg *agg, struct pev_cell *cell)
{
	agg->cells[agg->nr++] = cell;
	enter(agg->slots, agg->cap, cell->hash, agg->nr);
}

/*
 * The cell that a key's values go to: its own, other, or a new one, which is published
 * when it has its first value. NULL without memory.
 */
static struct pev_cell *cell_for(struct pev_agg *agg, uint64_t hash, const void *key, size_t len,
				 bool *is_new)
{
	const struct pev_agg_slot *slot = agg->cap ? find_slot(agg, hash, key, len) : NULL;

	*is_new = false;
	if (slot && slot->nr)
		return agg->cells[slot->nr - 1];
	if (agg->nr >= agg->config.max_keys)
		return &agg->other;
	if (!has_room_for_key(agg, len))
		return refuse(agg);
	if (len > UINT32_MAX || grow(agg) < 0)
		return NULL;
	*is_new = true;
	return new_cell(agg, hash, key, len);
}

/* ---- those that have most ---- */

/*
 * A cell of PEV_AGG_TOP keeps in sum_high its place in the heap and, above that, the bytes that
 * its key may have: of another key, when that takes its place.
 */
static uint32_t place_of(const struct pev_cell *cell)
{
	return (uint32_t)cell->sum_high;
}

static uint32_t room_of(const struct pev_cell *cell)
{
	return (uint32_t)((uint64_t)cell->sum_high >> 32);
}

static void set_place(struct pev_cell *cell, uint32_t place, uint32_t room)
{
	cell->sum_high = (int64_t)((uint64_t)room << 32 | place);
}

static void put_in_heap(struct pev_agg *agg, uint32_t place, uint32_t nr)
{
	struct pev_cell *cell = agg->cells[nr];

	agg->heap[place] = nr;
	set_place(cell, place, room_of(cell));
}

/* Its n has grown: those below it that have less go up. */
static void sink_in_heap(struct pev_agg *agg, uint32_t place)
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
		put_in_heap(agg, place, agg->heap[below]);
		place = (uint32_t)below;
	}
	put_in_heap(agg, place, nr);
}

static int make_heap(struct pev_agg *agg)
{
	if (agg->heap)
		return 0;
	agg->heap = malloc(sizeof(*agg->heap) * agg->nr);
	if (!agg->heap)
		return -ENOMEM;
	hold(agg, &agg->bytes, sizeof(*agg->heap) * agg->nr);
	for (uint32_t i = 0; i < agg->nr; i++)
		put_in_heap(agg, i, i);
	for (uint32_t i = agg->nr / 2; i-- > 0;)
		sink_in_heap(agg, i);
	return 0;
}

/* What stands behind the slot and would not be found any more moves up (Knuth 6.4, R). */
static void leave(struct pev_agg *agg, struct pev_agg_slot *slot)
{
	uint32_t mask = agg->cap - 1, gap = (uint32_t)(slot - agg->slots);

	for (uint32_t at = (gap + 1) & mask; agg->slots[at].nr; at = (at + 1) & mask) {
		uint64_t hash = agg->cells[agg->slots[at].nr - 1]->hash;
		uint32_t home = (uint32_t)(hash >> 32) & mask;

		if (((at - home) & mask) < ((at - gap) & mask))
			continue;
		agg->slots[gap] = agg->slots[at];
		gap = at;
	}
	agg->slots[gap] = (struct pev_agg_slot){ 0 };
}

/* A cell for a key of so many bytes, and for others of up to twice as many. */
static struct pev_cell *roomy_cell(struct pev_agg *agg, size_t len)
{
	size_t room = 16;
	struct pev_cell *cell;

	while (room < len)
		room *= 2;
	cell = room <= UINT32_MAX ? carve(agg, agg->key_at + room) : NULL;
	if (!cell)
		return NULL;
	memset(cell, 0, agg->key_at);
	set_place(cell, 0, (uint32_t)room);
	return cell;
}

/* The key that has least makes room for this one. */
static int take_place(struct pev_agg *agg, uint64_t hash, const void *key, size_t len,
		      uint64_t value)
{
	struct pev_cell *least, *cell;
	uint32_t nr;

	if (make_heap(agg) < 0)
		return -ENOMEM;
	nr = agg->heap[0];
	least = cell = agg->cells[nr];
	if (len > room_of(least)) {
		cell = roomy_cell(agg, len);
		if (!cell)
			return -ENOMEM;
	}
	leave(agg, find_slot(agg, least->hash, pev_agg_key(agg, least), least->key_len));
	agg->other.n = cell->sum_low = least->n;
	cell->n = least->n + value;
	agg->cells[nr] = cell;
	set_key(agg, cell, hash, key, len);
	enter(agg->slots, agg->cap, hash, nr + 1);
	sink_in_heap(agg, 0);
	return 0;
}

static int add_to_top(struct pev_agg *agg, uint64_t hash, const void *key, size_t len,
		      uint64_t value)
{
	const struct pev_agg_slot *slot = agg->cap ? find_slot(agg, hash, key, len) : NULL;
	struct pev_cell *cell;

	if (slot && slot->nr) {
		cell = agg->cells[slot->nr - 1];
		cell->n += value;
		if (agg->heap)
			sink_in_heap(agg, place_of(cell));
		return 0;
	}
	/* The heap has places for the keys that there were when it was made. */
	if (agg->nr >= agg->config.max_keys || agg->heap)
		return take_place(agg, hash, key, len, value);
	if (agg->nr && !has_room_for_key(agg, len)) {
		pev_budget_refuse(agg->budget);
		agg->unfit++;
		return take_place(agg, hash, key, len, value);
	}
	if (grow(agg) < 0)
		return -ENOMEM;
	cell = roomy_cell(agg, len);
	if (!cell)
		return -ENOMEM;
	set_key(agg, cell, hash, key, len);
	cell->n = agg->other.n + value;
	cell->sum_low = agg->other.n;
	publish(agg, cell);
	return 0;
}

uint64_t pev_agg_floor(const struct pev_agg *agg)
{
	return agg->config.kind == PEV_AGG_TOP ? agg->other.n : 0;
}

static int put_in_any(struct pev_agg *agg, uint64_t hash, const void *key, size_t len,
		      int64_t value)
{
	bool is_new;
	struct pev_cell *cell;

	if (agg->config.kind == PEV_AGG_TOP)
		return add_to_top(agg, hash, key, len, (uint64_t)value);
	cell = cell_for(agg, hash, key, len, &is_new);
	if (!cell)
		return -ENOMEM;
	if (take_value(agg, cell, value) < 0) {
		if (is_new)
			drop_cell(agg, cell);
		return -ENOMEM;
	}
	if (is_new)
		publish(agg, cell);
	return 0;
}

/* The key is a new one, or its values are more than counted. */
static __attribute__((noinline)) int add_any(struct pev_agg *agg, uint64_t hash, const void *key,
					     size_t len, int64_t value)
{
	int rc = put_in_any(agg, hash, key, len, value);

	if (rc < 0)
		pev_budget_fail(agg->budget);
	return rc;
}

int pev_agg_add(struct pev_agg *agg, const void *key, size_t len, int64_t value)
{
	uint64_t hash = hash_key(agg->salt, key, len);
	const struct pev_agg_slot *slot;

	if (agg->config.kind != PEV_AGG_COUNT || !agg->cap)
		return add_any(agg, hash, key, len, value);
	slot = find_slot(agg, hash, key, len);
	if (!slot->nr)
		return add_any(agg, hash, key, len, value);
	agg->cells[slot->nr - 1]->n += (uint64_t)value;
	return 0;
}

/* Its cell, or NULL. */
static inline struct pev_cell *find_integer(const struct pev_agg *agg, uint64_t hash,
					    uint64_t first, uint64_t last)
{
	uint32_t mask = agg->cap - 1, at = (uint32_t)(hash >> 32) & mask;

	for (;; at = (at + 1) & mask) {
		const struct pev_agg_slot *slot = &agg->slots[at];
		const unsigned char *key;
		struct pev_cell *cell;

		if (!slot->nr)
			return NULL;
		if (slot->hash != (uint32_t)hash)
			continue;
		cell = agg->cells[slot->nr - 1];
		key = pev_agg_key(agg, cell);
		if (cell->key_len == PEV_KEY_INTEGER_LEN && load64(key) == first &&
		    load64(key + 1) == last)
			return cell;
	}
}

/* The key is a new one, or there is more to do. */
static __attribute__((noinline)) int add_new_integer(struct pev_agg *agg, uint64_t hash,
						     int64_t key, int64_t value)
{
	unsigned char bytes[PEV_KEY_INTEGER_LEN] = { PEV_KEY_INTEGER };

	memcpy(bytes + 1, &key, sizeof(key));
	return add_any(agg, hash, bytes, sizeof(bytes), value);
}

/*
 * A key of 9 bytes that was just written cannot be read by words before the stores are through,
 * which costs more than all of this.
 */
static inline __attribute__((always_inline)) int add_integer(struct pev_agg *agg, int64_t key,
							     int64_t value)
{
	uint64_t first = pev_key_first_of(key), last = (uint64_t)key;
	uint64_t hash = hash_ends(agg->salt, first, last, PEV_KEY_INTEGER_LEN);
	struct pev_cell *cell = NULL;

	if (agg->config.kind != PEV_AGG_TOP && agg->cap)
		cell = find_integer(agg, hash, first, last);
	if (!cell)
		return add_new_integer(agg, hash, key, value);
	if (agg->config.kind != PEV_AGG_COUNT)
		return take_value(agg, cell, value);
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

static int take_all(struct pev_agg *agg, const struct pev_agg *from)
{
	agg->unfit += from->unfit;
	for (uint32_t i = 0; i < from->nr; i++) {
		const struct pev_cell *cell = from->cells[i];
		bool is_new;
		struct pev_cell *to = cell_for(agg, cell->hash, pev_agg_key(from, cell),
					       cell->key_len, &is_new);

		if (!to)
			return -ENOMEM;
		/* Published even then: what is half done is thrown away as a whole. */
		if (is_new)
			publish(agg, to);
		if (take_cell(agg, to, cell) < 0)
			return -ENOMEM;
	}
	return take_cell(agg, &agg->other, &from->other);
}

int pev_agg_put_other(struct pev_agg *agg, const struct pev_cell *cell)
{
	return take_cell(agg, &agg->other, cell);
}

/* What is added to each key: n of all, and of that how much may be of others. */
static int put_in_top(struct pev_agg *agg, uint64_t hash, const void *key, size_t len, uint64_t n,
		      uint64_t error)
{
	int rc = add_to_top(agg, hash, key, len, n);

	if (rc == 0)
		agg->cells[find_slot(agg, hash, key, len)->nr - 1]->sum_low += error;
	return rc;
}

int pev_agg_put(struct pev_agg *agg, const void *key, size_t len, const struct pev_cell *cell)
{
	uint64_t hash = hash_key(agg->salt, key, len);
	struct pev_cell *to;
	bool is_new;

	if (agg->config.kind == PEV_AGG_TOP)
		return put_in_top(agg, hash, key, len, cell->n, cell->sum_low);
	to = cell_for(agg, hash, key, len, &is_new);
	if (!to)
		return -ENOMEM;
	if (is_new)
		publish(agg, to);
	return take_cell(agg, to, cell);
}

uint64_t pev_agg_bytes(const struct pev_agg *agg)
{
	return agg->bytes + agg->bucket_bytes;
}

static int by_most(const void *a, const void *b)
{
	const struct pev_cell *const *x = a, *const *y = b;

	return ((*x)->n < (*y)->n) - ((*x)->n > (*y)->n);
}

/* Of all keys of two, of which one may lack what the other has, those that have most. */
static int keep_most(struct pev_agg *agg, struct pev_agg *all, uint64_t floor)
{
	int rc = 0;

	if (all->nr)
		qsort(all->cells, all->nr, sizeof(struct pev_cell *), by_most);
	for (uint32_t i = 0; i < all->nr && i < agg->config.max_keys && rc == 0; i++)
		rc = put_in_top(agg, all->cells[i]->hash, pev_agg_key(all, all->cells[i]),
				all->cells[i]->key_len, all->cells[i]->n, all->cells[i]->sum_low);
	if (all->nr > agg->config.max_keys && all->cells[agg->config.max_keys]->n > floor)
		floor = all->cells[agg->config.max_keys]->n;
	agg->other.n = floor;
	return rc;
}

/* Each key of from, and what it may have had in against when it is not there. */
static int put_all(struct pev_agg *all, const struct pev_agg *from, const struct pev_agg *against)
{
	int rc = 0;

	for (uint32_t i = 0; i < from->nr && rc == 0; i++) {
		const struct pev_cell *cell = from->cells[i];
		const unsigned char *key = pev_agg_key(from, cell);
		uint64_t more = 0;

		if (!pev_agg_find(against, key, cell->key_len))
			more = against->other.n;
		rc = put_in_top(all, cell->hash, key, cell->key_len, cell->n + more,
				cell->sum_low + more);
	}
	return rc;
}

/* Into both, which is empty. */
static int merge_top(struct pev_agg *both, const struct pev_agg *a, const struct pev_agg *b)
{
	struct pev_agg all;
	int rc;

	set_up(&all, &both->config);
	all.config.max_keys = UINT32_MAX;
	rc = put_all(&all, a, b);
	if (rc == 0)
		rc = put_all(&all, b, a);
	if (rc == 0)
		rc = keep_most(both, &all, a->other.n + b->other.n);
	pev_agg_free(&all);
	return rc;
}

static int merge_all(struct pev_agg *both, const struct pev_agg *a, const struct pev_agg *b)
{
	int rc;

	if (both->config.kind == PEV_AGG_TOP)
		return merge_top(both, a, b);
	rc = take_all(both, a);
	return rc < 0 ? rc : take_all(both, b);
}

static bool is_alike(const struct pev_agg_config *a, const struct pev_agg_config *b)
{
	return a->kind == b->kind && a->low == b->low && a->high == b->high && a->step == b->step;
}

int pev_agg_merge(struct pev_agg *agg, const struct pev_agg *from, struct pev_err *err)
{
	struct pev_agg both;

	if (!is_alike(&agg->config, &from->config))
		return pev_fail(err, -EINVAL, "they are not of the same kind");
	set_up(&both, &agg->config);
	if (merge_all(&both, agg, from) < 0) {
		pev_agg_free(&both);
		return pev_fail(err, -ENOMEM, "no memory for both");
	}
	pev_agg_replace(agg, &both);
	return 0;
}

const struct pev_cell *pev_agg_find(const struct pev_agg *agg, const void *key, size_t len)
{
	const struct pev_agg_slot *slot;

	if (!agg->cap)
		return NULL;
	slot = find_slot(agg, hash_key(agg->salt, key, len), key, len);
	return slot->nr ? agg->cells[slot->nr - 1] : NULL;
}

/* ---- what a cell says ---- */

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
	/* Of the magnitude: a small sum below 0 must not be the difference of two large ones. */
	if (cell->sum_high < 0) {
		high = ~high + (low == 0);
		low = -low;
	}
	sum = (double)high * 0x1p64 + (double)low;
	return (cell->sum_high < 0 ? -sum : sum) / (double)cell->n;
}

uint32_t pev_agg_buckets(const struct pev_agg_config *config)
{
	if (config->kind == PEV_AGG_LINEAR)
		return linear_steps(config) + 2;
	return config->kind == PEV_AGG_QUANTILE ? sketch_bucket(UINT64_C(1) << 63) + 1 :
						  log2_bucket(INT64_MAX) + 1;
}

static struct pev_bounds log2_bounds(uint32_t bucket)
{
	/* What is above the last one is no integer. */
	struct pev_bounds bounds = { .has_low = bucket > 0, .has_high = bucket < 64 };

	if (bucket > 1)
		bounds.low = (int64_t)(UINT64_C(1) << (bucket - 2));
	if (bucket > 0 && bounds.has_high)
		bounds.high = (int64_t)(UINT64_C(1) << (bucket - 1));
	return bounds;
}

static struct pev_bounds linear_bounds(const struct pev_agg_config *config, uint32_t bucket)
{
	uint32_t steps = linear_steps(config);
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

struct pev_bounds pev_agg_bounds(const struct pev_agg_config *config, uint32_t bucket)
{
	return config->kind == PEV_AGG_LINEAR ? linear_bounds(config, bucket) : log2_bounds(bucket);
}

/* The estimate, kept between the least and the most there was. */
static int64_t clamped(const struct pev_cell *cell, uint64_t size, bool negative)
{
	int64_t value = size > INT64_MAX ? INT64_MAX : (int64_t)size;

	value = negative ? -value : value;
	if (value < cell->min)
		return cell->min;
	return value > cell->max ? cell->max : value;
}

/* ceil(product) - 1, of a product that is a whole number but for its rounding that number. */
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
			return clamped(cell, sketch_value(cell->down.first + i), true);
		rank -= cell->down.n[i];
	}
	for (uint32_t i = 0; i < cell->up.nr; i++) {
		if (rank < cell->up.n[i])
			return clamped(cell, sketch_value(cell->up.first + i), false);
		rank -= cell->up.n[i];
	}
	return cell->max;
}

/* ---- keys ---- */

bool pev_key_room(struct pev_key *key, size_t len)
{
	size_t cap = 2 * (key->len + len) + 64;
	unsigned char *bytes = realloc(key->bytes, cap);

	if (!bytes)
		return false;
	key->bytes = bytes;
	key->cap = cap;
	return true;
}

/* So many bytes more, behind their type; NULL without memory. */
static unsigned char *append(struct pev_key *key, enum pev_key_type type, size_t len)
{
	unsigned char *p;

	if (key->cap - key->len < 1 + len && !pev_key_room(key, 1 + len))
		return NULL;
	p = key->bytes + key->len;
	*p = (unsigned char)type;
	key->len += 1 + len;
	return p + 1;
}

int pev_key_string(struct pev_key *key, const void *bytes, size_t len)
{
	uint32_t short_len = (uint32_t)len;
	unsigned char *p;

	if (len > UINT32_MAX / 4)
		return -ENOMEM;
	p = append(key, PEV_KEY_STRING, sizeof(short_len) + len);
	if (!p)
		return -ENOMEM;
	memcpy(p, &short_len, sizeof(short_len));
	if (len)
		memcpy(p + sizeof(short_len), bytes, len);
	return 0;
}

int pev_key_bool(struct pev_key *key, bool value)
{
	return append(key, value ? PEV_KEY_TRUE : PEV_KEY_FALSE, 0) ? 0 : -ENOMEM;
}

int pev_key_pointer(struct pev_key *key, const void *value)
{
	unsigned char *p = append(key, PEV_KEY_POINTER, sizeof(value));

	if (!p)
		return -ENOMEM;
	memcpy(p, &value, sizeof(value));
	return 0;
}

int pev_key_part(struct pev_key *key, const struct pev_key_part *part)
{
	switch (part->type) {
	case PEV_KEY_INTEGER:
		return pev_key_integer(key, part->integer);
	case PEV_KEY_STRING:
		return pev_key_string(key, part->p, part->len);
	case PEV_KEY_POINTER:
		return pev_key_pointer(key, part->pointer);
	default:
		return pev_key_bool(key, part->type == PEV_KEY_TRUE);
	}
}

void pev_key_free(struct pev_key *key)
{
	free(key->bytes);
	*key = (struct pev_key){ 0 };
}

struct pev_key_part pev_key_next(const unsigned char *key, size_t len, size_t *at)
{
	struct pev_key_part part = { .type = PEV_KEY_END };

	if (*at >= len)
		return part;
	part.type = (enum pev_key_type)key[(*at)++];
	if (part.type == PEV_KEY_INTEGER) {
		memcpy(&part.integer, key + *at, sizeof(part.integer));
		*at += sizeof(part.integer);
	} else if (part.type == PEV_KEY_STRING) {
		memcpy(&part.len, key + *at, sizeof(part.len));
		part.p = key + *at + sizeof(part.len);
		*at += sizeof(part.len) + part.len;
	} else if (part.type == PEV_KEY_POINTER) {
		memcpy(&part.pointer, key + *at, sizeof(part.pointer));
		*at += sizeof(part.pointer);
	}
	return part;
}
