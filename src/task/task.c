/*
 * task.c - names, parents, programs and maps of tasks; see task.h.
 */
#include "task/task.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIRST_CAP 1024u
#define EXITED_KEPT 4096u /* exited tasks that keep their comm */
#define UNKNOWN_KEPT 1024u
#define SCANS_MAX 8 /* repeated for tasks that start during a scan */
#define TASK_BYTES (2 * sizeof(struct pev_task)) /* of a task, in a table that is half full */
#define TICK_NS INT64_C(10000000) /* of /proc/PID/stat: USER_HZ is 100 wherever perf is */

/* Drops the executable, the maps and the cgroup, which a new program may have left. */
static void forget_program(struct pev_task *task)
{
	pev_space_put(task->space);
	pev_dso_put(task->exe);
	free(task->cgroup);
	task->space = NULL;
	task->exe = NULL;
	task->cgroup = NULL;
}

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
		forget_program(&tasks->slots[i]);
	pev_tasks_set_budget(tasks, NULL);
	pev_space_put(tasks->kernel);
	pev_cgroups_free(&tasks->cgroups);
	pev_dsos_free(&tasks->dsos);
	free(tasks->slots);
	free(tasks->exited.ring);
	free(tasks->unknown.ring);
	*tasks = (struct pev_tasks){ .sys = tasks->sys };
}

void pev_tasks_set_budget(struct pev_tasks *tasks, struct pev_budget *budget)
{
	pev_budget_return(tasks->budget, tasks->nr * TASK_BYTES);
	tasks->budget = budget;
	pev_budget_use(budget, tasks->nr * TASK_BYTES);
}

static uint32_t home_slot(const struct pev_tasks *tasks, int tid)
{
	return ((uint32_t)tid * 2654435761u) & (tasks->cap - 1);
}

/* The slot of tid, or the free slot for it. */
static struct pev_task *find_task(const struct pev_tasks *tasks, int tid)
{
	uint32_t i = home_slot(tasks, tid);

	while (tasks->slots[i].tid && tasks->slots[i].tid != tid)
		i = (i + 1) & (tasks->cap - 1);
	return &tasks->slots[i];
}

static int grow_slots(struct pev_tasks *tasks)
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
			*find_task(tasks, old[i].tid) = old[i];
	free(old);
	return 0;
}

/* True if the table has the task, or the budget has room for it. */
static bool has_room(const struct pev_tasks *tasks, int tid)
{
	return pev_budget_has_room(tasks->budget, TASK_BYTES) || find_task(tasks, tid)->tid;
}

/* Returns the task, made if needed; NULL: not a task, or no room or memory for it. */
static struct pev_task *put_task(struct pev_tasks *tasks, int pid, int tid)
{
	struct pev_task *task;

	/* 0 is the idle task; -1 a task outside our pid namespace. */
	if (tid <= 0 || !has_room(tasks, tid))
		return NULL;
	if (tasks->nr >= tasks->cap / 2 && grow_slots(tasks) < 0)
		return NULL;
	task = find_task(tasks, tid);
	if (!task->tid) {
		task->tid = tid;
		task->ppid = PEV_NOBODY;
		task->life = ++tasks->lives;
		tasks->nr++;
		pev_budget_use(tasks->budget, TASK_BYTES);
	}
	task->pid = pid;
	task->guessed = false;
	return task;
}

/* Removes the entry and closes the gap, so that probing finds the entries after it. */
static void drop_task(struct pev_tasks *tasks, struct pev_task *gone)
{
	uint32_t mask = tasks->cap - 1, hole = (uint32_t)(gone - tasks->slots), i = hole;

	forget_program(gone);
	for (;;) {
		i = (i + 1) & mask;
		if (!tasks->slots[i].tid)
			break;
		if (((i - home_slot(tasks, tasks->slots[i].tid)) & mask) < ((i - hole) & mask))
			continue;
		tasks->slots[hole] = tasks->slots[i];
		hole = i;
	}
	memset(&tasks->slots[hole], 0, sizeof(tasks->slots[hole]));
	tasks->nr--;
	pev_budget_return(tasks->budget, TASK_BYTES);
}

/* Keeps an ended task until ended->size others have ended. */
static void keep_ended(struct pev_tasks *tasks, struct pev_ended *ended, int tid)
{
	struct pev_ended_task *place = &ended->ring[ended->at++ % ended->size];
	struct pev_task *task;

	if (place->tid) {
		task = find_task(tasks, place->tid);
		/* A reused tid names another task. */
		if (task->tid && task->life == place->life)
			drop_task(tasks, task);
	}
	task = find_task(tasks, tid);
	*place = (struct pev_ended_task){ 0 };
	if (!task->tid)
		return; /* it was the dropped one */
	task->ended = true;
	*place = (struct pev_ended_task){ .tid = task->tid, .life = task->life };
}

/* A record shows that a new task has this tid. */
static void restart_task(struct pev_tasks *tasks, struct pev_task *task)
{
	int pid = task->pid, tid = task->tid;

	forget_program(task);
	*task = (struct pev_task){
		.tid = tid, .pid = pid, .ppid = PEV_NOBODY, .life = ++tasks->lives
	};
}

static void set_comm(struct pev_task *task, const void *comm, size_t len)
{
	if (len > PEV_COMM_LEN - 1)
		len = PEV_COMM_LEN - 1;
	memset(task->comm, 0, sizeof(task->comm));
	memcpy(task->comm, comm, len);
}

static int read_field(const struct pev_record *rec, enum pev_field name)
{
	uint64_t value;

	return pev_record_number(rec, name, &value) ? (int)(int64_t)value : -1;
}

/* A process begins with its parent's maps. */
static void inherit_program(struct pev_tasks *tasks, struct pev_task *task, int ppid)
{
	struct pev_task *parent = ppid > 0 ? find_task(tasks, ppid) : NULL;

	if (task->tid != task->pid || !parent || !parent->tid || parent == task)
		return;
	task->space = pev_space_get(parent->space);
	task->asked = parent->asked;
	task->exe = pev_dso_get(parent->exe);
}

/* For a task that is older than the recording, the recorder writes time 0. */
static void set_birth(struct pev_task *task, const struct pev_record *rec)
{
	uint64_t time;

	if (task->tid == task->pid)
		task->ppid = read_field(rec, PEV_F_PPID);
	if (pev_record_number(rec, PEV_F_TIME, &time) && time) {
		task->start = (int64_t)time;
		task->dated = true;
	}
	task->seen = true;
}

/* The result of a record if put_task() could not make its task. */
static int miss_task(const struct pev_tasks *tasks, int tid)
{
	if (tid <= 0)
		return 0;
	if (has_room(tasks, tid))
		return -ENOMEM;
	tasks->budget->tasks++;
	return 0;
}

static int feed_fork(struct pev_tasks *tasks, const struct pev_record *rec)
{
	int tid = read_field(rec, PEV_F_TID), parent = read_field(rec, PEV_F_PTID);
	const char *comm = pev_tasks_comm(tasks, parent);
	char inherited[PEV_COMM_LEN] = "";
	struct pev_task *task;

	if (tid <= 0)
		return 0;
	if (comm)
		memcpy(inherited, comm, strnlen(comm, PEV_COMM_LEN - 1));
	task = put_task(tasks, read_field(rec, PEV_F_PID), tid);
	if (!task)
		return miss_task(tasks, tid);
	restart_task(tasks, task);
	set_birth(task, rec);
	/* If the parent's name is unknown, this one's is looked up on demand. */
	set_comm(task, inherited, strlen(inherited));
	/* For a process that is older than the recording the recorder writes its maps. */
	if (!(rec->misc & PERF_RECORD_MISC_FORK_EXEC))
		inherit_program(tasks, task, read_field(rec, PEV_F_PPID));
	return 0;
}

static int feed_comm(struct pev_tasks *tasks, const struct pev_record *rec)
{
	int tid = read_field(rec, PEV_F_TID);
	struct pev_task *task = put_task(tasks, read_field(rec, PEV_F_PID), tid);
	const char *comm;
	bool executes;
	uint32_t len;

	if (!task)
		return miss_task(tasks, tid);
	executes = rec->misc & PERF_RECORD_MISC_COMM_EXEC;
	/* A thread that calls exec takes the tid of the first thread, which exits (de_thread()). */
	if (task->ended && executes)
		task->life = ++tasks->lives;
	else if (task->ended)
		restart_task(tasks, task);
	task->ended = false;
	if (pev_record_string(rec, PEV_F_COMM, &comm, &len))
		set_comm(task, comm, len);
	/* Records report all maps from here on. */
	if (executes) {
		forget_program(task);
		task->asked = task->fresh = true;
		task->linked = false;
	}
	return 0;
}

/* The program is the first file that exec maps: load_elf_binary(). */
static void set_program(struct pev_task *task, const struct pev_record *rec)
{
	const struct pev_map *map;
	uint64_t addr;

	if (!pev_record_number(rec, PEV_F_ADDR, &addr))
		return;
	map = pev_space_find(task->space, addr);
	if (!map || map->dso->memory || map->dso->path[0] != '/')
		return;
	pev_dso_put(task->exe);
	task->exe = pev_dso_get(map->dso);
	task->fresh = false;
}

/* Maps of the kernel have no process; a recorder writes pid -1. */
static int feed_map(struct pev_tasks *tasks, const struct pev_record *rec)
{
	int pid = read_field(rec, PEV_F_PID), rc;
	struct pev_task *task;
	bool first;

	if (rec->type == PERF_RECORD_KSYMBOL || pid == -1)
		return pev_space_feed(&tasks->kernel, &tasks->dsos, rec);
	task = put_task(tasks, pid, pid);
	if (!task)
		return miss_task(tasks, pid);
	/* An ended task maps nothing: this is a new one, whose name is unknown. */
	if (task->ended)
		restart_task(tasks, task);
	first = task->fresh || (!task->exe && !task->space);
	rc = pev_space_feed(&task->space, &tasks->dsos, rec);
	if (rc == 0 && first)
		set_program(task, rec);
	return rc;
}

static int feed_cgroup(struct pev_tasks *tasks, const struct pev_record *rec)
{
	const char *path;
	uint32_t len;
	uint64_t id;

	if (!pev_record_number(rec, PEV_F_ID, &id) ||
	    !pev_record_string(rec, PEV_F_PATH, &path, &len))
		return 0;
	return pev_cgroups_set(&tasks->cgroups, id, path, len);
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
		tid = read_field(rec, PEV_F_TID);
		if (tid > 0 && find_task(tasks, tid)->tid)
			keep_ended(tasks, &tasks->exited, tid);
		return 0;
	case PERF_RECORD_MMAP:
	case PERF_RECORD_MMAP2:
	case PERF_RECORD_KSYMBOL:
		return feed_map(tasks, rec);
	case PEV_RECORD_CGROUP:
		return feed_cgroup(tasks, rec);
	default:
		return 0;
	}
}

/*
 * The name of a kworker in /proc ends with its current work; in COMM records it does not:
 * wq_worker_comm(), 4.18. The name of a rescuer, "kworker/R-" and its queue, is stable.
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

/* Reads the comm in /proc, unless a record has named the task, which is newer. */
static int read_comm(struct pev_tasks *tasks, int pid, int tid)
{
	struct pev_task *task;
	char path[64], *text;
	size_t len;
	int rc;

	if (tid <= 0 || find_task(tasks, tid)->comm[0])
		return 0;
	if (!has_room(tasks, tid))
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	rc = tasks->sys->slurp(tasks->sys->ctx, path, &text, &len);
	if (rc < 0)
		return rc;
	if (len && text[len - 1] == '\n')
		len--;
	task = put_task(tasks, pid, tid);
	if (task)
		set_comm(task, text, stable_len(text, len));
	free(text);
	return task ? 0 : -ENOMEM;
}

static int read_maps(struct pev_tasks *tasks, int pid)
{
	struct pev_task *task = find_task(tasks, pid);
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
	/* /proc includes the maps that records reported. */
	pev_space_put(task->space);
	task->space = NULL;
	rc = pev_space_parse(&task->space, &tasks->dsos, pid, text);
	free(text);
	return rc;
}

/* Finds the offset from CLOCK_BOOTTIME, the clock of starts in /proc, to the session's clock. */
static bool find_shift(struct pev_tasks *tasks)
{
	const struct pev_sys *sys = tasks->sys;
	uint64_t boot, here;

	if (!tasks->shifted && sys->clock(sys->ctx, CLOCK_BOOTTIME, &boot) == 0 &&
	    sys->clock(sys->ctx, tasks->clockid, &here) == 0) {
		tasks->from_boot = (int64_t)(here - boot);
		tasks->shifted = true;
	}
	return tasks->shifted;
}

/* "1 (a) b) S 0 ...": the parent is its fourth word, the start in ticks the 22nd: proc(5). */
static void parse_stat(struct pev_tasks *tasks, struct pev_task *task, const char *text)
{
	const char *at = strrchr(text, ')');
	long long ticks;

	if (!at || sscanf(at, ") %*c %d", &task->ppid) != 1)
		return;
	for (int word = 2; at && word < 22; word++)
		at = strchr(at + 1, ' ');
	if (!at || sscanf(at, " %lld", &ticks) != 1 || ticks < 0 || !find_shift(tasks))
		return;
	task->start = (int64_t)((uint64_t)ticks * (uint64_t)TICK_NS) + tasks->from_boot;
	task->dated = true;
}

/* Reads parent and start, once. */
static void read_stat(struct pev_tasks *tasks, struct pev_task *task)
{
	char path[64], *text;
	size_t len;

	if (task->seen || task->ended)
		return;
	task->seen = true;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", task->pid, task->tid);
	if (tasks->sys->slurp(tasks->sys->ctx, path, &text, &len) < 0)
		return;
	parse_stat(tasks, task, text);
	free(text);
}

/*
 * True if the task still has the name of its COMM record: it may have executed another program
 * after the exec that the record reports.
 */
static bool is_current(struct pev_tasks *tasks, const struct pev_task *task)
{
	char path[32], *text;
	bool same;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/comm", task->pid);
	if (tasks->sys->slurp(tasks->sys->ctx, path, &text, &len) < 0)
		return false;
	len = strcspn(text, "\n");
	same = len == strlen(task->comm) && memcmp(text, task->comm, len) == 0;
	free(text);
	return same;
}

/* Reads the executable of a process, once per program. Kernel threads have none. */
static void read_exe(struct pev_tasks *tasks, struct pev_task *task)
{
	char path[32], target[PATH_MAX];
	int len;

	if (task->exe || task->linked || task->ended)
		return;
	task->linked = true;
	if (task->fresh && !is_current(tasks, task))
		return;
	snprintf(path, sizeof(path), "/proc/%d/exe", task->pid);
	len = tasks->sys->readlink(tasks->sys->ctx, path, target, sizeof(target));
	if (len > 0)
		task->exe = pev_dso_file(&tasks->dsos, target, (size_t)len);
}

/* Returns the number of threads that were unknown. */
static int scan_process(struct pev_tasks *tasks, int pid, bool maps)
{
	int *tids, nr = pev_sys_threads(tasks->sys, pid, &tids), news = 0;

	if (nr < 0)
		return nr;
	for (int i = 0; i < nr; i++) {
		bool known = find_task(tasks, tids[i])->tid;

		if (read_comm(tasks, pid, tids[i]) == 0 && !known)
			news++;
	}
	if (find_task(tasks, pid)->tid) {
		read_stat(tasks, find_task(tasks, pid));
		read_exe(tasks, find_task(tasks, pid));
	}
	if (maps)
		read_maps(tasks, pid);
	free(tids);
	return news;
}

/* known: scan known processes again, too. */
static int scan_all(struct pev_tasks *tasks, bool maps, bool known)
{
	int rc, news = 0;
	char *names;
	size_t len;

	rc = tasks->sys->list(tasks->sys->ctx, "/proc", &names, &len);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < len; i += strlen(names + i) + 1) {
		int pid = (int)strtol(names + i, NULL, 10);

		if (pid <= 0 || (!known && find_task(tasks, pid)->tid))
			continue;
		if (scan_process(tasks, pid, maps) > 0)
			news++;
	}
	free(names);
	return news;
}

/* Scans again until no new task appears: some start during the scan. */
static int scan_tasks(struct pev_tasks *tasks, int pid, bool maps, bool known)
{
	int news = 1;

	for (int n = 0; news > 0 && n < SCANS_MAX; n++) {
		news = pid == -1 ? scan_all(tasks, maps, known) : scan_process(tasks, pid, maps);
		known = false;
	}
	return news < 0 ? news : 0;
}

int pev_tasks_scan(struct pev_tasks *tasks, int pid)
{
	return scan_tasks(tasks, pid, false, true);
}

int pev_tasks_scan_maps(struct pev_tasks *tasks, int pid)
{
	return scan_tasks(tasks, pid, true, true);
}

int pev_tasks_scan_new(struct pev_tasks *tasks, int pid)
{
	return scan_tasks(tasks, pid, false, false);
}

/* Reads the comm once; a task that does not exist is kept as ended, without a name. */
static void look_up(struct pev_tasks *tasks, int tid)
{
	const bool known = find_task(tasks, tid)->tid;

	/* /proc/TID exists for threads, too, although readdir(3) does not list it. */
	if (read_comm(tasks, tid, tid) < 0 && put_task(tasks, tid, tid))
		keep_ended(tasks, &tasks->unknown, tid);
	if (!known && find_task(tasks, tid)->tid)
		find_task(tasks, tid)->guessed = true;
}

const char *pev_tasks_comm(struct pev_tasks *tasks, int tid)
{
	const struct pev_task *task;

	if (tid == 0)
		return "swapper";
	if (tid < 0)
		return NULL;
	task = find_task(tasks, tid);
	if (!task->tid || (!task->comm[0] && !task->ended)) {
		look_up(tasks, tid);
		task = find_task(tasks, tid);
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

/* Reads the thread's process from /proc/TID/status. */
static void read_process(struct pev_tasks *tasks, struct pev_task *task)
{
	char path[32], *text;
	const char *at;
	size_t len;

	if (!task->guessed || task->ended)
		return;
	task->guessed = false;
	snprintf(path, sizeof(path), "/proc/%d/status", task->tid);
	if (tasks->sys->slurp(tasks->sys->ctx, path, &text, &len) < 0)
		return;
	at = strstr(text, "\nTgid:");
	if (at)
		sscanf(at, "\nTgid: %d", &task->pid);
	free(text);
}

/* Fills in the facts that the threads of a process share. */
static void describe_process(struct pev_tasks *tasks, int pid, struct pev_who *who)
{
	struct pev_task *leader;

	pev_tasks_comm(tasks, pid);
	leader = find_task(tasks, pid);
	if (!leader->tid)
		return;
	read_stat(tasks, leader);
	read_exe(tasks, leader);
	who->ppid = leader->ppid;
	who->exe = leader->exe ? leader->exe->path : NULL;
}

bool pev_tasks_who(struct pev_tasks *tasks, int tid, struct pev_who *who)
{
	struct pev_task *task;

	*who = (struct pev_who){ .tid = tid, .pid = tid, .ppid = PEV_NOBODY };
	who->comm = pev_tasks_comm(tasks, tid);
	if (tid <= 0)
		return tid == 0;
	task = find_task(tasks, tid);
	if (!task->tid || (!who->comm && !task->seen))
		return false;
	read_process(tasks, task);
	read_stat(tasks, task);
	who->pid = task->pid;
	who->start = task->start;
	who->dated = task->dated;
	describe_process(tasks, task->pid, who);
	who->comm = pev_tasks_comm(tasks, tid);
	return true;
}

bool pev_tasks_who_of(struct pev_tasks *tasks, int pid, int tid, struct pev_who *who)
{
	struct pev_task *task;

	pev_tasks_comm(tasks, tid);
	task = tid > 0 ? find_task(tasks, tid) : NULL;
	if (task && task->guessed && pid > 0) {
		task->pid = pid;
		task->guessed = false;
	}
	if (pev_tasks_who(tasks, tid, who))
		return true;
	who->pid = pid;
	return false;
}

static const struct pev_space *space_of(struct pev_tasks *tasks, int pid)
{
	const struct pev_task *task;

	if (pid == -1)
		return tasks->kernel;
	/* The idle task has no memory of its own. */
	if (pid <= 0)
		return NULL;
	if (find_task(tasks, pid)->tid)
		read_maps(tasks, pid);
	else if (put_task(tasks, pid, pid) && read_maps(tasks, pid) < 0)
		keep_ended(tasks, &tasks->unknown, pid);
	task = find_task(tasks, pid);
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

const char *pev_tasks_cgroup(struct pev_tasks *tasks, uint64_t id)
{
	return pev_cgroups_find(&tasks->cgroups, tasks->sys, id);
}

const char *pev_tasks_cgroup_of(struct pev_tasks *tasks, int pid)
{
	struct pev_task *task;

	if (pid == 0)
		return "/"; /* the idle task */
	pev_tasks_comm(tasks, pid);
	task = find_task(tasks, pid);
	if (pid < 0 || !task->tid)
		return NULL;
	if (!task->cgroup && !task->ended)
		task->cgroup = pev_cgroup_of_process(tasks->sys, pid);
	return task->cgroup;
}

struct pev_jit_dump *pev_tasks_jit_dump(struct pev_tasks *tasks, int pid)
{
	return pev_space_jit_dump(space_of(tasks, pid));
}

const struct pev_map *pev_tasks_map_at(struct pev_tasks *tasks, int pid, uint32_t n)
{
	const struct pev_task *task;

	if (pid == -1)
		return pev_space_at(tasks->kernel, n);
	task = pid > 0 ? find_task(tasks, pid) : NULL;
	return task && task->tid ? pev_space_at(task->space, n) : NULL;
}
