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

int pev_cells_grow(struct pev_agg *agg)
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
		pev_cells_insert(slots, cap, cells[i]->hash, i + 1);
	free(agg->slots);
	agg->slots = slots;
	pev_agg_add_held(agg, &agg->bytes,
			 (cap - agg->cap) * (sizeof(*slots) + sizeof(struct pev_cell *)));
	agg->cap = cap;
	return 0;
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

void *pev_cells_allocate(struct pev_agg *agg, size_t bytes)
{
	struct pev_agg_block *block = agg->blocks;
	size_t cap = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;

	if (!block || block->cap - block->used < bytes) {
		block = malloc(sizeof(*block) + cap);
		if (!block)
			return NULL;
		*block = (struct pev_agg_block){ .next = agg->blocks, .cap = cap };
		agg->blocks = block;
		pev_agg_add_held(agg, &agg->bytes, sizeof(*block) + cap);
	}
	block->used += bytes;
	return (unsigned char *)(block + 1) + block->used - bytes;
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
	const struct pev_agg_block *block = agg->blocks;
	size_t bytes = agg->key_at + 2 * len, more = 0;

	if (!agg->budget)
		return true;
	if (!block || block->cap - block->used < bytes)
		more = sizeof(*block) + (bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES);
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
