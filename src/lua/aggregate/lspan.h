/*
 * lspan.h - the userdata perfev.span: open spans between a start and a stop event.
 */
#pragma once

#include <lua.h>

#include "aggregate/span.h"
#include "lua/aggregate/laggregator.h"

/*
 * The ends are aggregators without values. The first nr_by columns of each end are the
 * span's key. The others are columns of into, in order; those of start and via are kept
 * until the stop.
 */
struct l_span {
	struct pev_spans spans;
	struct l_agg *into;   /* borrowed from the span's user value 1 */
	uint32_t nr_by;
	uint64_t unit, least; /* ns; shorter spans are ignored */
	enum l_span_end from[L_AGG_COLUMNS]; /* the end of each column of into */
	bool joins;           /* into has columns of start or via */
	bool passes;          /* spans without a via are ignored */
	uint64_t bypassed;    /* number of those */
	struct l_time_range begun; /* of the start's records */
};
