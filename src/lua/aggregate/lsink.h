/*
 * lsink.h - from a record to an aggregator's cell, or a line: what stands where a callback stands.
 *
 * The names of an aggregator's columns are looked up when the event is declared; a
 * payload's fields when the first payload of its tracepoint comes. No Lua per record.
 */
#ifndef PEV_LSINK_H
#define PEV_LSINK_H

#include <lua.h>

#include "perfdata/reader.h"
#include "lua/aggregate/laggregator.h"
#include "lua/record/largs.h"
#include "lua/record/lfield.h"
#include "lua/record/lrecord.h"

struct l_sink {
	struct l_sink *next;             /* that gets the record as well; NULL: none */
	struct l_agg *agg;
	struct l_text_line *line;             /* NULL: the sink feeds agg, described by the rest */
	const struct pev_tracepoint *tp; /* whose fields were looked up */
	const struct pev_plan *plan;     /* where samples' were found */
	struct pev_stacks *stacks;       /* NULL: no column is a stack */
	const char *event;               /* behind the fields */
	struct l_field *value, *by;      /* among these; value->code 0: none */
	struct l_field *when, *into_when; /* what the condition reads, and into's of a span */
	bool counts_one;                 /* values of 1 by a column, or none; no condition */
	bool counts;                     /* and that is a number with a place in all samples */
	uint32_t nr;
	struct l_field fields[];
};

/* Is it a value that one can be made of? A list of such is, too. */
bool l_sink_is(lua_State *L, int idx);

/*
 * Push what feeds the aggregator, or line, at idx from an event of that name; of a list each of
 * them, in their order. A block of Lua's memory; what it feeds must outlive it. The table at
 * context is that of the views (lview.h): its stacks are those of the keys.
 */
struct l_sink *l_sink_push(lua_State *L, int idx, int context, const char *event);

/*
 * Take the shown record in; args is NULL where it has no payload, context as above. Never raises.
 */
void l_sink_feed(struct l_sink *sink, lua_State *L, int context, const struct l_view *view,
		 const struct l_args *args);

/* Are a number of each sample of that plan, in its place, all that it looks at? */
static inline bool l_sink_counts(const struct l_sink *sink, const struct pev_plan *plan,
				 const struct l_args *args)
{
	return sink->counts && plan == sink->plan && (!args || args->tp == sink->tp);
}
/*
 * Then the same of a record, of whose payload the bytes need not be found; or of as many as come
 * out of a recording, all of that plan: of how many, from the first on. The rest, and what gets
 * false, is for l_sink_feed().
 */
bool l_sink_count_one(struct l_sink *sink, const struct pev_record *rec);
uint32_t l_sink_count(struct l_sink *sink, const struct pev_file_record *from, uint32_t nr);

/* Add aggregator_fields to the table on top of the stack. */
void l_sink_register(lua_State *L);

#endif
