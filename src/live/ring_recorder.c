/* ring_recorder.c - gives the bytes of a live session's rings to a recorder; see session.h. */
#include "live/session_state.h"

#include <errno.h>

static bool has_backward(const struct pev_session *s)
{
	for (uint32_t i = 0; i < s->nr_rings; i++)
		if (s->rings[i]->backward)
			return true;
	return false;
}

void pev_session_record_read(struct pev_session *s, int marks)
{
	int nr = 0;

	if (!s->recorder)
		return;
	/* Backward rings are recorded last and are older: no mark before that. */
	if (has_backward(s))
		marks = 0;
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		struct pev_session_ring *r = s->rings[i];

		if (r->backward)
			continue;
		if (s->drain != PEV_DRAIN_DISCARD)
			nr += pev_ring_pieces(&r->ring, r->recorded, r->ring.tail, s->pieces + nr);
		r->recorded = r->ring.tail;
	}
	/* The recorder keeps its error; the caller of pev_session_set_recorder() asks for it. */
	pev_writer_round(s->recorder, s->pieces, nr, marks);
}

void pev_session_record_backward(struct pev_session *s)
{
	int nr = 0;

	if (!s->recorder || !has_backward(s))
		return;
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		struct pev_ring *ring = &s->rings[i]->ring;

		if (s->rings[i]->backward)
			nr += pev_ring_pieces_backward(ring, pev_ring_refresh(ring),
						       s->pieces + nr);
	}
	pev_writer_round(s->recorder, s->pieces, nr, PEV_ALL_OLDER);
}

void pev_session_return_space(struct pev_session *s, struct pev_session_ring *r)
{
	if (!s->recorder) {
		pev_ring_publish(&r->ring);
		return;
	}
	pev_session_record_read(s, PEV_ALL_OLDER);
	for (uint32_t i = 0; i < s->nr_rings; i++)
		if (!s->rings[i]->backward)
			pev_ring_publish(&s->rings[i]->ring);
}

static void record_skip(struct pev_session *s, struct pev_session_ring *r)
{
	struct iovec pieces[PEV_RING_PIECES];

	if (s->recorder && s->drain != PEV_DRAIN_DISCARD)
		pev_writer_round(s->recorder, pieces,
				 pev_ring_pieces(&r->ring, r->recorded, r->skipped, pieces), 0);
	r->recorded = r->ring.tail;
	r->skips = false;
}

void pev_session_record_skips(struct pev_session *s)
{
	for (uint32_t i = 0; s->skips && i < s->nr_rings; i++)
		if (s->rings[i]->skips)
			record_skip(s, s->rings[i]);
	s->skips = 0;
}

void pev_session_set_recorder(struct pev_session *s, struct pev_writer *rec)
{
	pev_session_stop_feed(s);
	s->recorder = rec;
	for (uint32_t i = 0; i < s->nr_rings; i++)
		s->rings[i]->recorded = s->rings[i]->ring.tail;
}

/* Marks all of a ring as read without parsing. More than the ring's size is an error. */
static uint64_t skip_unread(struct pev_session_ring *r)
{
	uint64_t unread = pev_ring_refresh(&r->ring);

	r->ring.tail = r->ring.head;
	if (unread <= r->ring.size)
		return unread;
	r->ring.corrupt++;
	r->recorded = r->ring.tail;
	return 0;
}

int64_t pev_session_copy_rings(struct pev_session *s)
{
	uint64_t before = 0, after = 0;
	int64_t bytes = 0;

	pev_session_end_round(s);
	s->drain = PEV_DRAIN_ROUND;
	s->sys->clock(s->sys->ctx, s->config.clockid, &before);
	for (uint32_t i = 0; i < s->nr_rings; i++)
		if (!s->rings[i]->backward)
			bytes += (int64_t)skip_unread(s->rings[i]);
	s->sys->clock(s->sys->ctx, s->config.clockid, &after);
	/*
	 * At a mark, a reader delivers the records of the round before it, older than after. All
	 * of these must be recorded before the next mark, also those that the kernel is writing.
	 */
	pev_session_record_read(s, before >= s->next_mark);
	if (before >= s->next_mark)
		s->next_mark = after + PEV_GAP_NS;
	for (uint32_t i = 0; i < s->nr_rings; i++)
		if (!s->rings[i]->backward)
			pev_ring_publish(&s->rings[i]->ring);
	return bytes;
}
