/*
 * round.c - a live session as a source: takes records from the rings in order of time.
 *
 * A record is taken when it enters the run. The kernel gets its space back when the run has been
 * consumed. At the end of a round the rings go back to the first record that was not consumed.
 */
#include "live/session_state.h"

#include <errno.h>

/* Records between two checks for full rings, at most, and bytes of a ring for each of them. */
#define WATCH_EVERY 256
#define WATCHED_BYTES 1024

/* ---- the next record of a ring ---- */

static inline uint64_t time_of(const struct pev_session_ring *r, const struct pev_slot *slot)
{
	uint16_t off, size = r->next_end;

	if (!slot || !(slot->plan.sample_type & PERF_SAMPLE_TIME))
		return r->time;
	if (r->type == PERF_RECORD_SAMPLE)
		off = slot->plan.fixed[PEV_F_TIME];
	else
		off = slot->plan.from_end[PEV_F_TIME] <= size ?
			      (uint16_t)(size - slot->plan.from_end[PEV_F_TIME]) : size;
	return off + 8u <= size ? pev_load64(r->next + off, false) : r->time;
}

/*
 * Returns the real end of a record whose size may be too
 * large: the trailer there has the id of its own event.
 */
static uint16_t written_end(struct pev_session *s, const unsigned char *bytes, uint16_t size)
{
	uint16_t body = pev_record_body_end(bytes, size, false);

	for (uint32_t i = 0; body && i < s->nr_slots; i++) {
		uint32_t end = body + (uint32_t)s->slots[i]->plan.trailer;

		if (s->slots[i]->plan.trailer >= 8 && end <= size &&
		    pev_session_slot_of_record(s, bytes, (uint16_t)end) == s->slots[i])
			return (uint16_t)end;
	}
	return size;
}

static inline void parse_record(struct pev_session *s, struct pev_session_ring *r)
{
	r->type = pev_load32(r->next, false);
	r->next_end = r->next_size;
	if (PEV_RARELY(pev_record_may_overstate(r->type)))
		r->next_end = written_end(s, r->next, r->next_size);
	r->slot = pev_session_slot_of_record(s, r->next, r->next_end);
	r->time = time_of(r, r->slot);
}

void pev_session_parse_record(struct pev_session *s, struct pev_session_ring *r)
{
	parse_record(s, r);
}

/* Returns the time for the order of the rings. Early records come first. */
static inline uint64_t place_of(const struct pev_session_ring *r)
{
	return r->early ? 0 : r->time;
}

/* Parses the ring's next record into r. False if the ring is empty. */
static inline bool parse_next(struct pev_session *s, struct pev_session_ring *r)
{
	uint64_t tail = r->ring.tail, corrupt = r->ring.corrupt;

	r->next = pev_ring_peek(&r->ring, &r->next_size);
	if (r->ring.corrupt != corrupt) {
		r->skips = true;
		r->skipped = tail;
		s->skips++;
	}
	if (!r->next)
		return false;
	parse_record(s, r);
	return true;
}

/* Ends the precedence of a ring that has enough space again, or no record for this round. */
static inline void end_urgency(struct pev_session *s, struct pev_session_ring *r)
{
	if (!r->urgent || (r->next && (pev_ring_fill(&r->ring) > r->ring.size / 2 ||
				       pev_session_aux_is_urgent(r))))
		return;
	r->urgent = false;
	s->urgent--;
}

/* ---- full rings ---- */

/* Returns the position of the oldest byte that is still needed. */
static uint64_t kept_from(const struct pev_session *s, const struct pev_session_ring *r)
{
	return s->recorder ? r->recorded : r->ring.tail;
}

/* Moves waiting records from the ring to memory, so that the kernel has space. */
static void lift_ring(struct pev_session *s, struct pev_session_ring *r)
{
	int rc = pev_ring_lift(&r->ring, kept_from(s, r), &s->lift_room);

	if (rc == -ENOSPC)
		pev_session_set_memory_full(s, true);
	if (rc < 0)
		return;
	if (s->config.max_lifted - s->lift_room > s->totals.moved_peak)
		s->totals.moved_peak = s->config.max_lifted - s->lift_room;
	if (r->next)
		r->next = pev_ring_peek(&r->ring, &r->next_size);
	end_urgency(s, r);
}

/* Lifts rings with more unread bytes than these quarters. */
static void lift_full_rings(struct pev_session *s, uint64_t quarters)
{
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		struct pev_session_ring *r = s->rings[i];

		if (r->backward)
			continue;
		pev_ring_free_lifted(&r->ring, kept_from(s, r), &s->lift_room);
		if (pev_ring_fill(&r->ring) > r->ring.size / 4 * quarters)
			lift_ring(s, r);
	}
}

/* True if a round delivers everything and ignores the time horizon. */
static bool delivers_all(const struct pev_session *s)
{
	return s->drain >= PEV_DRAIN_REST || s->config.unordered || s->own_clock;
}

/* Rings fill while records are delivered. */
static void check_fill(struct pev_session *s)
{
	s->unchecked = 0;
	if (s->drain < PEV_DRAIN_REST)
		lift_full_rings(s, 2);
}

/* ---- the run ---- */

/* Puts the records back that were not consumed. */
static void put_back_rest(struct pev_session *s)
{
	uint32_t i = (uint32_t)(s->run.end - s->records);

	for (; s->records + i > s->run.at; i--) {
		const struct pev_session_taken *taken = &s->taken[i - 1];
		struct pev_session_ring *r = taken->ring;

		/* The next peek finds the bytes that cannot be parsed again. */
		r->ring.corrupt -= r->skips;
		s->skips -= r->skips;
		r->skips = false;
		pev_ring_unpop(&r->ring, taken->position);
	}
}

/* Returns the space of the records that were consumed, once it is a quarter of a ring. */
static void release_run(struct pev_session *s)
{
	uint32_t nr = (uint32_t)(s->run.at - s->records);

	pev_session_count_taken(s);
	if (s->run_is_kept) {
		pev_session_release_kept(s);
		s->run.at = s->run.end = s->counted = s->records;
		return;
	}
	if (s->aux_ring && s->run.at == s->run.end)
		pev_session_return_aux(s);
	s->aux_ring = NULL;
	put_back_rest(s);
	pev_session_record_skips(s);
	/* The kernel has the space of lifted records already. */
	for (uint32_t i = 0; i < nr; i++) {
		struct pev_session_ring *r = s->taken[i].ring;

		if ((int64_t)(r->ring.tail - r->ring.published) >= (int64_t)(r->ring.size / 4))
			pev_session_return_space(s, r);
	}
	s->run.at = s->run.end = s->counted = s->records;
	s->unchecked += nr;
	if (s->unchecked >= WATCH_EVERY || s->unchecked >= s->config.ring_bytes / WATCHED_BYTES)
		check_fill(s);
}

/* Finds the next record of the ring whose record was taken last. */
static void parse_behind(struct pev_session *s)
{
	struct pev_session_ring *r = s->unparsed;

	s->unparsed = NULL;
	if (parse_next(s, r))
		pev_merge_replace(&s->merge, place_of(r));
	else
		pev_merge_pop(&s->merge);
	end_urgency(s, r);
}

/*
 * Takes the ring's next record into the run. Returns false if the run ends with it: the next
 * record could take the place of its copy, or it announces AUX bytes.
 */
static bool take_record(struct pev_session *s, struct pev_session_ring *r)
{
	uint32_t nr = (uint32_t)(s->run.end - s->records);

	s->records[nr] = (struct pev_source_record){
		.bytes = r->next,
		.plan = r->slot ? &r->slot->plan : NULL,
		.time = r->time,
		.type = r->type,
		.event = r->slot ? r->slot->index : PEV_NO_EVENT,
		.size = r->next_size,
		.early = r->early,
	};
	s->taken[nr] = (struct pev_session_taken){ r, r->ring.tail };
	s->run.end++;
	s->unparsed = r;
	pev_ring_pop(&r->ring, r->next_size);
	return r->next != r->ring.wrap && !pev_session_announces_aux(s, r);
}

static int fill(struct pev_source *source, struct pev_err *err)
{
	struct pev_session *s = pev_session_of(source);
	bool all = delivers_all(s), more = true;
	const struct pev_merge_item *next;

	(void)err;
	/* A callback has forked: the rings are not mapped in this process. */
	if (!pev_session_is_ours(s))
		return 0;
	release_run(s);
	if (pev_session_fill_kept(s, s->feed && !all ? s->merge.horizon : UINT64_MAX))
		return 1;
	while (more && s->run.end < s->records + PEV_SOURCE_RUN_MAX) {
		if (s->unparsed)
			parse_behind(s);
		next = pev_merge_top(&s->merge);
		/* An urgent ring is read beyond the horizon, which can make records late. */
		if (!next || (!all && next->time >= s->merge.horizon && !s->urgent))
			break;
		more = take_record(s, s->rings[next->source]);
	}
	return s->run.end > s->run.at;
}

static int locate(struct pev_source *source, const struct pev_source_record *from,
		  struct pev_record *rec)
{
	int rc = pev_record_locate(rec, from->plan, from->bytes, from->size, NULL);

	pev_session_of(source)->totals.malformed += rc < 0;
	return rc;
}

/* ---- rounds ---- */

int pev_session_pause_output(struct pev_session *s, bool pause)
{
	int first = 0;

	for (uint32_t i = 0; i < s->nr_rings; i++) {
		int rc = !s->rings[i]->backward ? 0 :
			 s->sys->ioctl(s->sys->ctx, s->rings[i]->fd, PERF_EVENT_IOC_PAUSE_OUTPUT,
				       pause);

		if (rc < 0 && !first)
			first = rc;
	}
	return first;
}

static void look_at_rings(struct pev_session *s)
{
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		struct pev_session_ring *r = s->rings[i];
		uint64_t full = r->ring.size / 4 * 3;

		r->next = NULL;
		r->urgent = false;
		if (r->backward != (s->drain == PEV_DRAIN_SNAPSHOT))
			continue;
		pev_ring_refresh(&r->ring);
		if (s->drain < PEV_DRAIN_REST && pev_ring_fill(&r->ring) > full)
			lift_ring(s, r);
		r->urgent = !r->backward &&
			    (pev_ring_fill(&r->ring) > full || pev_session_aux_is_urgent(r));
		s->urgent += r->urgent;
		if (parse_next(s, r))
			pev_merge_push(&s->merge, place_of(r), i);
	}
}

static int begin(struct pev_source *source, enum pev_drain drain)
{
	struct pev_session *s = pev_session_of(source);
	uint64_t now;
	int rc;

	pev_session_end_round(s);
	if (drain != PEV_DRAIN_ROUND && drain != PEV_DRAIN_REST)
		pev_session_stop_feed(s);
	rc = drain == PEV_DRAIN_SNAPSHOT ? pev_session_pause_output(s, true) : 0;
	if (rc < 0) {
		pev_session_pause_output(s, false);
		return rc;
	}
	s->in_round = true;
	s->drain = drain;
	if (s->lift_room >= s->config.max_lifted / 8)
		pev_session_set_memory_full(s, false);
	/* First the clock, then the heads: all records older than this time are in the rings. */
	if (s->sys->clock(s->sys->ctx, s->config.clockid, &now) == 0)
		pev_merge_round(&s->merge, now);
	pev_merge_clear(&s->merge);
	s->urgent = 0;
	s->has_fed = false;
	if (s->feed)
		pev_session_collect(s);
	else
		look_at_rings(s);
	return 0;
}

static void report_corrupt(struct pev_session *s, struct pev_session_ring *r)
{
	if (!r->ring.corrupt || r->reported_corrupt)
		return;
	r->reported_corrupt = true;
	pev_session_note(s, "the ring on cpu %d is corrupt: a record has an impossible size; "
			    "unread records are skipped (later cases are only counted)", r->cpu);
}

int pev_session_end_round(struct pev_session *s)
{
	/* A callback has forked: the rings are not mapped in this process. */
	if (!s->in_round || !pev_session_is_ours(s))
		return 0;
	s->in_round = false;
	release_run(s);
	s->unparsed = NULL;
	if (s->feed)
		return 0;
	pev_session_record_read(s, PEV_ALL_OLDER);
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		pev_ring_publish(&s->rings[i]->ring);
		pev_session_skip_lost_aux(s, s->rings[i]);
		report_corrupt(s, s->rings[i]);
	}
	/* The rings are not read for a while. */
	if (s->drain < PEV_DRAIN_REST)
		lift_full_rings(s, 1);
	return s->drain == PEV_DRAIN_SNAPSHOT ? pev_session_pause_output(s, false) : 0;
}

static int end(struct pev_source *source, bool delivered)
{
	struct pev_session *s = pev_session_of(source);
	int rc = pev_session_end_round(s);

	if ((!delivered && !s->has_fed) || !pev_session_is_ours(s) || s->drain >= PEV_DRAIN_REST)
		return rc;
	s->delivered_since_tick = true;
	if (s->tick >= 0)
		pev_session_set_tick(s, PEV_TICK_NS);
	return rc;
}

static const struct pev_attr *attr(const struct pev_source *source, uint32_t n)
{
	return &pev_session_of(source)->slots[n]->event.attr;
}

static uint32_t count_events(const struct pev_source *source)
{
	return pev_session_of(source)->nr_slots;
}

static uint32_t find_event(const void *source, uint64_t id)
{
	return pev_session_slot_of_id(pev_session_of(source), id);
}

static const struct pev_source_calls calls = {
	.begin = begin,
	.fill = fill,
	.end = end,
	.locate = locate,
	.attr = attr,
	.count_events = count_events,
	.find_event = find_event,
	.last_loss = pev_session_last_loss,
};

void pev_session_init_source(struct pev_session *s)
{
	s->source = (struct pev_source){ .calls = &calls, .run = &s->run, .tasks = &s->tasks };
	s->run.at = s->run.end = s->counted = s->records;
}
