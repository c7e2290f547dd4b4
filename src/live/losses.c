/* losses.c - totals of a live session, and the records that the kernel lost; see session.h. */
#include "live/session_state.h"

#include <errno.h>

/*
 * PERF_FORMAT_LOST is exact and current for each event. LOST records lag
 * behind (one is written only when a later record fits) and do not name
 * the event of the lost records. False if an event cannot be read.
 */
static bool read_losses(struct pev_session *s)
{
	for (uint32_t i = 0; i < s->nr_slots; i++) {
		struct pev_slot *slot = s->slots[i];
		int64_t lost = slot->closed ? (int64_t)slot->lost : pev_event_lost(&slot->event);

		if (lost < 0)
			return false;
		slot->lost = (uint64_t)lost;
	}
	return true;
}

static uint64_t losses_of(const struct pev_session *s, bool hidden)
{
	uint64_t lost = 0;

	for (uint32_t i = 0; i < s->nr_slots; i++)
		if (s->slots[i]->hidden == hidden)
			lost += s->slots[i]->lost;
	return lost;
}

static uint64_t first_id(const struct pev_slot *slot)
{
	for (int i = 0; i < slot->event.nr; i++)
		if (slot->event.fds[i].id)
			return slot->event.fds[i].id;
	return 0;
}

bool pev_session_last_loss(struct pev_source *source, uint32_t event, uint64_t delivered,
			   struct pev_source_record *out)
{
	const struct perf_event_header header = { .type = PERF_RECORD_LOST,
						  .misc = PEV_MISC_LOST_AT_END };
	struct pev_session *s = pev_session_of(source);
	const struct pev_slot *slot = s->slots[event];
	uint64_t lost, now = s->last_time;

	if (!read_losses(s))
		return false;
	lost = losses_of(s, false) + losses_of(s, true);
	if (lost <= delivered)
		return false;
	s->sys->clock(s->sys->ctx, s->config.clockid, &now);
	*out = (struct pev_source_record){
		.bytes = (const unsigned char *)s->last_loss,
		.plan = &slot->plan,
		.time = now,
		.type = PERF_RECORD_LOST,
		.event = event,
		.size = pev_lost_record(s->last_loss, &slot->plan, &header, first_id(slot),
					lost - delivered, now),
	};
	return true;
}

static void record_loss(struct pev_session *s, const struct pev_slot *slot, uint64_t lost)
{
	const struct perf_event_header header = { .type = PERF_RECORD_LOST_SAMPLES };
	uint64_t words[PEV_LOSS_WORDS];

	pev_writer_records(s->recorder, words,
			   pev_lost_record(words, &slot->plan, &header, first_id(slot), lost, 0));
}

uint64_t pev_session_record_losses(struct pev_session *s)
{
	const struct pev_slot *visible = NULL;
	uint64_t hidden_lost = 0, recorded = 0;

	if (!s->recorder || !read_losses(s))
		return 0;
	for (uint32_t i = 0; i < s->nr_slots; i++) {
		struct pev_slot *slot = s->slots[i];
		uint64_t more = slot->lost - slot->recorded_lost;

		slot->recorded_lost = slot->lost;
		if (slot->early)
			continue;
		if (slot->hidden) {
			hidden_lost += more;
			continue;
		}
		visible = visible ? visible : slot;
		if (more)
			record_loss(s, slot, more);
		recorded += more;
	}
	/*
	 * Without such a record a reader would sum the LOST records,
	 * which include losses of hidden events and of earlier parts.
	 */
	if (!recorded && visible && losses_of(s, false) + losses_of(s, true))
		record_loss(s, visible, 0);
	return hidden_lost;
}

/* ---- totals ---- */

static void count_record(struct pev_session *s, const struct pev_source_record *record)
{
	struct pev_totals *totals = &s->totals;

	totals->records++;
	totals->unknown_id += record->event == PEV_NO_EVENT;
	if (record->type == PERF_RECORD_LOST && record->size >= 24)
		totals->lost += pev_load64(record->bytes + 16, false);
	else if (record->type == PERF_RECORD_LOST_SAMPLES && record->size >= 16)
		totals->lost_samples += pev_load64(record->bytes + 8, false);
	else
		totals->throttled += record->type == PERF_RECORD_THROTTLE;
	if (s->config.unordered || s->run_is_kept || record->early ||
	    s->drain == PEV_DRAIN_SNAPSHOT ||
	    (record->plan && !(record->plan->sample_type & PERF_SAMPLE_TIME)))
		return;
	totals->late += record->time < s->last_time;
	s->last_time = record->time > s->last_time ? record->time : s->last_time;
}

void pev_session_count_taken(struct pev_session *s)
{
	for (; s->counted < s->run.at; s->counted++)
		count_record(s, s->counted);
}

static uint64_t count_lost(struct pev_session *s)
{
	return read_losses(s) ? losses_of(s, false) : s->totals.lost;
}

void pev_session_set_memory_full(struct pev_session *s, bool full)
{
	uint64_t lost;

	if (full == s->memory_full)
		return;
	lost = count_lost(s);
	if (full)
		s->lost_before = lost;
	else if (lost > s->lost_before)
		s->totals.lost_waiting += lost - s->lost_before;
	s->memory_full = full;
}

void pev_session_totals(struct pev_session *s, struct pev_totals *totals)
{
	pev_session_count_taken(s);
	pev_session_set_memory_full(s, false);
	*totals = s->totals;
	if (read_losses(s)) {
		totals->lost = losses_of(s, false);
		totals->lost_own = losses_of(s, true);
	}
	totals->rings = s->nr_rings;
	totals->ring_bytes = s->config.ring_bytes;
	pev_session_lock_rings(s);
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		totals->corrupt += s->rings[i]->ring.corrupt;
		if (s->rings[i]->ring.peak > totals->ring_peak)
			totals->ring_peak = s->rings[i]->ring.peak;
	}
	pev_session_unlock_rings(s);
}

int64_t pev_session_ring_peak(struct pev_session *s, uint32_t n, int *cpu)
{
	int64_t peak = -ENOENT;

	pev_session_lock_rings(s);
	if (n < s->nr_rings) {
		*cpu = s->rings[n]->cpu;
		peak = (int64_t)s->rings[n]->ring.peak;
	}
	pev_session_unlock_rings(s);
	return peak;
}
