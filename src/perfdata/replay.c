/*
 * replay.c - replays a recording; see replay.h.
 *
 * A record passes four stages: it is read, examined (located, learnt from, filtered), the
 * clock advances to it, and it is delivered. When the caller has to act, the stage stays as it
 * is, and the next call continues there.
 */
#include "perfdata/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void pev_replay_init(struct pev_replay *replay, struct pev_reader *reader, struct pev_tasks *tasks)
{
	*replay = (struct pev_replay){
		.reader = reader, .tasks = tasks, .wanted.to = UINT64_MAX, .generation = 1
	};
	replay->run = pev_reader_run(reader);
	replay->news = pev_reader_changes(reader);
}

void pev_replay_free(struct pev_replay *replay)
{
	pev_record_filter_free(&replay->wanted);
	pev_deferred_free(&replay->deferred);
	pev_group_read_free(&replay->group);
	free(replay->routes);
	free(replay->listeners);
	free(replay->slots);
	free(replay->timers);
	free(replay->keeps);
	*replay = (struct pev_replay){ 0 };
}

/* ---- listeners, routes, timers ---- */

int pev_replay_add_listener(struct pev_replay *r, uint32_t wanted_types)
{
	struct pev_replay_slot *slots =
		realloc(r->slots, sizeof(*slots) * (r->nr_slots + (size_t)1));

	if (!slots)
		return -ENOMEM;
	r->slots = slots;
	slots[r->nr_slots] = (struct pev_replay_slot){ .wanted_types = wanted_types };
	return (int)r->nr_slots++;
}

static int reserve_listeners(struct pev_replay *r, uint32_t nr)
{
	uint32_t cap = r->cap_listeners ? r->cap_listeners : 16;
	uint32_t *listeners;

	while (cap < r->nr_listeners + nr)
		cap *= 2;
	if (cap == r->cap_listeners)
		return 0;
	listeners = realloc(r->listeners, sizeof(*listeners) * cap);
	if (!listeners)
		return -ENOMEM;
	r->listeners = listeners;
	r->cap_listeners = cap;
	return 0;
}

/* Makes room for the routes of all events known so far. */
static int reserve_routes(struct pev_replay *r)
{
	uint32_t nr = (pev_reader_count_events(r->reader) + 1) * PEV_RECORD_NR;
	struct pev_route *routes;

	if (nr <= r->nr_routes)
		return 0;
	routes = realloc(r->routes, sizeof(*routes) * nr);
	if (!routes)
		return -ENOMEM;
	memset(&routes[r->nr_routes], 0, sizeof(*routes) * (nr - r->nr_routes));
	r->routes = routes;
	r->nr_routes = nr;
	return 0;
}

int pev_replay_set_route(struct pev_replay *r, const uint32_t *slots, uint32_t nr)
{
	struct pev_route *route;

	if (reserve_listeners(r, nr) < 0 || reserve_routes(r) < 0)
		return -ENOMEM;
	route = &r->routes[r->event * PEV_RECORD_NR + r->type];
	*route = (struct pev_route){ .first = r->nr_listeners, .nr = nr, .known = true };
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t wanted_types = r->slots[slots[i]].wanted_types;

		r->listeners[r->nr_listeners++] = slots[i];
		route->has_callback = route->has_callback || wanted_types >> r->type & 1;
		route->wants_deferred =
			route->wants_deferred || wanted_types >> PEV_RECORD_CALLCHAIN_DEFERRED & 1;
	}
	return 0;
}

void pev_replay_reset_routes(struct pev_replay *r)
{
	r->reset_routes = true;
	pev_replay_end_fast_path(r);
}

void pev_replay_switch_slot(struct pev_replay *r, uint32_t slot, bool on)
{
	r->slots[slot].off = !on;
	pev_replay_end_fast_path(r);
}

void pev_replay_exclude_pid(struct pev_replay *r, int pid)
{
	r->exclude_pid = pid;
	pev_replay_end_fast_path(r);
}

static void clear_routes(struct pev_replay *r)
{
	if (r->nr_routes)
		memset(r->routes, 0, sizeof(*r->routes) * r->nr_routes);
	r->nr_listeners = 0;
	r->reset_routes = false;
}

int pev_replay_add_timer(struct pev_replay *r, uint64_t first, uint64_t every)
{
	struct pev_replay_timer *timers =
		realloc(r->timers, sizeof(*timers) * (r->nr_timers + (size_t)1));

	if (!timers)
		return -ENOMEM;
	r->timers = timers;
	timers[r->nr_timers] = (struct pev_replay_timer){ .first = first, .every = every };
	r->due = 0;
	pev_replay_end_fast_path(r);
	return (int)r->nr_timers++;
}

int pev_replay_keep_excluded(struct pev_replay *r, uint32_t event)
{
	bool *keeps = r->keeps;

	if (event >= r->nr_keeps) {
		keeps = realloc(r->keeps, sizeof(*keeps) * (event + (size_t)1));
		if (!keeps)
			return -ENOMEM;
		memset(&keeps[r->nr_keeps], 0, sizeof(*keeps) * (event + (size_t)1 - r->nr_keeps));
		r->keeps = keeps;
		r->nr_keeps = event + 1;
	}
	keeps[event] = true;
	pev_replay_end_fast_path(r);
	return 0;
}

/* ---- a record's stages ---- */

/* Continues with a deferred sample that is complete, or will never be. */
static bool take_joined_sample(struct pev_replay *r)
{
	struct pev_held_of of;
	uint16_t size;
	const unsigned char *bytes = pev_deferred_next(&r->deferred, &of, &size);

	r->is_joined = bytes != NULL;
	if (!bytes)
		return false;
	r->ready = (struct pev_source_record){
		.bytes = bytes,
		.plan = &pev_reader_event(r->reader, of.event)->plan,
		.time = of.time,
		.type = PERF_RECORD_SAMPLE,
		.event = of.event,
		.size = size,
		.synthesised = of.flag,
	};
	r->source = &r->ready;
	r->event = of.event + 1;
	r->type = PERF_RECORD_SAMPLE;
	r->stage = PEV_STAGE_EXAMINE;
	return true;
}

/* True if the whole recording is selected: losses at its end belong to no part of it. */
static bool wants_all(const struct pev_record_filter *wanted)
{
	return !pev_record_filter_asks(wanted) && !wanted->from && wanted->to == UINT64_MAX &&
	       !wanted->from_first && !wanted->to_first;
}

/* At the end: makes a record of the losses that no delivered LOST record had. False if none. */
static bool take_last_loss(struct pev_replay *r)
{
	const struct perf_event_header header = { .type = PERF_RECORD_LOST,
						  .misc = PEV_MISC_LOST_AT_END };
	const struct pev_reader_totals *totals = pev_reader_totals(r->reader);
	uint64_t lost = totals->lost + r->lost_own;

	if (r->reported_loss || !totals->lost_read || lost <= r->delivered_lost ||
	    !wants_all(&r->wanted))
		return false;
	r->reported_loss = true;
	pev_plan_init(&r->plain, &(struct pev_attr){ 0 }, false);
	r->ready = (struct pev_source_record){
		.bytes = (const unsigned char *)r->last_loss,
		.plan = &r->plain,
		.type = PERF_RECORD_LOST,
		.event = PEV_NO_EVENT,
		.size = pev_lost_record(r->last_loss, &r->plain, &header, 0,
					lost - r->delivered_lost, 0),
		.synthesised = true,
	};
	r->source = &r->ready;
	r->event = 0;
	r->type = PERF_RECORD_LOST;
	r->stage = PEV_STAGE_EXAMINE;
	return true;
}

/* Reads the next run; at the end delivers deferred samples and the last loss. */
static int read_more(struct pev_replay *r, struct pev_err *err)
{
	int rc = pev_reader_fill_run(r->reader, err);

	/* Deferred samples are delivered first. The next call finds the end again. */
	if (rc <= 0 && r->deferred.nr) {
		pev_deferred_release_all(&r->deferred);
		return PEV_TURN_NONE;
	}
	if (rc < 0)
		return rc;
	return rc == 0 && !take_last_loss(r) ? PEV_TURN_END : PEV_TURN_NONE;
}

/* True for a count of losses that the recorder read; take_last_loss() delivers these. */
static bool is_count(const struct pev_source_record *from)
{
	return from->type == PERF_RECORD_LOST_SAMPLES && from->synthesised;
}

/* The next sample of a group's member, from the leader's sample that was split. */
static bool take_part(struct pev_replay *r)
{
	const struct pev_group_part *part = pev_group_read_next(&r->group);

	r->is_part = part != NULL;
	if (!part)
		return false;
	r->part.event = part->event;
	r->source = &r->part;
	r->event = part->event + 1;
	r->type = PERF_RECORD_SAMPLE;
	r->stage = PEV_STAGE_EXAMINE;
	return true;
}

static int read_record(struct pev_replay *r, struct pev_err *err)
{
	bool is_dry;
	int turn;

	if (r->reset_routes)
		clear_routes(r);
	if (!r->budget)
		return PEV_TURN_ROUND;
	r->budget--;
	if (take_part(r) || (pev_deferred_any(&r->deferred) && take_joined_sample(r)))
		return PEV_TURN_NONE;
	r->is_joined = false;
	is_dry = r->run->at == r->run->end;
	if (is_dry) {
		turn = read_more(r, err);
		if (turn != PEV_TURN_NONE || r->run->at == r->run->end)
			return turn;
	}
	r->source = r->run->at++;
	r->event = r->source->event == PEV_NO_EVENT ? 0 : r->source->event + 1;
	r->type = r->source->type < PEV_RECORD_NR ? r->source->type : 0;
	/* The reader has handled tools' records. Counts of losses are delivered at the end. */
	r->stage = r->source->type >= PEV_USER_ATTR || is_count(r->source) ? PEV_STAGE_READ
									   : PEV_STAGE_EXAMINE;
	/* Only reading finds new events. */
	if (!is_dry || r->news == pev_reader_changes(r->reader))
		return PEV_TURN_NONE;
	r->news = pev_reader_changes(r->reader);
	return PEV_TURN_NEWS;
}

/* True for records that update the task table, with or without listeners. */
static bool is_bookkeeping(uint32_t type)
{
	const uint32_t types = 1u << PERF_RECORD_COMM | 1u << PERF_RECORD_FORK |
			       1u << PERF_RECORD_EXIT | 1u << PERF_RECORD_MMAP |
			       1u << PERF_RECORD_MMAP2 | 1u << PERF_RECORD_KSYMBOL |
			       1u << PEV_RECORD_CALLCHAIN_DEFERRED;

	return type < 32 && types >> type & 1;
}

static int learn_from_record(struct pev_replay *r)
{
	if (r->source->type != PEV_RECORD_CALLCHAIN_DEFERRED)
		return pev_tasks_feed(r->tasks, &r->rec);
	pev_deferred_join(&r->deferred, &r->rec);
	return 0;
}

/* True if the event's samples leave out the user part of their chains. */
static bool defers_callchain(const struct pev_replay *r)
{
	return r->event &&
	       pev_reader_event(r->reader, r->event - 1)->attr.flags & PEV_ATTR_DEFER_CALLCHAIN;
}

/* Holds a sample until its user part arrives. False if a listener wants both separately. */
static bool holds_sample(struct pev_replay *r, const struct pev_route *route)
{
	const struct pev_held_of of = { r->source->time, r->source->event, r->source->synthesised };

	if (r->source->type != PERF_RECORD_SAMPLE || r->is_joined || route->wants_deferred ||
	    !defers_callchain(r) || !pev_deferred_hold(&r->deferred, &r->rec, &of))
		return false;
	pev_replay_end_fast_path(r);
	return true;
}

/* True if the excluded process wrote the record, as in a live session. */
static bool is_excluded(const struct pev_replay *r)
{
	const struct pev_plan *plan = r->source->plan;
	uint16_t off = plan->fixed[PEV_F_PID], size = r->source->size, body;

	if (!r->exclude_pid || (r->event && r->event <= r->nr_keeps && r->keeps[r->event - 1]))
		return false;
	body = pev_record_body_end(r->source->bytes, size, plan->swap);
	if (body && body + plan->trailer < size)
		size = (uint16_t)(body + plan->trailer);
	if (r->source->type != PERF_RECORD_SAMPLE)
		off = (uint16_t)(size - plan->from_end[PEV_F_PID]);
	return off && off + 4u <= size &&
	       (int)pev_load32(r->source->bytes + off, plan->swap) == r->exclude_pid;
}

/*
 * The clock starts with the first sample or the first delivered record. Recorders
 * write earlier records about the state before, some of them with an old time.
 */
static void begin_time(struct pev_replay *r, bool is_delivered)
{
	if (r->begun || r->source->synthesised || !r->source->time ||
	    (r->source->type != PERF_RECORD_SAMPLE && !is_delivered))
		return;
	r->begun = true;
	pev_record_filter_begin(&r->wanted, r->source->time);
}

static bool is_in_time(const struct pev_replay *r)
{
	/* Before the clock starts, every record is earlier than a limit relative to its start. */
	if (!r->begun && (r->wanted.from_first || r->wanted.to_first))
		return !r->wanted.from_first && r->source->time >= r->wanted.from;
	return pev_record_filter_time(&r->wanted, r->source->time);
}

static bool is_wanted(struct pev_replay *r)
{
	if (!is_in_time(r))
		return false;
	if (is_excluded(r)) {
		r->excluded++;
		return false;
	}
	return true;
}

/* True for a leader's sample that is split into samples of its group. */
static bool can_split(const struct pev_replay *r)
{
	return r->source->type == PERF_RECORD_SAMPLE && !r->is_part && r->event &&
	       !defers_callchain(r) &&
	       pev_group_read_splits(&pev_reader_event(r->reader, r->event - 1)->attr);
}

static uint32_t number_of(const void *df, uint64_t id)
{
	return pev_reader_find_event(df, id);
}

/*
 * Splits a sample into samples that come next, not on the fast
 * path. Returns 1, 0 if the sample stays as it is, or -ENOMEM.
 */
static int split_sample(struct pev_replay *r, struct pev_err *err)
{
	const struct pev_file_event *leader = pev_reader_event(r->reader, r->event - 1);
	int rc;

	pev_replay_end_fast_path(r);
	r->part = *r->source;
	rc = pev_group_read_split(&r->group, &r->rec, leader->attr.flags & PEV_ATTR_INHERIT,
				  number_of, r->reader);
	if (rc < 0)
		return pev_fail(err, rc, "no memory for the groups of the recording");
	r->part.bytes = r->group.bytes;
	r->part.plan = &r->group.plan;
	return rc;
}

static uint64_t lost_of(const struct pev_record *rec)
{
	struct pev_value value;

	return pev_record_get(rec, PEV_F_LOST, &value) ? value.u : 0;
}

static int look_at_record(struct pev_replay *r, struct pev_err *err)
{
	uint32_t place = r->event * PEV_RECORD_NR + r->type;
	bool updates_tasks = is_bookkeeping(r->source->type), may_split = can_split(r),
	     is_delivered;
	const struct pev_route *route;
	int rc = 0;

	if (place >= r->nr_routes || !r->routes[place].known)
		return PEV_TURN_ROUTE;
	route = &r->routes[place];
	is_delivered = route->has_callback || (r->without_callback && route->nr);
	begin_time(r, is_delivered);
	is_delivered = is_delivered && (may_split || is_wanted(r));
	r->next_listener = r->end_listener = route->first;
	r->stage = PEV_STAGE_TIME;
	if (is_delivered || updates_tasks || may_split) {
		if (pev_reader_locate(r->reader, r->source, &r->rec, err) < 0) {
			r->stage = PEV_STAGE_READ;
			return PEV_TURN_DAMAGED;
		}
		if (updates_tasks && learn_from_record(r) < 0)
			return pev_fail(err, -ENOMEM, "no memory for the tasks of the recording");
		if (may_split)
			rc = split_sample(r, err);
		if (rc < 0)
			return rc;
	}
	if (may_split)
		is_delivered = is_delivered && rc == 0 && is_wanted(r);
	if (is_delivered && pev_record_filter_asks(&r->wanted))
		is_delivered = pev_record_filter_has(&r->wanted, &r->rec, r->tasks);
	if (is_delivered && r->source->type == PERF_RECORD_LOST)
		r->delivered_lost += lost_of(&r->rec);
	if (is_delivered && !holds_sample(r, route))
		r->end_listener += route->nr;
	return PEV_TURN_NONE;
}

/* Finds the timer that expires first; of several, the one that was added first. */
static void find_due(struct pev_replay *r)
{
	r->due = UINT64_MAX;
	for (uint32_t i = r->nr_timers; i-- > 0;) {
		struct pev_replay_timer *timer = &r->timers[i];

		if (!timer->due)
			timer->due = timer->first > UINT64_MAX - r->source->time
					     ? UINT64_MAX
					     : r->source->time + timer->first;
		if (timer->due > r->due)
			continue;
		r->due = timer->due;
		r->timer = i;
	}
}

/* Reports timers that have expired at the record's time, one at a time. */
static int advance_clock(struct pev_replay *r)
{
	struct pev_replay_timer *timer;

	if (r->nr_timers && r->begun && r->source->time && !r->source->synthesised &&
	    is_in_time(r)) {
		if (!r->due)
			find_due(r);
		if (r->due <= r->source->time) {
			timer = &r->timers[r->timer];
			timer->due = timer->every ? timer->due + timer->every : UINT64_MAX;
			r->due = 0;
			pev_replay_end_fast_path(r);
			return PEV_TURN_TIMER;
		}
	}
	r->stage = PEV_STAGE_DELIVER;
	return PEV_TURN_NONE;
}

static bool wants_record(const struct pev_replay *r, const struct pev_replay_slot *slot)
{
	return !slot->off && (r->without_callback || slot->wanted_types >> r->type & 1);
}

/* True if a deferred sample is held or the next one may be. */
static bool may_hold(const struct pev_replay *r, const struct pev_route *route)
{
	return r->deferred.nr || pev_deferred_any(&r->deferred) ||
	       (!route->wants_deferred && defers_callchain(r));
}

/*
 * Sets up the fast path if the next sample of this route goes
 * to the same slot, whatever its content except its time.
 */
static void set_fast_path(struct pev_replay *r)
{
	struct pev_route *route = &r->routes[r->event * PEV_RECORD_NR + r->type];
	bool is_kept = r->event && r->event <= r->nr_keeps && r->keeps[r->event - 1];

	if (r->type != PERF_RECORD_SAMPLE || route->nr != 1 || r->is_part || !r->begun ||
	    may_hold(r, route) || pev_record_filter_asks(&r->wanted) ||
	    (r->exclude_pid && !is_kept) ||
	    (r->nr_timers && !r->due))
		return;
	if (r->without_callback != r->fast_without_callback)
		pev_replay_end_fast_path(r);
	r->fast_without_callback = r->without_callback;
	r->fast_from = r->wanted.from;
	r->fast_to = r->wanted.to;
	if (r->nr_timers && r->due <= r->fast_to)
		r->fast_to = r->due - 1;
	route->slot = r->slot;
	route->fast_generation = r->generation;
}

static int deliver_record(struct pev_replay *r)
{
	while (r->next_listener < r->end_listener) {
		r->slot = r->listeners[r->next_listener++];
		if (!wants_record(r, &r->slots[r->slot]))
			continue;
		if (r->next_listener == r->end_listener) {
			r->stage = PEV_STAGE_READ;
			set_fast_path(r);
		}
		return PEV_TURN_RECORD;
	}
	r->stage = PEV_STAGE_READ;
	return PEV_TURN_NONE;
}

int pev_replay_next_any(struct pev_replay *r, struct pev_err *err)
{
	int turn = PEV_TURN_NONE;

	/* No switch: most records pass all stages in one iteration. */
	while (turn == PEV_TURN_NONE) {
		if (r->stage == PEV_STAGE_READ)
			turn = read_record(r, err);
		if (turn == PEV_TURN_NONE && r->stage == PEV_STAGE_EXAMINE)
			turn = look_at_record(r, err);
		if (turn == PEV_TURN_NONE && r->stage == PEV_STAGE_TIME)
			turn = advance_clock(r);
		if (turn == PEV_TURN_NONE && r->stage == PEV_STAGE_DELIVER)
			turn = deliver_record(r);
	}
	return turn;
}

void pev_replay_skip_listeners(struct pev_replay *r) { r->next_listener = r->end_listener; }
