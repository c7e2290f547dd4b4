/*
 * event.h - one attr, opened on CPUs x threads.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "event/attr.h"
#include "base/err.h"
#include "base/sys.h"

/*
 * Where to open: every pid on every cpu. A pid of -1 is all tasks of the CPU. With cgroup, the
 * path of its directory, only its tasks; pids are ignored. With leader the event joins its group
 * at each place; places without the leader are skipped.
 */
struct pev_target {
	const int *pids;
	int nr_pids;
	const int *cpus;
	int nr_cpus;
	const char *cgroup;
	const struct pev_event *leader;
};

/* One perf descriptor. */
struct pev_event_fd {
	int fd;        /* -1 once closed */
	int pid, cpu;
	uint64_t id;
};

struct pev_event {
	const struct pev_sys *sys;  /* borrowed */
	struct pev_attr attr;       /* as the kernel accepted it */
	char *name;                 /* owned; for messages */
	struct pev_event_fd *fds;   /* owned, ordered by cpu, then pid as the target had them */
	int nr;
	int gone;                   /* pids of the target that had exited */
	int offline;                /* cpus of the target that were offline */
};

/*
 * Opens attr on the target. Exited pids are skipped if another one runs, and offline CPUs if
 * another one is online; both are counted. On -errno nothing stays open; err names event,
 * CPU and pid.
 */
int pev_event_open(struct pev_event *event, const struct pev_sys *sys, const struct pev_attr *attr,
		   const char *name, const struct pev_target *target, struct pev_err *err);

/* Safe on a half-open event, and twice. */
void pev_event_close(struct pev_event *event);

/* Calls ENABLE, DISABLE or RESET on every descriptor. Returns the first failure, or 0. */
int pev_event_ioctl(struct pev_event *event, unsigned long request);

/* A tracepoint's filter (SET_FILTER), once in an event's life. */
int pev_event_filter(struct pev_event *event, const char *filter, struct pev_err *err);

/* Sets a new sample_period (or frequency), effective at once (PERIOD). */
int pev_event_period(struct pev_event *event, uint64_t period);

/*
 * Makes every descriptor signal this process at each overflow (POLL_IN; POLL_HUP at the last
 * one of REFRESH); 0 ends that. Returns the first failure, or 0.
 */
int pev_event_signal(struct pev_event *event, int signal);

/* The number of records that the kernel lost, or -errno (PERF_FORMAT_LOST, 6.0). */
int64_t pev_event_lost(const struct pev_event *event);

/* The sum of its counts, or -errno. Not of a group. */
int64_t pev_event_count(const struct pev_event *event);

/*
 * The enabled time on that CPU in ns, summed over its descriptors there; 0 if unknown (an event of
 * a group, or in error state).
 */
uint64_t pev_event_time_on(const struct pev_event *event, int cpu);
