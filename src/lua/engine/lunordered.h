/*
 * lunordered.h - feeds the aggregators of a replay without order of time, on threads.
 *
 * Possible if no consumer needs the order: aggregators whose kinds commute, with keys and
 * conditions from the record's own numbers, strings and flags. Each thread has a copy of the
 * aggregators; the copies are merged when the file is read. Threads call no Lua.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/unordered.h"
#include "lua/engine/ldispatch.h"

/* The slots that get the samples of an event. */
struct l_unordered_route {
	const uint32_t *slots;
	uint32_t nr;
};

struct l_unordered_config {
	const struct l_dispatch *d;             /* its slots, sinks and conditions */
	const struct l_unordered_route *routes; /* by number of the event */
	uint32_t nr_routes;
	const struct pev_budget *budget;        /* what the aggregators may take */
	struct pev_unordered_config core;       /* all but events, feed, drop, join and ctx */
	const bool *keeps_excluded;             /* by number of the event */
};

struct l_unordered;

/* Returns why the aggregators of these routes need the order of time, or NULL: they do not. */
const char *l_unordered_refusal(const struct l_unordered_config *config);
/* Returns NULL without memory. Copies config; the dispatch and the reader must stay. */
struct l_unordered *l_unordered_open(const struct l_unordered_config *config);
void l_unordered_close(struct l_unordered *self);

/* As pev_unordered_step(). */
int l_unordered_step(struct l_unordered *self);

struct l_unordered_counts {
	uint64_t delivered, undecided, excluded;
};
/* Moves what was read into the aggregators, once. The reader then skips it. */
struct l_unordered_counts l_unordered_settle(struct l_unordered *self, struct pev_reader *reader);
uint64_t l_unordered_offset(const struct l_unordered *self);
