/* session.c - a live session: events, rings, order of time, delivery; see session.h. */
#include "live/session.h"

#include "event/group_read.h"
#include "record/lost.h"
#include "task/record_filter.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#define DEFAULT_RING_BYTES (2u << 20)
#define EVENTS_PER_WAIT 64
#define LIFTED_MAX ((size_t)4 << 20) /* bytes per ring; at most four times the ring's size */
#define WATCH_EVERY 256              /* records between two checks for full rings */

/* Epoll tags: the high half is the kind, the low half the index or descriptor. */
#define TAG_RING (UINT64_C(1) << 32)
#define TAG_TICK (UINT64_C(2) << 32)
#define TAG_WATCH (UINT64_C(3) << 32)
#define TAG_WAKE (UINT64_C(4) << 32)
#define TAG_KIND (UINT64_C(7) << 32)

/* A ring and its next record. */
struct session_ring {
	struct pev_ring ring;
	int cpu;
	int clockid;
	bool backward;              /* overwritten by the kernel; read by snapshots only */
	const struct pev_slot *owner; /* the only event that writes here; NULL: shared */
	uint64_t idle_aux_head;            /* AUX head when the ring was last empty */
	int fd;                     /* mapped event, borrowed; others are redirected here */
	int poll_fd;                /* descriptor in the poll set; -1 when all have hung up */
	const unsigned char *next;  /* next record, or NULL */
	struct pev_slot *slot;      /* its event, or NULL */
	uint64_t time;              /* of the last parsed record */
	uint16_t next_size;
	uint16_t next_end;          /* bytes that the kernel wrote, of next_size */
	uint32_t type;              /* of the next record */
	uint64_t recorded;          /* the recorder is done with all before this position */
	bool urgent;               /* more than three quarters full when the round began */
	bool reported_corrupt;
};

struct id_entry {
	uint64_t id;                /* 0: free; the kernel counts from 1 */
	uint32_t slot;
};

struct pev_session {
	const struct pev_sys *sys;
	struct pev_session_config config;
	struct pev_record_filter wanted; /* comms only; empty: every task */
	int epfd, tick;
	uint64_t tick_ns;                /* the tick's interval */
	uint64_t delivered_at_tick;      /* totals.delivered at the last tick */
	int wake_timer;                  /* an expired timer that is never read; -1: none yet */
	bool wake_timer_armed;                 /* the timer is in the poll set */
	struct session_ring **rings;
	uint32_t nr_rings;
	struct pev_slot **slots;
	uint32_t nr_slots;
	struct id_entry *ids;       /* open addressing */
	uint32_t nr_ids, cap_ids;
	uint64_t last_id;           /* last lookup: id (0: none) and slot */
	struct pev_slot *last_slot;
	struct pev_merge merge;
	struct pev_tasks tasks;
	struct pev_group_read group;   /* splits a leader's sample into samples of its group */
	struct pev_deferred deferred; /* samples that wait for their user part */
	struct pev_totals totals;
	uint64_t last_time;         /* of the newest delivered record */
	uint64_t delivered_lost;        /* sum of the delivered LOST records */
	uint64_t last_loss[PEV_LOSS_WORDS]; /* LOST record for the remaining losses */
	uint32_t urgent;           /* number of urgent rings */
	enum pev_drain drain;       /* of the current round */
	struct session_ring *pending; /* its next record was delivered and is not popped yet */
	uint32_t unchecked;         /* records since the last check for full rings */
	bool is_aux_record;             /* the current record is an AUX record, for these bytes */
	uint64_t aux_offset, aux_size, aux_flags;
	struct pev_writer *recorder; /* borrowed; NULL: no recording */
	struct iovec *pieces;       /* for the recorder: PEV_RING_PIECES per ring */
	uint64_t next_mark;         /* earliest time to mark a round of copying */
	bool own_clock;             /* an event uses another clock: no order across rings */
	unsigned process;           /* opened the session: pev_sys_process() */
	bool busy, closing;
};

static void note(struct pev_session *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static void note(struct pev_session *s, const char *format, ...)
{
	struct pev_err what;
	va_list args;

	if (!s->config.note)
		return;
	pev_fail(&what, 0, "%s", "");
	va_start(args, format);
	vsnprintf(what.text, sizeof(what.text), format, args);
	va_end(args);
	s->config.note(s->config.note_ctx, &what);
}

int pev_session_open(struct pev_session **session, const struct pev_sys *sys,
		     const struct pev_session_config *config, struct pev_err *err)
{
	struct pev_session *s = calloc(1, sizeof(*s));
	uint64_t now;
	int rc;

	if (!s)
		return pev_fail(err, -ENOMEM, "cannot open a session");
	s->sys = sys;
	s->config = *config;
	s->tick = -1;
	s->wake_timer = -1;
	s->epfd = -1;
	s->process = pev_sys_process();
	if (!s->config.ring_bytes)
		s->config.ring_bytes = DEFAULT_RING_BYTES;
	rc = sys->clock(sys->ctx, s->config.clockid, &now);
	if (rc < 0) {
		pev_fail(err, rc, "cannot read clock %d", s->config.clockid);
		goto fail;
	}
	pev_merge_init(&s->merge, now, PEV_GAP_NS);
	rc = pev_tasks_init(&s->tasks, sys);
	s->tasks.clockid = s->config.clockid;
	if (rc < 0) {
		pev_fail(err, rc, "cannot open a session");
		goto fail;
	}
	rc = sys->epoll_create(sys->ctx);
	if (rc < 0) {
		pev_fail(err, rc, "cannot make a poll set");
		goto fail;
	}
	s->epfd = rc;
	*session = s;
	return 0;
fail:
	pev_session_close(s);
	return rc;
}

int pev_session_want_comm(struct pev_session *s, const char *pattern)
{
	return pev_record_filter_comm(&s->wanted, pattern);
}

bool pev_session_is_ours(const struct pev_session *s)
{
	return pev_sys_is_process(s->process);
}

/* ---- ids -> slots ---- */

static struct id_entry *id_find(const struct pev_session *s, uint64_t id)
{
	uint64_t i = (id * UINT64_C(0x9e3779b97f4a7c15)) >> 32;

	while (s->ids[i & (s->cap_ids - 1)].id && s->ids[i & (s->cap_ids - 1)].id != id)
		i++;
	return &s->ids[i & (s->cap_ids - 1)];
}

static int ids_grow(struct pev_session *s, uint32_t more)
{
	struct id_entry *old = s->ids;
	uint32_t old_cap = s->cap_ids, cap = old_cap ? old_cap : 64;

	while (cap < 2 * (s->nr_ids + more))
		cap *= 2;
	if (cap == old_cap)
		return 0;
	s->ids = calloc(cap, sizeof(*s->ids));
	if (!s->ids) {
		s->ids = old;
		return -ENOMEM;
	}
	s->cap_ids = cap;
	for (uint32_t i = 0; i < old_cap; i++)
		if (old[i].id)
			*id_find(s, old[i].id) = old[i];
	free(old);
	return 0;
}

static int ids_learn(struct pev_session *s, const struct pev_slot *slot)
{
	int rc = ids_grow(s, (uint32_t)slot->event.nr);

	for (int i = 0; rc == 0 && i < slot->event.nr; i++) {
		struct id_entry *entry;

		if (!slot->event.fds[i].id)
			continue;
		entry = id_find(s, slot->event.fds[i].id);
		s->nr_ids += !entry->id;
		*entry = (struct id_entry){ .id = slot->event.fds[i].id, .slot = slot->index };
	}
	s->last_id = 0;
	return rc;
}

/* Caches the last lookup: records come in bursts of one event on one CPU, with one id. */
static struct pev_slot *slot_of(struct pev_session *s, const unsigned char *bytes, uint16_t size)
{
	uint64_t id = pev_record_identifier(bytes, size, false);
	const struct id_entry *entry;

	if (!id || !s->cap_ids)
		return NULL;
	if (id == s->last_id)
		return s->last_slot;
	entry = id_find(s, id);
	if (!entry->id)
		return NULL;
	s->last_id = id;
	s->last_slot = s->slots[entry->slot];
	return s->last_slot;
}

/* ---- rings ---- */

static int ring_poll(struct pev_session *s, uint32_t index, int fd)
{
	/* A backward ring is not drained: only the end of its targets matters. */
	uint32_t events = s->rings[index]->backward ? 0 : EPOLLIN;
	int rc = s->sys->epoll_ctl(s->sys->ctx, s->epfd, EPOLL_CTL_ADD, fd, events,
				   TAG_RING | index);

	if (rc == 0)
		s->rings[index]->poll_fd = fd;
	return rc;
}

/*
 * The ring exceeds the mlock budget: returns half the size, and first the
 * size that the kernel grants per CPU, perf_event_mlock_kb (perf_mmap()).
 */
static size_t shrink_ring_bytes(struct pev_session *s, size_t bytes)
{
	int64_t kb = pev_sys_number(s->sys, "/proc/sys/kernel/perf_event_mlock_kb");
	size_t page = (size_t)s->sys->pagesize(s->sys->ctx), budget = page;

	bytes /= 2;
	if (kb <= 0)
		return bytes;
	while (budget * 2 + page <= (size_t)kb * 1024)
		budget *= 2;
	return bytes > budget ? budget : bytes;
}

static int ring_map(struct pev_session *s, struct session_ring *r, int fd)
{
	size_t page = (size_t)s->sys->pagesize(s->sys->ctx), asked = s->config.ring_bytes;
	int rc;

	for (;;) {
		rc = r->backward ?
			     pev_ring_map_backward(&r->ring, s->sys, fd, s->config.ring_bytes) :
			     pev_ring_map(&r->ring, s->sys, fd, s->config.ring_bytes);
		if (rc != -EPERM || s->config.ring_bytes <= page)
			break;
		s->config.ring_bytes = shrink_ring_bytes(s, s->config.ring_bytes);
	}
	if (rc == 0 && s->config.ring_bytes != asked && s->config.note) {
		struct pev_err what;

		pev_fail(&what, -EPERM, "ring on cpu %d: %zu KiB instead of %zu KiB, as much as "
			 "kernel.perf_event_mlock_kb allows", r->cpu, s->config.ring_bytes / 1024,
			 asked / 1024);
		pev_err_set(&what, PEV_OP_MAP_RING, -1, r->cpu, asked);
		s->config.note(s->config.note_ctx, &what);
	}
	return rc;
}

static int fail_on_cpu(struct pev_err *err, int code, const char *what, const char *name, int cpu)
{
	return pev_fail(err, code, "cannot %s %s on cpu %d", what, name, cpu);
}

static int clock_of(const struct pev_attr *attr)
{
	return attr->flags & PEV_ATTR_USE_CLOCKID ? attr->clockid : -1;
}

static int reserve_pieces(struct pev_session *s, uint32_t nr_rings)
{
	struct iovec *pieces =
		realloc(s->pieces, sizeof(*pieces) * PEV_RING_PIECES * (size_t)nr_rings);

	if (!pieces)
		return -ENOMEM;
	s->pieces = pieces;
	return 0;
}

/*
 * True if the event can share this ring: same CPU, direction and clock (perf_event_set_output()).
 */
static bool writes_into(const struct session_ring *r, const struct pev_slot *slot, int cpu)
{
	const struct pev_attr *attr = &slot->event.attr;

	return r->cpu == cpu && r->owner == (slot->own_rings ? slot : NULL) &&
	       r->backward == !!(attr->flags & PEV_ATTR_WRITE_BACKWARD) &&
	       r->clockid == clock_of(attr);
}

/* Maps the AUX area; halves it like a ring when it exceeds the mlock budget. */
static int aux_map(struct pev_session *s, struct session_ring *r, const struct pev_slot *slot,
		   struct pev_want *want, struct pev_err *err)
{
	size_t page = (size_t)s->sys->pagesize(s->sys->ctx), asked = want->aux_bytes;
	int rc;

	for (;;) {
		rc = pev_ring_map_aux(&r->ring, r->fd, want->aux_bytes);
		if (rc != -EPERM || want->aux_bytes <= page)
			break;
		want->aux_bytes = shrink_ring_bytes(s, want->aux_bytes);
	}
	if (rc == -EOPNOTSUPP && want->aux_optional) {
		note(s, "%s: its PMU has no AUX area", slot->event.name);
		want->aux_bytes = 0;
		return 0;
	}
	if (rc < 0) {
		pev_fail(err, rc, "cannot map an AUX area of %zu KiB for %s on cpu %d",
			 want->aux_bytes / 1024, slot->event.name, r->cpu);
		pev_err_set(err, PEV_OP_MAP_AUX, -1, r->cpu, want->aux_bytes);
		return rc;
	}
	if (want->aux_bytes != asked)
		note(s, "%s: AUX area of %zu KiB instead of %zu KiB, as much as "
		     "kernel.perf_event_mlock_kb allows", slot->event.name,
		     want->aux_bytes / 1024, asked / 1024);
	return 0;
}

static int ring_add(struct pev_session *s, const struct pev_slot *slot, int cpu, int fd,
		    struct pev_want *want, struct pev_err *err)
{
	const struct pev_attr *attr = &slot->event.attr;
	struct session_ring **rings = realloc(s->rings, sizeof(*rings) * (s->nr_rings + 1));
	struct session_ring *r = calloc(1, sizeof(*r));
	int rc = -ENOMEM;

	if (rings)
		s->rings = rings;
	if (!rings || !r || reserve_pieces(s, s->nr_rings + 1) < 0 ||
	    pev_merge_reserve(&s->merge, s->nr_rings + 1) < 0) {
		pev_fail(err, rc, "cannot add a ring for %s", slot->event.name);
		goto fail;
	}
	*r = (struct session_ring){ .cpu = cpu, .clockid = clock_of(attr), .fd = fd, .poll_fd = -1,
				    .owner = slot->own_rings ? slot : NULL,
				    .backward = attr->flags & PEV_ATTR_WRITE_BACKWARD };
	rc = ring_map(s, r, fd);
	if (rc < 0) {
		pev_fail(err, rc, "cannot map a ring of %zu KiB for %s",
			 s->config.ring_bytes / 1024, slot->event.name);
		pev_err_set(err, PEV_OP_MAP_RING, -1, cpu, s->config.ring_bytes);
		goto fail;
	}
	rc = want->aux_bytes ? aux_map(s, r, slot, want, err) : 0;
	if (rc < 0)
		goto unmap;
	r->recorded = r->ring.tail;
	s->rings[s->nr_rings] = r;
	rc = ring_poll(s, s->nr_rings, fd);
	if (rc < 0) {
		fail_on_cpu(err, rc, "watch the ring of", slot->event.name, cpu);
		goto unmap;
	}
	s->nr_rings++;
	return 0;
unmap:
	pev_ring_unmap(&r->ring);
fail:
	free(r);
	return rc;
}

/* Redirects a descriptor's output into the ring of its CPU, or maps a new ring for it. */
static int route_output(struct pev_session *s, const struct pev_slot *slot,
			const struct pev_event_fd *fd, struct pev_want *want, struct pev_err *err)
{
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		int rc;

		if (!writes_into(s->rings[i], slot, fd->cpu))
			continue;
		rc = s->sys->ioctl(s->sys->ctx, fd->fd, PERF_EVENT_IOC_SET_OUTPUT,
				   (uintptr_t)s->rings[i]->fd);
		if (rc < 0)
			return fail_on_cpu(err, rc, "share a ring with", slot->event.name, fd->cpu);
		if (s->rings[i]->poll_fd < 0)
			rc = ring_poll(s, i, fd->fd);
		if (rc < 0)
			return fail_on_cpu(err, rc, "watch the ring of", slot->event.name, fd->cpu);
		return 0;
	}
	return ring_add(s, slot, fd->cpu, fd->fd, want, err);
}

static bool is_ring_owner(const struct pev_session *s, int fd)
{
	for (uint32_t i = 0; i < s->nr_rings; i++)
		if (s->rings[i]->fd == fd)
			return true;
	return false;
}

/*
 * The descriptor polled for a ring has hung up: its task ended. Another descriptor that
 * writes into this ring replaces it. A replacement that has hung up too is reported at
 * once, and replaced in turn. If no descriptor is left, the ring is over.
 */
static void ring_hung_up(struct pev_session *s, uint32_t index)
{
	struct session_ring *r = s->rings[index];
	int last = r->poll_fd;
	bool passed = false;

	s->sys->epoll_ctl(s->sys->ctx, s->epfd, EPOLL_CTL_DEL, last, 0, 0);
	r->poll_fd = -1;
	for (uint32_t i = 0; i < s->nr_slots; i++) {
		const struct pev_event *event = &s->slots[i]->event;

		for (int k = 0; k < event->nr; k++) {
			if (event->fds[k].fd < 0 ||
			    !writes_into(r, s->slots[i], event->fds[k].cpu))
				continue;
			if (passed && ring_poll(s, index, event->fds[k].fd) == 0)
				return;
			passed = passed || event->fds[k].fd == last;
		}
	}
}

/* ---- events ---- */

/*
 * Adds the fields that the session needs. formats and clock receive those that the
 * user did not ask for, which open_event() drops if the kernel refuses them.
 */
static void add_session_defaults(struct pev_session *s, struct pev_attr *attr,
				 const struct pev_want *want, uint64_t *formats, bool *clock)
{
	const uint64_t ours = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING |
			      PERF_FORMAT_ID | PEV_FORMAT_LOST;

	attr->sample_type |= PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_CPU;
	if (!want->no_time)
		attr->sample_type |= PERF_SAMPLE_TIME;
	/* is_excluded() reads it; READ of an inherited event is per task. */
	if (!want->no_task || s->config.exclude_pid || s->wanted.nr_comms ||
	    attr->sample_type & PERF_SAMPLE_READ)
		attr->sample_type |= PERF_SAMPLE_TID;
	attr->flags |= PEV_ATTR_SAMPLE_ID_ALL | PEV_ATTR_DISABLED;
	/* Not with SAMPLE_READ, because it would change the user's samples. */
	*formats = attr->sample_type & PERF_SAMPLE_READ ? 0 : ours & ~attr->read_format;
	attr->read_format |= *formats;
	*clock = !(attr->flags & PEV_ATTR_USE_CLOCKID);
	if (*clock) {
		attr->flags |= PEV_ATTR_USE_CLOCKID;
		attr->clockid = s->config.clockid;
	}
	/* With wakeup_events, side-band records alone never wake the reader; a watermark does. */
	if (!attr->wakeup_events && !(attr->flags & PEV_ATTR_WATERMARK)) {
		attr->flags |= PEV_ATTR_WATERMARK;
		attr->wakeup_events = (uint32_t)(s->config.ring_bytes / 4);
	}
}

/* Opens an event. If the kernel refuses a field that only the session needs, drops it. */
static int open_event(struct pev_session *s, struct pev_slot *slot, const struct pev_attr *wanted,
		      const struct pev_want *want, const char *name,
		      const struct pev_target *target, struct pev_err *err)
{
	struct pev_attr attr = *wanted;
	uint64_t formats;
	bool clock;
	int rc;

	add_session_defaults(s, &attr, want, &formats, &clock);
	rc = pev_event_open(&slot->event, s->sys, &attr, name, target, err);
	if (rc == -EINVAL && formats & PEV_FORMAT_LOST) {
		attr.read_format &= ~PEV_FORMAT_LOST;
		rc = pev_event_open(&slot->event, s->sys, &attr, name, target, err);
		if (rc == 0)
			note(s, "%s: without read_format lost (Linux 6.0): losses are known from "
			     "LOST records alone", name);
	}
	if (rc == -EINVAL && clock) {
		attr.flags &= ~PEV_ATTR_USE_CLOCKID;
		attr.clockid = 0;
		rc = pev_event_open(&slot->event, s->sys, &attr, name, target, err);
		if (rc == 0) {
			note(s, "%s: keeps its own clock; records of different CPUs are not put "
			     "in order", name);
			s->own_clock = true;
		}
	}
	return rc;
}

static void note_skipped(struct pev_session *s, const struct pev_event *event)
{
	if (event->gone)
		note(s, "%s: %d threads had ended already", event->name, event->gone);
	if (event->offline)
		note(s, "%s: %d CPUs are not online and were left out", event->name,
		     event->offline);
}

static void slot_free(struct pev_slot *slot)
{
	pev_event_close(&slot->event);
	free(slot);
}

static int add_slot(struct pev_session *s, const struct pev_attr *attr, const char *name,
		    const struct pev_target *target, const struct pev_want *wanted,
		    struct pev_slot **out, struct pev_err *err)
{
	struct pev_want want = *wanted;
	struct pev_slot **slots = realloc(s->slots, sizeof(*slots) * (s->nr_slots + 1));
	struct pev_slot *slot = calloc(1, sizeof(*slot));
	int rc;

	if (slots)
		s->slots = slots;
	if (!slots || !slot) {
		free(slot);
		return pev_fail(err, -ENOMEM, "cannot open %s", name);
	}
	slot->wanted_types = want.wanted_types;
	slot->own_rings = want.aux_bytes != 0;
	slot->index = s->nr_slots;
	rc = open_event(s, slot, attr, &want, name, target, err);
	if (rc < 0) {
		free(slot);
		return rc;
	}
	note_skipped(s, &slot->event);
	pev_plan_init(&slot->plan, &slot->event.attr, false);
	/* The session owns the slot from here on, because a ring can outlive a failure. */
	s->slots[s->nr_slots++] = slot;
	rc = ids_learn(s, slot);
	if (rc < 0)
		pev_fail(err, rc, "cannot learn the ids of %s", name);
	for (int i = 0; rc == 0 && i < slot->event.nr; i++)
		rc = route_output(s, slot, &slot->event.fds[i], &want, err);
	/* The task that runs when an AUX record is written need not be the traced one. */
	slot->keep_own = want.aux_bytes != 0;
	slot->splits = pev_group_read_splits(&slot->event.attr) &&
		       !(slot->event.attr.flags & PEV_ATTR_DEFER_CALLCHAIN);
	if (rc < 0) {
		pev_session_remove(s, slot);
		return rc;
	}
	*out = slot;
	return 0;
}

/* Removes all slots and rings. */
static void start_over(struct pev_session *s)
{
	while (s->nr_rings) {
		struct session_ring *r = s->rings[--s->nr_rings];

		s->sys->epoll_ctl(s->sys->ctx, s->epfd, EPOLL_CTL_DEL, r->poll_fd, 0, 0);
		pev_ring_unmap(&r->ring);
		free(r);
	}
	while (s->nr_slots)
		slot_free(s->slots[--s->nr_slots]);
	memset(s->ids, 0, sizeof(*s->ids) * s->cap_ids);
	s->nr_ids = 0;
	s->last_id = 0;
}

/* Reports causes for which perf_mmap() would return a bare EINVAL. */
static int check_ring(const struct pev_session *s, const struct pev_attr *attr, const char *name,
		      const struct pev_target *target, struct pev_err *err)
{
	size_t page = (size_t)s->sys->pagesize(s->sys->ctx), bytes = s->config.ring_bytes;

	if (bytes < page || bytes & (bytes - 1))
		return pev_fail(err, -EINVAL, "cannot map a ring of %zu bytes for %s: a ring is "
				"1, 2, 4, 8, ... pages of %zu bytes", bytes, name, page);
	for (int i = 0; attr->flags & PEV_ATTR_INHERIT && i < target->nr_cpus; i++)
		if (target->cpus[i] == -1)
			return pev_fail(err, -EINVAL, "cannot map a ring for %s: children inherit "
						      "it, so a ring needs one CPU, not any (-1)",
					name);
	return 0;
}

int pev_session_add(struct pev_session *s, const struct pev_attr *attr, const char *name,
		    const struct pev_target *target, const struct pev_want *want,
		    struct pev_slot **slot, struct pev_err *err)
{
	size_t asked = s->config.ring_bytes;
	int rc = check_ring(s, attr, name, target, err);

	if (rc == 0)
		rc = add_slot(s, attr, name, target, want, slot, err);
	/*
	 * The first rings are smaller than configured, so the event's watermark
	 * is beyond their end and would never wake us: open it again.
	 */
	if (rc == 0 && s->config.ring_bytes < asked && s->nr_slots == 1) {
		start_over(s);
		rc = add_slot(s, attr, name, target, want, slot, err);
	}
	return rc;
}

struct pev_slot *pev_session_slot(const struct pev_session *s, uint32_t index)
{
	return index < s->nr_slots ? s->slots[index] : NULL;
}

uint32_t pev_session_slots(const struct pev_session *s)
{
	return s->nr_slots;
}

void pev_session_remove(struct pev_session *s, struct pev_slot *slot)
{
	int64_t lost;

	if (slot->closed)
		return;
	slot->closed = true;
	slot->wanted_types = 0;
	pev_session_switch_slot(slot, false);
	lost = pev_event_lost(&slot->event);
	slot->lost = lost > 0 ? (uint64_t)lost : 0;
	for (int i = 0; i < slot->event.nr; i++) {
		struct pev_event_fd *fd = &slot->event.fds[i];

		/* A ring's owner stays open: other events write into its ring. */
		if (fd->fd < 0 || is_ring_owner(s, fd->fd))
			continue;
		for (uint32_t k = 0; k < s->nr_rings; k++)
			if (s->rings[k]->poll_fd == fd->fd)
				ring_hung_up(s, k);
		s->sys->close(s->sys->ctx, fd->fd);
		fd->fd = -1;
	}
}

int pev_session_switch_slot(struct pev_slot *slot, bool on)
{
	slot->off = !on;
	return pev_event_ioctl(&slot->event, on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE);
}

/* Sets the interval of the tick. On failure the tick stays as it is. */
static int set_tick(struct pev_session *s, uint64_t ns)
{
	int rc, fd;

	if (ns == s->tick_ns)
		return 0;
	fd = s->sys->timerfd(s->sys->ctx, ns, ns);
	if (fd < 0)
		return fd;
	rc = s->sys->epoll_ctl(s->sys->ctx, s->epfd, EPOLL_CTL_ADD, fd, EPOLLIN, TAG_TICK);
	if (rc < 0) {
		s->sys->close(s->sys->ctx, fd);
		return rc;
	}
	if (s->tick >= 0)
		s->sys->close(s->sys->ctx, s->tick);
	s->tick = fd;
	s->tick_ns = ns;
	return 0;
}

int pev_session_enable(struct pev_session *s, struct pev_err *err)
{
	int rc;

	rc = s->tick < 0 ? set_tick(s, PEV_TICK_NS) : 0;
	if (rc < 0)
		return pev_fail(err, rc, "cannot make a timer");
	for (uint32_t i = 0; i < s->nr_slots; i++) {
		struct pev_slot *slot = s->slots[i];

		/* The command's exec enables enable_on_exec events. */
		if (slot->closed || slot->off ||
		    slot->event.attr.flags & PEV_ATTR_ENABLE_ON_EXEC)
			continue;
		rc = pev_session_switch_slot(slot, true);
		if (rc < 0)
			return pev_fail(err, rc, "cannot enable %s", slot->event.name);
	}
	return 0;
}

int pev_session_disable(struct pev_session *s)
{
	int first = 0;

	for (uint32_t i = 0; i < s->nr_slots; i++) {
		int rc = s->slots[i]->closed ? 0 : pev_session_switch_slot(s->slots[i], false);

		if (rc < 0 && !first)
			first = rc;
	}
	return first;
}

/* ---- waiting ---- */

int pev_session_fd(const struct pev_session *s)
{
	return s->epfd;
}

int pev_session_watch(struct pev_session *s, int fd)
{
	return s->sys->epoll_ctl(s->sys->ctx, s->epfd, EPOLL_CTL_ADD, fd, EPOLLIN,
				 TAG_WATCH | (uint32_t)fd);
}

int pev_session_unwatch(struct pev_session *s, int fd)
{
	return s->sys->epoll_ctl(s->sys->ctx, s->epfd, EPOLL_CTL_DEL, fd, 0, 0);
}

/* An expired timer that is not read makes every wait return at once. */
int pev_session_wake(struct pev_session *s)
{
	int rc;

	if (s->wake_timer_armed)
		return 0;
	if (s->wake_timer < 0) {
		rc = s->sys->timerfd(s->sys->ctx, 1, 0);
		if (rc < 0)
			return rc;
		s->wake_timer = rc;
	}
	rc = s->sys->epoll_ctl(s->sys->ctx, s->epfd, EPOLL_CTL_ADD, s->wake_timer, EPOLLIN,
			       TAG_WAKE);
	s->wake_timer_armed = rc == 0;
	return rc;
}

static bool has_unread(struct pev_session *s)
{
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		struct pev_ring *ring = &s->rings[i]->ring;

		if (!s->rings[i]->backward &&
		    (pev_ring_refresh(ring) || (ring->aux && pev_ring_aux_unread(ring))))
			return true;
	}
	return false;
}

/* The tick has expired. Returns 1 if the rings have records. */
static int take_tick(struct pev_session *s)
{
	uint64_t expired;
	int64_t rc = s->sys->read(s->sys->ctx, s->tick, &expired, sizeof(expired));
	bool unread = has_unread(s);

	if (rc < 0 && rc != -EAGAIN)
		return (int)rc;
	/* Records of hidden events alone do not need the fast tick. */
	if (!unread || s->totals.delivered == s->delivered_at_tick)
		set_tick(s, PEV_IDLE_TICK_NS);
	s->delivered_at_tick = s->totals.delivered;
	return unread;
}

static int wait_once(struct pev_session *s, int timeout_ms, int *ready, int max, bool *idle)
{
	struct epoll_event events[EVENTS_PER_WAIT];
	int nr, rc, found = 0;

	nr = s->sys->epoll_wait(s->sys->ctx, s->epfd, events, EVENTS_PER_WAIT, timeout_ms);
	if (nr < 0)
		return nr;
	s->totals.wakeups++;
	*idle = nr == 1 && (events[0].data.u64 & TAG_KIND) == TAG_TICK;
	for (int i = 0; i < nr; i++) {
		uint64_t tag = events[i].data.u64;

		switch (tag & TAG_KIND) {
		case TAG_RING:
			/*
			 * HUP comes without IN even if records are unread: a
			 * round drains all rings.
			 */
			if (events[i].events & (EPOLLHUP | EPOLLERR))
				ring_hung_up(s, (uint32_t)tag);
			break;
		case TAG_TICK:
			rc = take_tick(s);
			if (rc < 0)
				return rc;
			*idle = *idle && rc == 0;
			break;
		case TAG_WAKE:
			pev_session_unwatch(s, s->wake_timer);
			s->wake_timer_armed = false;
			break;
		default:
			if (found < max)
				ready[found++] = (int)(uint32_t)tag;
		}
	}
	return found;
}

int pev_session_wait(struct pev_session *s, int timeout_ms, int *ready, int max)
{
	bool idle;
	int nr;

	do
		nr = wait_once(s, timeout_ms, ready, max, &idle);
	while (nr == 0 && idle && timeout_ms < 0);
	return nr;
}

bool pev_session_is_over(const struct pev_session *s)
{
	for (uint32_t i = 0; i < s->nr_rings; i++)
		if (s->rings[i]->poll_fd >= 0)
			return false;
	return s->nr_rings > 0;
}

uint64_t pev_session_time_on(const struct pev_session *s, int cpu)
{
	uint64_t total = 0;

	for (uint32_t i = 0; i < s->nr_slots; i++)
		if (!s->slots[i]->closed)
			total += pev_event_time_on(&s->slots[i]->event, cpu);
	return total;
}

/* ---- order and dispatch ---- */

static inline uint64_t time_of(const struct session_ring *r, const struct pev_slot *slot)
{
	uint16_t off, size = r->next_end;

	if (!slot)
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
		    slot_of(s, bytes, (uint16_t)end) == s->slots[i])
			return (uint16_t)end;
	}
	return size;
}

/* ---- recording ---- */

static bool has_backward(const struct pev_session *s)
{
	for (uint32_t i = 0; i < s->nr_rings; i++)
		if (s->rings[i]->backward)
			return true;
	return false;
}

/* Marks behind delivered records: later records are younger, or late in a replay as live. */
#define ALL_OLDER 2

/*
 * Gives the recorder the bytes read from all rings, in ring order:
 * records of the same time are delivered in this order too.
 */
static void record_read(struct pev_session *s, int marks)
{
	int nr = 0;

	if (!s->recorder)
		return;
	/* Backward rings are recorded last and are older: no mark before that. */
	if (has_backward(s))
		marks = 0;
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		struct session_ring *r = s->rings[i];

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
	pev_writer_round(s->recorder, s->pieces, nr, ALL_OLDER);
}

/* Returns space to the kernel, after the recorder has received it. */
static void return_space(struct pev_session *s, struct session_ring *r)
{
	if (!s->recorder) {
		pev_ring_publish(&r->ring);
		return;
	}
	record_read(s, ALL_OLDER);
	for (uint32_t i = 0; i < s->nr_rings; i++)
		if (!s->rings[i]->backward)
			pev_ring_publish(&s->rings[i]->ring);
}

/* Bytes that cannot be parsed are skipped, and not recorded. */
static void record_corrupt(struct pev_session *s, struct session_ring *r, uint64_t tail)
{
	struct iovec pieces[PEV_RING_PIECES];

	if (s->recorder && s->drain != PEV_DRAIN_DISCARD)
		pev_writer_round(s->recorder, pieces,
				 pev_ring_pieces(&r->ring, r->recorded, tail, pieces), 0);
	r->recorded = r->ring.tail;
}

void pev_session_set_recorder(struct pev_session *s, struct pev_writer *rec)
{
	s->recorder = rec;
	for (uint32_t i = 0; i < s->nr_rings; i++)
		s->rings[i]->recorded = s->rings[i]->ring.tail;
}

/* Marks all of a ring as read without parsing. More than the ring's size is an error. */
static uint64_t skip_unread(struct session_ring *r)
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

	if (s->busy)
		return -EBUSY;
	if (s->pending)
		pev_session_end(s);
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
	record_read(s, before >= s->next_mark);
	if (before >= s->next_mark)
		s->next_mark = after + PEV_GAP_NS;
	for (uint32_t i = 0; i < s->nr_rings; i++)
		if (!s->rings[i]->backward)
			pev_ring_publish(&s->rings[i]->ring);
	return bytes;
}

/* ---- order and dispatch, one round ---- */

/* Parses the ring's next record into r. False if the ring is empty. */
static inline bool parse_next(struct pev_session *s, struct session_ring *r)
{
	uint64_t tail = r->ring.tail, corrupt = r->ring.corrupt;

	r->next = pev_ring_peek(&r->ring, &r->next_size);
	if (r->ring.corrupt != corrupt)
		record_corrupt(s, r, tail);
	if (!r->next)
		return false;
	r->type = pev_load32(r->next, false);
	r->next_end = r->next_size;
	if (PEV_RARELY(pev_record_may_overstate(r->type)))
		r->next_end = written_end(s, r->next, r->next_size);
	r->slot = slot_of(s, r->next, r->next_end);
	r->time = time_of(r, r->slot);
	return true;
}

/* True if the area is half full, when the kernel wakes us: the PMU cannot wait for the order. */
static bool aux_is_urgent(const struct session_ring *r)
{
	return r->ring.aux && pev_ring_aux_unread(&r->ring) >= r->ring.aux_size / 2;
}

/* Ends the precedence of a ring that has enough space again. */
static inline void end_urgency(struct pev_session *s, struct session_ring *r)
{
	if (!r->urgent || pev_ring_fill(&r->ring) > r->ring.size / 2 || aux_is_urgent(r))
		return;
	r->urgent = false;
	s->urgent--;
}

/* Moves waiting records from the ring to memory, so that the kernel has space. */
static void lift_ring(struct pev_session *s, struct session_ring *r)
{
	size_t most = r->ring.size < LIFTED_MAX / 4 ? (size_t)r->ring.size * 4 : LIFTED_MAX;

	if (pev_ring_lift(&r->ring, s->recorder ? r->recorded : r->ring.tail, most) < 0)
		return;
	if (r->next)
		r->next = pev_ring_peek(&r->ring, &r->next_size);
	end_urgency(s, r);
}

static void begin_round(struct pev_session *s)
{
	uint64_t now;

	/* First the clock, then the heads: all records older than this time are in the rings. */
	if (s->sys->clock(s->sys->ctx, s->config.clockid, &now) == 0)
		pev_merge_round(&s->merge, now);
	pev_merge_clear(&s->merge);
	s->urgent = 0;
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		struct session_ring *r = s->rings[i];
		uint64_t full = r->ring.size / 4 * 3;

		r->next = NULL;
		r->urgent = false;
		if (r->backward != (s->drain == PEV_DRAIN_SNAPSHOT))
			continue;
		pev_ring_refresh(&r->ring);
		/* Otherwise all lifted records would be delivered first, out of order. */
		if (pev_ring_has_lifted(&r->ring) && pev_ring_fill(&r->ring) > full)
			lift_ring(s, r);
		r->urgent = !r->backward && (pev_ring_fill(&r->ring) > full || aux_is_urgent(r));
		s->urgent += r->urgent;
		if (parse_next(s, r))
			pev_merge_push(&s->merge, r->time, i);
	}
}

static void count_order(struct pev_session *s, uint64_t time)
{
	if (time < s->last_time)
		s->totals.late++;
	else
		s->last_time = time;
}

/* Returns the slot that receives a record. Losses concern all events: any listener gets them. */
static struct pev_slot *listener_of(const struct pev_session *s, struct pev_slot *slot,
				    uint32_t type)
{
	uint32_t bit = UINT32_C(1) << (type < PEV_RECORD_NR ? type : 0);

	if (slot && slot->wanted_types & bit)
		return slot;
	if (type != PERF_RECORD_LOST && type != PERF_RECORD_LOST_SAMPLES)
		return NULL;
	for (uint32_t i = 0; i < s->nr_slots; i++)
		if (s->slots[i]->wanted_types & bit)
			return s->slots[i];
	return NULL;
}

static void learn_from_record(struct pev_session *s, const struct pev_record *rec)
{
	struct pev_value value;

	switch (rec->type) {
	case PERF_RECORD_LOST: /* replaced by read_losses() if the kernel has PERF_FORMAT_LOST */
		if (pev_record_get(rec, PEV_F_LOST, &value))
			s->totals.lost += value.u;
		break;
	case PERF_RECORD_LOST_SAMPLES:
		if (pev_record_get(rec, PEV_F_LOST, &value))
			s->totals.lost_samples += value.u;
		break;
	case PERF_RECORD_THROTTLE:
		s->totals.throttled++;
		break;
	case PEV_RECORD_CALLCHAIN_DEFERRED:
		pev_deferred_join(&s->deferred, rec);
		break;
	default:
		/* Without memory for a name, the task is looked up in /proc later. */
		pev_tasks_feed(&s->tasks, rec);
	}
}

static bool is_bookkeeping(uint32_t type)
{
	const uint32_t types = 1u << PERF_RECORD_LOST | 1u << PERF_RECORD_LOST_SAMPLES |
			       1u << PERF_RECORD_THROTTLE | 1u << PERF_RECORD_COMM |
			       1u << PERF_RECORD_FORK | 1u << PERF_RECORD_EXIT |
			       1u << PERF_RECORD_MMAP | 1u << PERF_RECORD_MMAP2 |
			       1u << PERF_RECORD_KSYMBOL |
			       1u << PEV_RECORD_CALLCHAIN_DEFERRED;

	return type < 32 && types >> type & 1;
}

/* Returns the slot that receives the record in this round, or NULL. */
static struct pev_slot *recipient(const struct pev_session *s, struct pev_slot *slot,
				  uint32_t type)
{
	switch (s->drain) {
	case PEV_DRAIN_DISCARD:
		return NULL;
	case PEV_DRAIN_ROUND_ALL:
	case PEV_DRAIN_REST_ALL:
		return slot->hidden || slot->closed ? NULL : slot;
	default:
		return listener_of(s, slot, type);
	}
}

/* True if the excluded process (usually the observer itself) wrote the record. */
static bool is_excluded(const struct pev_session *s, const struct pev_slot *slot, uint32_t type,
			const unsigned char *bytes, uint16_t size)
{
	uint16_t off;

	if (!s->config.exclude_pid || slot->keep_own)
		return false;
	if (type == PERF_RECORD_SAMPLE)
		off = slot->plan.fixed[PEV_F_PID];
	else
		off = (uint16_t)(size - slot->plan.from_end[PEV_F_PID]);
	return off + 4u <= size && (int)pev_load32(bytes + off, false) == s->config.exclude_pid;
}

/* True if the task's name is not wanted. Names are those of this moment. */
static bool is_unwanted(struct pev_session *s, const struct pev_record *rec)
{
	return pev_record_filter_asks(&s->wanted) && rec->type != PERF_RECORD_LOST &&
	       rec->type != PERF_RECORD_LOST_SAMPLES &&
	       !pev_record_filter_has(&s->wanted, rec, &s->tasks);
}

/* Holds a sample until its user part arrives. False if the event wants both separately. */
static bool holds_sample(struct pev_session *s, const struct pev_slot *slot,
			 const struct pev_record *rec)
{
	const struct pev_held_of of = { .event = slot->index };

	return rec->type == PERF_RECORD_SAMPLE &&
	       slot->event.attr.flags & PEV_ATTR_DEFER_CALLCHAIN &&
	       !(slot->wanted_types >> PEV_RECORD_CALLCHAIN_DEFERRED & 1) &&
	       pev_deferred_hold(&s->deferred, rec, &of);
}

/* True for most records: a sample that only its own event's callback receives. */
static inline bool is_simple(const struct pev_session *s, const struct session_ring *r,
			     const struct pev_slot *slot)
{
	return r->type == PERF_RECORD_SAMPLE && slot->wanted_types >> PERF_RECORD_SAMPLE & 1 &&
	       !slot->hidden && s->drain != PEV_DRAIN_DISCARD && !s->wanted.nr_comms &&
	       !(slot->event.attr.flags & PEV_ATTR_DEFER_CALLCHAIN) &&
	       !is_excluded(s, slot, PERF_RECORD_SAMPLE, r->next, r->next_size);
}

/* Counts a ring's next record, and locates it if it has a listener. */
static struct pev_slot *take_record(struct pev_session *s, const struct session_ring *r,
				    struct pev_record *rec)
{
	const unsigned char *bytes = r->next;
	struct pev_slot *slot = r->slot, *to;
	uint32_t type = r->type;
	uint16_t size = r->next_size;

	s->totals.records++;
	if (slot && is_simple(s, r, slot) &&
	    pev_record_locate_sample(rec, &slot->plan, bytes, size))
		return slot;
	if (!slot) {
		s->totals.unknown_id++;
		return NULL;
	}
	to = recipient(s, slot, type);
	if (to && is_excluded(s, slot, type, bytes, r->next_end)) {
		s->totals.excluded++;
		to = NULL;
	}
	if (!to && !is_bookkeeping(type))
		return NULL;
	if (pev_record_locate(rec, &slot->plan, bytes, size, NULL) < 0) {
		s->totals.malformed++;
		return NULL;
	}
	if (is_bookkeeping(type))
		learn_from_record(s, rec);
	if (to && is_unwanted(s, rec)) {
		s->totals.excluded++;
		to = NULL;
	}
	if (to && type == PERF_RECORD_LOST)
		s->delivered_lost += pev_load64(bytes + 16, false);
	return to && holds_sample(s, to, rec) ? NULL : to;
}

/* ---- samples that wait ---- */

/* Returns the next deferred sample that is complete, or will never be. */
static struct pev_slot *take_ready(struct pev_session *s, struct pev_record *rec)
{
	const unsigned char *bytes;
	struct pev_held_of of;
	uint16_t size;

	if (!s->deferred.ready && !s->deferred.given)
		return NULL;
	while ((bytes = pev_deferred_next(&s->deferred, &of, &size))) {
		struct pev_slot *slot = s->slots[of.event];

		if (!slot->closed &&
		    pev_record_locate(rec, &slot->plan, bytes, size, NULL) == 0)
			return slot;
	}
	return NULL;
}

/* No user part comes any more: releases deferred samples. False without such samples. */
static bool let_waiting_go(struct pev_session *s)
{
	bool any = s->deferred.nr;

	if (s->drain < PEV_DRAIN_REST)
		return false;
	if (s->drain == PEV_DRAIN_DISCARD)
		pev_deferred_free(&s->deferred);
	else
		pev_deferred_release_all(&s->deferred);
	return any && s->drain != PEV_DRAIN_DISCARD;
}

/* ---- groups that are read by their leader ---- */

static uint32_t number_of(const void *ctx, uint64_t id)
{
	const struct pev_session *s = ctx;
	const struct id_entry *entry = id && s->cap_ids ? id_find(s, id) : NULL;

	return entry && entry->id ? entry->slot : UINT32_MAX;
}

/* Splits a sample of a group's leader. False if it is delivered whole, also without memory. */
static bool is_split(struct pev_session *s, const struct pev_slot *slot,
		     const struct pev_record *rec)
{
	return slot->splits && rec->type == PERF_RECORD_SAMPLE &&
	       pev_group_read_split(&s->group, rec, slot->event.attr.flags & PEV_ATTR_INHERIT,
				    number_of, s) > 0;
}

/* The next sample of the group that has a listener. */
static struct pev_slot *take_part(struct pev_session *s, struct pev_record *rec)
{
	const struct pev_group_part *part;

	while ((part = pev_group_read_next(&s->group))) {
		struct pev_slot *slot = recipient(s, s->slots[part->event], PERF_RECORD_SAMPLE);

		if (slot && pev_record_locate(rec, &s->group.plan, s->group.bytes, s->group.size,
					      NULL) == 0)
			return slot;
	}
	return NULL;
}

/* ---- losses ---- */

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

/* The slot for the last loss. In a round of all records: the first that is not hidden. */
static struct pev_slot *listener_at_end(const struct pev_session *s)
{
	if (s->drain == PEV_DRAIN_REST)
		return listener_of(s, NULL, PERF_RECORD_LOST);
	for (uint32_t i = 0; s->drain == PEV_DRAIN_REST_ALL && i < s->nr_slots; i++)
		if (!s->slots[i]->hidden && !s->slots[i]->closed)
			return s->slots[i];
	return NULL;
}

/* At the end: makes a record of the losses that no delivered LOST record had. */
static struct pev_slot *take_last_loss(struct pev_session *s, struct pev_record *rec)
{
	const struct perf_event_header header = { .type = PERF_RECORD_LOST,
						  .misc = PEV_MISC_LOST_AT_END };
	struct pev_slot *slot = listener_at_end(s);
	uint64_t lost, now = s->last_time;
	uint16_t size;

	if (!slot || !read_losses(s))
		return NULL;
	lost = losses_of(s, false) + losses_of(s, true);
	if (lost <= s->delivered_lost)
		return NULL;
	s->sys->clock(s->sys->ctx, s->config.clockid, &now);
	size = pev_lost_record(s->last_loss, &slot->plan, &header, first_id(slot),
			       lost - s->delivered_lost, now);
	s->delivered_lost = lost;
	return pev_record_locate(rec, &slot->plan, s->last_loss, size, NULL) < 0 ? NULL : slot;
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

/* ---- AUX areas ---- */

/* Remembers the AUX bytes that the current record announces. */
static void note_aux(struct pev_session *s, const unsigned char *bytes, uint16_t size)
{
	struct pev_aux aux;

	s->is_aux_record = s->pending->ring.aux && s->pending->type == PERF_RECORD_AUX &&
			   size >= pev_layouts[PERF_RECORD_AUX].min;
	if (!s->is_aux_record)
		return;
	s->aux_offset = pev_load64(bytes + 8, false);
	s->aux_size = pev_load64(bytes + 16, false);
	s->aux_flags = pev_load64(bytes + 24, false);
	pev_ring_aux(&s->pending->ring, s->aux_offset, s->aux_size, &aux);
	s->totals.aux_bytes += aux.len[0] + aux.len[1];
	s->totals.aux_truncated += s->aux_flags & PERF_AUX_FLAG_TRUNCATED;
}

/*
 * The kernel switches an event off when its area is full; the reader has to switch it
 * on again (perf_aux_output_end(); perf does so in auxtrace_record__read_finish()).
 */
static void resume_tracing(struct pev_session *s, const struct session_ring *r)
{
	for (int i = 0; !r->owner->off && i < r->owner->event.nr; i++) {
		const struct pev_event_fd *fd = &r->owner->event.fds[i];

		if (fd->fd >= 0 && fd->cpu == r->cpu)
			s->sys->ioctl(s->sys->ctx, fd->fd, PERF_EVENT_IOC_ENABLE, 0);
	}
}

/* Returns the announced bytes to the kernel; they were read or ignored. */
static void return_aux(struct pev_session *s, struct session_ring *r)
{
	/* Without space for another page the next attempt to trace switches the event off too. */
	bool full = pev_ring_aux_unread(&r->ring) + (uint64_t)s->sys->pagesize(s->sys->ctx) >
		    r->ring.aux_size;

	s->is_aux_record = false;
	pev_ring_aux_pop(&r->ring, s->aux_offset + s->aux_size);
	if (full || s->aux_flags & PERF_AUX_FLAG_TRUNCATED)
		resume_tracing(s, r);
}

/*
 * Skips AUX bytes whose record was lost, which would fill the area for ever. These
 * are the bytes that were there the last two times that the ring was empty: the
 * kernel writes the record before aux_head, but it may become visible later.
 */
static void skip_lost_aux(struct pev_session *s, struct session_ring *r)
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
	if (!s->pending || !s->is_aux_record || rec->type != PERF_RECORD_AUX)
		return false;
	pev_ring_aux(&s->pending->ring, s->aux_offset, s->aux_size, aux);
	return true;
}

/* Lifts rings with more unread bytes than these quarters. */
static void lift_full_rings(struct pev_session *s, uint64_t quarters)
{
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		struct session_ring *r = s->rings[i];

		if (r->backward)
			continue;
		pev_ring_refresh(&r->ring);
		if (pev_ring_fill(&r->ring) > r->ring.size / 4 * quarters)
			lift_ring(s, r);
	}
}

/* True if a round delivers everything and ignores the time horizon. */
static bool delivers_all(const struct pev_session *s)
{
	return s->drain >= PEV_DRAIN_REST || s->config.unordered || s->own_clock;
}

/* Rings fill while records are delivered. Without a horizon, lifting would prolong the round. */
static void check_fill(struct pev_session *s)
{
	s->unchecked = 0;
	if (!delivers_all(s))
		lift_full_rings(s, 3);
}

/* Finishes the current record. Returns space to the kernel once it is a quarter of a ring. */
static void finish_record(struct pev_session *s)
{
	struct session_ring *r = s->pending;

	if (!r || !pev_session_is_ours(s))
		return;
	s->pending = NULL;
	if (s->is_aux_record)
		return_aux(s, r);
	pev_ring_pop(&r->ring, r->next_size);
	r->next = NULL;
	/* The kernel has the space of lifted records already. */
	if ((int64_t)(r->ring.tail - r->ring.published) >= (int64_t)(r->ring.size / 4))
		return_space(s, r);
	if (++s->unchecked == WATCH_EVERY)
		check_fill(s);
	end_urgency(s, r);
	if (parse_next(s, r))
		pev_merge_replace(&s->merge, r->time);
	else
		pev_merge_pop(&s->merge);
}

/* Records the bytes read in this round, and returns their space to the kernel. */
static void end_round(struct pev_session *s)
{
	/* A callback has forked: the rings are not mapped in this process. */
	if (!pev_session_is_ours(s))
		return;
	finish_record(s);
	record_read(s, ALL_OLDER);
	for (uint32_t i = 0; i < s->nr_rings; i++) {
		struct session_ring *r = s->rings[i];

		pev_ring_publish(&r->ring);
		skip_lost_aux(s, r);
		if (!r->ring.corrupt || r->reported_corrupt)
			continue;
		r->reported_corrupt = true;
		note(s, "the ring on cpu %d is corrupt: a record has an impossible size; "
			"unread records are skipped (later cases are only counted)",
		     r->cpu);
	}
}

int pev_session_begin(struct pev_session *s, enum pev_drain drain)
{
	if (s->busy)
		return -EBUSY;
	end_round(s);
	s->drain = drain;
	begin_round(s);
	return 0;
}

int pev_session_next(struct pev_session *s, struct pev_slot **slot, struct pev_record *rec)
{
	bool all = delivers_all(s);
	const struct pev_merge_item *next;

	for (;;) {
		finish_record(s);
		*slot = take_part(s, rec);
		if (!*slot)
			*slot = take_ready(s, rec);
		if (*slot)
			break;
		next = pev_merge_top(&s->merge);
		if (!next && let_waiting_go(s))
			continue;
		if (!next) {
			*slot = take_last_loss(s, rec);
			if (*slot)
				break;
			return 0;
		}
		/* An urgent ring is read beyond the horizon, which can make records late. */
		if (!all && next->time >= s->merge.horizon && !s->urgent)
			return 0;
		s->pending = s->rings[next->source];
		if (!s->config.unordered && s->drain != PEV_DRAIN_SNAPSHOT)
			count_order(s, next->time);
		note_aux(s, s->pending->next, s->pending->next_size);
		*slot = take_record(s, s->pending, rec);
		if (*slot && !is_split(s, *slot, rec))
			break;
	}
	s->totals.delivered++;
	return 1;
}

void pev_session_uncount(struct pev_session *s) { s->totals.delivered--; }

void pev_session_end(struct pev_session *s)
{
	end_round(s);
	if (!pev_session_is_ours(s) || s->drain >= PEV_DRAIN_REST)
		return;
	/* The rings are not read for a while. */
	lift_full_rings(s, 1);
	if (s->totals.delivered != s->delivered_at_tick && s->tick >= 0)
		set_tick(s, PEV_TICK_NS);
}

static int64_t dispatch(struct pev_session *s, enum pev_drain how, uint64_t max,
			pev_deliver_fn deliver, void *ctx)
{
	struct pev_record rec;
	struct pev_slot *slot;
	uint64_t before = s->totals.delivered;
	int rc = pev_session_begin(s, how);

	if (rc < 0)
		return rc;
	s->busy = true;
	while (rc == 0 && !s->closing && (!max || s->totals.delivered - before < max) &&
	       pev_session_is_ours(s) && pev_session_next(s, &slot, &rec))
		rc = deliver(ctx, slot, &rec);
	s->busy = false;
	pev_session_end(s);
	return rc < 0 ? rc : (int64_t)(s->totals.delivered - before);
}

int64_t pev_session_dispatch(struct pev_session *s, enum pev_drain how, uint64_t max,
			     pev_deliver_fn deliver, void *ctx)
{
	int64_t nr = dispatch(s, how, max, deliver, ctx);

	if (s->closing && !s->busy)
		pev_session_close(s);
	return nr;
}

static int pause_output(struct pev_session *s, bool pause)
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

int64_t pev_session_snapshot(struct pev_session *s, pev_deliver_fn deliver, void *ctx)
{
	int64_t nr;
	int rc;

	if (s->busy)
		return -EBUSY;
	rc = pause_output(s, true);
	if (rc < 0) {
		pause_output(s, false);
		return rc;
	}
	/* A close() from a callback waits until output is resumed. */
	nr = dispatch(s, PEV_DRAIN_SNAPSHOT, 0, deliver, ctx);
	rc = pause_output(s, false);
	if (s->closing)
		pev_session_close(s);
	return nr < 0 || rc == 0 ? nr : rc;
}

/* ---- totals and end ---- */

void pev_session_totals(struct pev_session *s, struct pev_totals *totals)
{
	*totals = s->totals;
	if (read_losses(s)) {
		totals->lost = losses_of(s, false);
		totals->lost_own = losses_of(s, true);
	}
	totals->unjoined = s->deferred.unjoined;
	totals->rings = s->nr_rings;
	totals->ring_bytes = s->config.ring_bytes;
	for (uint32_t i = 0; i < s->nr_rings; i++)
		totals->corrupt += s->rings[i]->ring.corrupt;
}

const char *pev_session_comm(struct pev_session *s, int tid)
{
	return pev_tasks_name(&s->tasks, tid);
}

struct pev_tasks *pev_session_tasks(struct pev_session *s)
{
	return &s->tasks;
}

void pev_session_close(struct pev_session *s)
{
	if (s->busy) {
		s->closing = true;
		return;
	}
	for (uint32_t i = s->nr_rings; i-- > 0;) {
		/* VM_DONTCOPY (perf_mmap()): another mapping may be there now. */
		if (!pev_session_is_ours(s))
			s->rings[i]->ring.page = NULL;
		pev_ring_unmap(&s->rings[i]->ring);
		free(s->rings[i]);
	}
	for (uint32_t i = s->nr_slots; i-- > 0;)
		slot_free(s->slots[i]);
	if (s->tick >= 0)
		s->sys->close(s->sys->ctx, s->tick);
	if (s->wake_timer >= 0)
		s->sys->close(s->sys->ctx, s->wake_timer);
	if (s->epfd >= 0)
		s->sys->close(s->sys->ctx, s->epfd);
	pev_merge_free(&s->merge);
	pev_deferred_free(&s->deferred);
	pev_group_read_free(&s->group);
	pev_tasks_free(&s->tasks);
	pev_record_filter_free(&s->wanted);
	free(s->ids);
	free(s->slots);
	free(s->rings);
	free(s->pieces);
	free(s);
}

void pev_session_drop(struct pev_session *s)
{
	s->busy = false;
	pev_session_close(s);
}
