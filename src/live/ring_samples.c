/*
 * ring_samples.c - feeds the samples of the rings without order of time, on threads; see session.h.
 *
 * Each reader has a share of the rings. It passes samples of known layout to the consumer and keeps
 * a copy of all other records, which the next round delivers in order of time. Without threads
 * there is one reader, and the rounds read. With threads a round reads what is left, too, so that a
 * value is exact when a timer asks for it.
 *
 * A reader's thread feeds one of its two parts; the session merges the other one meanwhile.
 */
#include "live/session_state.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/pipeline.h"

#define KEPT_MAX ((size_t)4 << 20)  /* bytes of kept records per reader, between two rounds */
#define EVENTS_PER_WAIT 64
#define TAG_STOP UINT64_MAX

/* A record that is not for the consumer. */
struct kept {
	struct kept *next;
	uint32_t ring;
	uint16_t size;
	unsigned char bytes[];
};

struct reader {
	struct pev_session *s;
	uint32_t first, step;       /* its rings */
	pthread_mutex_t lock;       /* of its rings and of the fields below */
	struct pev_batch batch;
	uint64_t records;           /* samples read since the last round */
	struct kept *kept, **last_kept;
	size_t kept_bytes;
	/* A thread: its poll set, with a timer that ends the wait. */
	pthread_t thread;
	bool has_thread;
	int epfd, stop_timer;
};

struct pev_session_feed {
	struct pev_session_feed_config config;
	uint32_t nr;
	struct reader readers[];
};

/* ---- reading, on any thread ---- */

static bool find_event(const void *source, uint64_t id, uint32_t *event,
		       const struct pev_plan **plan)
{
	const struct pev_session *s = source;

	*event = pev_session_slot_of_id(s, id);
	if (*event == PEV_NO_EVENT || s->slots[*event]->closed)
		return false;
	*plan = &s->slots[*event]->plan;
	return true;
}

/* Consumes a sample. False: the record is for the session. */
static inline bool take_sample(struct reader *reader, const unsigned char *bytes, uint16_t size)
{
	const struct pev_batch_kind *kind;

	if (pev_load32(bytes, false) != PERF_RECORD_SAMPLE || size < 16)
		return false;
	kind = pev_batch_kind_of(&reader->batch, pev_load64(bytes + 8, false), bytes, size);
	if (!kind)
		return false;
	if (kind->is_wanted)
		pev_batch_add(&reader->batch, kind, bytes);
	reader->records++;
	return true;
}

/* False without memory: then the record stays in the ring until the next round. */
static bool keep_record(struct reader *reader, uint32_t ring, const unsigned char *bytes,
			uint16_t size)
{
	struct kept *kept = NULL;

	if (reader->kept_bytes < KEPT_MAX)
		kept = malloc(sizeof(*kept) + size);
	if (!kept)
		return false;
	*kept = (struct kept){ .ring = ring, .size = size };
	memcpy(kept->bytes, bytes, size);
	*reader->last_kept = kept;
	reader->last_kept = &kept->next;
	reader->kept_bytes += size;
	return true;
}

static void return_space(struct reader *reader, struct pev_ring *ring)
{
	pev_batch_flush(&reader->batch);
	pev_ring_publish(ring);
}

static void read_ring(struct reader *reader, uint32_t number)
{
	struct pev_ring *ring = &reader->s->rings[number]->ring;
	const unsigned char *bytes;
	uint16_t size;

	pev_ring_refresh(ring);
	while ((bytes = pev_ring_peek(ring, &size))) {
		if (!take_sample(reader, bytes, size) && !keep_record(reader, number, bytes, size))
			break;
		pev_ring_pop(ring, size);
		/* The next record that wraps takes the place of this one's copy. */
		if (bytes == ring->wrap ||
		    (int64_t)(ring->tail - ring->published) >= (int64_t)(ring->size / 4))
			return_space(reader, ring);
	}
	return_space(reader, ring);
}

static void read_share(struct reader *reader)
{
	for (uint32_t i = reader->first; i < reader->s->nr_rings; i += reader->step)
		read_ring(reader, i);
}

/* ---- threads ---- */

/* Handles the ready descriptors. False: the thread has to end. */
static bool handle_events(struct reader *reader, const struct epoll_event *events, int nr)
{
	for (int i = 0; i < nr; i++) {
		uint64_t tag = events[i].data.u64;

		if (tag == TAG_STOP)
			return false;
		if (events[i].events & (EPOLLHUP | EPOLLERR))
			pev_session_hand_over_ring(reader->s, reader->epfd, tag);
	}
	return true;
}

static void *run_reader(void *ctx)
{
	struct epoll_event events[EVENTS_PER_WAIT];
	struct reader *reader = ctx;
	const struct pev_sys *sys = reader->s->sys;
	int nr = 0;

	while (nr >= 0 && handle_events(reader, events, nr)) {
		pthread_mutex_lock(&reader->lock);
		read_share(reader);
		pthread_mutex_unlock(&reader->lock);
		nr = sys->epoll_wait(sys->ctx, reader->epfd, events, EVENTS_PER_WAIT, -1);
		if (nr == -EINTR)
			nr = 0;
	}
	return NULL;
}

/* Lets the reader's poll set have the rings. */
static int start_thread(struct reader *reader)
{
	struct pev_session *s = reader->s;
	int rc;

	reader->epfd = rc = s->sys->epoll_create(s->sys->ctx);
	if (rc < 0)
		return rc;
	reader->stop_timer = rc = s->sys->timerfd(s->sys->ctx, 1, 0);
	if (rc < 0)
		return rc;
	/* Without EPOLLIN the timer ends no wait. */
	rc = s->sys->epoll_ctl(s->sys->ctx, reader->epfd, EPOLL_CTL_ADD, reader->stop_timer, 0,
			       TAG_STOP);
	if (rc < 0)
		return rc;
	for (uint32_t i = reader->first; i < s->nr_rings; i += reader->step)
		pev_session_move_ring(s, i, reader->epfd);
	rc = pev_thread_start(&reader->thread, run_reader, reader);
	reader->has_thread = rc == 0;
	return rc;
}

static void stop_thread(struct reader *reader)
{
	struct pev_session *s = reader->s;

	if (reader->has_thread && pev_session_is_ours(s)) {
		s->sys->epoll_ctl(s->sys->ctx, reader->epfd, EPOLL_CTL_MOD, reader->stop_timer,
				  EPOLLIN, TAG_STOP);
		pthread_join(reader->thread, NULL);
	}
	for (uint32_t i = reader->first; reader->epfd >= 0 && i < s->nr_rings; i += reader->step)
		pev_session_move_ring(s, i, s->epfd);
	if (reader->stop_timer >= 0)
		s->sys->close(s->sys->ctx, reader->stop_timer);
	if (reader->epfd >= 0)
		s->sys->close(s->sys->ctx, reader->epfd);
	reader->stop_timer = reader->epfd = -1;
	reader->has_thread = false;
}

void pev_session_lock_rings(struct pev_session *s)
{
	for (uint32_t i = 0; s->feed && i < s->feed->nr; i++)
		pthread_mutex_lock(&s->feed->readers[i].lock);
}

void pev_session_unlock_rings(struct pev_session *s)
{
	for (uint32_t i = 0; s->feed && i < s->feed->nr; i++)
		pthread_mutex_unlock(&s->feed->readers[i].lock);
}

bool pev_session_has_fed(const struct pev_session *s)
{
	for (uint32_t i = 0; s->feed && i < s->feed->nr; i++)
		if (s->feed->readers[i].records || s->feed->readers[i].kept)
			return true;
	return false;
}

/* ---- rounds ---- */

/* Adds the kept records to those that wait for their time. */
static void sort_kept(struct pev_session *s, struct kept *kept)
{
	struct kept *next;

	for (; kept; kept = next) {
		struct pev_session_ring *r = s->rings[kept->ring];
		struct pev_reorder_item item = { .bytes = kept->bytes, .block = kept->ring };

		next = kept->next;
		r->next = kept->bytes;
		r->next_size = kept->size;
		pev_session_parse_record(s, r);
		r->next = NULL;
		item.time = r->time;
		item.event = r->slot ? r->slot->index : PEV_NO_EVENT;
		item.type = r->type < UINT16_MAX ? (uint16_t)r->type : UINT16_MAX;
		item.size = kept->size;
		if (pev_reorder_add(&s->kept, &item) < 0)
			free(kept);
	}
}

static void free_record(const unsigned char *bytes)
{
	free((void *)((uintptr_t)bytes - offsetof(struct kept, bytes)));
}

static void collect_reader(struct pev_session *s, struct reader *reader, bool reads)
{
	const struct pev_session_feed_config *config = &s->feed->config;
	struct kept *kept;
	uint64_t excluded;
	uint32_t part;

	pthread_mutex_lock(&reader->lock);
	if (reads)
		read_share(reader);
	part = reader->batch.part;
	if (reader->has_thread)
		reader->batch.part ^= 1;
	excluded = reader->batch.excluded;
	kept = reader->kept;
	s->totals.records += reader->records;
	s->has_fed = s->has_fed || reader->records;
	reader->batch.excluded = reader->records = reader->kept_bytes = 0;
	reader->kept = NULL;
	reader->last_kept = &reader->kept;
	pthread_mutex_unlock(&reader->lock);
	config->collect(config->batch->ctx, part, excluded);
	sort_kept(s, kept);
}

void pev_session_collect(struct pev_session *s)
{
	for (uint32_t i = 0; i < s->feed->nr; i++)
		collect_reader(s, &s->feed->readers[i], true);
}

bool pev_session_fill_kept(struct pev_session *s, uint64_t horizon)
{
	struct pev_reorder_item items[PEV_SOURCE_RUN_MAX];
	uint32_t nr = !horizon ? 0 : pev_reorder_take_oldest(&s->kept, horizon - 1, items,
							       PEV_SOURCE_RUN_MAX);

	for (uint32_t i = 0; i < nr; i++) {
		uint32_t event = items[i].event;

		s->records[i] = (struct pev_source_record){
			.bytes = items[i].bytes,
			.plan = event == PEV_NO_EVENT ? NULL : &s->slots[event]->plan,
			.time = items[i].time,
			.type = items[i].type,
			.event = event,
			.size = items[i].size,
		};
	}
	s->run.end = s->records + nr;
	s->run_is_kept = nr;
	return nr;
}

void pev_session_release_kept(struct pev_session *s)
{
	for (const struct pev_source_record *record = s->records; record < s->run.end; record++) {
		const struct pev_reorder_item item = {
			.time = record->time, .bytes = record->bytes, .event = record->event,
			.type = (uint16_t)record->type, .size = record->size
		};

		/* A record that was not consumed comes again. */
		if (record < s->run.at || pev_reorder_add(&s->kept, &item) < 0)
			free_record(record->bytes);
	}
	s->run_is_kept = false;
}

static void free_kept(struct pev_session *s)
{
	struct pev_reorder_item item;

	if (s->run_is_kept)
		pev_session_release_kept(s);
	while (pev_reorder_take_oldest(&s->kept, UINT64_MAX, &item, 1))
		free_record(item.bytes);
	pev_reorder_free(&s->kept);
}

/* ---- begin and end ---- */

const char *pev_session_feed_refusal(const struct pev_session *s)
{
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		if (s->rings[i]->backward)
			return "the rings are overwritten";
		if (s->rings[i]->ring.aux)
			return "an AUX area is read";
	}
	return s->recorder ? "a recording is written" : NULL;
}

/* After fork() a thread has left its locks and lists as they were: they are not freed. */
static void end_feed(struct pev_session *s)
{
	bool is_ours = pev_session_is_ours(s);

	for (uint32_t i = 0; s->feed && i < s->feed->nr; i++)
		stop_thread(&s->feed->readers[i]);
	for (uint32_t i = 0; s->feed && is_ours && i < s->feed->nr; i++)
		pthread_mutex_destroy(&s->feed->readers[i].lock);
	if (is_ours)
		free(s->feed);
	s->feed = NULL;
}

void pev_session_stop_feed(struct pev_session *s)
{
	if (!s->feed || !pev_session_is_ours(s))
		return;
	for (uint32_t i = 0; i < s->feed->nr; i++) {
		stop_thread(&s->feed->readers[i]);
		collect_reader(s, &s->feed->readers[i], false);
	}
	end_feed(s);
}

void pev_session_close_feed(struct pev_session *s)
{
	for (uint32_t i = 0; s->feed && i < s->feed->nr; i++)
		stop_thread(&s->feed->readers[i]);
	for (uint32_t i = 0; s->feed && pev_session_is_ours(s) && i < s->feed->nr; i++)
		sort_kept(s, s->feed->readers[i].kept);
	end_feed(s);
	free_kept(s);
}

int pev_session_feed(struct pev_session *s, const struct pev_session_feed_config *config)
{
	uint32_t threads = config->threads < s->nr_rings ? config->threads : s->nr_rings;
	uint32_t nr = threads ? threads : 1;
	struct pev_session_feed *feed = calloc(1, sizeof(*feed) + nr * sizeof(feed->readers[0]));
	int rc = 0;

	pev_session_stop_feed(s);
	if (!feed)
		return -ENOMEM;
	feed->config = *config;
	feed->nr = nr;
	s->feed = feed;
	for (uint32_t i = 0; i < nr; i++) {
		struct reader *reader = &feed->readers[i];

		*reader = (struct reader){ .s = s, .first = i, .step = nr, .epfd = -1,
					   .stop_timer = -1, .last_kept = &reader->kept };
		reader->batch = (struct pev_batch){ .config = config->batch, .find = find_event,
						    .source = s, .part = 2 * i };
		pthread_mutex_init(&reader->lock, NULL);
	}
	for (uint32_t i = 0; i < threads && rc == 0; i++)
		rc = start_thread(&feed->readers[i]);
	if (rc < 0)
		pev_session_stop_feed(s);
	return rc < 0 ? rc : (int)threads;
}

bool pev_session_feeds(const struct pev_session *s) { return s->feed; }
