/*
 * cell_table.c - the hash table of an aggregator; see cell_table.h.
 */
#include "aggregate/cell_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)1 << 16)

enum { FIRST_CAP = 64 }; /* slots of the first table */

static size_t cell_bytes(enum pev_agg_kind kind)
{
	if (kind == PEV_AGG_COUNT)
		return offsetof(struct pev_cell, sum_low);
	if (kind < PEV_AGG_MIN)
		return offsetof(struct pev_cell, min);
	return kind < PEV_AGG_HIST ? offsetof(struct pev_cell, up) : sizeof(struct pev_cell);
}

void pev_cells_init(struct pev_agg *agg, const struct pev_agg_config *config)
{
	*agg = (struct pev_agg){ .config = *config, .key_at = cell_bytes(config->kind) };
	pev_key_salt(agg->salt);
}

void pev_cells_insert(struct pev_agg_slot *slots, uint32_t cap, uint64_t hash, uint32_t nr)
{
	uint32_t at = (uint32_t)(hash >> 32) & (cap - 1);

	while (slots[at].nr)
		at = (at + 1) & (cap - 1);
	slots[at] = (struct pev_agg_slot){ .hash = (uint32_t)hash, .nr = nr };
}

/* Slots for so many cells. */
static uint64_t slots_for(const struct pev_agg *agg, uint64_t cells)
{
	uint64_t cap = agg->cap ? agg->cap : FIRST_CAP;

	while (cells > cap / 2)
		cap *= 2;
	return cap;
}

static int set_cap(struct pev_agg *agg, uint64_t cap)
{
	struct pev_agg_slot *slots;
	struct pev_cell **cells;

	if (cap == agg->cap)
		return 0;
	if (cap > UINT32_MAX)
		return -ENOMEM;
	cells = realloc(agg->cells, sizeof(struct pev_cell *) * cap);
	if (!cells)
		return -ENOMEM;
	agg->cells = cells;
	slots = calloc(cap, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	for (uint32_t i = 0; i < agg->nr; i++)
		pev_cells_insert(slots, (uint32_t)cap, cells[i]->hash, i + 1);
	free(agg->slots);
	agg->slots = slots;
	pev_agg_add_held(agg, &agg->bytes,
			 (cap - agg->cap) * (sizeof(*slots) + sizeof(struct pev_cell *)));
	agg->cap = (uint32_t)cap;
	return 0;
}

int pev_cells_grow(struct pev_agg *agg)
{
	if (agg->nr < agg->cap / 2)
		return 0;
	return set_cap(agg, slots_for(agg, (uint64_t)agg->nr + 1));
}

/* Slots that would no longer be found move up (Knuth 6.4, algorithm R). */
void pev_cells_remove(struct pev_agg *agg, struct pev_agg_slot *slot)
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

static bool has_bytes(const struct pev_agg *agg, size_t bytes)
{
	return agg->blocks && agg->blocks->cap - agg->blocks->used >= bytes;
}

static size_t block_bytes(size_t bytes)
{
	return bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
}

/* Makes sure that the first block has so many bytes left. */
static int reserve_bytes(struct pev_agg *agg, size_t bytes)
{
	const size_t cap = block_bytes(bytes);
	struct pev_agg_block *block;

	if (has_bytes(agg, bytes))
		return 0;
	block = malloc(sizeof(*block) + cap);
	if (!block)
		return -ENOMEM;
	*block = (struct pev_agg_block){ .next = agg->blocks, .cap = cap };
	agg->blocks = block;
	pev_agg_add_held(agg, &agg->bytes, sizeof(*block) + cap);
	return 0;
}

uint64_t pev_cells_reserve_bytes(const struct pev_agg *agg, uint32_t cells, size_t bytes)
{
	uint64_t more = 0;

	if (!has_bytes(agg, bytes))
		more = sizeof(struct pev_agg_block) + block_bytes(bytes);
	return more + (slots_for(agg, (uint64_t)agg->nr + cells) - agg->cap) *
			      (sizeof(struct pev_agg_slot) + sizeof(struct pev_cell *));
}

int pev_cells_reserve(struct pev_agg *agg, uint32_t cells, size_t bytes)
{
	if (reserve_bytes(agg, bytes) < 0)
		return -ENOMEM;
	return cells ? set_cap(agg, slots_for(agg, (uint64_t)agg->nr + cells)) : 0;
}

void *pev_cells_allocate(struct pev_agg *agg, size_t bytes)
{
	if (reserve_bytes(agg, bytes) < 0)
		return NULL;
	agg->blocks->used += bytes;
	return (unsigned char *)(agg->blocks + 1) + agg->blocks->used - bytes;
}

void pev_cells_set_key(const struct pev_agg *agg, struct pev_cell *cell, uint64_t hash,
		       const void *key, size_t len)
{
	cell->hash = hash;
	cell->key_len = (uint32_t)len;
	if (len)
		memcpy((unsigned char *)cell + agg->key_at, key, len);
}

bool pev_cells_has_room(const struct pev_agg *agg, size_t len)
{
	size_t bytes = agg->key_at + 2 * len, more = 0;

	if (!agg->budget)
		return true;
	if (!has_bytes(agg, bytes))
		more = sizeof(struct pev_agg_block) + block_bytes(bytes);
	if (agg->nr >= agg->cap / 2)
		more += (agg->cap ? agg->cap : FIRST_CAP) *
			(sizeof(struct pev_agg_slot) + sizeof(struct pev_cell *));
	return pev_budget_fits(agg->budget, more);
}

struct pev_cell *pev_cells_new(struct pev_agg *agg, uint64_t hash, const void *key, size_t len)
{
	struct pev_cell *cell = pev_cells_allocate(agg, (agg->key_at + len + 7) & ~(size_t)7);

	if (!cell)
		return NULL;
	memset(cell, 0, agg->key_at);
	pev_cells_set_key(agg, cell, hash, key, len);
	return cell;
}

void pev_cells_publish(struct pev_agg *agg, struct pev_cell *cell)
{
	agg->cells[agg->nr++] = cell;
	pev_cells_insert(agg->slots, agg->cap, cell->hash, agg->nr);
}

struct pev_cells_mark pev_cells_mark(const struct pev_agg *agg)
{
	return (struct pev_cells_mark){ agg->nr, agg->blocks,
					agg->blocks ? agg->blocks->used : 0 };
}

void pev_cells_drop(struct pev_agg *agg, const struct pev_cells_mark *before)
{
	for (; agg->nr > before->nr; agg->nr--) {
		const struct pev_cell *cell = agg->cells[agg->nr - 1];

		pev_cells_remove(agg, pev_cells_find(agg, cell->hash, pev_agg_key(agg, cell),
						     cell->key_len));
	}
	while (agg->blocks != before->block) {
		struct pev_agg_block *block = agg->blocks;

		agg->blocks = block->next;
		agg->bytes -= sizeof(*block) + block->cap;
		pev_budget_return(agg->budget, sizeof(*block) + block->cap);
		free(block);
	}
	if (agg->blocks)
		agg->blocks->used = before->used;
}

void pev_cells_free(struct pev_agg *agg)
{
	struct pev_agg_block *next;

	for (; agg->blocks; agg->blocks = next) {
		next = agg->blocks->next;
		free(agg->blocks);
	}
	free(agg->slots);
	free(agg->cells);
	agg->slots = NULL;
	agg->cells = NULL;
	agg->nr = agg->cap = 0;
	memset(agg->near, 0, sizeof(agg->near));
}
