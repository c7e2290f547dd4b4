/*
 * counter.c - opens, reads and controls counters; see counter.h.
 */
#include "event/counter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/record.h"

#define READ_MAX 65536 /* longer than any group's read: the kernel keeps it below 16 KiB */
#define TIMES (PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)

/* Bits of capabilities in struct perf_event_mmap_page. */
#define CAP_USER_RDPMC (1u << 2)
#define CAP_USER_TIME (1u << 3)
#define CAP_USER_TIME_SHORT (1u << 5) /* 5.12 */
#define PAGE_TRIES 1000

/* ---- opening and closing ---- */

static size_t page_size(const struct pev_counter *counter)
{
	return (size_t)counter->sys->pagesize(counter->sys->ctx);
}

int pev_counter_open(struct pev_counter *counter, const struct pev_sys *sys,
		     const struct pev_counter_config *config, const struct pev_target *target,
		     struct pev_err *err)
{
	size_t most = (size_t)target->nr_pids * (size_t)target->nr_cpus;

	*counter = (struct pev_counter){ .sys = sys, .config = *config, .cap = 256, .dir = -1,
					 .process = pev_sys_process() };
	counter->config.cgroup_path = NULL;
	counter->cgroup_path = config->cgroup_path ? strdup(config->cgroup_path) : NULL;
	counter->places = calloc(most ? most : 1, sizeof(*counter->places));
	counter->buf = malloc(counter->cap);
	if (!counter->places || !counter->buf || (config->cgroup_path && !counter->cgroup_path)) {
		pev_counter_close(counter);
		return pev_fail(err, -ENOMEM, "no memory for a counter");
	}
	for (int c = 0; c < target->nr_cpus; c++) {
		for (int p = 0; p < target->nr_pids; p++) {
			struct pev_counter_place *place = &counter->places[counter->nr_places++];

			place->pid = target->pids[p];
			place->cpu = target->cpus[c];
			if (place->pid >= 0 && place->cpu >= 0 && !config->cgroup)
				counter->unscaled = true;
		}
	}
	return 0;
}

bool pev_counter_is_ours(const struct pev_counter *counter)
{
	return counter->process == pev_sys_process();
}

void pev_counter_remove(struct pev_counter *counter, int member)
{
	struct pev_member *m = &counter->members[member];
	const struct pev_sys *sys = counter->sys;

	for (int p = counter->nr_places - 1; m->at && p >= 0; p--) {
		/* A forked process has no copy of the page (VM_DONTCOPY, perf_mmap()). */
		if (m->at[p].page && pev_counter_is_ours(counter))
			sys->munmap(sys->ctx, m->at[p].page, page_size(counter));
		if (m->at[p].fd >= 0)
			sys->close(sys->ctx, m->at[p].fd);
		m->at[p].page = NULL;
		m->at[p].fd = -1;
	}
	m->open = false;
}

void pev_counter_close(struct pev_counter *counter)
{
	for (int i = counter->nr - 1; i >= 0; i--) {
		pev_counter_remove(counter, i);
		free(counter->members[i].at);
		free(counter->members[i].name);
	}
	free(counter->members);
	free(counter->places);
	free(counter->buf);
	free(counter->cgroup_path);
	counter->cgroup_path = NULL;
	counter->members = NULL;
	counter->places = NULL;
	counter->buf = NULL;
	counter->nr = counter->nr_places = 0;
}

static bool cpu_is_online(const struct pev_sys *sys, int cpu)
{
	int *online, nr = pev_sys_cpus(sys, &online);
	bool found = nr < 0; /* unknown: trust the kernel's error */

	for (int i = 0; i < nr; i++)
		found = found || online[i] == cpu;
	if (nr >= 0)
		free(online);
	return found;
}

/* True if the counter can go on without that place. */
static bool may_be_left_out(const struct pev_counter *counter,
			    const struct pev_counter_place *place,
			    int code)
{
	if (counter->nr_places == 1)
		return false;
	if (code == -ESRCH)
		return true;
	/* EINVAL past nr_cpu_ids, else ENODEV. */
	return (code == -ENODEV || code == -EINVAL) && place->cpu >= 0 &&
	       !cpu_is_online(counter->sys, place->cpu);
}

static int open_at(struct pev_counter *counter, struct pev_member *m, int p)
{
	const struct pev_counter_place *place = &counter->places[p];
	unsigned long flags = PERF_FLAG_FD_CLOEXEC;
	struct pev_count_fd *at = &m->at[p];
	int leader = -1, rc;

	if (counter->config.grouped && m != counter->members)
		leader = counter->members[0].at[p].fd;
	if (counter->config.cgroup || counter->cgroup_path)
		flags |= PERF_FLAG_PID_CGROUP;
	rc = counter->sys->perf_event_open(counter->sys->ctx, &m->attr,
					   counter->cgroup_path ? counter->dir : place->pid,
					   place->cpu, leader, flags);
	if (rc < 0)
		return rc;
	at->fd = rc;
	rc = counter->sys->ioctl(counter->sys->ctx, at->fd, PERF_EVENT_IOC_ID, (uintptr_t)&at->id);
	return rc < 0 ? rc : 0;
}

static int open_failed(const struct pev_counter *counter, const struct pev_member *m, int p,
		       int code, struct pev_err *err)
{
	const struct pev_counter_place *place = &counter->places[p];
	bool is_cgroup = counter->cgroup_path || counter->config.cgroup;

	if (counter->cgroup_path)
		pev_fail(err, code, "cannot count %s in cgroup %s on cpu %d", m->name,
			 counter->cgroup_path, place->cpu);
	else if (counter->config.cgroup)
		pev_fail(err, code, "cannot count %s in the cgroup of descriptor %d on cpu %d",
			 m->name, place->pid, place->cpu);
	else if (place->pid == -1)
		pev_fail(err, code, "cannot count %s on cpu %d", m->name, place->cpu);
	else if (place->cpu == -1 && place->pid == 0)
		pev_fail(err, code, "cannot count %s of this thread", m->name);
	else if (place->cpu == -1)
		pev_fail(err, code, "cannot count %s of pid %d", m->name, place->pid);
	else
		pev_fail(err, code, "cannot count %s of pid %d on cpu %d", m->name, place->pid,
			 place->cpu);
	pev_err_set(err, PEV_OP_OPEN, is_cgroup ? -1 : place->pid, place->cpu, 0);
	return code;
}

static bool is_among(const int *cpus, int nr, int cpu)
{
	bool found = nr == 0 || cpu < 0;

	for (int i = 0; i < nr; i++)
		found = found || cpus[i] == cpu;
	return found;
}

static int open_everywhere(struct pev_counter *counter, struct pev_member *m, const int *cpus,
			   int nr_cpus, struct pev_err *err)
{
	bool first = m == counter->members;
	int rc, opened = 0, last = -ESRCH, last_place = 0;

	for (int p = 0; p < counter->nr_places; p++) {
		struct pev_counter_place *place = &counter->places[p];

		if (place->gone || !is_among(cpus, nr_cpus, place->cpu))
			continue;
		rc = open_at(counter, m, p);
		if (rc == 0) {
			opened++;
			continue;
		}
		if (!may_be_left_out(counter, place, rc))
			return open_failed(counter, m, p, rc, err);
		/* Later members skip this place: their group has no leader there. */
		place->gone = first;
		last = rc;
		last_place = p;
	}
	return opened ? 0 : open_failed(counter, m, last_place, last, err);
}

/* The cgroup's directory is open only while events are opened; they keep the cgroup. */
static int open_member(struct pev_counter *counter, struct pev_member *m, const int *cpus,
		       int nr_cpus, struct pev_err *err)
{
	const struct pev_sys *sys = counter->sys;
	int rc;

	if (!counter->cgroup_path)
		return open_everywhere(counter, m, cpus, nr_cpus, err);
	counter->dir = sys->directory(sys->ctx, counter->cgroup_path);
	if (counter->dir < 0)
		return pev_fail(err, counter->dir, "cannot open the cgroup %s",
				counter->cgroup_path);
	rc = open_everywhere(counter, m, cpus, nr_cpus, err);
	sys->close(sys->ctx, counter->dir);
	counter->dir = -1;
	return rc;
}

int pev_counter_add(struct pev_counter *counter, const struct pev_attr *attr, const char *name,
		    const int *cpus, int nr_cpus, struct pev_err *err)
{
	size_t nr = (size_t)counter->nr + 1;
	struct pev_member *members, *m;
	int rc;

	if (counter->config.grouped && counter->nr > 0 && !counter->members[0].open)
		return pev_fail(err, -EBADF, "cannot add %s: the group's leader, %s, is closed",
				name, counter->members[0].name);
	members = realloc(counter->members, nr * sizeof(*members));
	if (!members)
		return pev_fail(err, -ENOMEM, "no memory for a counter");
	counter->members = members;
	m = &members[counter->nr++];
	*m = (struct pev_member){ .attr = *attr, .name = strdup(name), .open = true };
	m->at = calloc((size_t)counter->nr_places, sizeof(*m->at));
	for (int p = 0; m->at && p < counter->nr_places; p++)
		m->at[p].fd = -1;
	pev_attr_seal(&m->attr);
	rc = m->at && m->name ? open_member(counter, m, cpus, nr_cpus, err) :
	     pev_fail(err, -ENOMEM, "no memory for a counter");
	if (rc == 0)
		return counter->nr - 1;
	pev_counter_remove(counter, --counter->nr);
	for (int p = 0; counter->nr == 0 && p < counter->nr_places; p++)
		counter->places[p].gone = false;
	free(m->at);
	free(m->name);
	return rc;
}

/* ---- reading ---- */

/* 1, 0 for a pinned event in error state, or -errno. */
static int read_fd(struct pev_counter *counter, int fd, uint64_t format, struct pev_read *read)
{
	int64_t n;

	for (;;) {
		void *more;

		n = counter->sys->read(counter->sys->ctx, fd, counter->buf, counter->cap);
		if (n != -ENOSPC || counter->cap >= READ_MAX)
			break;
		/* The group has members of other callers. */
		more = realloc(counter->buf, counter->cap * 2);
		if (!more)
			return -ENOMEM;
		counter->buf = more;
		counter->cap *= 2;
	}
	if (n <= 0)
		return (int)n; /* perf_read_group() and perf_read_one(): 0 in error state */
	n = pev_read_parse(read, format, false, counter->buf, (size_t)n);
	return n < 0 ? (int)n : 1;
}

static struct pev_reading reading_of(const struct pev_read *read, uint64_t i)
{
	struct pev_read_value value = pev_read_at(read, i);

	return (struct pev_reading){ .value = value.value, .enabled = read->time_enabled,
				     .running = read->time_running, .lost = value.lost };
}

/* value * enabled / running, rounded, in 128 bits. */
static uint64_t scale_value(uint64_t value, uint64_t enabled, uint64_t running)
{
	unsigned __int128 wide = (unsigned __int128)value * enabled + running / 2;

	if (enabled == running)
		return value;
	wide /= running;
	return wide > UINT64_MAX ? UINT64_MAX : (uint64_t)wide;
}

static void add_place(const struct pev_counter *counter, struct pev_member *m, int p, bool delta,
		    const struct pev_reading *now, struct pev_sum *sum)
{
	struct pev_reading d = *now, *base = &m->at[p].base;
	bool timed = (m->attr.read_format & TIMES) == TIMES;

	if (delta) {
		d.value -= base->value;
		d.enabled -= base->enabled;
		d.running -= base->running;
		d.lost -= base->lost;
		*base = *now;
	}
	sum->value += d.value;
	sum->enabled += d.enabled;
	sum->running += d.running;
	sum->lost += d.lost;
	if (timed && d.running == 0 && d.enabled != 0) {
		sum->silent++;
		return;
	}
	sum->known++;
	sum->scaled += timed && !counter->unscaled ? scale_value(d.value, d.enabled, d.running)
						   : d.value;
}

static int read_alone(struct pev_counter *counter, int i, int p, bool delta, struct pev_sum *sum)
{
	struct pev_member *m = &counter->members[i];
	struct pev_reading reading;
	struct pev_read read;
	uint64_t at = 0;
	int rc;

	if (m->at[p].page && pev_counter_page(counter->sys, m->at[p].page, &reading)) {
		add_place(counter, m, p, delta, &reading, sum);
		return 0;
	}
	rc = read_fd(counter, m->at[p].fd, m->attr.read_format, &read);
	if (rc < 0)
		return rc;
	if (rc == 0) {
		sum->failed++;
		return 0;
	}
	/* With PERF_FORMAT_GROUP and an id it can be at any index; else it is first. */
	for (uint64_t k = 0; m->attr.read_format & PERF_FORMAT_ID && k < read.nr; k++)
		if (pev_read_at(&read, k).id == m->at[p].id)
			at = k;
	if (at >= read.nr) {
		sum->absent++;
		return 0;
	}
	reading = reading_of(&read, at);
	add_place(counter, m, p, delta, &reading, sum);
	return 0;
}

static int read_group(struct pev_counter *counter, int p, bool delta, struct pev_sum *sums)
{
	struct pev_member *leader = counter->members;
	uint64_t format = leader->attr.read_format, nth = 0;
	struct pev_read read;
	int rc = read_fd(counter, leader->at[p].fd, format, &read);

	if (rc < 0)
		return rc;
	for (int i = 0; i < counter->nr; i++) {
		struct pev_member *m = &counter->members[i];
		struct pev_reading reading;
		uint64_t k = nth;

		if (m->at[p].fd < 0)
			continue;
		nth++;
		if (rc == 0) {
			sums[i].failed++;
			continue;
		}
		/* Without ids, values are in the order of opening. */
		if (format & PERF_FORMAT_ID)
			for (k = 0; k < read.nr; k++)
				if (pev_read_at(&read, k).id == m->at[p].id)
					break;
		if (k >= read.nr) {
			sums[i].absent++;
			continue;
		}
		reading = reading_of(&read, k);
		add_place(counter, m, p, delta, &reading, &sums[i]);
	}
	return 0;
}

/* Reads all members' pages or none: a group's values are of one moment. */
static bool read_pages(struct pev_counter *counter, int p, bool delta, struct pev_sum *sums)
{
	struct pev_reading readings[16];
	int nr = 0;

	for (int i = 0; i < counter->nr; i++) {
		struct pev_count_fd *at = &counter->members[i].at[p];

		if (at->fd < 0)
			continue;
		if (nr == 16 || !at->page ||
		    !pev_counter_page(counter->sys, at->page, &readings[nr]))
			return false;
		nr++;
	}
	nr = 0;
	for (int i = 0; i < counter->nr; i++)
		if (counter->members[i].at[p].fd >= 0)
			add_place(counter, &counter->members[i], p, delta, &readings[nr++],
				  &sums[i]);
	return true;
}

static int read_place(struct pev_counter *counter, int p, bool delta, struct pev_sum *sums,
		      int *who)
{
	struct pev_member *leader = counter->members;
	bool together = counter->config.grouped && leader->at[p].fd >= 0 &&
			leader->attr.read_format & PERF_FORMAT_GROUP;
	int rc;

	*who = 0;
	if (together && read_pages(counter, p, delta, sums))
		return 0;
	if (together)
		return read_group(counter, p, delta, sums);
	for (int i = 0; i < counter->nr; i++) {
		if (counter->members[i].at[p].fd < 0)
			continue;
		*who = i;
		rc = read_alone(counter, i, p, delta, &sums[i]);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int pev_counter_read(struct pev_counter *counter, int cpu, bool delta, struct pev_sum *sums,
		     struct pev_err *err)
{
	int who = 0;

	memset(sums, 0, sizeof(*sums) * (size_t)counter->nr);
	for (int p = 0; counter->nr > 0 && p < counter->nr_places; p++) {
		int rc = 0;

		if (cpu < 0 || counter->places[p].cpu == cpu)
			rc = read_place(counter, p, delta, sums, &who);
		if (rc < 0)
			return pev_fail(err, rc, "cannot read %s", counter->members[who].name);
	}
	return 0;
}

int pev_counter_page(const struct pev_sys *sys, const void *page, struct pev_reading *reading)
{
	const volatile struct perf_event_mmap_page *pc = page;

	for (int i = 0; i < PAGE_TRIES; i++) {
		uint32_t seq = __atomic_load_n(&pc->lock, __ATOMIC_ACQUIRE);
		uint64_t caps = pc->capabilities, enabled = pc->time_enabled;
		uint64_t running = pc->time_running, cyc, delta, pmc;
		uint32_t index = pc->index, mult = pc->time_mult;
		uint16_t width = pc->pmc_width, shift = pc->time_shift;
		uint64_t offset = pc->time_offset;
		int64_t count = pc->offset;

		/*
		 * Without an index the counter is not on a PMU now, or never is: the offset of a
		 * software event is as old as its last switch. Times must be readable, too, to
		 * match the count.
		 */
		if (!(caps & CAP_USER_RDPMC) || !(caps & CAP_USER_TIME) || index == 0 ||
		    width == 0 || width > 64 || shift > 63)
			return 0;
		if (sys->rdtsc(sys->ctx, &cyc) < 0 || sys->rdpmc(sys->ctx, index - 1, &pmc) < 0)
			return 0;
		if (caps & CAP_USER_TIME_SHORT) {
			/* time_cycles and time_mask; headers before 5.12 do not name them. */
			const volatile uint64_t *words = page;

			cyc = words[10] + ((cyc - words[10]) & words[11]);
		}
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if ((seq & 1) || pc->lock != seq)
			continue;
		delta = offset + (cyc >> shift) * mult +
			(((cyc & ((UINT64_C(1) << shift) - 1)) * mult) >> shift);
		/* Sign-extended from its width: counters are set to minus what is left. */
		count += (int64_t)(pmc << (64 - width)) >> (64 - width);
		*reading = (struct pev_reading){ .value = (uint64_t)count,
						 .enabled = enabled + delta,
						 .running = running + delta };
		return 1;
	}
	return 0;
}

int pev_counter_map(struct pev_counter *counter, int member, struct pev_err *err)
{
	const struct pev_member *m = &counter->members[member];
	struct pev_count_fd *at = &m->at[0];
	int rc;

	/* perf_mmap() returns EINVAL for all of these. */
	if (counter->nr_places != 1 || at->fd < 0)
		return pev_fail(err, -EINVAL, "cannot map the page of %s: it counts in %d places, "
				"and a page is of one", m->name, counter->nr_places);
	if (at->page)
		return pev_fail(err, -EINVAL, "cannot map the page of %s: it is mapped already",
				m->name);
	if (at->redirected)
		return pev_fail(err, -EINVAL, "cannot map the page of %s: its output goes to "
				"another event's ring", m->name);
	/* FORMAT_LOST is not on the page. */
	if (m->attr.read_format & PEV_FORMAT_LOST)
		return 0;
	rc = counter->sys->mmap(counter->sys->ctx, page_size(counter), 1 /* PROT_READ */, at->fd, 0,
				&at->page);
	return rc < 0 ? pev_fail(err, rc, "cannot map the page of %s", m->name) : 0;
}

/* ---- ioctls ---- */

int pev_counter_ioctl(struct pev_counter *counter, int member, unsigned long request,
		      uintptr_t arg)
{
	int first = 0;

	for (int i = 0; i < counter->nr; i++) {
		struct pev_member *m = &counter->members[i];

		for (int p = 0; (member < 0 || member == i) && p < counter->nr_places; p++) {
			int fd = m->at[p].fd, rc = 0;

			if (fd >= 0)
				rc = counter->sys->ioctl(counter->sys->ctx, fd, request, arg);
			if (rc < 0 && !first)
				first = rc;
		}
	}
	return first;
}

/* RESET keeps the times, and the counts of exited children (child_count). */
static int reset_base(struct pev_counter *counter, int member, bool group)
{
	for (int i = 0; i < counter->nr; i++) {
		struct pev_member *m = &counter->members[i];

		for (int p = 0; p < counter->nr_places; p++) {
			struct pev_reading *base = &m->at[p].base, before = *base;
			struct pev_sum ignored = { 0 };
			int rc;

			if (m->at[p].fd < 0 || !(group || member < 0 || member == i))
				continue;
			base->value = 0;
			if (!(m->attr.flags & PEV_ATTR_INHERIT))
				continue;
			rc = read_alone(counter, i, p, true, &ignored);
			if (rc < 0)
				return rc;
			base->enabled = before.enabled;
			base->running = before.running;
			base->lost = before.lost;
		}
	}
	return 0;
}

int pev_counter_switch(struct pev_counter *counter, int member, unsigned long request, bool group)
{
	int rc;

	/* Members of a closed leader are single events (perf_group_detach()). */
	if (counter->nr > 0 && !counter->members[0].open)
		group = false;
	rc = pev_counter_ioctl(counter, group && member < 0 ? 0 : member, request,
			       group ? PERF_IOC_FLAG_GROUP : 0);
	if (rc < 0 || request != PERF_EVENT_IOC_RESET)
		return rc;
	return reset_base(counter, member, group);
}

int pev_counter_output(struct pev_counter *counter, int member, const struct pev_counter *to,
		       int to_member, struct pev_err *err)
{
	struct pev_member *m = &counter->members[member];
	int first = 0;

	if (counter->nr_places != to->nr_places)
		return pev_fail(err, -EINVAL, "cannot set the output of %s: it has %d places, and "
				"%s has %d", m->name, counter->nr_places,
				to->members[to_member].name, to->nr_places);
	for (int p = 0; p < counter->nr_places; p++) {
		int fd = to->members[to_member].at[p].fd, rc;

		if (m->at[p].fd < 0 || fd < 0)
			continue;
		/* perf_event_set_output(): EINVAL while it is mapped itself. */
		if (m->at[p].page)
			return pev_fail(err, -EINVAL, "cannot set the output of %s: its own page "
					"is mapped; open it with page = false", m->name);
		rc = counter->sys->ioctl(counter->sys->ctx, m->at[p].fd, PERF_EVENT_IOC_SET_OUTPUT,
					 (uintptr_t)(intptr_t)fd);
		m->at[p].redirected = m->at[p].redirected || rc >= 0;
		if (rc < 0 && !first)
			first = rc;
	}
	return first < 0 ? pev_fail(err, first, "SET_OUTPUT") : 0;
}

int pev_counter_signal(struct pev_counter *counter, int member, int signal)
{
	const struct pev_member *m = &counter->members[member];
	int first = 0;

	for (int p = 0; p < counter->nr_places; p++) {
		int rc = 0;

		if (m->at[p].fd >= 0)
			rc = pev_sys_signal(counter->sys, m->at[p].fd, signal);
		if (rc < 0 && !first)
			first = rc;
	}
	return first;
}

int pev_counter_query_bpf(struct pev_counter *counter, int member, uint32_t *ids, uint32_t max)
{
	struct pev_member *m = &counter->members[member];
	struct perf_event_query_bpf *query;
	int rc = -EBADF;

	query = calloc(1, sizeof(*query) + sizeof(uint32_t) * max);
	if (!query)
		return -ENOMEM;
	for (int p = 0; rc == -EBADF && p < counter->nr_places; p++) {
		if (m->at[p].fd < 0)
			continue;
		query->ids_len = max;
		rc = counter->sys->ioctl(counter->sys->ctx, m->at[p].fd, PERF_EVENT_IOC_QUERY_BPF,
					 (uintptr_t)query);
		break;
	}
	/* ENOSPC reports their number (bpf_prog_array_copy_info()). */
	if (rc == 0 || rc == -ENOSPC) {
		uint32_t got = query->prog_cnt < max ? query->prog_cnt : max;

		memcpy(ids, query->ids, got * sizeof(*ids));
		rc = (int)query->prog_cnt;
	}
	free(query);
	return rc;
}
