/*
 * replay.c - a recording as the source of a session; see replay.h.
 *
 * A record goes through four stages: it is read, looked at (located, learnt from,
 * selected), its time passes, and it is heard. What is asked of the caller on the way
 * leaves the stage as it is, so that the next call goes on from there.
 */
#include "perfdata/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void pev_replay_init(struct pev_replay *replay, struct pev_reader *df, struct pev_tasks *tasks)
{
	*replay = (struct pev_replay){ .df = df, .tasks = tasks, .wanted.to = UINT64_MAX,
				       .answers = 1 };
	replay->run = pev_reader_run(df);
	replay->news = pev_reader_news(df);
}

void pev_replay_free(struct pev_replay *replay)
{
	pev_record_filter_free(&replay->wanted);
	pev_deferred_free(&replay->deferred);
	pev_group_read_free(&replay->group);
	free(replay->routes);
	free(replay->hearers);
	free(replay->slots);
	free(replay->timers);
	free(replay->keeps);
	*replay = (struct pev_replay){ 0 };
}

/* ---- listeners, routes, timers ---- */

int pev_replay_listen(struct pev_replay *r, uint32_t heard)
{
	struct pev_replay_slot *slots =
		realloc(r->slots, sizeof(*slots) * (r->nr_slots + (size_t)1));

	if (!slots)
		return -ENOMEM;
	r->slots = slots;
	slots[r->nr_slots] = (struct pev_replay_slot){ .heard = heard };
	return (int)r->nr_slots++;
}

static int reserve_hearers(struct pev_replay *r, uint32_t nr)
{
	uint32_t cap = r->cap_hearers ? r->cap_hearers : 16;
	uint32_t *hearers;

	while (cap < r->nr_hearers + nr)
		cap *= 2;
	if (cap == r->cap_hearers)
		return 0;
	hearers = realloc(r->hearers, sizeof(*hearers) * cap);
	if (!hearers)
		return -ENOMEM;
	r->hearers = hearers;
	r->cap_hearers = cap;
	return 0;
}

/* Room for the routes of all events so far. */
static int reserve_routes(struct pev_replay *r)
{
	uint32_t nr = (pev_reader_events(r->df) + 1) * PEV_RECORD_NR;
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

int pev_replay_route(struct pev_replay *r, const uint32_t *slots, uint32_t nr)
{
	struct pev_route *route;

	if (reserve_hearers(r, nr) < 0 || reserve_routes(r) < 0)
		return -ENOMEM;
	route = &r->routes[r->event * PEV_RECORD_NR + r->type];
	*route = (struct pev_route){ .first = r->nr_hearers, .nr = nr, .known = true };
	for (uint32_t i = 0; i < nr; i++) {
		uint32_t heard = r->slots[slots[i]].heard;

		r->hearers[r->nr_hearers++] = slots[i];
		route->called = route->called || heard >> r->type & 1;
		route->parts = route->parts || heard >> PEV_RECORD_CALLCHAIN_DEFERRED & 1;
	}
	return 0;
}

void pev_replay_forget(struct pev_replay *r)
{
	r->forget = true;
	pev_replay_anew(r);
}

void pev_replay_switch(struct pev_replay *r, uint32_t slot, bool on)
{
	r->slots[slot].off = !on;
	pev_replay_anew(r);
}

void pev_replay_exclude(struct pev_replay *r, int pid)
{
	r->exclude_pid = pid;
	pev_replay_anew(r);
}

static void forget_routes(struct pev_replay *r)
{
	if (r->nr_routes)
		memset(r->routes, 0, sizeof(*r->routes) * r->nr_routes);
	r->nr_hearers = 0;
	r->forget = false;
}

int pev_replay_timer(struct pev_replay *r, uint64_t first, uint64_t every)
{
	struct pev_replay_timer *timers =
		realloc(r->timers, sizeof(*timers) * (r->nr_timers + (size_t)1));

	if (!timers)
		return -ENOMEM;
	r->timers = timers;
	timers[r->nr_timers] = (struct pev_replay_timer){ .first = first, .every = every };
	r->due = 0;
	pev_replay_anew(r);
	return (int)r->nr_timers++;
}

int pev_replay_keep(struct pev_replay *r, uint32_t event)
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
	pev_replay_anew(r);
	return 0;
}

/* ---- a record's stages ---- */

/* A sample whose user part has come, or will not: it goes on where it was stopped. */
static bool take_ready(struct pev_replay *r)
{
	struct pev_held_of of;
	uint16_t size;
	const unsigned char *bytes = pev_deferred_next(&r->deferred, &of, &size);

	r->whole = bytes != NULL;
	if (!bytes)
		return false;
	r->ready = (struct pev_file_record){
		.bytes = bytes,
		.plan = &pev_reader_event(r->df, of.event)->plan,
		.time = of.time,
		.type = PERF_RECORD_SAMPLE,
		.event = of.event,
		.size = size,
		.synthesised = of.flag,
	};
	r->from = &r->ready;
	r->event = of.event + 1;
	r->type = PERF_RECORD_SAMPLE;
	r->stage = PEV_STAGE_LOOK;
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
	const struct pev_reader_totals *totals = pev_reader_totals(r->df);
	uint64_t lost = totals->lost + r->lost_own;

	if (r->told_loss || !totals->lost_read || lost <= r->heard_lost || !wants_all(&r->wanted))
		return false;
	r->told_loss = true;
	pev_plan_init(&r->plain, &(struct pev_attr){ 0 }, false);
	r->ready = (struct pev_file_record){
		.bytes = (const unsigned char *)r->last_loss,
		.plan = &r->plain,
		.type = PERF_RECORD_LOST,
		.event = PEV_NO_EVENT,
		.size = pev_lost_record(r->last_loss, &r->plain, &header, 0,
					lost - r->heard_lost, 0),
		.synthesised = true,
	};
	r->from = &r->ready;
	r->event = 0;
	r->type = PERF_RECORD_LOST;
	r->stage = PEV_STAGE_LOOK;
	return true;
}

/* The reader's run is at its end: the next one, or what there is instead. */
static int read_more(struct pev_replay *r, struct pev_err *err)
{
	int rc = pev_reader_more(r->df, err);

	/* The end is told again, once what waits in vain has been heard. */
	if (rc <= 0 && r->deferred.nr) {
		pev_deferred_let_go(&r->deferred);
		return PEV_TURN_NONE;
	}
	if (rc < 0)
		return rc;
	return rc == 0 && !take_last_loss(r) ? PEV_TURN_END : PEV_TURN_NONE;
}

/* True for a count of losses that the recorder read; take_last_loss() delivers these. */
static bool is_count(const struct pev_file_record *from)
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
	r->from = &r->part;
	r->event = part->event + 1;
	r->type = PERF_RECORD_SAMPLE;
	r->stage = PEV_STAGE_LOOK;
	return true;
}

static int read_record(struct pev_replay *r, struct pev_err *err)
{
	bool is_dry;
	int turn;

	if (r->forget)
		forget_routes(r);
	if (!r->budget)
		return PEV_TURN_ROUND;
	r->budget--;
	if (take_part(r) || (pev_deferred_any(&r->deferred) && take_ready(r)))
		return PEV_TURN_NONE;
	r->whole = false;
	is_dry = r->run->at == r->run->end;
	if (is_dry) {
		turn = read_more(r, err);
		if (turn != PEV_TURN_NONE || r->run->at == r->run->end)
			return turn;
	}
	r->from = r->run->at++;
	r->event = r->from->event == PEV_NO_EVENT ? 0 : r->from->event + 1;
	r->type = r->from->type < PEV_RECORD_NR ? r->from->type : 0;
	/* Records of tools have been obeyed by the reader, and losses read at the end counted. */
	r->stage = r->from->type >= PEV_USER_ATTR || is_count(r->from) ? PEV_STAGE_READ :
									 PEV_STAGE_LOOK;
	/* Nothing is learnt but by reading. */
	if (!is_dry || r->news == pev_reader_news(r->df))
		return PEV_TURN_NONE;
	r->news = pev_reader_news(r->df);
	return PEV_TURN_NEWS;
}

/* What tasks are called, and what they map: learnt of all, heard or not. */
static bool is_bookkeeping(uint32_t type)
{
	const uint32_t types = 1u << PERF_RECORD_COMM | 1u << PERF_RECORD_FORK |
			       1u << PERF_RECORD_EXIT | 1u << PERF_RECORD_MMAP |
			       1u << PERF_RECORD_MMAP2 | 1u << PERF_RECORD_KSYMBOL |
			       1u << PEV_RECORD_CALLCHAIN_DEFERRED;

	return type < 32 && types >> type & 1;
}

static int learn(struct pev_replay *r)
{
	if (r->from->type != PEV_RECORD_CALLCHAIN_DEFERRED)
		return pev_tasks_feed(r->tasks, &r->rec);
	pev_deferred_join(&r->deferred, &r->rec);
	return 0;
}

/* Was the record's event told to leave the user part of its chains for later? */
static bool defers(const struct pev_replay *r)
{
	return r->event &&
	       pev_reader_event(r->df, r->event - 1)->attr.flags & PEV_ATTR_DEFER_CALLCHAIN;
}

/* Is it a sample whose user part is to come, and nobody hears of that alone? It is held. */
static bool waits(struct pev_replay *r, const struct pev_route *route)
{
	const struct pev_held_of of = { r->from->time, r->from->event, r->from->synthesised };

	if (r->from->type != PERF_RECORD_SAMPLE || r->whole || route->parts || !defers(r) ||
	    !pev_deferred_hold(&r->deferred, &r->rec, &of))
		return false;
	pev_replay_anew(r);
	return true;
}

/* Written by the process that is left out, as the live session left it out? */
static bool is_excluded(const struct pev_replay *r)
{
	const struct pev_plan *plan = r->from->plan;
	uint16_t off = plan->fixed[PEV_F_PID], size = r->from->size, body;

	if (!r->exclude_pid || (r->event && r->event <= r->nr_keeps && r->keeps[r->event - 1]))
		return false;
	body = pev_record_body_end(r->from->bytes, size, plan->swap);
	if (body && body + plan->trailer < size)
		size = (uint16_t)(body + plan->trailer);
	if (r->from->type != PERF_RECORD_SAMPLE)
		off = (uint16_t)(size - plan->from_end[PEV_F_PID]);
	return off && off + 4u <= size &&
	       (int)pev_load32(r->from->bytes + off, plan->swap) == r->exclude_pid;
}

/* Time begins with the first sample, or with what somebody hears: recorders tell of what was there
 * before, some of it with a time of long ago. */
static void begin_time(struct pev_replay *r, bool is_heard)
{
	if (r->begun || r->from->synthesised || !r->from->time ||
	    (r->from->type != PERF_RECORD_SAMPLE && !is_heard))
		return;
	r->begun = true;
	pev_record_filter_begin(&r->wanted, r->from->time);
}

static bool is_in_time(const struct pev_replay *r)
{
	/* Before time begins nothing is later than what counts from there. */
	if (!r->begun && (r->wanted.from_first || r->wanted.to_first))
		return !r->wanted.from_first && r->from->time >= r->wanted.from;
	return pev_record_filter_time(&r->wanted, r->from->time);
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
static bool splits(const struct pev_replay *r)
{
	return r->from->type == PERF_RECORD_SAMPLE && !r->is_part && r->event && !defers(r) &&
	       pev_group_read_splits(&pev_reader_event(r->df, r->event - 1)->attr);
}

static uint32_t number_of(const void *df, uint64_t id)
{
	return pev_reader_number(df, id);
}

/*
 * Its parts come next: no other record has the answer of the one before. Returns 1, 0 if the sample
 * stays as it is, or -ENOMEM.
 */
static int split(struct pev_replay *r, struct pev_err *err)
{
	const struct pev_file_event *leader = pev_reader_event(r->df, r->event - 1);
	int rc;

	pev_replay_anew(r);
	r->part = *r->from;
	rc = pev_group_read_split(&r->group, &r->rec, leader->attr.flags & PEV_ATTR_INHERIT,
				  number_of, r->df);
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
	bool teaches = is_bookkeeping(r->from->type), may_split = splits(r), is_heard;
	const struct pev_route *route;
	int rc = 0;

	if (place >= r->nr_routes || !r->routes[place].known)
		return PEV_TURN_ROUTE;
	route = &r->routes[place];
	is_heard = route->called || (r->uncalled && route->nr);
	begin_time(r, is_heard);
	is_heard = is_heard && (may_split || is_wanted(r));
	r->at = r->end = route->first;
	r->stage = PEV_STAGE_TIME;
	if (is_heard || teaches || may_split) {
		if (pev_reader_locate(r->df, r->from, &r->rec, err) < 0) {
			r->stage = PEV_STAGE_READ;
			return PEV_TURN_DAMAGED;
		}
		if (teaches && learn(r) < 0)
			return pev_fail(err, -ENOMEM, "no memory for the tasks of the recording");
		if (may_split)
			rc = split(r, err);
		if (rc < 0)
			return rc;
	}
	if (may_split)
		is_heard = is_heard && rc == 0 && is_wanted(r);
	if (is_heard && pev_record_filter_asks(&r->wanted))
		is_heard = pev_record_filter_has(&r->wanted, &r->rec, r->tasks);
	if (is_heard && r->from->type == PERF_RECORD_LOST)
		r->heard_lost += lost_of(&r->rec);
	if (is_heard && !waits(r, route))
		r->end += route->nr;
	return PEV_TURN_NONE;
}

/* The timer that is due first, of several the one that was made first. */
static void find_due(struct pev_replay *r)
{
	r->due = UINT64_MAX;
	for (uint32_t i = r->nr_timers; i-- > 0;) {
		struct pev_replay_timer *timer = &r->timers[i];

		if (!timer->due)
			timer->due = timer->first > UINT64_MAX - r->from->time
					     ? UINT64_MAX
					     : r->from->time + timer->first;
		if (timer->due > r->due)
			continue;
		r->due = timer->due;
		r->timer = i;
	}
}

/* Timers whose time has come at that of the record, one at a time. */
static int pass_time(struct pev_replay *r)
{
	struct pev_replay_timer *timer;

	if (r->nr_timers && r->begun && r->from->time && !r->from->synthesised && is_in_time(r)) {
		if (!r->due)
			find_due(r);
		if (r->due <= r->from->time) {
			timer = &r->timers[r->timer];
			timer->due = timer->every ? timer->due + timer->every : UINT64_MAX;
			r->due = 0;
			pev_replay_anew(r);
			return PEV_TURN_TIMER;
		}
	}
	r->stage = PEV_STAGE_HEAR;
	return PEV_TURN_NONE;
}

static bool is_hearing(const struct pev_replay *r, const struct pev_replay_slot *slot)
{
	return !slot->off && (r->uncalled || slot->heard >> r->type & 1);
}

/* Is one held, or may the next one be? */
static bool may_wait(const struct pev_replay *r, const struct pev_route *route)
{
	return r->deferred.nr || pev_deferred_any(&r->deferred) || (!route->parts && defers(r));
}

/*
 * Would the next sample of this route get the answer that this one got, whatever is in it but
 * its time? Then it is not asked for, while nothing changes.
 */
static void remember(struct pev_replay *r)
{
	struct pev_route *route = &r->routes[r->event * PEV_RECORD_NR + r->type];
	bool is_kept = r->event && r->event <= r->nr_keeps && r->keeps[r->event - 1];

	if (r->type != PERF_RECORD_SAMPLE || route->nr != 1 || r->is_part || !r->begun ||
	    may_wait(r, route) || pev_record_filter_asks(&r->wanted) ||
	    (r->exclude_pid && !is_kept) ||
	    (r->nr_timers && !r->due))
		return;
	if (r->uncalled != r->of_uncalled)
		pev_replay_anew(r);
	r->of_uncalled = r->uncalled;
	r->since = r->wanted.from;
	r->until = r->wanted.to;
	if (r->nr_timers && r->due <= r->until)
		r->until = r->due - 1;
	route->slot = r->slot;
	route->answered = r->answers;
}

static int next_hearer(struct pev_replay *r)
{
	while (r->at < r->end) {
		r->slot = r->hearers[r->at++];
		if (!is_hearing(r, &r->slots[r->slot]))
			continue;
		if (r->at == r->end) {
			r->stage = PEV_STAGE_READ;
			remember(r);
		}
		return PEV_TURN_RECORD;
	}
	r->stage = PEV_STAGE_READ;
	return PEV_TURN_NONE;
}

int pev_replay_next_any(struct pev_replay *r, struct pev_err *err)
{
	int turn = PEV_TURN_NONE;

	/* No switch: as a rule a record goes through all of them at once. */
	while (turn == PEV_TURN_NONE) {
		if (r->stage == PEV_STAGE_READ)
			turn = read_record(r, err);
		if (turn == PEV_TURN_NONE && r->stage == PEV_STAGE_LOOK)
			turn = look_at_record(r, err);
		if (turn == PEV_TURN_NONE && r->stage == PEV_STAGE_TIME)
			turn = pass_time(r);
		if (turn == PEV_TURN_NONE && r->stage == PEV_STAGE_HEAR)
			turn = next_hearer(r);
	}
	return turn;
}

void pev_replay_pass(struct pev_replay *r) { r->at = r->end; }
