/*
 * task.h - facts about tasks: comm and start of a thread; parent, program and maps of a process.
 *
 * Learned from COMM, FORK, EXIT and MMAP2 records and from /proc. Records are fed in the order of
 * delivery, so a record's comm is the name that its task had when the record was written, and
 * addresses are resolved with the maps of that time. An exited task keeps its entry for a while,
 * because records of its last moments (its final switch) come after its EXIT.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "task/cgroup.h"
#include "task/maps.h"
#include "record/record.h"
#include "base/memory_budget.h"
#include "base/sys.h"

#define PEV_COMM_LEN 16 /* TASK_COMM_LEN, NUL included */

struct pev_task {
	int tid, pid;
	int ppid;           /* of a process; PEV_NOBODY: unknown */
	char comm[PEV_COMM_LEN];
	uint32_t life;      /* distinguishes tasks with one tid: tids are reused */
	bool ended;         /* exited, or not found: dropped when it leaves its ring */
	bool asked;         /* /proc/PID/maps was read */
	bool seen;          /* /proc/PID/stat was read, or a record reported its start */
	bool linked;        /* /proc/PID/exe was read */
	bool guessed;       /* pid is a guess: only the tid is known */
	bool fresh;         /* has executed a program; its map has not arrived yet */
	bool dated;         /* start is known */
	int64_t start;      /* ns on the session's clock */
	/* Of a process, kept in its first thread; NULL: unknown. Reference-counted. */
	struct pev_space *space;
	struct pev_dso *exe;
	char *cgroup;       /* of a process, owned; NULL: not read */
};

#define PEV_NOBODY (-1)

/* The current facts about a task; strings are valid until the next call. */
struct pev_who {
	int tid, pid, ppid;      /* ppid: PEV_NOBODY if unknown */
	const char *comm, *exe;  /* NULL: unknown */
	bool dated;
	int64_t start;           /* ns on the session's clock, if dated */
};

struct pev_ended_task {
	int tid;
	uint32_t life;
};

/* The tasks that ended last; a task's entry is dropped when it leaves the ring. */
struct pev_ended {
	struct pev_ended_task *ring;
	uint32_t at, size;
};

struct pev_tasks {
	const struct pev_sys *sys;  /* borrowed */
	struct pev_task *slots;     /* open addressing; tid 0 is never in it */
	uint32_t nr, cap;
	struct pev_ended exited;    /* with a name */
	struct pev_ended unknown;   /* not found in /proc; not looked up again */
	uint32_t lives;
	struct pev_dsos dsos;       /* mapped files and memory of all tasks */
	struct pev_space *kernel;   /* from MMAP records with pid -1 and KSYMBOL records */
	struct pev_cgroups cgroups;
	int clockid;                /* CLOCK_* of starts; set by the caller */
	bool shifted;               /* from_boot is known */
	int64_t from_boot;          /* ns, from CLOCK_BOOTTIME to clockid */
	char nameless[16];          /* ":TID" */
	/* Borrowed; NULL: no limit. A record about a new task without room is only counted. */
	struct pev_budget *budget;
};

int pev_tasks_init(struct pev_tasks *tasks, const struct pev_sys *sys);
void pev_tasks_free(struct pev_tasks *tasks);
/* Charges the tasks to another budget, or to none (NULL). */
void pev_tasks_set_budget(struct pev_tasks *tasks, struct pev_budget *budget);

/*
 * Applies a COMM, FORK, EXIT, MMAP, MMAP2, KSYMBOL or CGROUP record; ignores others. -ENOMEM.
 */
int pev_tasks_feed(struct pev_tasks *tasks, const struct pev_record *rec);
/* True for the types that change facts about tasks. */
static inline bool pev_tasks_are_changed_by(uint32_t type)
{
	return type == PERF_RECORD_FORK || type == PERF_RECORD_COMM || type == PERF_RECORD_EXIT ||
	       type == PERF_RECORD_MMAP || type == PERF_RECORD_MMAP2 ||
	       type == PERF_RECORD_KSYMBOL || type == PEV_RECORD_CGROUP;
}
/*
 * Reads the threads of a process, or of all processes (pid -1), from /proc; repeats while new
 * threads appear.
 */
int pev_tasks_scan(struct pev_tasks *tasks, int pid);
/* The same, with the maps. */
int pev_tasks_scan_maps(struct pev_tasks *tasks, int pid);
/* The same for processes that are not known yet. */
int pev_tasks_scan_new(struct pev_tasks *tasks, int pid);

/*
 * The comm of a thread: "swapper" for 0. An unknown thread is looked up in
 * /proc/TID/comm once; NULL if it does not exist. Valid until the next call.
 */
const char *pev_tasks_comm(struct pev_tasks *tasks, int tid);
/* The same; ":TID" if the thread has no known name. */
const char *pev_tasks_name(struct pev_tasks *tasks, int tid);

/*
 * Fills in the facts about a thread; false if nothing is known. Facts that no record reported
 * are looked up in /proc once.
 */
bool pev_tasks_who(struct pev_tasks *tasks, int tid, struct pev_who *who);
/* The same for the thread of a record, which has its pid; who->pid is set in any case. */
bool pev_tasks_who_of(struct pev_tasks *tasks, int pid, int tid, struct pev_who *who);

/*
 * Returns the map at an address of a process, or of the kernel (pid -1), or NULL. If no record
 * reported the process's maps, /proc/PID/maps is read once. Valid until the next record.
 */
const struct pev_map *pev_tasks_map(struct pev_tasks *tasks, int pid, uint64_t addr);
/* pev_space_version() of a process or the kernel (pid -1); read from /proc if needed. */
uint64_t pev_tasks_maps(struct pev_tasks *tasks, int pid);
/* The n-th map of a process or of the kernel (pid -1), or NULL. Does not read /proc. */
const struct pev_map *pev_tasks_map_at(struct pev_tasks *tasks, int pid, uint32_t n);
/* The path of a cgroup by its id, as of pev_cgroups_find(). */
const char *pev_tasks_cgroup(struct pev_tasks *tasks, uint64_t id);
/* The same of a process, read from /proc once; NULL: unknown. Valid until the next record. */
const char *pev_tasks_cgroup_of(struct pev_tasks *tasks, int pid);
/* The dump of the JIT compiler of a process; NULL: none. Valid until the next record. */
struct pev_jit_dump *pev_tasks_jit_dump(struct pev_tasks *tasks, int pid);
