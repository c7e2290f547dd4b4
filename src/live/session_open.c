/* session_open.c - a live session: opens events and rings, waits; see session.h. */
#include "live/session_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#define DEFAULT_RING_BYTES (2u << 20)
#define DEFAULT_MAX_LIFTED ((size_t)128 << 20)
#define EVENTS_PER_WAIT 64

/* Epoll tags: the high half is the kind, the low half the index or descriptor. */
#define TAG_RING (UINT64_C(1) << 32)
#define TAG_TICK (UINT64_C(2) << 32)
#define TAG_WATCH (UINT64_C(3) << 32)
#define TAG_WAKE (UINT64_C(4) << 32)
#define TAG_KIND (UINT64_C(7) << 32)

void pev_session_note(struct pev_session *s, const char *format, ...)
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
	pev_session_init_source(s);
	if (!s->config.ring_bytes)
		s->config.ring_bytes = DEFAULT_RING_BYTES;
	if (!s->config.max_lifted)
		s->config.max_lifted = DEFAULT_MAX_LIFTED;
	s->lift_room = s->config.max_lifted;
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

bool pev_session_is_ours(const struct pev_session *s)
{
	return pev_sys_is_process(s->process);
}

struct pev_source *pev_session_source(struct pev_session *s)
{
	return &s->source;
}

/* ---- ids -> slots ---- */

static struct pev_session_id *id_find(const struct pev_session *s, uint64_t id)
{
	uint64_t i = (id * UINT64_C(0x9e3779b97f4a7c15)) >> 32;

	while (s->ids[i & (s->cap_ids - 1)].id && s->ids[i & (s->cap_ids - 1)].id != id)
		i++;
	return &s->ids[i & (s->cap_ids - 1)];
}

static int ids_grow(struct pev_session *s, uint32_t more)
{
	struct pev_session_id *old = s->ids;
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
		struct pev_session_id *entry;

		if (!slot->event.fds[i].id)
			continue;
		entry = id_find(s, slot->event.fds[i].id);
		s->nr_ids += !entry->id;
		*entry = (struct pev_session_id){ slot->event.fds[i].id, slot->index };
	}
	s->last_id = 0;
	return rc;
}

/* Caches the last lookup: records come in bursts of one event on one CPU, with one id. */
struct pev_slot *pev_session_slot_of_record(struct pev_session *s, const unsigned char *bytes,
					    uint16_t size)
{
	uint64_t id = pev_record_identifier(bytes, size, false);
	const struct pev_session_id *entry;

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

uint32_t pev_session_slot_of_id(const struct pev_session *s, uint64_t id)
{
	const struct pev_session_id *entry = id && s->cap_ids ? id_find(s, id) : NULL;

	return entry && entry->id ? entry->slot : PEV_NO_EVENT;
}

/* ---- rings ---- */

static int ring_poll(struct pev_session *s, uint32_t index, int fd)
{
	/* A backward ring is not drained: only the end of its targets matters. */
	uint32_t events = s->rings[index]->backward ? 0 : EPOLLIN;
	int epfd = s->rings[index]->epfd;
	/* A reader has no other tags. */
	uint64_t tag = epfd == s->epfd ? TAG_RING | index : (uint64_t)index << 32 | (uint32_t)fd;
	int rc = s->sys->epoll_ctl(s->sys->ctx, epfd, EPOLL_CTL_ADD, fd, events, tag);

	if (rc == 0)
		s->rings[index]->poll_fd = fd;
	return rc;
}

void pev_session_move_ring(struct pev_session *s, uint32_t index, int epfd)
{
	struct pev_session_ring *r = s->rings[index];

	if (r->epfd != epfd && r->poll_fd >= 0)
		s->sys->epoll_ctl(s->sys->ctx, r->epfd, EPOLL_CTL_DEL, r->poll_fd, 0, 0);
	if (r->epfd == epfd)
		return;
	r->epfd = epfd;
	if (r->poll_fd >= 0)
		ring_poll(s, index, r->poll_fd);
}

void pev_session_hand_over_ring(const struct pev_session *s, int epfd, uint64_t tag)
{
	int fd = (int)(uint32_t)tag;

	s->sys->epoll_ctl(s->sys->ctx, epfd, EPOLL_CTL_DEL, fd, 0, 0);
	s->sys->epoll_ctl(s->sys->ctx, s->epfd, EPOLL_CTL_ADD, fd, 0, TAG_RING | tag >> 32);
}

/*
 * The kernel has refused an area of that size. Returns half the size; if it exceeds the mlock
 * budget (-EPERM), first the size that is granted per CPU, perf_event_mlock_kb (perf_mmap()).
 */
static size_t shrink_ring_bytes(struct pev_session *s, size_t bytes, int refusal)
{
	int64_t kb = refusal != -EPERM ? 0 :
		     pev_sys_number(s->sys, "/proc/sys/kernel/perf_event_mlock_kb");
	size_t page = (size_t)s->sys->pagesize(s->sys->ctx), budget = page;

	bytes /= 2;
	if (kb <= 0)
		return bytes;
	while (budget * 2 + page <= (size_t)kb * 1024)
		budget *= 2;
	return bytes > budget ? budget : bytes;
}

static int ring_map(struct pev_session *s, struct pev_session_ring *r, int fd)
{
	size_t page = (size_t)s->sys->pagesize(s->sys->ctx), asked = s->config.ring_bytes;
	int rc, refusal = 0;

	for (;;) {
		rc = r->backward ?
			     pev_ring_map_backward(&r->ring, s->sys, fd, s->config.ring_bytes) :
			     pev_ring_map(&r->ring, s->sys, fd, s->config.ring_bytes);
		if ((rc != -EPERM && rc != -ENOMEM) || s->config.ring_bytes <= page)
			break;
		refusal = rc;
		s->config.ring_bytes = shrink_ring_bytes(s, s->config.ring_bytes, rc);
	}
	if (rc == 0 && s->config.ring_bytes != asked && s->config.note) {
		struct pev_err what;

		pev_fail(&what, refusal,
			 "ring on cpu %d: %zu KiB instead of %zu KiB, as much as %s", r->cpu,
			 s->config.ring_bytes / 1024, asked / 1024, refusal == -EPERM ?
			 "kernel.perf_event_mlock_kb allows" : "the kernel has memory for");
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

/*
 * True if the event can share this ring: same CPU, direction and clock (perf_event_set_output()).
 */
static bool writes_into(const struct pev_session_ring *r, const struct pev_slot *slot, int cpu)
{
	const struct pev_attr *attr = &slot->event.attr;

	return !slot->counts && r->cpu == cpu && r->owner == (slot->own_rings ? slot : NULL) &&
	       r->backward == !!(attr->flags & PEV_ATTR_WRITE_BACKWARD) &&
	       r->clockid == clock_of(attr);
}

/* Maps the AUX area; halves it like a ring when it exceeds the mlock budget. */
static int aux_map(struct pev_session *s, struct pev_session_ring *r, const struct pev_slot *slot,
		   struct pev_want *want, struct pev_err *err)
{
	size_t page = (size_t)s->sys->pagesize(s->sys->ctx), asked = want->aux_bytes;
	int rc;

	for (;;) {
		rc = pev_ring_map_aux(&r->ring, r->fd, want->aux_bytes);
		if (rc != -EPERM || want->aux_bytes <= page)
			break;
		want->aux_bytes = shrink_ring_bytes(s, want->aux_bytes, rc);
	}
	if (rc == -EOPNOTSUPP && want->aux_optional) {
		pev_session_note(s, "%s: its PMU has no AUX area", slot->event.name);
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
		pev_session_note(s, "%s: AUX area of %zu KiB instead of %zu KiB, as much as "
		     "kernel.perf_event_mlock_kb allows", slot->event.name,
		     want->aux_bytes / 1024, asked / 1024);
	return 0;
}

static int ring_add(struct pev_session *s, const struct pev_slot *slot, int cpu, int fd,
		    struct pev_want *want, struct pev_err *err)
{
	const struct pev_attr *attr = &slot->event.attr;
	struct pev_session_ring **rings = realloc(s->rings, sizeof(*rings) * (s->nr_rings + 1));
	struct pev_session_ring *r = calloc(1, sizeof(*r));
	size_t asked = s->config.ring_bytes;
	int rc = -ENOMEM;

	if (rings)
		s->rings = rings;
	if (!rings || !r || pev_merge_reserve(&s->merge, s->nr_rings + 1) < 0) {
		pev_fail(err, rc, "cannot add a ring for %s", slot->event.name);
		goto fail;
	}
	*r = (struct pev_session_ring){
		.cpu = cpu, .clockid = clock_of(attr), .fd = fd, .poll_fd = -1,
		.epfd = s->epfd, .owner = slot->own_rings ? slot : NULL, .early = slot->early,
		.backward = attr->flags & PEV_ATTR_WRITE_BACKWARD,
	};
	rc = ring_map(s, r, fd);
	if (rc < 0) {
		pev_fail(err, rc, "cannot map a ring of %zu KiB for %s",
			 s->config.ring_bytes / 1024, slot->event.name);
		pev_err_set(err, PEV_OP_MAP_RING, -1, cpu, s->config.ring_bytes);
		s->config.ring_bytes = asked;
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
	struct pev_session_ring *r = s->rings[index];
	int last = r->poll_fd;
	bool passed = false;

	s->sys->epoll_ctl(s->sys->ctx, s->epfd, EPOLL_CTL_DEL, last, 0, 0);
	if (r->epfd != s->epfd)
		s->sys->epoll_ctl(s->sys->ctx, r->epfd, EPOLL_CTL_DEL, last, 0, 0);
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

	if (want->no_records)
		attr->sample_type = attr->sample_period = 0;
	else
		attr->sample_type |= PERF_SAMPLE_IDENTIFIER;
	if (!want->no_cpu)
		attr->sample_type |= PERF_SAMPLE_CPU;
	if (!want->no_time)
		attr->sample_type |= PERF_SAMPLE_TIME;
	/* is_excluded() reads it; READ of an inherited event is per task. */
	if (!want->no_task || s->config.names_tasks ||
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
	if (!want->no_records && !attr->wakeup_events && !(attr->flags & PEV_ATTR_WATERMARK)) {
		attr->flags |= PEV_ATTR_WATERMARK;
		attr->wakeup_events = want->early ? 1 : (uint32_t)(s->config.ring_bytes / 4);
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
			pev_session_note(s, "%s: without read_format lost (Linux 6.0): losses are "
					    "known from LOST records alone", name);
	}
	if (rc == -EINVAL && clock) {
		attr.flags &= ~PEV_ATTR_USE_CLOCKID;
		attr.clockid = 0;
		rc = pev_event_open(&slot->event, s->sys, &attr, name, target, err);
		if (rc == 0) {
			pev_session_note(s, "%s: keeps its own clock; records of different CPUs "
					    "are not put in order", name);
			s->own_clock = true;
		}
	}
	return rc;
}

static void note_skipped(struct pev_session *s, const struct pev_event *event)
{
	if (event->gone)
		pev_session_note(s, "%s: %d threads had ended already", event->name, event->gone);
	if (event->offline)
		pev_session_note(s, "%s: %d CPUs are not online and were left out", event->name,
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
	slot->own_rings = want.aux_bytes != 0 || want.early;
	slot->early = want.early;
	slot->counts = want.no_records;
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
	for (int i = 0; rc == 0 && !slot->counts && i < slot->event.nr; i++)
		rc = route_output(s, slot, &slot->event.fds[i], &want, err);
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
		struct pev_session_ring *r = s->rings[--s->nr_rings];

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

	pev_session_stop_feed(s);
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
	pev_session_stop_feed(s);
	slot->closed = true;
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

int pev_session_set_tick(struct pev_session *s, uint64_t ns)
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

	rc = s->tick < 0 ? pev_session_set_tick(s, PEV_TICK_NS) : 0;
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

int64_t pev_session_take_count(struct pev_session *s, struct pev_slot *slot)
{
	int64_t count = slot->counts && !slot->closed ? pev_event_count(&slot->event) : 0;
	uint64_t more = (uint64_t)count - slot->counted;

	if (count <= 0)
		return count;
	slot->counted = (uint64_t)count;
	s->totals.records += more;
	return (int64_t)more;
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
	bool unread;

	pev_session_lock_rings(s);
	unread = has_unread(s) || pev_session_has_fed(s);
	pev_session_unlock_rings(s);
	if (rc < 0 && rc != -EAGAIN)
		return (int)rc;
	/* Records of hidden events alone do not need the fast tick. */
	if (!unread || !s->delivered_since_tick)
		pev_session_set_tick(s, PEV_IDLE_TICK_NS);
	s->delivered_since_tick = false;
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

/* ---- the end ---- */

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
	pev_session_close_feed(s);
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
	pev_task_history_free(&s->history);
	pev_tasks_free(&s->tasks);
	free(s->ids);
	free(s->slots);
	free(s->rings);
	free(s);
}
