/*
 * laggregator.h - the userdata perfev.aggregator: a struct pev_agg and the names of its columns.
 */
#ifndef PEV_LAGGREGATOR_H
#define PEV_LAGGREGATOR_H

#include <lua.h>
#include <stdbool.h>
#include <stdint.h>

#include "aggregate/aggregator.h"
#include "symbol/stack.h"

#define L_AGG_COLUMNS 16 /* most that a key may have */

/* Ends of a span, and what a record does there. */
enum l_span_end { L_SPAN_START, L_SPAN_VIA, L_SPAN_STOP, L_SPAN_CANCEL, L_SPAN_NR };

/* Of the first record that came and the last, in ns. */
struct l_time_range {
	uint64_t first, last;
	bool any;
};

struct l_agg {
	struct pev_agg all;
	struct pev_agg recent;   /* since the last delta() */
	struct pev_agg named;    /* of PEV_AGG_TOP, whose all keeps addresses: of symbols */
	bool deltas;             /* there was one: recent is kept */
	struct pev_key key;      /* used again for each value */
	const char *value;       /* the field it is of; NULL: none was named */
	const char *by[L_AGG_COLUMNS]; /* borrowed of its spec */
	uint32_t nr_by;
	int64_t slot;            /* ns: a column "time" is when its slot began; 0: as it is */
	uint32_t timed;          /* 1 + which column that is; 0: none */
	uint32_t symbols;        /* bit i: column i is named when it is read */
	bool unnamed;            /* something came since that was */
	const struct l_condition *where; /* the records that it counts; NULL: all */
	bool lacking;            /* what a record does not have is false, or 0, and counts */
	bool keeps_times;
	struct l_time_range times;    /* of records that came, whatever where says of them */
	struct l_span *span;     /* whose end it is (lspan.h), or NULL */
	struct l_agg *span_into; /* the aggregator that gets the span's values, or NULL */
	enum l_span_end end;
	/* What came and is in no cell: fields that a record did not have, the value's first. */
	uint64_t absent[1 + L_AGG_COLUMNS];
	uint64_t no_memory;
	uint64_t untold;         /* records without what where reads */
};

/*
 * Its keys point to stacks: L_AGG_UV_HOMES keeps where they are interned, by the address of
 * that, as { stacks =, world = }, and what has its budget, by the budget's. What is taken out
 * of it by delta() shares the table.
 */
enum { L_AGG_UV_SPEC = 1, L_AGG_UV_HOMES, L_AGG_UV_SPAN, L_AGG_UV_NR = L_AGG_UV_SPAN };

/* Pops what the one at idx keeps from here on, by an address: the home of its keys' stacks. */
void l_agg_keep(lua_State *L, int idx, const void *what);

/*
 * Unless it has one already, the one at idx has that budget, and so has what the span is put into
 * that it is an end of. Pops the owner of the budget, which is kept.
 */
void l_agg_budget(lua_State *L, int idx, struct pev_budget *budget);

/* Add aggregator() and aggregator_methods to the table on top of the stack. */
void l_agg_register(lua_State *L);

/* The one at idx, or NULL. */
struct l_agg *l_agg_test(lua_State *L, int idx);

/* The time as the key of a column has it. */
static inline int64_t l_agg_time(const struct l_agg *self, uint32_t column, int64_t time)
{
	return self->timed == column + 1 ? time - time % self->slot : time;
}

/* One value more, of self->key. -ENOMEM: the whole does not have it. */
static inline int l_agg_add(struct l_agg *self, int64_t value)
{
	const struct pev_key *key = &self->key;

	self->unnamed = self->symbols;
	/* First: without memory for the second it is the whole that is right. */
	if (self->deltas && pev_agg_add(&self->recent, key->bytes, key->len, value) < 0)
		return -ENOMEM;
	return pev_agg_add(&self->all, key->bytes, key->len, value);
}

/* The same of a key that is one integer. */
static inline int l_agg_add_integer(struct l_agg *self, int64_t key, int64_t value)
{
	if (self->deltas && pev_agg_add_integer(&self->recent, key, value) < 0)
		return -ENOMEM;
	return pev_agg_add_integer(&self->all, key, value);
}

/* As many values of 1, of what has no columns. */
static inline void l_agg_count(struct l_agg *self, uint32_t nr)
{
	for (uint32_t i = 0; i < nr; i++)
		self->no_memory += (self->deltas && pev_agg_count(&self->recent) < 0) ||
				   pev_agg_count(&self->all) < 0;
}

/* Of as many such keys, a value of 1 each. */
static inline void l_agg_count_integers(struct l_agg *self, const int64_t *keys, uint32_t nr)
{
	uint32_t failed = 0;

	if (!self->deltas)
		failed = pev_agg_count_integers(&self->all, keys, nr);
	for (uint32_t i = 0; self->deltas && i < nr; i++)
		failed += l_agg_add_integer(self, keys[i], 1) < 0;
	self->no_memory += failed;
}

#endif
