/* aux_area.c - the AUX areas of a live session; see session_state.h. */
#include "live/session_state.h"

bool pev_session_announces_aux(struct pev_session *s, struct pev_session_ring *r)
{
	struct pev_aux aux;

	if (!r->ring.aux || r->type != PERF_RECORD_AUX ||
	    r->next_size < pev_layouts[PERF_RECORD_AUX].min)
		return false;
	s->aux_ring = r;
	s->aux_offset = pev_load64(r->next + 8, false);
	s->aux_size = pev_load64(r->next + 16, false);
	s->aux_flags = pev_load64(r->next + 24, false);
	pev_ring_aux(&r->ring, s->aux_offset, s->aux_size, &aux);
	s->totals.aux_bytes += aux.len[0] + aux.len[1];
	s->totals.aux_truncated += s->aux_flags & PERF_AUX_FLAG_TRUNCATED;
	return true;
}

/*
 * The kernel switches an event off when its area is full; the reader has to switch it
 * on again (perf_aux_output_end(); perf does so in auxtrace_record__read_finish()).
 */
static void resume_tracing(struct pev_session *s, const struct pev_session_ring *r)
{
	for (int i = 0; !r->owner->off && i < r->owner->event.nr; i++) {
		const struct pev_event_fd *fd = &r->owner->event.fds[i];

		if (fd->fd >= 0 && fd->cpu == r->cpu)
			s->sys->ioctl(s->sys->ctx, fd->fd, PERF_EVENT_IOC_ENABLE, 0);
	}
}

void pev_session_return_aux(struct pev_session *s)
{
	struct pev_session_ring *r = s->aux_ring;
	/* Without space for another page the next attempt to trace switches the event off too. */
	bool full = pev_ring_aux_unread(&r->ring) + (uint64_t)s->sys->pagesize(s->sys->ctx) >
		    r->ring.aux_size;

	s->aux_ring = NULL;
	pev_ring_aux_pop(&r->ring, s->aux_offset + s->aux_size);
	if (full || s->aux_flags & PERF_AUX_FLAG_TRUNCATED)
		resume_tracing(s, r);
}

bool pev_session_aux_is_urgent(const struct pev_session_ring *r)
{
	return r->ring.aux && pev_ring_aux_unread(&r->ring) >= r->ring.aux_size / 2;
}

/*
 * The skipped bytes are those that were there the last two times that the ring was empty: the
 * kernel writes the record before aux_head, but it may become visible later.
 */
void pev_session_skip_lost_aux(struct pev_session *s, struct pev_session_ring *r)
{
	uint64_t head, tail;

	if (!r->ring.aux || pev_ring_refresh(&r->ring))
		return;
	head = r->idle_aux_head;
	r->idle_aux_head = pev_ring_aux_head(&r->ring);
	tail = r->ring.aux_tail;
	pev_ring_aux_pop(&r->ring, head);
	if (r->ring.aux_tail == tail)
		return;
	s->totals.aux_skipped += r->ring.aux_tail - tail;
	resume_tracing(s, r);
}

bool pev_session_aux(const struct pev_session *s, const struct pev_record *rec,
		     struct pev_aux *aux)
{
	if (!s->aux_ring || rec->type != PERF_RECORD_AUX || s->run.at != s->run.end ||
	    rec->bytes != s->run.end[-1].bytes)
		return false;
	pev_ring_aux(&s->aux_ring->ring, s->aux_offset, s->aux_size, aux);
	return true;
}
