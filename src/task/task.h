/*
 * task.h - who is who: tid -> comm and start, pid -> parent, program and maps, as COMM, FORK,
 * EXIT and MMAP2 records and /proc tell it.
 *
 * Fed in the order of delivery, so that a record's comm is the one its task
 * had when the record was written, and an address means what it meant then. An exited
 * task keeps its entry for a while, because records of its last moments (its final
 * switch) come after its EXIT.
 */
#ifndef PEV_TASK_H
#define PEV_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "task/maps.h"
#include "record/record.h"
#include "base/sys.h"

#define PEV_COMM_LEN 16 /* TASK_COMM_LEN, NUL included */

struct pev_task {
	int tid, pid;
	int ppid;           /* of a process; PEV_NOBODY: not known */
	char comm[PEV_COMM_LEN];
	uint32_t life;      /* which bearer of this tid: tids are reused */
	bool ended;         /* exited, or not to be found: dropped when its ring comes round */
	bool asked;         /* /proc/PID/maps was read */
	bool seen;          /* /proc/PID/stat was, or a record told of its birth */
	bool linked;        /* /proc/PID/exe was */
	bool guessed;       /* pid is: it is known by its tid alone */
	bool fresh;         /* has executed a program that is not mapped yet */
	bool dated;         /* start is known */
	int64_t start;      /* ns on the session's clock */
	/* A process's, at its first thread; NULL: nothing is known. Counted. */
	struct pev_space *space;
	struct pev_dso *exe;
};

#define PEV_NOBODY (-1)

/* One task as it is known now; strings are borrowed until the next call. */
struct pev_who {
	int tid, pid, ppid;      /* ppid: PEV_NOBODY where it is not known */
	const char *comm, *exe;  /* NULL: not known */
	bool dated;
	int64_t start;           /* ns on the session's clock, if dated */
};

struct pev_ended_task {
	int tid;
	uint32_t life;
};

/* The last so many tasks that ended; a task's entry is dropped when it leaves the ring. */
struct pev_ended {
	struct pev_ended_task *ring;
	uint32_t at, size;
};

struct pev_tasks {
	const struct pev_sys *sys;  /* borrowed */
	struct pev_task *slots;     /* open addressing; tid 0 is never in it */
	uint32_t nr, cap;
	struct pev_ended exited;    /* known by name */
	struct pev_ended unknown;   /* asked for, and not found: not to be asked for again */
	uint32_t lives;
	struct pev_dsos dsos;       /* what is mapped, by all of them */
	struct pev_space *kernel;   /* as a recording tells of it, and KSYMBOL records */
	int clockid;                /* what starts are told on: CLOCK_*, the caller's to set */
	bool shifted;               /* from_boot is known */
	int64_t from_boot;          /* ns, CLOCK_BOOTTIME to that clock */
	char nameless[16];          /* ":TID" */
};

int pev_tasks_init(struct pev_tasks *tasks, const struct pev_sys *sys);
void pev_tasks_free(struct pev_tasks *tasks);

/*
 * Learn from a COMM, FORK, EXIT, MMAP, MMAP2 or KSYMBOL record; others are ignored. -ENOMEM.
 */
int pev_tasks_feed(struct pev_tasks *tasks, const struct pev_record *rec);
/*
 * Learn from /proc every thread of a process, or of all processes (pid -1), until none is
 * found that is new.
 */
int pev_tasks_scan(struct pev_tasks *tasks, int pid);
/* The same with what they map. */
int pev_tasks_scan_maps(struct pev_tasks *tasks, int pid);
/* Those alone that began since then. */
int pev_tasks_scan_new(struct pev_tasks *tasks, int pid);

/*
 * The comm of a thread: "swapper" for 0; one never heard of is looked up in
 * /proc/TID/comm once, and is NULL when it is gone. Borrowed until the next call.
 */
const char *pev_tasks_comm(struct pev_tasks *tasks, int tid);
/* The same, and ":TID" for one that nobody named. */
const char *pev_tasks_name(struct pev_tasks *tasks, int tid);

/*
 * Who a thread is; false where nothing is known of it. What no record told is looked up in
 * /proc once, as long as it is there.
 */
bool pev_tasks_who(struct pev_tasks *tasks, int tid, struct pev_who *who);
/* The same of a record's, whose pid says whose thread it is; that is in who in any case. */
bool pev_tasks_who_of(struct pev_tasks *tasks, int pid, int tid, struct pev_who *who);

/*
 * What lies at an address of a process, or of the kernel (pid -1), or NULL. A process that
 * no record told the maps of is looked up in /proc/PID/maps once. Borrowed until the next
 * record.
 */
const struct pev_map *pev_tasks_map(struct pev_tasks *tasks, int pid, uint64_t addr);
/* Which maps a process, or the kernel (pid -1), has: pev_space_version(); looked up alike. */
uint64_t pev_tasks_maps(struct pev_tasks *tasks, int pid);
/* The n-th map of a process or of the kernel (pid -1), or NULL. Nothing is looked up. */
const struct pev_map *pev_tasks_map_at(struct pev_tasks *tasks, int pid, uint32_t n);

#endif
