/*
 * task.h - who is who: tid -> comm, pid -> maps, as COMM, FORK, EXIT and MMAP2 records and
 * /proc tell it.
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

#include "maps.h"
#include "record.h"
#include "sys.h"

#define PEV_COMM_LEN 16 /* TASK_COMM_LEN, NUL included */

struct pev_task {
	int tid, pid;
	char comm[PEV_COMM_LEN];
	uint32_t life;      /* which bearer of this tid: tids are reused */
	bool ended;         /* exited, or not to be found: dropped when its ring comes round */
	bool asked;         /* /proc/PID/maps was read */
	struct pev_space *space; /* a process's, at its first thread; NULL: nothing is known */
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
	char nameless[16];          /* ":TID" */
};

int pev_tasks_init(struct pev_tasks *tasks, const struct pev_sys *sys);
void pev_tasks_free(struct pev_tasks *tasks);

/*
 * Learn from a COMM, FORK, EXIT, MMAP, MMAP2 or KSYMBOL record; others are ignored. -ENOMEM.
 */
int pev_tasks_feed(struct pev_tasks *tasks, const struct pev_record *rec);
/* Learn from /proc every thread of a process, or of all processes (pid -1). */
int pev_tasks_scan(struct pev_tasks *tasks, int pid);
/* The same with what they map. */
int pev_tasks_scan_maps(struct pev_tasks *tasks, int pid);

/*
 * The comm of a thread: "swapper" for 0; one never heard of is looked up in
 * /proc/TID/comm once, and is NULL when it is gone. Borrowed until the next call.
 */
const char *pev_tasks_comm(struct pev_tasks *tasks, int tid);
/* The same, and ":TID" for one that nobody named. */
const char *pev_tasks_name(struct pev_tasks *tasks, int tid);

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
