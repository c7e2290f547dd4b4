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

/* Pieces of rings for the recorder, which keeps its error: the caller that set it asks for it. */
struct pieces {
	struct iovec list[64];
	int nr;
};

static void add_pieces(struct pev_session *s, struct pieces *pieces, const struct pev_ring *ring,
		       uint64_t from, uint64_t to)
{
	while (from != to) {
		struct iovec piece = pev_ring_piece(ring, from, to);

		if (pieces->nr == sizeof(pieces->list) / sizeof(*pieces->list)) {
			pev_writer_round(s->recorder, pieces->list, pieces->nr, 0);
			pieces->nr = 0;
		}
		pieces->list[pieces->nr++] = piece;
		from += piece.iov_len;
	}
}

void pev_session_record_read(struct pev_session *s, int marks)
{
	struct pieces pieces = { .nr = 0 };

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
			add_pieces(s, &pieces, &r->ring, r->recorded, r->ring.tail);
		r->recorded = r->ring.tail;
	}
	pev_writer_round(s->recorder, pieces.list, pieces.nr, marks);
}

void pev_session_record_backward(struct pev_session *s)
{
	struct pieces pieces = { .nr = 0 };

	if (!s->recorder || !has_backward(s))
		return;
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		struct pev_ring *ring = &s->rings[i]->ring;
		uint64_t bytes = s->rings[i]->backward ? pev_ring_refresh(ring) : 0;

		add_pieces(s, &pieces, ring, ring->head, ring->head + bytes);
	}
	pev_writer_round(s->recorder, pieces.list, pieces.nr, PEV_ALL_OLDER);
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
	struct pieces pieces = { .nr = 0 };

	if (s->recorder && s->drain != PEV_DRAIN_DISCARD) {
		add_pieces(s, &pieces, &r->ring, r->recorded, r->skipped);
		pev_writer_round(s->recorder, pieces.list, pieces.nr, 0);
	}
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
