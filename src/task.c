/*
 * task.c - tid -> comm, pid -> maps; see task.h.
 */
#include "task.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 1024u
#define EXITED_KEPT 4096u /* the last so many exits keep their comm */
#define UNKNOWN_KEPT 1024u

int pev_tasks_init(struct pev_tasks *tasks, const struct pev_sys *sys)
{
	*tasks = (struct pev_tasks){ .sys = sys, .cap = FIRST_CAP };
	tasks->slots = calloc(tasks->cap, sizeof(*tasks->slots));
	tasks->exited.ring = calloc(EXITED_KEPT, sizeof(*tasks->exited.ring));
	tasks->exited.size = EXITED_KEPT;
	tasks->unknown.ring = calloc(UNKNOWN_KEPT, sizeof(*tasks->unknown.ring));
	tasks->unknown.size = UNKNOWN_KEPT;
	if (pev_dsos_init(&tasks->dsos) == 0 && tasks->slots && tasks->exited.ring &&
	    tasks->unknown.ring)
		return 0;
	pev_tasks_free(tasks);
	return -ENOMEM;
}

void pev_tasks_free(struct pev_tasks *tasks)
{
	for (uint32_t i = 0; tasks->slots && i < tasks->cap; i++)
		pev_space_put(tasks->slots[i].space);
	pev_space_put(tasks->kernel);
	pev_dsos_free(&tasks->dsos);
	free(tasks->slots);
	free(tasks->exited.ring);
	free(tasks->unknown.ring);
	*tasks = (struct pev_tasks){ .sys = tasks->sys };
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

	pev_space_put(gone->space);
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

/* Keep a task that has ended until so many others have. */
static void bury(struct pev_tasks *tasks, struct pev_ended *ended, int tid)
{
	struct pev_ended_task *place = &ended->ring[ended->at++ % ended->size];
	struct pev_task *task;

	if (place->tid) {
		task = find(tasks, place->tid);
		/* Born again since? Then it is somebody else. */
		if (task->tid && task->life == place->life)
			drop(tasks, task);
	}
	task = find(tasks, tid);
	*place = (struct pev_ended_task){ 0 };
	if (!task->tid)
		return; /* it was that one itself */
	task->ended = true;
	*place = (struct pev_ended_task){ .tid = task->tid, .life = task->life };
}

/* A record tells of a living task under this tid. */
static void revive(struct pev_tasks *tasks, struct pev_task *task)
{
	task->life = ++tasks->lives;
	task->ended = false;
	task->asked = false;
	pev_space_put(task->space);
	task->space = NULL;
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

/* A process begins with its parent's memory. */
static void inherit_space(struct pev_tasks *tasks, struct pev_task *task, int ppid)
{
	struct pev_task *parent = ppid > 0 ? find(tasks, ppid) : NULL;

	if (task->tid != task->pid || !parent || !parent->tid || parent == task)
		return;
	task->space = pev_space_get(parent->space);
	task->asked = parent->asked;
}

static int feed_fork(struct pev_tasks *tasks, const struct pev_record *rec)
{
	int tid = field(rec, PEV_F_TID), parent = field(rec, PEV_F_PTID);
	const char *comm = pev_tasks_comm(tasks, parent);
	char inherited[PEV_COMM_LEN] = "";
	struct pev_task *task;

	if (tid <= 0)
		return 0;
	if (!comm && !pev_tasks_map_at(tasks, field(rec, PEV_F_PPID), 0)) {
		/* Nothing to inherit: forget who had this tid, and look when asked. */
		task = find(tasks, tid);
		if (task->tid)
			drop(tasks, task);
		return 0;
	}
	if (comm)
		memcpy(inherited, comm, strnlen(comm, PEV_COMM_LEN - 1));
	task = put(tasks, field(rec, PEV_F_PID), tid);
	if (!task)
		return -ENOMEM;
	revive(tasks, task);
	set_comm(task, inherited, strlen(inherited));
	/* Of a process that was there before: the recorder tells of its maps, one by one. */
	if (!(rec->misc & PERF_RECORD_MISC_FORK_EXEC))
		inherit_space(tasks, task, field(rec, PEV_F_PPID));
	return 0;
}

static int feed_comm(struct pev_tasks *tasks, const struct pev_record *rec)
{
	int tid = field(rec, PEV_F_TID);
	struct pev_task *task = put(tasks, field(rec, PEV_F_PID), tid);
	struct pev_value comm;

	if (!task)
		return tid > 0 ? -ENOMEM : 0;
	if (task->ended)
		revive(tasks, task);
	if (pev_record_get(rec, PEV_F_COMM, &comm))
		set_comm(task, comm.p, comm.len);
	/* What it maps from here on is told of. */
	if (rec->misc & PERF_RECORD_MISC_COMM_EXEC) {
		pev_space_put(task->space);
		task->space = NULL;
		task->asked = true;
	}
	return 0;
}

/* The kernel's own maps have no process; a recorder writes -1. */
static int feed_map(struct pev_tasks *tasks, const struct pev_record *rec)
{
	int pid = field(rec, PEV_F_PID);
	struct pev_task *task;

	if (rec->type == PERF_RECORD_KSYMBOL || pid == -1)
		return pev_space_feed(&tasks->kernel, &tasks->dsos, rec);
	task = put(tasks, pid, pid);
	if (!task)
		return pid > 0 ? -ENOMEM : 0;
	/* The dead map nothing: it is another one, and what it is called is not known. */
	if (task->ended) {
		revive(tasks, task);
		set_comm(task, "", 0);
	}
	return pev_space_feed(&task->space, &tasks->dsos, rec);
}

int pev_tasks_feed(struct pev_tasks *tasks, const struct pev_record *rec)
{
	int tid;

	switch (rec->type) {
	case PERF_RECORD_FORK:
		return feed_fork(tasks, rec);
	case PERF_RECORD_COMM:
		return feed_comm(tasks, rec);
	case PERF_RECORD_EXIT:
		tid = field(rec, PEV_F_TID);
		if (tid > 0 && find(tasks, tid)->tid)
			bury(tasks, &tasks->exited, tid);
		return 0;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
	case PERF_RECORD_KSYMBOL:
		return feed_map(tasks, rec);
	default:
		return 0;
	}
}

/*
 * A kworker's name in /proc ends with its work, another at each look; COMM records have none:
 * wq_worker_comm(), 4.18. A rescuer's is "kworker/R-" and its queue, and stays.
 */
static size_t stable_len(const char *comm, size_t len)
{
	static const char kworker[] = "kworker/";
	size_t at = sizeof(kworker) - 1;

	if (len <= at || memcmp(comm, kworker, at) != 0 || comm[at] == 'R')
		return len;
	while (at < len && comm[at] != '-' && comm[at] != '+')
		at++;
	return at;
}

/* What /proc says now; a task that a record told us of is newer than that. */
static int read_comm(struct pev_tasks *tasks, int pid, int tid)
{
	struct pev_task *task;
	char path[64], *text;
	size_t len;
	int rc;

	if (tid <= 0 || find(tasks, tid)->comm[0])
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	rc = tasks->sys->slurp(tasks->sys->ctx, path, &text, &len);
	if (rc < 0)
		return rc;
	if (len && text[len - 1] == '\n')
		len--;
	task = put(tasks, pid, tid);
	if (task)
		set_comm(task, text, stable_len(text, len));
	free(text);
	return task ? 0 : -ENOMEM;
}

static int read_maps(struct pev_tasks *tasks, int pid)
{
	struct pev_task *task = find(tasks, pid);
	char path[32], *text;
	size_t len;
	int rc;

	if (!task->tid || task->asked)
		return 0;
	task->asked = true;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	rc = tasks->sys->slurp(tasks->sys->ctx, path, &text, &len);
	if (rc < 0)
		return rc;
	/* What records told of alone is in it. */
	pev_space_put(task->space);
	task->space = NULL;
	rc = pev_space_parse(&task->space, &tasks->dsos, pid, text);
	free(text);
	return rc;
}

static int scan_process(struct pev_tasks *tasks, int pid, bool maps)
{
	int *tids, nr = pev_sys_threads(tasks->sys, pid, &tids);

	if (nr < 0)
		return nr;
	for (int i = 0; i < nr; i++)
		read_comm(tasks, pid, tids[i]);
	if (maps)
		read_maps(tasks, pid);
	free(tids);
	return 0;
}

static int scan(struct pev_tasks *tasks, int pid, bool maps)
{
	char *names;
	size_t len;
	int rc;

	if (pid != -1)
		return scan_process(tasks, pid, maps);
	rc = tasks->sys->list(tasks->sys->ctx, "/proc", &names, &len);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < len; i += strlen(names + i) + 1)
		if (names[i] >= '1' && names[i] <= '9')
			scan_process(tasks, (int)strtol(names + i, NULL, 10), maps);
	free(names);
	return 0;
}

int pev_tasks_scan(struct pev_tasks *tasks, int pid) { return scan(tasks, pid, false); }

int pev_tasks_scan_maps(struct pev_tasks *tasks, int pid) { return scan(tasks, pid, true); }

/* Look once; what is not there is remembered as nameless, among those that have ended. */
static void look_up(struct pev_tasks *tasks, int tid)
{
	/* /proc/TID answers for a thread too, though no listing shows it. */
	if (read_comm(tasks, tid, tid) < 0 && put(tasks, tid, tid))
		bury(tasks, &tasks->unknown, tid);
}

const char *pev_tasks_comm(struct pev_tasks *tasks, int tid)
{
	const struct pev_task *task;

	if (tid == 0)
		return "swapper";
	if (tid < 0)
		return NULL;
	task = find(tasks, tid);
	if (!task->tid || (!task->comm[0] && !task->ended)) {
		look_up(tasks, tid);
		task = find(tasks, tid);
	}
	return task->tid && task->comm[0] ? task->comm : NULL;
}

const char *pev_tasks_name(struct pev_tasks *tasks, int tid)
{
	const char *comm = pev_tasks_comm(tasks, tid);

	if (comm)
		return comm;
	snprintf(tasks->nameless, sizeof(tasks->nameless), ":%d", tid);
	return tasks->nameless;
}

static const struct pev_space *space_of(struct pev_tasks *tasks, int pid)
{
	const struct pev_task *task;

	if (pid == -1)
		return tasks->kernel;
	/* The idle task has no memory of its own. */
	if (pid <= 0)
		return NULL;
	if (find(tasks, pid)->tid)
		read_maps(tasks, pid);
	else if (put(tasks, pid, pid) && read_maps(tasks, pid) < 0)
		bury(tasks, &tasks->unknown, pid);
	task = find(tasks, pid);
	return task->tid ? task->space : NULL;
}

const struct pev_map *pev_tasks_map(struct pev_tasks *tasks, int pid, uint64_t addr)
{
	return pev_space_find(space_of(tasks, pid), addr);
}

uint64_t pev_tasks_maps(struct pev_tasks *tasks, int pid)
{
	return pev_space_version(space_of(tasks, pid));
}

const struct pev_map *pev_tasks_map_at(struct pev_tasks *tasks, int pid, uint32_t n)
{
	const struct pev_task *task;

	if (pid == -1)
		return pev_space_at(tasks->kernel, n);
	task = pid > 0 ? find(tasks, pid) : NULL;
	return task && task->tid ? pev_space_at(task->space, n) : NULL;
}
