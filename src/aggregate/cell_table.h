/*
 * cell_table.h - the hash table of an aggregator: from a key to its cell.
 *
 * Slots have a hash and the index of a cell; cells are in blocks and never move. Allocations
 * are made before anything changes. Only the aggregator calls these functions.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregate/cell.h"
#include "aggregate/key.h"
#include "base/memory_budget.h"

struct pev_agg_slot {
	uint32_t hash, nr;       /* nr: 1 + index in cells; 0: free */
};

#define PEV_AGG_NEAR_BITS 9

struct pev_agg {
	struct pev_agg_config config;
	uint64_t salt[2];
	size_t key_at;               /* bytes from a cell's start to its key */
	struct pev_agg_slot *slots;  /* open addressing; cap slots, a power of two */
	struct pev_cell **cells;     /* in the order of their first value */
	uint32_t *heap;              /* a full PEV_AGG_TOP: indices of cells, the least first */
	uint32_t nr, cap;
	struct pev_agg_block *blocks;
	struct pev_cell other;       /* all keys without room */
	uint64_t bytes;              /* allocated for cells and the table */
	uint64_t bucket_bytes;       /* allocated for buckets */
	struct pev_budget *budget;   /* borrowed: see pev_agg_budget(). NULL: no limit */
	int64_t signs;               /* of PEV_AGG_SUM: negative if a value was */
	uint64_t unfit;              /* values whose key or bucket did not fit into the budget */
	struct pev_cell *near[1 << PEV_AGG_NEAR_BITS]; /* cells of integers, found before */
};

struct pev_agg_block {
	struct pev_agg_block *next;
	size_t used, cap; /* bytes after this header */
};

static inline const unsigned char *pev_agg_key(const struct pev_agg *agg,
					       const struct pev_cell *cell)
{
	return (const unsigned char *)cell + agg->key_at;
}

/* Counts bytes that the aggregator has allocated, in one of its two sums and in the budget. */
static inline void pev_agg_add_held(struct pev_agg *agg, uint64_t *held, uint64_t bytes)
{
	*held += bytes;
	pev_budget_use(agg->budget, bytes);
}

/* An empty table for the config, which was checked. */
void pev_cells_init(struct pev_agg *agg, const struct pev_agg_config *config);
/* Frees the table and its cells; not their buckets. */
void pev_cells_free(struct pev_agg *agg);
/* Makes room for one cell more; at most half of the slots are in use. -ENOMEM. */
int pev_cells_grow(struct pev_agg *agg);
/* True if another cell fits into the budget, with a new block and a larger table if needed. */
bool pev_cells_has_room(const struct pev_agg *agg, size_t len);
/* Bytes in the first block, or in a new one; NULL without memory. */
void *pev_cells_allocate(struct pev_agg *agg, size_t bytes);
/* An empty cell for the key, not in the table yet; NULL without memory. */
struct pev_cell *pev_cells_new(struct pev_agg *agg, uint64_t hash, const void *key, size_t len);
void pev_cells_set_key(const struct pev_agg *agg, struct pev_cell *cell, uint64_t hash,
		       const void *key, size_t len);
/* Puts a new cell into the table. */
void pev_cells_publish(struct pev_agg *agg, struct pev_cell *cell);

/* The cells at a moment, to drop those that are made later. */
struct pev_cells_mark {
	uint32_t nr;
	struct pev_agg_block *block;
	size_t used;
};
struct pev_cells_mark pev_cells_mark(const struct pev_agg *agg);
/* Takes the cells that were published since then out of the table, and frees their memory. */
void pev_cells_drop(struct pev_agg *agg, const struct pev_cells_mark *before);
/* Makes room for cells more with this number of bytes altogether. -ENOMEM. */
int pev_cells_reserve(struct pev_agg *agg, uint32_t cells, size_t bytes);
/* Bytes that pev_cells_reserve() would allocate. */
uint64_t pev_cells_reserve_bytes(const struct pev_agg *agg, uint32_t cells, size_t bytes);

/* A slot for the cell with index nr - 1. */
void pev_cells_insert(struct pev_agg_slot *slots, uint32_t cap, uint64_t hash, uint32_t nr);
/* Frees the slot; its cell stays. */
void pev_cells_remove(struct pev_agg *agg, struct pev_agg_slot *slot);

/* The slot of the key, or the free one where it belongs. agg->cap is not 0. */
static inline __attribute__((always_inline)) struct pev_agg_slot *
pev_cells_find(const struct pev_agg *agg, uint64_t hash, const void *key, size_t len)
{
	uint32_t mask = agg->cap - 1, at = (uint32_t)(hash >> 32) & mask;
	const unsigned char *bytes = (const unsigned char *)key;

	for (;; at = (at + 1) & mask) {
		struct pev_agg_slot *slot = &agg->slots[at];
		const struct pev_cell *cell;

		if (!slot->nr)
			return slot;
		if (slot->hash != (uint32_t)hash)
			continue;
		cell = agg->cells[slot->nr - 1];
		if (cell->key_len == len && pev_key_same(pev_agg_key(agg, cell), bytes, len))
			return slot;
	}
}
