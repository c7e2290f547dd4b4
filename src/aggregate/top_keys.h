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
/*
 * Takes the memory for a merge of from into agg. If from has dropped keys, or agg becomes full,
 * *both is the result, which replaces agg; the time depends on the keys of agg, too. Otherwise it
 * is NULL, and pev_top_merge() adds from to agg without allocation. -ENOMEM.
 */
int pev_top_reserve(struct pev_agg *agg, const struct pev_agg *from, struct pev_agg **both);
void pev_top_merge(struct pev_agg *agg, const struct pev_agg *from);
