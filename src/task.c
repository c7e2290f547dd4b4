/*
 * task.c - tid -> comm; see task.h.
 */
#include "task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 1024u
#define EXITED_KEPT 4096u /* the last so many exits keep their comm */

int pev_tasks_init(struct pev_tasks *tasks, const struct pev_sys *sys)
{
	*tasks = (struct pev_tasks){ .sys = sys, .cap = FIRST_CAP };
	tasks->slots = calloc(tasks->cap, sizeof(*tasks->slots));
	tasks->exited = calloc(EXITED_KEPT, sizeof(*tasks->exited));
	if (tasks->slots && tasks->exited)
		return 0;
	pev_tasks_free(tasks);
	return -ENOMEM;
}

void pev_tasks_free(struct pev_tasks *tasks)
{
	free(tasks->slots);
	free(tasks->exited);
	tasks->slots = NULL;
	tasks->exited = NULL;
	tasks->nr = tasks->cap = 0;
}

static uint32_t home(const struct pev_tasks *tasks, int tid)
{
	return ((uint32_t)tid * 2654435761u) & (tasks->cap - 1);
}

/* Where tid is, or the free slot where it would go. */
static struct pev_task *find(const struct pev_tasks *tasks, int tid)
{
	uint32_t i = home(tasks, tid);

	while (tasks->slots[i].tid && tasks->slots[i].tid != tid)
		i = (i + 1) & (tasks->cap - 1);
	return &tasks->slots[i];
}

static int grow(struct pev_tasks *tasks)
{
	struct pev_task *old = tasks->slots;
	uint32_t cap = tasks->cap;
	struct pev_task *slots = calloc((size_t)cap * 2, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	tasks->slots = slots;
	tasks->cap = cap * 2;
	for (uint32_t i = 0; i < cap; i++)
		if (old[i].tid)
			*find(tasks, old[i].tid) = old[i];
	free(old);
	return 0;
}

static struct pev_task *put(struct pev_tasks *tasks, int pid, int tid)
{
	struct pev_task *task;

	/* 0 is the idle task; -1 a task outside our pid namespace. */
	if (tid <= 0)
		return NULL;
	if (tasks->nr >= tasks->cap / 2 && grow(tasks) < 0)
		return NULL;
	task = find(tasks, tid);
	if (!task->tid) {
		task->tid = tid;
		task->life = ++tasks->lives;
		tasks->nr++;
	}
	task->pid = pid;
	return task;
}

/* Close the gap that leaves, so that probing still finds what follows. */
static void drop(struct pev_tasks *tasks, struct pev_task *gone)
{
	uint32_t mask = tasks->cap - 1, hole = (uint32_t)(gone - tasks->slots), i = hole;

	for (;;) {
		i = (i + 1) & mask;
		if (!tasks->slots[i].tid)
			break;
		if (((i - home(tasks, tasks->slots[i].tid)) & mask) < ((i - hole) & mask))
			continue;
		tasks->slots[hole] = tasks->slots[i];
		hole = i;
	}
	memset(&tasks->slots[hole], 0, sizeof(tasks->slots[hole]));
	tasks->nr--;
}

static void bury(struct pev_tasks *tasks, int tid)
{
	struct pev_task *task = find(tasks, tid), *oldest;
	uint32_t at = tasks->exited_at++ % EXITED_KEPT;

	if (tasks->exited[at].tid) {
		oldest = find(tasks, tasks->exited[at].tid);
		if (oldest->tid && oldest->life == tasks->exited[at].life)
			drop(tasks, oldest);
		task = find(tasks, tid);
	}
	tasks->exited[at].tid = task->tid;
	tasks->exited[at].life = task->life;
}

static void set_comm(struct pev_task *task, const void *comm, size_t len)
{
	if (len > PEV_COMM_LEN - 1)
		len = PEV_COMM_LEN - 1;
	memset(task->comm, 0, sizeof(task->comm));
	memcpy(task->comm, comm, len);
}

static int field(const struct pev_record *rec, enum pev_field name)
{
	struct pev_value value;

	return pev_record_get(rec, name, &value) ? (int)(int64_t)value.u : -1;
}

static int feed_fork(struct pev_tasks *tasks, const struct pev_record *rec)
{
	int tid = field(rec, PEV_F_TID), parent = field(rec, PEV_F_PTID);
	const char *comm = pev_tasks_comm(tasks, parent);
	char inherited[PEV_COMM_LEN] = "";
	struct pev_task *task;

	if (comm)
		memcpy(inherited, comm, strnlen(comm, PEV_COMM_LEN - 1));
	task = put(tasks, field(rec, PEV_F_PID), tid);
	if (!task)
		return tid > 0 ? -ENOMEM : 0;
	task->life = ++tasks->lives; /* a tid born again is somebody else */
	set_comm(task, inherited, strlen(inherited));
	return 0;
}

int pev_tasks_feed(struct pev_tasks *tasks, const struct pev_record *rec)
{
	struct pev_task *task;
	struct pev_value comm;
	int tid;

	switch (rec->type) {
	case PERF_RECORD_FORK:
		return feed_fork(tasks, rec);
	case PERF_RECORD_COMM:
		tid = field(rec, PEV_F_TID);
		task = put(tasks, field(rec, PEV_F_PID), tid);
		if (!task)
			return tid > 0 ? -ENOMEM : 0;
		if (!task->comm[0])
			task->life = ++tasks->lives; /* not the one that could not be found */
		if (pev_record_get(rec, PEV_F_COMM, &comm))
			set_comm(task, comm.p, comm.len);
		return 0;
	case PERF_RECORD_EXIT:
		tid = field(rec, PEV_F_TID);
		if (tid > 0 && find(tasks, tid)->tid)
			bury(tasks, tid);
		return 0;
	default:
		return 0;
	}
}

/* What /proc says now; a task that a record told us of is newer than that. */
static int read_comm(struct pev_tasks *tasks, int pid, int tid)
{
	struct pev_task *task;
	char path[64], *text;
	size_t len;
	int rc;

	if (tid <= 0 || find(tasks, tid)->tid)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	rc = tasks->sys->slurp(tasks->sys->ctx, path, &text, &len);
	if (rc < 0)
		return rc;
	if (len && text[len - 1] == '\n')
		len--;
	task = put(tasks, pid, tid);
	if (task)
		set_comm(task, text, len);
	free(text);
	return task ? 0 : -ENOMEM;
}

static int scan_process(struct pev_tasks *tasks, int pid)
{
	int *tids, nr = pev_sys_threads(tasks->sys, pid, &tids);

	if (nr < 0)
		return nr;
	for (int i = 0; i < nr; i++)
		read_comm(tasks, pid, tids[i]);
	free(tids);
	return 0;
}

int pev_tasks_scan(struct pev_tasks *tasks, int pid)
{
	char *names;
	size_t len;
	int rc;

	if (pid != -1)
		return scan_process(tasks, pid);
	rc = tasks->sys->list(tasks->sys->ctx, "/proc", &names, &len);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < len; i += strlen(names + i) + 1)
		if (names[i] >= '1' && names[i] <= '9')
			scan_process(tasks, (int)strtol(names + i, NULL, 10));
	free(names);
	return 0;
}

/* Look once; what is not there is remembered as nameless, among those that have ended. */
static void look_up(struct pev_tasks *tasks, int tid)
{
	/* /proc/TID answers for a thread too, though no listing shows it. */
	if (read_comm(tasks, tid, tid) < 0 && put(tasks, tid, tid))
		bury(tasks, tid);
}

const char *pev_tasks_comm(struct pev_tasks *tasks, int tid)
{
	const struct pev_task *task;

	if (tid == 0)
		return "swapper";
	if (tid < 0)
		return NULL;
	task = find(tasks, tid);
	if (!task->tid) {
		look_up(tasks, tid);
		task = find(tasks, tid);
	}
	return task->tid && task->comm[0] ? task->comm : NULL;
}
