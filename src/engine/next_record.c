/* next_record.c - from a record of a source to its listeners; see engine.h. */
#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sys.h"
#include "engine/route.h"
#include "task/history.h"

enum { FIRST_USER_TYPE = 64 }; /* types of records that tools write begin here */

void pev_engine_init(struct pev_engine *e)
{
	*e = (struct pev_engine){
		.wanted.to = UINT64_MAX, .budget = PEV_EVERY_RECORD, .generation = 1,
		.slot = PEV_NO_SLOT
	};
}

void pev_engine_set_source(struct pev_engine *e, struct pev_source *source)
{
	e->source = source;
	e->changes = source->changes;
}

void pev_engine_free(struct pev_engine *e)
{
	pev_record_filter_free(&e->wanted);
	pev_deferred_free(&e->deferred);
	pev_group_read_free(&e->group);
	free(e->listeners);
	free(e->routes);
	free(e->listening);
	free(e->keeps);
	free(e->timers);
	*e = (struct pev_engine){ 0 };
}

/* ---- listeners, exclusion ---- */

/* Routes change before the next record: a callback may have changed listeners. */
static void listeners_changed(struct pev_engine *e)
{
	e->reset_routes = true;
	pev_engine_end_fast_path(e);
}

int pev_engine_add_listener(struct pev_engine *e, const struct pev_listener *listener)
{
	struct pev_listener *listeners =
		realloc(e->listeners, sizeof(*listeners) * (e->nr_listeners + (size_t)1));

	if (!listeners)
		return -ENOMEM;
	e->listeners = listeners;
	listeners[e->nr_listeners] = *listener;
	listeners_changed(e);
	return (int)e->nr_listeners++;
}

void pev_engine_switch(struct pev_engine *e, uint32_t slot, bool on)
{
	e->listeners[slot].off = !on;
	pev_engine_end_fast_path(e);
}

void pev_engine_want(struct pev_engine *e, uint32_t slot, uint32_t types, bool hidden)
{
	e->listeners[slot].wanted_types = types;
	e->listeners[slot].hidden = hidden;
	listeners_changed(e);
}

void pev_engine_exclude_pid(struct pev_engine *e, int pid)
{
	e->exclude_pid = pid;
	pev_engine_end_fast_path(e);
}

int pev_engine_keep_excluded(struct pev_engine *e, uint32_t event)
{
	bool *keeps = e->keeps;

	if (event >= e->nr_keeps) {
		keeps = realloc(e->keeps, sizeof(*keeps) * (event + (size_t)1));
		if (!keeps)
			return -ENOMEM;
		memset(&keeps[e->nr_keeps], 0, sizeof(*keeps) * (event + (size_t)1 - e->nr_keeps));
		e->keeps = keeps;
		e->nr_keeps = event + 1;
	}
	keeps[event] = true;
	pev_engine_end_fast_path(e);
	return 0;
}

/* ---- the clock of a recording ---- */

int pev_engine_add_timer(struct pev_engine *e, uint64_t first, uint64_t every)
{
	struct pev_engine_timer *timers =
		realloc(e->timers, sizeof(*timers) * (e->nr_timers + (size_t)1));

	if (!timers)
		return -ENOMEM;
	e->timers = timers;
	timers[e->nr_timers] = (struct pev_engine_timer){ .first = first, .every = every };
	e->due = 0;
	pev_engine_end_fast_path(e);
	return (int)e->nr_timers++;
}

static uint64_t later(uint64_t time, uint64_t ns)
{
	return ns > UINT64_MAX - time ? UINT64_MAX : time + ns;
}

bool pev_engine_read_timer(struct pev_engine *e, uint32_t n)
{
	struct pev_engine_timer *timer;

	if (!e->has_expired || n != e->timer)
		return false;
	timer = &e->timers[n];
	timer->due = timer->every ? later(timer->due, timer->every) : UINT64_MAX;
	e->has_expired = false;
	e->due = 0;
	return true;
}

/*
 * The clock starts with the first sample or the first delivered record. Recorders
 * write earlier records about the state before, some of them with an old time.
 */
static void begin_time(struct pev_engine *e, const struct pev_source_record *from,
		       bool is_delivered)
{
	if (e->begun || from->synthesised || !from->time ||
	    (from->type != PERF_RECORD_SAMPLE && !is_delivered))
		return;
	e->begun = true;
	pev_record_filter_begin(&e->wanted, from->time);
}

static bool is_in_time(const struct pev_engine *e, const struct pev_source_record *from)
{
	/* Before the clock starts, every record is earlier than a limit relative to its start. */
	if (!e->begun && (e->wanted.from_first || e->wanted.to_first))
		return !e->wanted.from_first && from->time >= e->wanted.from;
	return pev_record_filter_time(&e->wanted, from->time);
}

/* Finds the timer that expires first; of several, the one that was added first. */
static void find_due(struct pev_engine *e, uint64_t now)
{
	e->due = UINT64_MAX;
	for (uint32_t i = e->nr_timers; i-- > 0;) {
		struct pev_engine_timer *timer = &e->timers[i];

		if (!timer->due)
			timer->due = later(now, timer->first);
		if (timer->due > e->due)
			continue;
		e->due = timer->due;
		e->timer = i;
	}
}

/* Starts the timers that were added since, at the record's time. False if it moves no clock. */
static bool start_timers(struct pev_engine *e, const struct pev_source_record *from)
{
	if (!e->nr_timers || !e->begun || !from->time || from->synthesised || !is_in_time(e, from))
		return false;
	if (!e->due)
		find_due(e, from->time);
	return true;
}

/* True if a timer has expired at the record's time: its callback comes first. */
static bool has_timer_expired(struct pev_engine *e, const struct pev_source_record *from)
{
	if (e->has_expired)
		return true;
	e->has_expired = start_timers(e, from) && e->due <= from->time;
	if (e->has_expired)
		pev_engine_end_fast_path(e);
	return e->has_expired;
}

/* ---- the next record ---- */

/* The next sample of a group's member, from the leader's sample that was split. */
static bool take_part(struct pev_engine *e)
{
	const struct pev_group_part *part = pev_group_read_next(&e->group);

	if (!part)
		return false;
	e->made.bytes = e->group.bytes;
	e->made.size = e->group.size;
	e->made.plan = &e->group.plan;
	e->made.event = part->event;
	return true;
}

/* The next deferred sample that is complete, or will never be. */
static bool take_joined(struct pev_engine *e)
{
	struct pev_held_of of;
	uint16_t size;
	const unsigned char *bytes = pev_deferred_next(&e->deferred, &of, &size);

	if (!bytes)
		return false;
	e->made = (struct pev_source_record){
		.bytes = bytes,
		.plan = of.plan,
		.time = of.time,
		.type = PERF_RECORD_SAMPLE,
		.event = of.event,
		.size = size,
		.synthesised = of.flag,
	};
	return true;
}

/* True if the whole recording is selected: losses at its end belong to no part of it. */
static bool wants_all(const struct pev_record_filter *wanted)
{
	return !pev_record_filter_asks(wanted) && !wanted->from && wanted->to == UINT64_MAX &&
	       !wanted->from_first && !wanted->to_first;
}

/* At the end: makes a record of the losses that no delivered LOST record had. False if none. */
static bool take_last_loss(struct pev_engine *e)
{
	const struct pev_route *route = pev_route_find(e, PEV_NO_EVENT, PERF_RECORD_LOST);

	if (!route || !route->nr || e->reported_loss ||
	    (e->source->is_recording && !wants_all(&e->wanted)))
		return false;
	e->reported_loss = e->source->calls->last_loss(
		e->source, e->listeners[e->listening[route->first]].event, e->delivered_lost,
		&e->made);
	return e->reported_loss;
}

/* True if the source has no more records for listeners when its round is over. */
static bool is_last_round(const struct pev_engine *e)
{
	return e->source->is_recording || e->drain == PEV_DRAIN_REST ||
	       e->drain == PEV_DRAIN_REST_ALL;
}

/*
 * Fills the run; at the end releases deferred samples, and makes the record of the last loss.
 * Returns 1 if there is a record in the run or in made, 0 or -errno.
 */
static int fill(struct pev_engine *e, struct pev_err *err)
{
	int rc = e->source->calls->fill(e->source, err);

	if (rc > 0 || !is_last_round(e))
		return rc;
	if (e->deferred.nr) {
		pev_deferred_release_all(&e->deferred);
		return take_joined(e);
	}
	e->ended = e->source->is_recording;
	return rc == 0 ? take_last_loss(e) : rc;
}

/* Tools' records are for the reader. Counts of losses are delivered at the end. */
static bool is_for_reader(const struct pev_engine *e, const struct pev_source_record *from)
{
	return e->source->is_recording &&
	       (from->type >= FIRST_USER_TYPE ||
		(from->type == PERF_RECORD_LOST_SAMPLES && from->synthesised));
}

/* Sets from to the next record. Returns 1, 0 at the end of the round, or -errno. */
static int take_next(struct pev_engine *e, struct pev_err *err)
{
	struct pev_source_run *run = e->source->run;
	int rc;

	e->from = &e->made;
	if (take_part(e) || (pev_deferred_any(&e->deferred) && take_joined(e)))
		return 1;
	if (!e->budget || e->ended)
		return 0;
	if (run->at == run->end) {
		rc = fill(e, err);
		if (rc <= 0 || run->at == run->end)
			return rc;
		if (e->changes != e->source->changes) {
			e->changes = e->source->changes;
			e->has_news = true;
			pev_route_clear(e);
			return 0;
		}
	}
	if (has_timer_expired(e, run->at))
		return 0;
	e->budget--;
	e->from = run->at++;
	return 1;
}

/* ---- one record ---- */

/* True for records that update the task table, with or without listeners. */
static bool is_bookkeeping(uint32_t type)
{
	const uint32_t types = 1u << PERF_RECORD_COMM | 1u << PERF_RECORD_FORK |
			       1u << PERF_RECORD_EXIT | 1u << PERF_RECORD_MMAP |
			       1u << PERF_RECORD_MMAP2 | 1u << PERF_RECORD_KSYMBOL |
			       1u << PEV_RECORD_CGROUP | 1u << PEV_RECORD_CALLCHAIN_DEFERRED;

	return types >> type & 1;
}

/* Live, without memory for a name, the task is looked up in /proc later. */
static int learn_from_record(struct pev_engine *e, struct pev_err *err)
{
	if (e->source->history)
		pev_task_history_add(e->source->history, e->source->tasks, &e->rec);
	if (e->rec.type == PEV_RECORD_CALLCHAIN_DEFERRED)
		pev_deferred_join(&e->deferred, &e->rec);
	else if (pev_tasks_feed(e->source->tasks, &e->rec) < 0 && e->source->is_recording)
		return pev_fail(err, -ENOMEM, "no memory for the tasks of the recording");
	return 0;
}

static bool is_loss(uint32_t type)
{
	return type == PERF_RECORD_LOST || type == PERF_RECORD_LOST_SAMPLES;
}

/*
 * True if the excluded process (usually the observer itself) wrote the record. Losses concern
 * every task: their record has the task that came next on the CPU.
 */
static bool is_excluded(const struct pev_engine *e, const struct pev_source_record *from)
{
	const struct pev_plan *plan = from->plan;
	uint16_t off = plan->fixed[PEV_F_PID], size = from->size, body;

	if (!e->exclude_pid || is_loss(from->type) || pev_engine_keeps(e, from->event))
		return false;
	if (from->type != PERF_RECORD_SAMPLE) {
		body = pev_record_body_end(from->bytes, size, plan->swap);
		if (body && body + plan->trailer < size)
			size = (uint16_t)(body + plan->trailer);
		off = plan->from_end[PEV_F_PID] <= size ?
			      (uint16_t)(size - plan->from_end[PEV_F_PID]) : 0;
	}
	return off && off + 4u <= size &&
	       (int)pev_load32(from->bytes + off, plan->swap) == e->exclude_pid;
}

static bool is_selected(struct pev_engine *e)
{
	if (!is_in_time(e, e->from))
		return false;
	if (!is_excluded(e, e->from))
		return true;
	e->excluded++;
	return false;
}

/* True if the filter leaves out the record's task or CPU. Live, losses concern every task. */
static bool is_filtered(struct pev_engine *e)
{
	if (!pev_record_filter_asks(&e->wanted) ||
	    (is_loss(e->rec.type) && !e->source->is_recording) ||
	    pev_record_filter_has(&e->wanted, &e->rec, e->source->tasks))
		return false;
	e->excluded += !e->source->is_recording;
	return true;
}

/*
 * Splits a leader's sample into samples that come next. Returns true if it is not delivered
 * itself. Live, without memory, it is delivered as it is.
 */
static int split_sample(struct pev_engine *e, struct pev_err *err)
{
	const struct pev_attr *leader = e->source->calls->attr(e->source, e->from->event);
	int rc = pev_group_read_split(&e->group, &e->rec, leader->flags & PEV_ATTR_INHERIT,
				      e->source->calls->find_event, e->source);

	pev_engine_end_fast_path(e);
	e->made = *e->from;
	if (rc < 0 && e->source->is_recording)
		return pev_fail(err, rc, "no memory for the groups of the recording");
	return rc > 0;
}

/* Holds a sample until its user part arrives. False if a listener wants both separately. */
static bool holds_sample(struct pev_engine *e, const struct pev_route *route)
{
	const struct pev_held_of of = { .time = e->from->time, .plan = e->from->plan,
					.event = e->from->event, .flag = e->from->synthesised };

	if (!route->defers || e->from == &e->made || route->wants_deferred ||
	    !pev_deferred_hold(&e->deferred, &e->rec, &of))
		return false;
	pev_engine_end_fast_path(e);
	return true;
}

static void count_delivered_loss(struct pev_engine *e)
{
	struct pev_value value;

	if (e->rec.type == PERF_RECORD_LOST && pev_record_get(&e->rec, PEV_F_LOST, &value))
		e->delivered_lost += value.u;
}

/* Learns from the current record, and finds the listeners that receive it. Returns 0 or -errno. */
static int look_at_record(struct pev_engine *e, struct pev_err *err)
{
	const struct pev_source_record *from = e->from;
	uint32_t type = from->type < PEV_RECORD_NR ? from->type : 0;
	/* Tasks learn from the same record of another event, in the order of time. */
	bool learns = is_bookkeeping(type) && !from->early, may_split, is_delivered;
	const struct pev_route *route;
	int rc = 0;

	if (is_for_reader(e, from) || !from->plan)
		return 0;
	route = pev_route_find(e, from->event, type);
	if (!route)
		return pev_fail(err, -ENOMEM, "no memory for the listeners of an event");
	is_delivered = (route->has_callback || (e->everything && route->nr)) &&
		       e->drain != PEV_DRAIN_DISCARD;
	may_split = route->splits && from != &e->made && e->drain != PEV_DRAIN_DISCARD;
	begin_time(e, from, is_delivered);
	start_timers(e, from);
	is_delivered = is_delivered && (may_split || is_selected(e));
	if (!is_delivered && !learns && !may_split)
		return 0;
	if (e->source->calls->locate(e->source, from, &e->rec) < 0)
		return 0;
	if (learns)
		rc = learn_from_record(e, err);
	else if (may_split)
		rc = split_sample(e, err);
	if (rc)
		return rc < 0 ? rc : 0;
	if (!is_delivered || (may_split && !is_selected(e)) || is_filtered(e) ||
	    holds_sample(e, route))
		return 0;
	count_delivered_loss(e);
	e->next_listener = route->first;
	e->end_listener = route->first + route->nr;
	return 0;
}

static bool wants_record(const struct pev_engine *e, const struct pev_listener *listener)
{
	uint32_t type = e->rec.type < PEV_RECORD_NR ? e->rec.type : 0;

	return !listener->off && !listener->hidden &&
	       (e->everything || listener->wanted_types >> type & 1);
}

/*
 * Sets up the fast path if the next sample of this route goes
 * to the same listener, whatever its content except its time.
 */
static void set_fast_path(struct pev_engine *e)
{
	struct pev_route *route;

	if (e->rec.type != PERF_RECORD_SAMPLE || e->from == &e->made ||
	    e->drain == PEV_DRAIN_DISCARD || e->deferred.nr || pev_deferred_any(&e->deferred) ||
	    pev_record_filter_asks(&e->wanted) || (e->nr_timers && !e->due) ||
	    (e->source->is_recording && !e->begun))
		return;
	route = pev_route_find(e, e->from->event, PERF_RECORD_SAMPLE);
	if (!route || route->nr != 1 || route->splits ||
	    (route->defers && !route->wants_deferred))
		return;
	e->fast_from = e->wanted.from;
	e->fast_to = e->wanted.to;
	if (e->nr_timers && e->due <= e->fast_to)
		e->fast_to = e->due - 1;
	route->pid_offset = !e->exclude_pid || pev_engine_keeps(e, e->from->event) ?
				    0 : e->from->plan->fixed[PEV_F_PID];
	route->slot = e->slot;
	route->fast_generation = e->generation;
}

/* Sets slot to the next listener of the record that receives it. False if there is none. */
static bool find_listener(struct pev_engine *e)
{
	while (e->next_listener < e->end_listener) {
		e->slot = e->listening[e->next_listener++];
		if (!wants_record(e, &e->listeners[e->slot]))
			continue;
		if (e->next_listener == e->end_listener)
			set_fast_path(e);
		return true;
	}
	return false;
}

int pev_engine_next_any(struct pev_engine *e, struct pev_err *err)
{
	int rc;

	while (!find_listener(e)) {
		if (e->reset_routes)
			pev_route_clear(e);
		rc = take_next(e, err);
		if (rc <= 0)
			return rc;
		rc = look_at_record(e, err);
		if (rc < 0)
			return rc;
	}
	return 1;
}

/* ---- rounds ---- */

int pev_engine_begin(struct pev_engine *e, enum pev_drain drain)
{
	bool everything = drain == PEV_DRAIN_ROUND_ALL || drain == PEV_DRAIN_REST_ALL;
	bool nothing = drain == PEV_DRAIN_DISCARD;
	int rc;

	/* The record of a recording is still there for its remaining listeners. */
	if (!e->source->is_recording || drain >= PEV_DRAIN_REST)
		pev_engine_skip_listeners(e);
	e->slot = PEV_NO_SLOT;
	rc = e->source->calls->begin(e->source, drain);
	if (rc < 0)
		return rc;
	if (everything != e->everything || nothing != (e->drain == PEV_DRAIN_DISCARD))
		pev_engine_end_fast_path(e);
	e->everything = everything;
	e->drain = drain;
	if (nothing && !e->source->is_recording)
		pev_deferred_free(&e->deferred);
	return 0;
}

int pev_engine_end(struct pev_engine *e)
{
	return e->source->calls->end(e->source, e->slot != PEV_NO_SLOT);
}

int64_t pev_engine_dispatch(struct pev_engine *e, enum pev_drain drain, pev_deliver_fn deliver,
			    void *ctx, struct pev_err *err)
{
	unsigned process = pev_sys_process();
	int64_t nr = 0;
	int rc = pev_engine_begin(e, drain);

	if (rc < 0)
		return pev_fail(err, rc, "cannot read records");
	/* A callback that forks leaves the remaining records to the parent. */
	while (rc == 0 && pev_sys_is_process(process) && (rc = pev_engine_next(e, err)) > 0) {
		rc = deliver(ctx, e->slot, &e->rec);
		nr++;
	}
	if (rc < 0) {
		pev_engine_end(e);
		return rc;
	}
	rc = pev_engine_end(e);
	return rc < 0 ? pev_fail(err, rc, "cannot resume the output of a backward ring") : nr;
}
