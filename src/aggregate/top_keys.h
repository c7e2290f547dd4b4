/*
 * top_keys.h - the keys that have most, in bounded memory: PEV_AGG_TOP; see pev_agg_floor().
 */
#pragma once

#include "aggregate/cell_table.h"

/* Adds n to the key; without room, it replaces the key that has least. -ENOMEM. */
int pev_top_add(struct pev_agg *agg, uint64_t hash, const void *key, size_t len, uint64_t n);
/* The same of a cell: error of its n may belong to other keys. */
int pev_top_add_cell(struct pev_agg *agg, uint64_t hash, const void *key, size_t len, uint64_t n,
		     uint64_t error);
/* Merges a and b into both, which is empty. -ENOMEM. */
int pev_top_merge(struct pev_agg *both, const struct pev_agg *a, const struct pev_agg *b);
