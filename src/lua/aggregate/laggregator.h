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

/* Records in no cell: without the value's field, then without each column's field; others. */
struct l_uncounted {
	uint64_t absent[1 + L_AGG_COLUMNS];
	uint64_t no_memory; /* records that did not fit in memory */
	uint64_t undecided; /* records without a field that where needs */
};

/* What reads the values of an aggregator since it read last; see lfollower.h. */
struct l_follower {
	struct l_agg *agg; /* NULL: it was freed first, at the end of the state */
	struct l_follower *next;
	struct pev_agg unread; /* values that were passed on since the last delta() */
	struct l_uncounted read; /* of the aggregator's counts, those before the last delta() */
	struct l_uncounted missed; /* not read when clear() removed them */
	bool keeps_cleared; /* clear() does not remove the unread values; not of a:delta() */
	bool only_total; /* it has no delta() and keeps no unread values */
};

/*
 * Without followers, values are added to all. With followers they are added to
 * recent, and each value is added once: l_agg_pass_on() merges recent into all and into what each
 * follower has not read yet. It runs before all is read, and when recent is large.
 */
struct l_agg {
	struct pev_agg all;
	struct pev_agg recent;   /* not in the budget, but small: see L_AGG_RECENT_KEYS */
	struct pev_agg named;    /* for PEV_AGG_TOP: by symbol names, where all has addresses */
	bool is_followed;
	uint64_t recent_bytes;   /* the most that recent has */
	struct l_follower *followers; /* a list; they leave it when they are freed */
	struct l_agg *total; /* all and what clear() removed; NULL: nothing was removed */
	struct l_uncounted removed; /* by clear(), while there were followers */
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
	struct l_uncounted uncounted;
};

/*
 * Keys can point to stacks. L_AGG_UV_HOMES keeps their stack tables, as { stacks =, world = }
 * by the table's address, and the budget's owner by the budget's address. The aggregators
 * that delta() returns share it.
 */
enum {
	L_AGG_UV_SPEC = 1,
	L_AGG_UV_HOMES,
	L_AGG_UV_SPAN,
	L_AGG_UV_OWN, /* the follower of a:delta() */
	L_AGG_UV_TOTAL,
	L_AGG_UV_NR = L_AGG_UV_TOTAL
};

/*
 * Limits of recent: more are passed on at once. The bytes are those of all, within limits, so that
 * few values with large cells are not passed on all the time.
 */
#define L_AGG_RECENT_KEYS 8192
#define L_AGG_RECENT_LEAST ((uint64_t)1 << 20)
#define L_AGG_RECENT_MOST ((uint64_t)16 << 20)

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

/* Pushes a new aggregator with the columns and the spec of the one at idx, without values. */
struct l_agg *l_agg_push_like(lua_State *L, int idx);

/* Passes the recent values on to all and the followers. -ENOMEM: nothing has changed. */
int l_agg_pass_on(struct l_agg *self);
/* The same; raises without memory. */
void l_agg_check_passed(lua_State *L, struct l_agg *self);

/* Moves these values into the aggregator, which has none. */
void l_agg_replace(struct l_agg *self, const struct pev_agg *by);

/* Returns where a value is added now. It has room for L_AGG_RECENT_KEYS keys more. */
static inline struct pev_agg *l_agg_current(struct l_agg *self)
{
	if (!self->is_followed)
		return &self->all;
	/* Without memory recent stays, and grows: values are not lost. */
	if (self->recent.nr >= L_AGG_RECENT_KEYS ||
	    pev_agg_bytes(&self->recent) > self->recent_bytes)
		l_agg_pass_on(self);
	return &self->recent;
}

/* Adds a value for self->key. Returns 0 or -ENOMEM. */
static inline int l_agg_add(struct l_agg *self, int64_t value)
{
	const struct pev_key *key = &self->key;

	self->unnamed = self->symbols;
	return pev_agg_add(l_agg_current(self), key->bytes, key->len, value);
}

/* As l_agg_add(), for a key that is one integer. */
static inline int l_agg_add_integer(struct l_agg *self, int64_t key, int64_t value)
{
	return pev_agg_add_integer(l_agg_current(self), key, value);
}

/* Counts nr records by an aggregator without columns. */
static inline void l_agg_count(struct l_agg *self, uint64_t nr)
{
	if (nr && pev_agg_count(l_agg_current(self), nr) < 0)
		self->uncounted.no_memory += nr;
}

/* Adds a value of 1 for each of nr keys that are one integer. */
static inline void l_agg_count_integers(struct l_agg *self, const int64_t *keys, uint32_t nr)
{
	self->uncounted.no_memory += pev_agg_count_integers(l_agg_current(self), keys, nr);
}
