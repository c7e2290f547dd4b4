/*
 * lunordered.h - feeds aggregators without order of time, on threads.
 *
 * Possible if no consumer needs the order: aggregators whose kinds commute, with keys and
 * conditions from the record's own numbers, strings and flags. Each part of the samples has a copy
 * of the aggregators; a copy is merged when its samples are read. Threads call no Lua. Of a
 * recording, the kernel's stack can be in a key: each copy has a table of such stacks, without
 * files; the session's table gets them when all samples are read.
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
	bool keeps_excluded;
};

struct l_unordered_config {
	const struct l_dispatch *d;             /* its slots, sinks and conditions */
	const struct l_unordered_route *routes; /* by number of the event */
	uint32_t nr_routes;
	struct pev_budget *budget;              /* what the aggregators may take */
	struct pev_tasks *tasks;                /* of a recording: get the kernel's maps */
	int exclude_pid;                        /* its samples are not fed; 0: none */
	uint32_t parts;
	bool is_live;
	bool is_direct;                         /* part 0 is the aggregators themselves */
};

struct l_unordered;

/* Returns why the aggregators of these routes need the order of time, or NULL: they do not. */
const char *l_unordered_refusal(const struct l_unordered_config *config);
/* Returns NULL without memory. Copies config; the dispatch must stay. */
struct l_unordered *l_unordered_open(const struct l_unordered_config *config);
void l_unordered_close(struct l_unordered *self);

struct l_unordered_counts {
	uint64_t delivered, undecided, excluded;
};

/* ---- a recording: one copy for each thread ---- */

/* Sets what is read; batch, drop and join of file are ignored. Returns 0 or -ENOMEM. */
int l_unordered_set_file(struct l_unordered *self, const struct pev_unordered_config *file);
/* As pev_unordered_step(). */
int l_unordered_step(struct l_unordered *self);
/* Moves what was read into the aggregators, once. The reader then skips it. */
struct l_unordered_counts l_unordered_settle(struct l_unordered *self, struct pev_reader *reader);
uint64_t l_unordered_offset(const struct l_unordered *self);

/* ---- rings ---- */

/* What the session feeds. Borrowed. */
const struct pev_batch_config *l_unordered_batch(const struct l_unordered *self);
/* As struct pev_session_feed_config: merges the part into the aggregators and empties it. */
void l_unordered_collect(void *ctx, uint32_t part, uint64_t excluded);
/* Returns the counts of the parts that were collected since the last call. */
struct l_unordered_counts l_unordered_take_counts(struct l_unordered *self);
