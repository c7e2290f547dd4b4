/*
 * lspan.h - the userdata perfev.span: what has begun, between two ends that stand as callbacks.
 */
#ifndef PEV_LSPAN_H
#define PEV_LSPAN_H

#include <lua.h>

#include "../span.h"
#include "lagg.h"

/*
 * Its ends are aggregators that keep no value of their own: columns of the start are the key;
 * of the stop the first nr_by are, and those behind them are the columns of into.
 */
struct l_span {
	struct pev_spans spans;
	struct l_agg *into;   /* borrowed of the span's user value 1 */
	uint32_t nr_by;
	uint64_t unit;        /* ns */
};

/* Add span() and span_counts() to the table on top of the stack. */
void l_span_register(lua_State *L);

#endif
