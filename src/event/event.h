/*
 * event.h - one attr, opened on CPUs x threads.
 */
#ifndef PEV_EVENT_H
#define PEV_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "event/attr.h"
#include "base/err.h"
#include "base/sys.h"

/*
 * Where to open: every pid on every cpu. A pid of -1 is all tasks of the CPU. With cgroup (the path
 * of its directory) only those in it: then the pids are not looked at. With leader the event joins
 * its group, place by place; where the leader is not, neither is this one.
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
	int gone;                   /* pids of the target that had ended already */
	int offline;                /* cpus of the target that were not there */
};

/*
 * Open attr on the target. A pid that is gone is skipped as long as another
 * is there, and a CPU that is not online as long as another is; both are counted.
 * -errno closes what was opened; err names event, CPU and pid.
 */
int pev_event_open(struct pev_event *event, const struct pev_sys *sys, const struct pev_attr *attr,
		   const char *name, const struct pev_target *target, struct pev_err *err);

/* Safe on a half-open one, and twice. */
void pev_event_close(struct pev_event *event);

/* ENABLE, DISABLE or RESET of every descriptor: the first failure, or 0. */
int pev_event_ioctl(struct pev_event *event, unsigned long request);

/* A tracepoint's filter (SET_FILTER), once in an event's life. */
int pev_event_filter(struct pev_event *event, const char *filter, struct pev_err *err);

/* A new sample_period (or frequency), in force at once (PERIOD). */
int pev_event_period(struct pev_event *event, uint64_t period);

/*
 * A signal to this process at each overflow (POLL_IN; POLL_HUP at the last that REFRESH
 * let through), from every descriptor; 0: no longer. The first failure, or 0.
 */
int pev_event_signal(struct pev_event *event, int signal);

/* How many of its records the kernel could not write, or -errno (PERF_FORMAT_LOST, 6.0). */
int64_t pev_event_lost(const struct pev_event *event);

/*
 * For how long it was on, in ns, on that CPU: its descriptors there together; 0 when the kernel
 * does not say (a group's event, one in error state).
 */
uint64_t pev_event_time_on(const struct pev_event *event, int cpu);

#endif
