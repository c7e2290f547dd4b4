/*
 * laggregator.h - the userdata perfev.aggregator: a struct pev_agg and the names of its columns.
 */
#pragma once

#include <lauxlib.h>
#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "aggregate/aggregator.h"
#include "symbol/stack.h"

#define L_AGG_COLUMNS 16 /* maximum number of a key's columns */

/* The ends of a span. */
enum l_span_end { L_SPAN_START, L_SPAN_VIA, L_SPAN_STOP, L_SPAN_CANCEL, L_SPAN_NR };

/* Times of the first and the last record, in ns. */
struct l_time_range {
	uint64_t first, last;
	bool any;
};

struct l_agg {
	struct pev_agg all;
	struct pev_agg recent;   /* since the last delta() */
	struct pev_agg named;    /* for PEV_AGG_TOP: by symbol names, where all has addresses */
	bool deltas;             /* delta() was called: recent is kept */
	struct pev_key key;      /* reused for each value */
	const char *value;       /* the field of the values, or NULL */
	const char *by[L_AGG_COLUMNS]; /* the columns' names, borrowed from the spec */
	uint32_t nr_by;
	int64_t slot;            /* ns: the column "time" is rounded down to this; 0: unchanged */
	uint32_t timed;          /* 1 + index of that column; 0: none */
	uint32_t symbols;        /* bit i: column i is a stack, named when the key is read */
	bool unnamed;            /* a value was added since symbols were named */
	const struct l_condition *where; /* the records that it counts; NULL: all */
	bool lacking;            /* a missing column is false, a missing value 0 */
	bool keeps_times;
	struct l_time_range times; /* of all records, before where selects some */
	struct l_span *span;     /* this aggregator is an end of that span (lspan.h), or NULL */
	struct l_agg *span_into; /* the aggregator that gets the span's values, or NULL */
	enum l_span_end end;
	/* Records without the value's field, then without each column's field. In no cell. */
	uint64_t absent[1 + L_AGG_COLUMNS];
	uint64_t no_memory;      /* records that did not fit in memory */
	uint64_t undecided;      /* records without a field that where needs */
};

/*
 * Keys can point to stacks. L_AGG_UV_HOMES keeps their stack tables, as { stacks =, world = }
 * by the table's address, and the budget's owner by the budget's address. The aggregators
 * that delta() returns share it.
 */
enum { L_AGG_UV_SPEC = 1, L_AGG_UV_HOMES, L_AGG_UV_SPAN, L_AGG_UV_NR = L_AGG_UV_SPAN };

/* Pops a value; the aggregator at idx keeps it in L_AGG_UV_HOMES, by that address. */
void l_agg_keep(lua_State *L, int idx, const void *address);

/*
 * Sets the budget of the aggregator at idx, and of its span's into, unless they have
 * one. Pops the budget's owner and keeps it.
 */
void l_agg_budget(lua_State *L, int idx, struct pev_budget *budget);

/* Adds methods, and metamethods unless NULL, to the class of aggregators. */
void l_agg_add_methods(lua_State *L, const luaL_Reg *methods, const luaL_Reg *metamethods);

/* Returns the aggregator at idx, or NULL. */
struct l_agg *l_agg_test(lua_State *L, int idx);

/* Returns the aggregator that is this argument, or raises. */
struct l_agg *l_agg_check(lua_State *L, int arg);

/* Pushes a new aggregator; it keeps the spec at this index. Raises for a config that is invalid. */
struct l_agg *l_agg_push(lua_State *L, const struct pev_agg_config *config, int spec);

/* Returns the column's part of the key: a time is rounded down to its slot. */
static inline int64_t l_agg_time(const struct l_agg *self, uint32_t column, int64_t time)
{
	return self->timed == column + 1 ? time - time % self->slot : time;
}

/* Adds a value for self->key. Returns 0, or -ENOMEM: all does not have it. */
static inline int l_agg_add(struct l_agg *self, int64_t value)
{
	const struct pev_key *key = &self->key;

	self->unnamed = self->symbols;
	/* First, because all must not have a value that was refused. */
	if (self->deltas && pev_agg_add(&self->recent, key->bytes, key->len, value) < 0)
		return -ENOMEM;
	return pev_agg_add(&self->all, key->bytes, key->len, value);
}

/* As l_agg_add(), for a key that is one integer. */
static inline int l_agg_add_integer(struct l_agg *self, int64_t key, int64_t value)
{
	if (self->deltas && pev_agg_add_integer(&self->recent, key, value) < 0)
		return -ENOMEM;
	return pev_agg_add_integer(&self->all, key, value);
}

/* Counts nr records by an aggregator without columns. */
static inline void l_agg_count(struct l_agg *self, uint64_t nr)
{
	if (nr && ((self->deltas && pev_agg_count(&self->recent, nr) < 0) ||
		   pev_agg_count(&self->all, nr) < 0))
		self->no_memory += nr;
}

/* Adds a value of 1 for each of nr keys that are one integer. */
static inline void l_agg_count_integers(struct l_agg *self, const int64_t *keys, uint32_t nr)
{
	uint32_t failed = 0;

	if (!self->deltas)
		failed = pev_agg_count_integers(&self->all, keys, nr);
	for (uint32_t i = 0; self->deltas && i < nr; i++)
		failed += l_agg_add_integer(self, keys[i], 1) < 0;
	self->no_memory += failed;
}
