/*
 * counter.h - counters: events opened at places, read, and summed.
 *
 * A counter is a list of members, each opened at every place (a task, a CPU or a task on a CPU).
 * In a group the first member leads at every place, and one read there returns all members at
 * one moment. Readings are summed over the places; each place is scaled, and its delta taken,
 * before the sum.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/attr.h"
#include "base/err.h"
#include "event/event.h"
#include "base/sys.h"

/* The kernel's values for one descriptor, since it was opened. */
struct pev_reading {
	uint64_t value, enabled, running, lost;
};

/* A member at a place. */
struct pev_count_fd {
	int fd;                   /* -1: not opened there, or closed */
	uint64_t id;
	struct pev_reading base;  /* at the last delta */
	void *page;               /* the counter page, or NULL */
	bool redirected;          /* SET_OUTPUT sends its records to another ring */
};

struct pev_member {
	struct pev_attr attr;     /* as the kernel accepted it */
	char *name;               /* owned; for messages */
	struct pev_count_fd *at;  /* owned, by place */
	bool open;
};

struct pev_counter_place {
	int pid, cpu;
	bool gone;                /* task or CPU did not exist when the first member was opened */
};

struct pev_counter_config {
	bool grouped;
	bool cgroup;              /* the target's pids are descriptors of cgroup directories */
	const char *cgroup_path;  /* or: the directory of one cgroup; copied */
};

struct pev_counter {
	const struct pev_sys *sys;   /* borrowed */
	struct pev_counter_config config;
	bool unscaled;               /* tasks on chosen CPUs: see pev_sum */
	unsigned process;            /* the opener: pev_sys_process() */
	struct pev_counter_place *places;    /* owned */
	int nr_places;
	char *cgroup_path;           /* owned, or NULL */
	int dir;                     /* its directory while a member is added, else -1 */
	struct pev_member *members;  /* owned, in order; closed ones keep their number */
	int nr;
	void *buf;                   /* owned; the buffer of read(2) */
	size_t cap;
};

/* A member's readings, over all places. */
struct pev_sum {
	uint64_t value;              /* as counted */
	/*
	 * The estimate for the whole enabled time. For a task on a CPU it is the value:
	 * time_enabled also grows while the task is on another CPU, so no estimate exists.
	 */
	uint64_t scaled;
	uint64_t enabled, running, lost;
	int known;                   /* places with a value; 0: the value is unknown */
	int silent;                  /* places where it was enabled and never ran */
	int failed;                  /* places where it is pinned and in error state */
	int absent;                  /* places where the group's read lacked it */
};

/* Makes a counter without members. Fails only with -ENOMEM. */
int pev_counter_open(struct pev_counter *counter, const struct pev_sys *sys,
		     const struct pev_counter_config *config, const struct pev_target *target,
		     struct pev_err *err);

/*
 * False in a forked process, which can only close the counter: its descriptors are the parent's,
 * too, so a read would return the parent's counts.
 */
bool pev_counter_is_ours(const struct pev_counter *counter);

/* Closes everything in reverse order. Safe on a half-made counter, and twice. */
void pev_counter_close(struct pev_counter *counter);

/*
 * Opens one more member at all places. Returns its number, or -errno with nothing left open.
 * Exited tasks and offline CPUs are skipped if others exist. With nr_cpus it is opened only at
 * places on those CPUs, and at places on any CPU.
 */
int pev_counter_add(struct pev_counter *counter, const struct pev_attr *attr, const char *name,
		    const int *cpus, int nr_cpus, struct pev_err *err);

/* Closes one member. Without the leader the others go on as single events. */
void pev_counter_remove(struct pev_counter *counter, int member);

/*
 * Reads all members into sums[counter->nr]; closed ones get zeros. cpu: only places on that CPU,
 * or all (-1). delta: since the last delta, or since opening.
 */
int pev_counter_read(struct pev_counter *counter, int cpu, bool delta, struct pev_sum *sums,
		     struct pev_err *err);

/*
 * Calls ioctl(2) on one member at all its places, or on all members (-1). Returns the first
 * failure, or 0. group: only leaders, with PERF_IOC_FLAG_GROUP. ENABLE, DISABLE and RESET only.
 */
int pev_counter_ioctl(struct pev_counter *counter, int member, unsigned long request,
		      uintptr_t arg);
int pev_counter_switch(struct pev_counter *counter, int member, unsigned long request,
		       bool group);

/* SET_OUTPUT, place by place, into the ring of another counter's member. */
int pev_counter_output(struct pev_counter *counter, int member, const struct pev_counter *to,
		       int to_member, struct pev_err *err);

/* Signals this process at each overflow of a member; 0 ends that. See pev_event_signal(). */
int pev_counter_signal(struct pev_counter *counter, int member, int signal);

/* Returns the number of BPF programs at the member's first place; ids gets up to max. */
int pev_counter_query_bpf(struct pev_counter *counter, int member, uint32_t *ids, uint32_t max);

/*
 * Maps the member's counter page, so that reading needs no system call while the kernel lets
 * user space read the counter (4.11). Correct only if the one place is the calling thread.
 */
int pev_counter_map(struct pev_counter *counter, int member, struct pev_err *err);

/*
 * Reads a counter page (struct perf_event_mmap_page). Returns 1, or 0 if read(2) is needed. To be
 * called by the counted thread.
 */
int pev_counter_page(const struct pev_sys *sys, const void *page, struct pev_reading *reading);
