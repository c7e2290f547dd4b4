/*
 * counter.h - events that are counted: opened on places, read, and summed.
 *
 * A counter is a row of members, each opened at every place (a task, a CPU or a
 * task on a CPU). Grouped, the first member leads at every place and one
 * read there gives all of them at one moment. Readings are summed over the places; what is
 * scaled, is scaled place by place, and a delta before it is summed.
 */
#ifndef PEV_COUNTER_H
#define PEV_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/attr.h"
#include "base/err.h"
#include "event/event.h"
#include "base/sys.h"

/* What the kernel says of one descriptor, from its opening on. */
struct pev_reading {
	uint64_t value, enabled, running, lost;
};

/* A member at a place. */
struct pev_count_fd {
	int fd;                   /* -1: not opened there, or closed */
	uint64_t id;
	struct pev_reading base;  /* as of the last delta */
	void *page;               /* the counter page, or NULL */
	bool redirected;          /* SET_OUTPUT sent its records elsewhere */
};

struct pev_member {
	struct pev_attr attr;     /* as the kernel accepted it */
	char *name;               /* owned; for messages */
	struct pev_count_fd *at;  /* owned, by place */
	bool open;
};

struct pev_counter_place {
	int pid, cpu;
	bool gone;                /* its task or CPU was not there when the first member came */
};

struct pev_counter_config {
	bool grouped;
	bool cgroup;              /* the target's pids are descriptors of cgroup directories */
	const char *cgroup_path;  /* or: of this cgroup, by its directory; copied */
};

struct pev_counter {
	const struct pev_sys *sys;   /* borrowed */
	struct pev_counter_config config;
	bool unscaled;               /* tasks on chosen CPUs: see pev_sum */
	unsigned process;            /* that opened it: pev_sys_process() */
	struct pev_counter_place *places;    /* owned */
	int nr_places;
	char *cgroup_path;           /* owned, or NULL */
	int dir;                     /* its directory while a member is added, else -1 */
	struct pev_member *members;  /* owned, as they came; closed ones keep their number */
	int nr;
	void *buf;                   /* owned; what read(2) fills */
	size_t cap;
};

/* A member's readings, over all places. */
struct pev_sum {
	uint64_t value;              /* as counted */
	/*
	 * What it would be, had it been on the PMU all the time. Of a task on a CPU it is
	 * the value: time_enabled goes on while the task is elsewhere, so nothing can be told.
	 */
	uint64_t scaled;
	uint64_t enabled, running, lost;
	int known;                   /* places that tell something; 0: the value does not */
	int silent;                  /* places where it was enabled and never ran */
	int failed;                  /* places where it is pinned and in error state */
	int absent;                  /* places where the group's read did not have it */
};

/* Make one without members. -ENOMEM is the only failure. */
int pev_counter_open(struct pev_counter *counter, const struct pev_sys *sys,
		     const struct pev_counter_config *config, const struct pev_target *target,
		     struct pev_err *err);

/*
 * False in a process that was forked since: there a counter can be closed, and nothing else. Its
 * descriptors are the parent's too, so that a read would give what the parent counts.
 */
bool pev_counter_is_ours(const struct pev_counter *counter);

/* Closes what is open, in reverse. Safe on a half-made one, and twice. */
void pev_counter_close(struct pev_counter *counter);

/*
 * Open one more member everywhere: its number, or -errno with nothing of it left
 * open. A task that is gone and a CPU that is offline are left out while another is there. With
 * nr_cpus it is opened at places on those CPUs, and on any CPU, alone.
 */
int pev_counter_add(struct pev_counter *counter, const struct pev_attr *attr, const char *name,
		    const int *cpus, int nr_cpus, struct pev_err *err);

/* Close one member. When the leader goes, the others live on, each by itself. */
void pev_counter_remove(struct pev_counter *counter, int member);

/*
 * Read all members into sums[counter->nr]; those closed get zeros. cpu: at its places on that CPU
 * alone, or at all (-1). delta: since the delta before, or the opening.
 */
int pev_counter_read(struct pev_counter *counter, int cpu, bool delta, struct pev_sum *sums,
		     struct pev_err *err);

/*
 * An ioctl of one member at all its places, or of all members (-1): the first failure, or 0.
 * group: of leaders alone, with PERF_IOC_FLAG_GROUP. Only for ENABLE, DISABLE and RESET.
 */
int pev_counter_ioctl(struct pev_counter *counter, int member, unsigned long request,
		      uintptr_t arg);
int pev_counter_switch(struct pev_counter *counter, int member, unsigned long request,
		       bool group);

/* SET_OUTPUT, place by place, into the ring of another counter's member. */
int pev_counter_output(struct pev_counter *counter, int member, const struct pev_counter *to,
		       int to_member, struct pev_err *err);

/* A signal to this process at each overflow of one member; 0: no longer. See pev_event_signal(). */
int pev_counter_signal(struct pev_counter *counter, int member, int signal);

/* The programs at the member's first place: how many, of which up to max are in ids. */
int pev_counter_query_bpf(struct pev_counter *counter, int member, uint32_t *ids, uint32_t max);

/*
 * Map the member's counter page, so that reading needs no system call while the
 * kernel lets user space read its counter (4.11). Only of use, and only right, where
 * the one place is the calling thread itself.
 */
int pev_counter_map(struct pev_counter *counter, int member, struct pev_err *err);

/*
 * Read a counter page (struct perf_event_mmap_page): 1, or 0 when it takes a read(2). For the
 * thread that is counted.
 */
int pev_counter_page(const struct pev_sys *sys, const void *page, struct pev_reading *reading);

#endif
