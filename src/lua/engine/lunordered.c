/*
 * lunordered.c - feeds aggregators without order of time; see lunordered.h.
 */
#include "lua/engine/lunordered.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "lua/record/lrecord_value.h"

/* A thread's copy of a slot's sink, with the slot's condition and payload. */
struct target {
	struct l_sink *sink;
	struct l_event_condition *guard; /* or NULL */
	struct l_args args;
	bool has_args;
};

/* The aggregators and sinks of a part. */
struct copy {
	struct l_agg *aggs;      /* one for each of the session's; NULL: the session's themselves */
	struct target *targets;  /* in the order of the routes */
	struct pev_budget budget; /* of a part of rings, or of stacks */
	struct pev_stacks stacks; /* zeroed: no key has a stack */
	uint64_t delivered, undecided;
};

struct l_unordered {
	struct pev_unordered *core; /* NULL: rings */
	struct pev_batch_config batch;
	struct pev_batch_event *events;
	struct l_agg **aggs;     /* the session's */
	uint32_t nr_aggs;
	uint32_t *first;         /* by event: its first target; one more */
	uint32_t nr_targets;
	struct pev_budget *budget;
	struct pev_stacks *stacks; /* the session's; NULL: no key has a stack */
	struct pev_tasks *tasks;
	struct copy *copies;
	uint32_t nr_copies;
	struct l_unordered_counts counts; /* of the parts of rings that were collected */
};

/* ---- is it possible? ---- */

static const char *sink_refusal(const struct l_sink *sink, bool is_live)
{
	const struct l_agg *agg = sink->agg;

	if (sink->line)
		return "lines are printed";
	if (agg->span || agg->span_into)
		return "spans join records";
	if (agg->all.config.kind == PEV_AGG_TOP)
		return "top{} keeps the keys that came last";
	if (!is_live && (agg->all.nr || agg->all.other.n || agg->recent.nr))
		return "an aggregator has values";
	for (uint32_t i = 0; i < sink->nr; i++) {
		const struct l_field *field = &sink->fields[i];
		bool is_stack = !field->payload && l_value_is_stack(field);

		if (is_stack && (is_live || field->code != L_VALUE_KSTACK))
			return "stacks depend on the maps of tasks, which change in time";
		if (field->is_text)
			return "the texts of payload fields share a buffer";
		if (!is_stack && !l_value_is_of_record(field))
			return "names of tasks change in time";
	}
	return NULL;
}

static const char *slot_refusal(const struct l_unordered_config *config, uint32_t slot)
{
	const struct l_dispatch_slot *at = &config->d->slots[slot];
	const char *why = NULL;

	if (!at->sinks[PERF_RECORD_SAMPLE])
		return "a callback is a function";
	if (at->guard && !l_event_condition_is_of_record(at->guard))
		return "a condition asks for the name of a task";
	for (const struct l_sink *sink = at->sinks[PERF_RECORD_SAMPLE]; sink && !why;
	     sink = sink->next)
		why = sink_refusal(sink, config->is_live);
	return why;
}

const char *l_unordered_refusal(const struct l_unordered_config *config)
{
	const char *why = NULL;

	for (uint32_t event = 0; event < config->nr_routes && !why; event++)
		for (uint32_t i = 0; i < config->routes[event].nr && !why; i++)
			why = slot_refusal(config, config->routes[event].slots[i]);
	return why;
}

/* ---- copies for the threads ---- */

static uint32_t count_targets(const struct l_unordered_config *config)
{
	uint32_t nr = 0;

	for (uint32_t event = 0; event < config->nr_routes; event++)
		nr += config->routes[event].nr;
	return nr;
}

/* Adds the aggregators of the sink and its followers, each once. -ENOMEM. */
static int add_aggregators(struct l_unordered *self, const struct l_sink *sink)
{
	for (; sink; sink = sink->next) {
		uint32_t i = 0;
		struct l_agg **aggs;

		while (i < self->nr_aggs && self->aggs[i] != sink->agg)
			i++;
		if (i < self->nr_aggs)
			continue;
		aggs = realloc(self->aggs, (i + 1) * sizeof(struct l_agg *));
		if (!aggs)
			return -ENOMEM;
		self->aggs = aggs;
		aggs[self->nr_aggs++] = sink->agg;
		self->stacks = sink->stacks ? sink->stacks : self->stacks;
	}
	return 0;
}

static void clear_aggregator(struct l_agg *agg)
{
	pev_agg_clear(&agg->all);
	agg->uncounted = (struct l_uncounted){ 0 };
	agg->times.any = false;
}

/* An empty aggregator like that one, without its budget. */
static struct l_agg copy_aggregator(const struct l_agg *agg)
{
	struct l_agg copy = *agg;

	copy.followers = NULL;
	copy.total = NULL;
	copy.is_followed = false;
	pev_agg_init(&copy.all, &agg->all.config, NULL);
	copy.key = (struct pev_key){ 0 };
	clear_aggregator(&copy);
	return copy;
}

static struct l_agg *find_copy(const struct l_unordered *self, const struct copy *copy,
			       struct l_agg *agg)
{
	uint32_t i = 0;

	if (!copy->aggs)
		return agg;
	while (self->aggs[i] != agg)
		i++;
	return &copy->aggs[i];
}

static int copy_target(const struct l_unordered *self, struct copy *copy,
		       const struct l_dispatch_slot *slot, struct target *target)
{
	struct l_sink **link = &target->sink;

	target->has_args = slot->args != NULL;
	if (slot->args)
		target->args = *slot->args;
	if (slot->guard) {
		target->guard = l_event_condition_copy(slot->guard);
		if (!target->guard)
			return -ENOMEM;
	}
	for (const struct l_sink *sink = slot->sinks[PERF_RECORD_SAMPLE]; sink;
	     sink = sink->next) {
		*link = l_sink_copy(sink, find_copy(self, copy, sink->agg));
		if (!*link)
			return -ENOMEM;
		if (sink->stacks)
			(*link)->stacks = &copy->stacks;
		link = &(*link)->next;
	}
	return 0;
}

static int make_copy(const struct l_unordered *self, const struct l_unordered_config *config,
		     struct copy *copy)
{
	uint32_t at = 0;

	copy->targets = calloc(self->nr_targets + 1, sizeof(*copy->targets));
	if (!config->is_direct)
		copy->aggs = calloc(self->nr_aggs + 1, sizeof(*copy->aggs));
	if (!copy->targets || (!copy->aggs && !config->is_direct))
		return -ENOMEM;
	copy->budget.limit = config->budget->limit / (config->is_live ? config->parts : 1);
	if (self->stacks && pev_stacks_init(&copy->stacks) < 0)
		return -ENOMEM;
	copy->stacks.budget = &copy->budget;
	for (uint32_t i = 0; copy->aggs && i < self->nr_aggs; i++) {
		copy->aggs[i] = copy_aggregator(self->aggs[i]);
		/* Of a recording, join_copy() compares with the session's budget. */
		if (config->is_live)
			pev_agg_budget(&copy->aggs[i].all, &copy->budget);
	}
	for (uint32_t event = 0; event < config->nr_routes; event++)
		for (uint32_t i = 0; i < config->routes[event].nr; i++)
			if (copy_target(self, copy,
					&config->d->slots[config->routes[event].slots[i]],
					&copy->targets[at++]) < 0)
				return -ENOMEM;
	return 0;
}

static void free_copy(const struct l_unordered *self, struct copy *copy)
{
	for (uint32_t i = 0; copy->targets && i < self->nr_targets; i++) {
		struct target *target = &copy->targets[i];
		struct l_sink *next;

		for (; target->sink; target->sink = next) {
			next = target->sink->next;
			free(target->sink);
		}
		free(target->guard);
	}
	for (uint32_t i = 0; copy->aggs && i < self->nr_aggs; i++) {
		pev_agg_free(&copy->aggs[i].all);
		pev_key_free(&copy->aggs[i].key);
	}
	pev_stacks_free(&copy->stacks);
	free(copy->targets);
	free(copy->aggs);
}

/* ---- samples, on any thread ---- */

static void feed_target(struct copy *copy, struct target *target,
			const struct pev_plan *plan, const unsigned char *sample)
{
	struct pev_record rec;
	const struct l_view view = { .rec = &rec };
	const struct l_args *args = NULL;

	pev_record_locate_sample(&rec, plan, sample, pev_load16(sample + 6, plan->swap));
	if (target->has_args &&
	    l_dispatch_has_payload(&target->args, &rec, &target->args.raw, &target->args.len))
		args = &target->args;
	if (target->guard &&
	    !l_event_condition_holds(target->guard, &view, args, &copy->undecided))
		return;
	copy->delivered++;
	l_sink_feed(target->sink, NULL, 0, &view, args);
}

static void feed_targets(struct copy *copy, struct target *target,
			 const struct pev_samples *samples)
{
	const struct l_args *args = target->has_args ? &target->args : NULL;
	uint32_t taken = 0;

	while (taken < samples->nr) {
		if (!target->guard && l_sink_counts(target->sink, samples->plan, args)) {
			uint32_t some = l_sink_count_fitting(target->sink, samples->at + taken,
							     samples->nr - taken);

			copy->delivered += some;
			taken += some;
			if (taken == samples->nr)
				break;
		}
		feed_target(copy, target, samples->plan, samples->at[taken++]);
	}
}

static void feed(void *ctx, uint32_t part, const struct pev_samples *samples)
{
	struct l_unordered *self = ctx;
	uint32_t event = samples->event;

	for (uint32_t i = self->first[event]; i < self->first[event + 1]; i++)
		feed_targets(&self->copies[part], &self->copies[part].targets[i], samples);
}

/* ---- between two steps ---- */

static void drop_copy(void *ctx, uint32_t part)
{
	struct l_unordered *self = ctx;
	struct copy *copy = &self->copies[part];

	for (uint32_t i = 0; i < self->nr_aggs; i++)
		clear_aggregator(&copy->aggs[i]);
	copy->delivered = copy->undecided = 0;
}

/* Where the stacks of keys are interned: the kernel's files are those of tasks, if not NULL. */
struct home {
	struct pev_stacks *stacks;
	struct pev_tasks *tasks;
};

/* Makes a key of the same parts, with stacks of home. */
static bool move_key(const struct home *home, const unsigned char *bytes, size_t len,
		     struct pev_key *key)
{
	struct pev_key_part part;
	size_t at = 0;

	key->len = 0;
	while ((part = pev_key_next(bytes, len, &at)).type != PEV_KEY_END) {
		if (part.type == PEV_KEY_POINTER) {
			part.pointer = pev_stacks_adopt(home->stacks, home->tasks, part.pointer);
			if (!part.pointer)
				return false;
		}
		if (pev_key_part(key, &part) < 0)
			return false;
	}
	return true;
}

/* Adds the cells of from to agg. Makes keys with stacks of home, if that is not NULL, in key. */
static bool merge_cells(struct pev_agg *agg, const struct pev_agg *from, const struct home *home,
			struct pev_key *key)
{
	for (uint32_t i = 0; i < from->nr; i++) {
		const struct pev_cell *cell = from->cells[i];
		const unsigned char *bytes = pev_agg_key(from, cell);

		if (home && !move_key(home, bytes, cell->key_len, key))
			return false;
		if (pev_agg_put(agg, home ? key->bytes : bytes, cell->key_len, cell) < 0)
			return false;
	}
	return true;
}

static void add_times(struct l_time_range *times, const struct l_time_range *more)
{
	if (!more->any)
		return;
	times->first = times->any && times->first < more->first ? times->first : more->first;
	times->last = times->any && times->last > more->last ? times->last : more->last;
	times->any = true;
}

static void add_counts(struct l_agg *agg, const struct l_agg *from)
{
	for (uint32_t i = 0; i <= L_AGG_COLUMNS; i++)
		agg->uncounted.absent[i] += from->uncounted.absent[i];
	agg->uncounted.undecided += from->uncounted.undecided;
	add_times(&agg->times, &from->times);
}

/* True if the order does not matter: each key has its own cell, and all fit into the budget. */
static bool has_all_keys(const struct l_unordered *self)
{
	uint64_t bytes = self->copies[0].stacks.bytes;

	for (uint32_t i = 0; i < self->nr_aggs; i++) {
		const struct l_agg *agg = &self->copies[0].aggs[i];

		if (agg->all.other.n || agg->uncounted.no_memory)
			return false;
		bytes += pev_agg_bytes(&agg->all);
	}
	return self->stacks ? pev_budget_has_room(self->budget, bytes)
			    : pev_budget_fits(self->budget, bytes);
}

static bool join_copy(void *ctx, uint32_t part)
{
	struct l_unordered *self = ctx;
	struct copy *first = &self->copies[0], *copy = &self->copies[part];
	const struct home home = { &first->stacks, NULL };

	if (copy->budget.refused || copy->budget.failed)
		return false;
	for (uint32_t i = 0; part && i < self->nr_aggs; i++) {
		if (copy->aggs[i].all.other.n || copy->aggs[i].uncounted.no_memory ||
		    !merge_cells(&first->aggs[i].all, &copy->aggs[i].all,
				 self->stacks ? &home : NULL, &copy->aggs[i].key))
			return false;
		add_counts(&first->aggs[i], &copy->aggs[i]);
	}
	if (part) {
		first->delivered += copy->delivered;
		first->undecided += copy->undecided;
		drop_copy(self, part);
	}
	return has_all_keys(self);
}

static bool map_kernel(void *ctx, const struct pev_record *rec)
{
	struct l_unordered *self = ctx;

	return pev_tasks_feed(self->tasks, rec) == 0;
}

int l_unordered_set_file(struct l_unordered *self, const struct pev_unordered_config *file)
{
	struct pev_unordered_config config = *file;

	config.batch = self->batch;
	config.drop = drop_copy;
	config.join = join_copy;
	config.map_kernel = self->stacks ? map_kernel : NULL;
	self->core = pev_unordered_open(&config);
	return self->core ? 0 : -ENOMEM;
}

int l_unordered_step(struct l_unordered *self)
{
	int rc = pev_unordered_step(self->core);

	if (rc < 0)
		drop_copy(self, 0);
	return rc;
}

/* Moves the stacks of the keys to the session's table. */
static void settle_stacks(struct l_unordered *self, struct l_agg *copy)
{
	const struct home home = { self->stacks, self->tasks };
	struct pev_agg moved;

	pev_agg_init(&moved, &copy->all.config, NULL);
	if (!merge_cells(&moved, &copy->all, &home, &copy->key))
		for (uint32_t i = moved.nr; i < copy->all.nr; i++)
			copy->uncounted.no_memory += copy->all.cells[i]->n;
	pev_agg_replace(&copy->all, &moved);
}

struct l_unordered_counts l_unordered_settle(struct l_unordered *self, struct pev_reader *reader)
{
	struct pev_reader_range *ranges;
	uint32_t nr;

	for (uint32_t i = 0; i < self->nr_aggs; i++) {
		struct l_agg *agg = self->aggs[i], *copy = &self->copies[0].aggs[i];

		if (self->stacks)
			settle_stacks(self, copy);
		l_agg_replace(agg, &copy->all);
		pev_agg_init(&copy->all, &agg->all.config, NULL);
		add_counts(agg, copy);
	}
	for (uint32_t file = 0; file < pev_reader_facts(reader)->files; file++) {
		ranges = pev_unordered_take_ranges(self->core, file, &nr);
		pev_reader_skip_ranges(reader, file, ranges, nr);
	}
	return (struct l_unordered_counts){
		.delivered = self->copies[0].delivered,
		.undecided = self->copies[0].undecided,
		.excluded = pev_unordered_excluded(self->core),
	};
}

uint64_t l_unordered_offset(const struct l_unordered *self)
{
	return pev_unordered_offset(self->core);
}

/* ---- rings ---- */

static void add_cell(struct l_agg *agg, const struct pev_agg *from, const struct pev_cell *cell)
{
	const void *key = pev_agg_key(from, cell);

	if (pev_agg_put(l_agg_current(agg), key, cell->key_len, cell) < 0)
		agg->uncounted.no_memory += cell->n;
}

static void add_other(struct l_agg *agg, const struct pev_cell *other)
{
	if (other->n && pev_agg_put_other(l_agg_current(agg), other) < 0)
		agg->uncounted.no_memory += other->n;
}

void l_unordered_collect(void *ctx, uint32_t part, uint64_t excluded)
{
	struct l_unordered *self = ctx;
	struct copy *copy = &self->copies[part];

	self->counts.delivered += copy->delivered;
	self->counts.undecided += copy->undecided;
	self->counts.excluded += excluded;
	self->budget->refused += copy->budget.refused;
	self->budget->failed += copy->budget.failed;
	copy->budget.refused = copy->budget.failed = 0;
	for (uint32_t i = 0; copy->aggs && i < self->nr_aggs; i++) {
		struct l_agg *agg = self->aggs[i], *from = &copy->aggs[i];

		for (uint32_t n = 0; n < from->all.nr; n++)
			add_cell(agg, &from->all, from->all.cells[n]);
		add_other(agg, &from->all.other);
		agg->uncounted.no_memory += from->uncounted.no_memory;
		add_counts(agg, from);
		clear_aggregator(from);
	}
	copy->delivered = copy->undecided = 0;
}

const struct pev_batch_config *l_unordered_batch(const struct l_unordered *self)
{
	return &self->batch;
}

struct l_unordered_counts l_unordered_take_counts(struct l_unordered *self)
{
	struct l_unordered_counts counts = self->counts;

	self->counts = (struct l_unordered_counts){ 0 };
	return counts;
}

/* ---- open and close ---- */

static int fill(struct l_unordered *self, const struct l_unordered_config *config)
{
	uint32_t nr = config->nr_routes;

	self->events = calloc(nr + 1, sizeof(*self->events));
	self->first = calloc(nr + 1, sizeof(*self->first));
	self->copies = calloc(config->parts, sizeof(*self->copies));
	if (!self->events || !self->first || !self->copies)
		return -ENOMEM;
	self->nr_copies = config->parts;
	for (uint32_t event = 0; event < nr; event++) {
		self->events[event].is_wanted = config->routes[event].nr > 0;
		self->events[event].keeps_excluded = config->routes[event].keeps_excluded;
		self->first[event + 1] = self->first[event] + config->routes[event].nr;
		for (uint32_t i = 0; i < config->routes[event].nr; i++) {
			uint32_t slot = config->routes[event].slots[i];

			if (add_aggregators(self, config->d->slots[slot].sinks[PERF_RECORD_SAMPLE]))
				return -ENOMEM;
		}
	}
	self->nr_targets = count_targets(config);
	for (uint32_t i = 0; i < config->parts; i++)
		if (make_copy(self, config, &self->copies[i]) < 0)
			return -ENOMEM;
	self->batch = (struct pev_batch_config){ .events = self->events, .feed = feed, .ctx = self,
						 .exclude_pid = config->exclude_pid };
	return 0;
}

struct l_unordered *l_unordered_open(const struct l_unordered_config *config)
{
	struct l_unordered *self = calloc(1, sizeof(*self));

	if (!self)
		return NULL;
	self->budget = config->budget;
	self->tasks = config->tasks;
	if (fill(self, config) == 0)
		return self;
	l_unordered_close(self);
	return NULL;
}

void l_unordered_close(struct l_unordered *self)
{
	if (!self)
		return;
	for (uint32_t i = 0; i < self->nr_copies; i++)
		free_copy(self, &self->copies[i]);
	pev_unordered_close(self->core);
	free(self->copies);
	free(self->first);
	free(self->events);
	free(self->aggs);
	free(self);
}
