/*
 * lsink.h - a sink: feeds records to an aggregator or a line printer in the place of a callback.
 *
 * An aggregator's columns are looked up when the event is declared; payload fields when
 * the first payload of the tracepoint arrives. Runs no Lua per record.
 */
#pragma once

#include <lua.h>

#include "perfdata/reader.h"
#include "lua/aggregate/laggregator.h"
#include "lua/record/largs.h"
#include "lua/record/lfield.h"
#include "lua/record/lrecord.h"

struct l_sink {
	struct l_sink *next;             /* gets the record too; or NULL */
	struct l_agg *agg;
	struct l_text_line *line;             /* NULL: the sink feeds agg, described by the rest */
	const struct pev_tracepoint *tp; /* the tracepoint of the last lookup */
	const struct pev_plan *plan;     /* the plan of the last lookup */
	struct pev_stacks *stacks;       /* NULL: no column is a stack */
	const char *event;               /* stored behind the fields */
	struct l_field *value, *by;      /* in fields; value->code 0: no value */
	struct l_field *when, *into_when; /* fields of the condition; of the span's into */
	bool counts_one;                 /* counts records by at most one column, no condition */
	bool counts;                     /* and the column is a number at a fixed offset */
	uint32_t nr;
	struct l_field fields[];
};

/* True for an aggregator, a line, or a list of them. */
bool l_sink_is(lua_State *L, int idx);

/*
 * Pushes a sink for the aggregator, line or list of them at idx, for an event of that name.
 * The value at idx must outlive the sink. The table at context is the views' (l_view_push());
 * its stack table is that of the keys.
 */
struct l_sink *l_sink_push(lua_State *L, int idx, int context, const char *event);

/*
 * Returns a copy without followers that feeds agg and that free() frees; NULL without memory.
 * The original must outlive it.
 */
struct l_sink *l_sink_copy(const struct l_sink *sink, struct l_agg *agg);

/*
 * Feeds the record to the sink and its followers. L is NULL if none is a line or has stacks. args
 * is NULL without a payload; context as above. Never raises.
 */
void l_sink_feed(struct l_sink *sink, lua_State *L, int context, const struct l_view *view,
		 const struct l_args *args);

/* True if the sink needs at most one number at a fixed offset of samples of that plan. */
static inline bool l_sink_counts(const struct l_sink *sink, const struct pev_plan *plan,
				 const struct l_args *args)
{
	/* Without a tracepoint the sink was set up without payload: its column needs none. */
	return sink->counts && plan == sink->plan &&
	       (!args || !sink->tp || args->tp == sink->tp);
}
/*
 * Fast paths if l_sink_counts() is true: for one record, or for a run of nr records of a
 * recording, all of that plan. l_sink_count() returns how many it has counted. The caller
 * passes the rest, and a record that returns false, to l_sink_feed().
 */
bool l_sink_count_one(struct l_sink *sink, const struct pev_record *rec);
uint32_t l_sink_count(struct l_sink *sink, const struct pev_source_record *from, uint32_t nr);
/* The same for samples that fit their plan: pev_sample_fits(). */
uint32_t l_sink_count_fitting(struct l_sink *sink, const unsigned char *const *samples,
			      uint32_t nr);
