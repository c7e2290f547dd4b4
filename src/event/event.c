/*
 * event.c - one attr, opened on CPUs x threads; see event.h.
 */
#include "event/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "record/record.h"

/* The kernel's error for a missing CPU: EINVAL from nr_cpu_ids on, else ENODEV. */
static bool cpu_is_absent(const struct pev_event *event, int cpu, int code)
{
	int *online, nr;
	bool absent = true;

	if (code != -ENODEV && code != -EINVAL)
		return false;
	nr = pev_sys_cpus(event->sys, &online);
	if (nr < 0)
		return false;
	for (int i = 0; i < nr; i++)
		absent = absent && online[i] != cpu;
	free(online);
	return absent;
}

static int open_failed(const struct pev_event *event, const struct pev_target *target, int pid,
		       int cpu, int code, struct pev_err *err)
{
	if (target->cgroup)
		pev_fail(err, code, "cannot open %s in cgroup %s on cpu %d", event->name,
			 target->cgroup, cpu);
	else if (pid == -1)
		pev_fail(err, code, "cannot open %s on cpu %d", event->name, cpu);
	else
		pev_fail(err, code, "cannot open %s for pid %d on cpu %d", event->name, pid, cpu);
	pev_err_set(err, PEV_OP_OPEN, pid, cpu, 0);
	return code;
}

/* The leader's descriptor at a place; -1 without a group, -ESRCH without a leader there. */
static int leader_at(const struct pev_event *leader, int pid, int cpu)
{
	for (int i = 0; leader && i < leader->nr; i++)
		if (leader->fds[i].pid == pid && leader->fds[i].cpu == cpu &&
		    leader->fds[i].fd >= 0)
			return leader->fds[i].fd;
	return leader ? -ESRCH : -1;
}

/* flags: PERF_FLAG_PID_CGROUP if pid is a cgroup's descriptor. */
static int open_one(struct pev_event *event, const struct pev_event *leader, int pid, int cpu,
		    unsigned long flags)
{
	struct pev_event_fd *slot = &event->fds[event->nr];
	int group = leader_at(leader, flags ? -1 : pid, cpu);
	int fd, rc;

	if (group == -ESRCH)
		return group;
	fd = event->sys->perf_event_open(event->sys->ctx, &event->attr, pid, cpu, group,
					 flags | PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return fd;
	*slot = (struct pev_event_fd){ .fd = fd, .pid = flags ? -1 : pid, .cpu = cpu };
	event->nr++;
	rc = event->sys->ioctl(event->sys->ctx, fd, PERF_EVENT_IOC_ID, (uintptr_t)&slot->id);
	return rc < 0 ? rc : 0;
}

static int open_all(struct pev_event *event, const struct pev_target *target, struct pev_err *err)
{
	int rc, last = 0, pid = 0, cpu = 0;

	for (int c = 0; c < target->nr_cpus; c++) {
		event->gone = 0;
		for (int p = 0; p < target->nr_pids; p++) {
			pid = target->pids[p];
			cpu = target->cpus[c];
			rc = open_one(event, target->leader, pid, cpu, 0);
			if (rc == 0)
				continue;
			last = rc;
			if (rc == -ESRCH && target->nr_pids > 1) {
				event->gone++;
				continue;
			}
			if (target->nr_cpus > 1 && cpu_is_absent(event, cpu, rc)) {
				event->offline++;
				break;
			}
			return open_failed(event, target, pid, cpu, rc, err);
		}
	}
	return event->nr ? 0 : open_failed(event, target, pid, cpu, last, err);
}

/* For a cgroup, opens an event per CPU: perf_event_open() requires a CPU. */
static int open_cgroup(struct pev_event *event, const struct pev_target *target,
		       struct pev_err *err)
{
	int dir = event->sys->directory(event->sys->ctx, target->cgroup);
	int rc = 0, cpu = -1;

	if (dir < 0)
		return pev_fail(err, dir, "cannot open the cgroup %s", target->cgroup);
	for (int c = 0; c < target->nr_cpus; c++) {
		cpu = target->cpus[c];
		rc = open_one(event, target->leader, dir, cpu, PERF_FLAG_PID_CGROUP);
		if (rc == 0)
			continue;
		if (target->nr_cpus == 1 || !cpu_is_absent(event, cpu, rc))
			break;
		event->offline++;
	}
	event->sys->close(event->sys->ctx, dir); /* the events keep the cgroup */
	if (rc < 0 && (event->nr + event->offline < target->nr_cpus || !event->nr))
		return open_failed(event, target, -1, cpu, rc, err);
	return 0;
}

int pev_event_open(struct pev_event *event, const struct pev_sys *sys, const struct pev_attr *attr,
		   const char *name, const struct pev_target *target, struct pev_err *err)
{
	size_t most = (size_t)target->nr_pids * (size_t)target->nr_cpus;
	int rc;

	*event = (struct pev_event){ .sys = sys, .attr = *attr };
	event->name = strdup(name);
	event->fds = calloc(most ? most : 1, sizeof(*event->fds));
	if (!event->name || !event->fds) {
		pev_event_close(event);
		return pev_fail(err, -ENOMEM, "cannot open %s", name);
	}
	pev_attr_seal(&event->attr);
	rc = target->cgroup ? open_cgroup(event, target, err) : open_all(event, target, err);
	if (rc < 0)
		pev_event_close(event);
	return rc;
}

void pev_event_close(struct pev_event *event)
{
	for (int i = event->nr - 1; event->fds && i >= 0; i--) {
		if (event->fds[i].fd >= 0)
			event->sys->close(event->sys->ctx, event->fds[i].fd);
		event->fds[i].fd = -1;
	}
	free(event->fds);
	free(event->name);
	event->fds = NULL;
	event->name = NULL;
	event->nr = 0;
}

static int each_fd(struct pev_event *event, unsigned long request, uintptr_t arg)
{
	int first = 0;

	for (int i = 0; i < event->nr; i++) {
		int rc;

		if (event->fds[i].fd < 0)
			continue;
		rc = event->sys->ioctl(event->sys->ctx, event->fds[i].fd, request, arg);
		if (rc < 0 && !first)
			first = rc;
	}
	return first;
}

int pev_event_ioctl(struct pev_event *event, unsigned long request)
{
	return each_fd(event, request, 0);
}

int pev_event_filter(struct pev_event *event, const char *filter, struct pev_err *err)
{
	int rc = each_fd(event, PERF_EVENT_IOC_SET_FILTER, (uintptr_t)filter);

	if (rc == -EEXIST)
		return pev_fail(err, rc,
				"%s: filter '%s': this event has a filter already, and the kernel "
				"takes one in an event's life", event->name, filter);
	if (rc < 0)
		return pev_fail(err, rc, "%s: the kernel refuses the filter '%s'",
				event->name, filter);
	return 0;
}

int pev_event_period(struct pev_event *event, uint64_t period)
{
	return each_fd(event, PERF_EVENT_IOC_PERIOD, (uintptr_t)&period);
}

int pev_event_signal(struct pev_event *event, int signal)
{
	int first = 0;

	for (int i = 0; i < event->nr; i++) {
		int rc = 0;

		if (event->fds[i].fd >= 0)
			rc = pev_sys_signal(event->sys, event->fds[i].fd, signal);
		if (rc < 0 && !first)
			first = rc;
	}
	return first;
}

/* A single value with every read_format word: value, two times, id, lost. */
#define READ_BYTES 40

/* 1, or 0 for a pinned event in error state, which has no bytes; or -errno. Borrows from buf. */
static int read_one(const struct pev_event *event, int i, unsigned char *buf, struct pev_read *read)
{
	int64_t n = event->sys->read(event->sys->ctx, event->fds[i].fd, buf, READ_BYTES);

	if (n < 0)
		return (int)n;
	return pev_read_parse(read, event->attr.read_format, false, buf, (size_t)n) > 0;
}

static int64_t sum_values(const struct pev_event *event, bool is_lost)
{
	unsigned char buf[READ_BYTES];
	struct pev_read_value value;
	struct pev_read read;
	int64_t total = 0;

	for (int i = 0; i < event->nr; i++) {
		int rc = event->fds[i].fd < 0 ? 0 : read_one(event, i, buf, &read);

		if (rc < 0)
			return rc;
		if (rc == 0)
			continue;
		value = pev_read_at(&read, 0);
		total += (int64_t)(is_lost ? value.lost : value.value);
	}
	return total;
}

int64_t pev_event_lost(const struct pev_event *event)
{
	if (!(event->attr.read_format & PEV_FORMAT_LOST) ||
	    event->attr.read_format & PERF_FORMAT_GROUP)
		return -EOPNOTSUPP;
	return sum_values(event, true);
}

int64_t pev_event_count(const struct pev_event *event)
{
	return sum_values(event, false);
}

uint64_t pev_event_time_on(const struct pev_event *event, int cpu)
{
	unsigned char buf[READ_BYTES];
	struct pev_read read;
	uint64_t total = 0;

	if (!(event->attr.read_format & PERF_FORMAT_TOTAL_TIME_ENABLED) ||
	    event->attr.read_format & PERF_FORMAT_GROUP)
		return 0;
	for (int i = 0; i < event->nr; i++)
		if (event->fds[i].cpu == cpu && event->fds[i].fd >= 0 &&
		    read_one(event, i, buf, &read) > 0)
			total += read.time_enabled;
	return total;
}
