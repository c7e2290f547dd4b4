/*
 * lspan.h - the userdata perfev.span: what has begun, between ends that stand as callbacks.
 */
#ifndef PEV_LSPAN_H
#define PEV_LSPAN_H

#include <lua.h>

#include "aggregate/span.h"
#include "lua/aggregate/laggregator.h"

/*
 * Its ends are aggregators that keep no value of their own. The first nr_by columns of each are
 * the key. Those behind them are columns of into, in their order: of the start and of the via
 * they are kept until the stop.
 */
struct l_span {
	struct pev_spans spans;
	struct l_agg *into;   /* borrowed of the span's user value 1 */
	uint32_t nr_by;
	uint64_t unit, least; /* ns; what took less is left out */
	enum l_span_end from[L_AGG_COLUMNS]; /* whose into's columns are */
	bool joins;           /* some are not the stop's */
	bool passes;          /* one without a via is left out */
	uint64_t bypassed;    /* those */
	struct l_time_range begun; /* of what came to the start */
};

/* Add span() and span_counts() to the table on top of the stack. */
void l_span_register(lua_State *L);

#endif
