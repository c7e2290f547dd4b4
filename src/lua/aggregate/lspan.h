/*
 * lspan.h - the userdata perfev.span: open spans between a start and a stop event.
 */
#pragma once

#include <lua.h>

#include "aggregate/span.h"
#include "lua/aggregate/laggregator.h"

/* User values of a span. The context of a session has the function, too, by the span's address. */
enum { L_SPAN_UV_INTO = 1, L_SPAN_UV_FUNCTION, L_SPAN_UV_NR = L_SPAN_UV_FUNCTION };

#define L_SPAN_VALUES 8       /* maximum number of the fields of a value */
#define L_SPAN_TOOK L_SPAN_NR /* in place of an end: the duration, in ns */

/*
 * The ends are aggregators without values. The first nr_by columns of each end are the
 * span's key. Then follow the columns of into, in order, and the fields of the value; those of
 * start and via are kept until the stop.
 */
struct l_span {
	struct pev_spans spans;
	struct l_agg *into;   /* borrowed from L_SPAN_UV_INTO */
	uint32_t nr_by;
	uint64_t unit, least; /* ns; shorter spans are ignored */
	enum l_span_end from[L_AGG_COLUMNS]; /* the end of each column of into */
	bool joins;           /* into has columns of start or via */
	bool passes;          /* spans without a via are ignored */
	uint64_t bypassed;    /* number of those */
	uint32_t nr_values;   /* fields of the value: the first, or it minus the second; 0: took */
	int value_from[L_SPAN_VALUES]; /* the end of each, or L_SPAN_TOOK */
	bool calls;           /* the value is that of a Lua function of these fields */
	uint64_t valueless;   /* pairs whose value is not an integer */
	uint64_t failed;      /* pairs for which the function raised an error */
	char error[128];      /* the first such error, cut */
	struct l_time_range begun; /* of the start's records */
};
