/*
 * task.h - who is who: tid -> comm, as COMM, FORK and EXIT records and /proc tell it.
 *
 * Fed in the order of delivery, so that a record's comm is the one its task
 * had when the record was written. An exited task keeps its entry for a while,
 * because records of its last moments (its final switch) come after its EXIT.
 */
#ifndef PEV_TASK_H
#define PEV_TASK_H

#include <stdbool.h>
#include <stdint.h>

#include "record.h"
#include "sys.h"

#define PEV_COMM_LEN 16 /* TASK_COMM_LEN, NUL included */

struct pev_task {
	int tid, pid;
	char comm[PEV_COMM_LEN];
	uint32_t life;      /* which bearer of this tid: tids are reused */
	bool ended;         /* exited, or not to be found: dropped when its ring comes round */
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
};

int pev_tasks_init(struct pev_tasks *tasks, const struct pev_sys *sys);
void pev_tasks_free(struct pev_tasks *tasks);

/* Learn the task from a COMM, FORK or EXIT record; others are ignored. -ENOMEM. */
int pev_tasks_feed(struct pev_tasks *tasks, const struct pev_record *rec);
/* Learn from /proc every thread of a process, or of all processes (pid -1). */
int pev_tasks_scan(struct pev_tasks *tasks, int pid);

/*
 * The comm of a thread: "swapper" for 0; one never heard of is looked up in
 * /proc/TID/comm once, and is NULL when it is gone. Borrowed until the next call.
 */
const char *pev_tasks_comm(struct pev_tasks *tasks, int tid);

#endif
