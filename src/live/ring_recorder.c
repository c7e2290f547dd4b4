/*
 * ring_recorder.c - gives the bytes of a live session's rings to a recorder, or to the recording
 * of a snapshot; see session.h.
 */
#include "live/session_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/output_file.h"

#define HISTORY_MIN ((size_t)1 << 20)  /* bytes of records about tasks for snapshots */
#define HISTORY_MAX ((size_t)32 << 20)

static bool has_backward(const struct pev_session *s)
{
	for (uint32_t i = 0; i < s->nr_rings; i++)
		if (s->rings[i]->backward)
			return true;
	return false;
}

/* Pieces of rings for a recorder, which keeps its error: the caller that set it asks for it. */
struct pieces {
	struct pev_writer *recorder;
	struct iovec list[64];
	int nr;
};

static void add_pieces(struct pieces *pieces, const struct pev_ring *ring, uint64_t from,
		       uint64_t to)
{
	while (from != to) {
		struct iovec piece = pev_ring_piece(ring, from, to);

		if (pieces->nr == sizeof(pieces->list) / sizeof(*pieces->list)) {
			pev_writer_round(pieces->recorder, pieces->list, pieces->nr, 0);
			pieces->nr = 0;
		}
		pieces->list[pieces->nr++] = piece;
		from += piece.iov_len;
	}
}

void pev_session_record_read(struct pev_session *s, int marks)
{
	struct pieces pieces = { .recorder = s->recorder };

	if (!s->recorder)
		return;
	/* Backward rings are recorded last and are older: no mark before that. */
	if (has_backward(s))
		marks = 0;
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		struct pev_session_ring *r = s->rings[i];

		if (r->backward)
			continue;
		if (s->drain != PEV_DRAIN_DISCARD && !r->early)
			add_pieces(&pieces, &r->ring, r->recorded, r->ring.tail);
		r->recorded = r->ring.tail;
	}
	pev_writer_round(s->recorder, pieces.list, pieces.nr, marks);
}

static void record_backward(struct pev_session *s, struct pev_writer *recorder)
{
	struct pieces pieces = { .recorder = recorder };

	for (uint32_t i = 0; i < s->nr_rings; i++) {
		const struct pev_ring *ring = &s->rings[i]->ring;
		uint64_t bytes, head;

		if (!s->rings[i]->backward)
			continue;
		head = pev_ring_backward_records(ring, &bytes);
		add_pieces(&pieces, ring, head, head + bytes);
	}
	pev_writer_round(recorder, pieces.list, pieces.nr, PEV_ALL_OLDER);
}

void pev_session_record_backward(struct pev_session *s)
{
	if (s->recorder && has_backward(s))
		record_backward(s, s->recorder);
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
	struct pieces pieces = { .recorder = s->recorder };

	if (s->recorder && s->drain != PEV_DRAIN_DISCARD && !r->early) {
		add_pieces(&pieces, &r->ring, r->recorded, r->skipped);
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

/* ---- the recording of a snapshot ---- */

int pev_session_keep_tasks(struct pev_session *s, const struct pev_slot *slot, uint64_t id,
			   int held)
{
	uint64_t limit = 0;
	int rc;

	if (s->source.history)
		return 0;
	for (uint32_t i = 0; i < s->nr_rings; i++)
		limit += s->rings[i]->backward ? s->rings[i]->ring.size : 0;
	if (limit < HISTORY_MIN)
		limit = HISTORY_MIN;
	if (limit > HISTORY_MAX)
		limit = HISTORY_MAX;
	rc = pev_task_history_begin(&s->history, &s->tasks, &slot->plan, id, held, (size_t)limit);
	if (rc == 0)
		s->source.history = &s->history;
	return rc;
}

static int write_records(void *ctx, const void *records, size_t len)
{
	return pev_writer_records(ctx, records, len);
}

/* Records about tasks that no round has delivered yet. */
struct waiting {
	unsigned char *bytes;
	size_t len, cap;
};

/* Copies size bytes of the ring to the end of the list. False without memory. */
static bool copy_record(struct waiting *waiting, const struct pev_ring *ring, uint64_t from,
			uint16_t size)
{
	size_t cap = waiting->cap ? waiting->cap : (size_t)1 << 16;
	unsigned char *bytes;

	while (cap < waiting->len + size)
		cap *= 2;
	bytes = cap == waiting->cap ? waiting->bytes : realloc(waiting->bytes, cap);
	if (!bytes)
		return false;
	waiting->bytes = bytes;
	waiting->cap = cap;
	for (uint64_t at = from; at != from + size;) {
		struct iovec piece = pev_ring_piece(ring, at, from + size);

		memcpy(bytes + waiting->len + (at - from), piece.iov_base, piece.iov_len);
		at += piece.iov_len;
	}
	return true;
}

/* Returns the position of the first record that was not delivered. */
static uint64_t undelivered(const struct pev_session *s, const struct pev_session_ring *r)
{
	if (!s->in_round || s->run_is_kept)
		return r->ring.tail;
	for (const struct pev_source_record *rec = s->run.at; rec < s->run.end; rec++)
		if (s->taken[rec - s->records].ring == r)
			return s->taken[rec - s->records].position;
	return r->ring.tail;
}

/* Adds the ring's waiting records of the event whose records the history has. */
static int add_waiting(struct pev_session *s, const struct pev_session_ring *r,
		       struct waiting *waiting)
{
	/* Acquire: as in pev_ring_refresh(), which would change the round. */
	uint64_t head = __atomic_load_n(&r->ring.page->data_head, __ATOMIC_ACQUIRE);
	struct perf_event_header header;

	for (uint64_t at = undelivered(s, r); at != head; at += header.size) {
		struct iovec piece = pev_ring_piece(&r->ring, at, head);
		const struct pev_slot *slot;

		if (piece.iov_len < sizeof(header))
			break;
		memcpy(&header, piece.iov_base, sizeof(header));
		if (header.size < sizeof(header) || header.size % 8 || header.size > head - at)
			break;
		if (header.type == PERF_RECORD_SAMPLE)
			continue;
		if (!copy_record(waiting, &r->ring, at, header.size))
			return -ENOMEM;
		slot = pev_session_slot_of_record(s, waiting->bytes + waiting->len, header.size);
		if (slot && &slot->plan == s->history.plan)
			waiting->len += header.size;
	}
	return 0;
}

static int record_waiting(struct pev_session *s, struct pev_writer *recorder)
{
	struct waiting waiting = { 0 };
	struct iovec piece;
	int rc = 0;

	for (uint32_t i = 0; i < s->nr_rings && rc == 0; i++)
		if (!s->rings[i]->backward)
			rc = add_waiting(s, s->rings[i], &waiting);
	piece = pev_piece_of(waiting.bytes, waiting.len);
	if (rc == 0 && waiting.len)
		pev_writer_round(recorder, &piece, 1, 0);
	free(waiting.bytes);
	return rc;
}

int pev_session_record_snapshot(struct pev_session *s, struct pev_writer *recorder)
{
	struct pev_task_history *history = s->source.history;
	struct iovec piece = pev_piece_of(s->history.records, s->history.len);
	bool is_paused = s->in_round && s->drain == PEV_DRAIN_SNAPSHOT;
	int rc = 0, resumed;

	pev_session_stop_feed(s);
	if (history)
		rc = pev_task_history_describe(history, write_records, recorder);
	if (rc == 0 && s->history.len)
		pev_writer_round(recorder, &piece, 1, 0);
	if (rc == 0 && !is_paused)
		rc = pev_session_pause_output(s, true);
	if (rc == 0 && history)
		rc = record_waiting(s, recorder);
	if (rc == 0)
		record_backward(s, recorder);
	resumed = is_paused ? 0 : pev_session_pause_output(s, false);
	return rc < 0 ? rc : resumed;
}
