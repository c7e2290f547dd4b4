/*
 * history.c - the tasks as of an earlier time, and the records since then; see history.h.
 *
 * Contract of the records: tools/perf/util/synthetic-events.c; kernel/events/core.c,
 * perf_event_fork_output(), perf_event_comm_output(), perf_event_mmap_output().
 */
#include "task/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAP ((size_t)1 << 16)
#define BATCH ((size_t)1 << 16) /* bytes to a write */
#define NAME_MAX_BYTES 4096u    /* PATH_MAX, NUL included */
#define RECORD_MAX_BYTES 8192u  /* of a record made here */
#define PROT_READ_EXEC 5u
#define MAP_PRIVATE_FLAG 2u

/* ---- images ---- */

static void free_image(struct pev_task_image *image)
{
	for (uint32_t i = 0; i < image->nr; i++)
		pev_space_put(image->tasks[i].space);
	free(image->tasks);
	*image = (struct pev_task_image){ 0 };
}

static int make_image(struct pev_task_image *image, const struct pev_tasks *tasks)
{
	struct pev_task *list = malloc(sizeof(*list) * (tasks->nr + (size_t)1));
	uint32_t nr = 0;

	if (!list)
		return -ENOMEM;
	for (uint32_t i = 0; i < tasks->cap; i++) {
		if (!tasks->slots[i].tid)
			continue;
		list[nr] = tasks->slots[i];
		list[nr].exe = NULL;
		pev_space_get(list[nr++].space);
	}
	*image = (struct pev_task_image){ .tasks = list, .nr = nr };
	return 0;
}

int pev_task_history_begin(struct pev_task_history *history, const struct pev_tasks *tasks,
			   const struct pev_plan *plan, uint64_t id, int held, size_t limit)
{
	*history = (struct pev_task_history){
		.plan = plan, .id = id, .held = held, .limit = limit
	};
	return make_image(&history->first, tasks);
}

void pev_task_history_free(struct pev_task_history *history)
{
	free_image(&history->first);
	free_image(&history->second);
	free(history->records);
	*history = (struct pev_task_history){ 0 };
}

/* ---- records as they come ---- */

/* The second image and the records since become the first ones. */
static void drop_first_half(struct pev_task_history *history)
{
	free_image(&history->first);
	history->first = history->second;
	history->second = (struct pev_task_image){ 0 };
	history->has_second = false;
	history->held = 0; /* it has executed its program long ago */
	history->len -= history->half;
	memmove(history->records, history->records + history->half, history->len);
}

static void make_second(struct pev_task_history *history, const struct pev_tasks *tasks)
{
	history->has_second = make_image(&history->second, tasks) == 0;
	history->half = history->len;
}

/* Makes room for size bytes. */
static bool reserve(struct pev_task_history *history, size_t size)
{
	size_t cap = history->cap ? history->cap : FIRST_CAP;
	unsigned char *records;

	if (history->len + size <= history->cap)
		return true;
	while (cap < history->len + size)
		cap *= 2;
	records = realloc(history->records, cap);
	if (!records)
		return false;
	history->records = records;
	history->cap = cap;
	return true;
}

void pev_task_history_add(struct pev_task_history *history, const struct pev_tasks *tasks,
			  const struct pev_record *rec)
{
	if (rec->plan != history->plan)
		return;
	if (!history->has_second && history->len >= history->limit / 2)
		make_second(history, tasks);
	if (history->has_second && history->len + rec->size > history->limit)
		drop_first_half(history);
	if (history->len + rec->size > history->limit || !reserve(history, rec->size))
		return;
	memcpy(history->records + history->len, rec->bytes, rec->size);
	history->len += rec->size;
}

/* ---- records of an image ---- */

/* Records on their way to write(). */
struct batch {
	const struct pev_task_history *history;
	int (*write)(void *ctx, const void *records, size_t len);
	void *ctx;
	unsigned char *bytes; /* BATCH */
	size_t len;
	size_t record;        /* where the unfinished record begins */
	int rc;               /* of the first write() that failed */
};

static void flush(struct batch *batch)
{
	if (batch->len && batch->rc >= 0)
		batch->rc = batch->write(batch->ctx, batch->bytes, batch->len);
	batch->len = 0;
}

static void put(struct batch *batch, const void *bytes, size_t len)
{
	memcpy(batch->bytes + batch->len, bytes, len);
	batch->len += len;
}

static void begin_record(struct batch *batch, uint32_t type, uint16_t misc)
{
	const struct perf_event_header header = { .type = type, .misc = misc };

	if (batch->len + RECORD_MAX_BYTES > BATCH)
		flush(batch);
	batch->record = batch->len;
	put(batch, &header, sizeof(header));
}

/* Puts at most that many bytes of a text, with NULs, at least one, to a multiple of 8 bytes. */
static void put_text(struct batch *batch, const char *text, size_t most)
{
	static const char zeros[8];
	size_t len = strnlen(text, most);

	put(batch, text, len);
	put(batch, zeros, 8 - len % 8);
}

/* Ends the record with the sample_id of its event: time and CPU are 0. */
static void end_record(struct batch *batch, int pid, int tid)
{
	static const enum pev_field ids[] = { PEV_F_IDENTIFIER, PEV_F_ID, PEV_F_STREAM_ID };
	const struct pev_plan *plan = batch->history->plan;
	unsigned char *end = batch->bytes + batch->len + plan->trailer;
	uint16_t size = (uint16_t)(batch->len + plan->trailer - batch->record);

	memset(batch->bytes + batch->len, 0, plan->trailer);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		if (plan->from_end[ids[i]])
			memcpy(end - plan->from_end[ids[i]], &batch->history->id, 8);
	if (plan->from_end[PEV_F_PID]) {
		memcpy(end - plan->from_end[PEV_F_PID], &pid, 4);
		memcpy(end - plan->from_end[PEV_F_TID], &tid, 4);
	}
	batch->len += plan->trailer;
	memcpy(batch->bytes + batch->record + offsetof(struct perf_event_header, size), &size,
	       sizeof(size));
}

/* A thread's parent is its process; the first thread's is the parent of the process. */
static void put_fork(struct batch *batch, const struct pev_task *task)
{
	int of_process = task->ppid == PEV_NOBODY ? 0 : task->ppid;
	int parent = task->tid == task->pid ? of_process : task->pid;
	const struct {
		int pid, ppid, tid, ptid;
		uint64_t time;
	} body = { task->pid, parent, task->tid, parent, 0 };

	begin_record(batch, PERF_RECORD_FORK, PERF_RECORD_MISC_FORK_EXEC);
	put(batch, &body, sizeof(body));
	end_record(batch, task->pid, task->tid);
}

static void put_comm(struct batch *batch, const struct pev_task *task)
{
	const int body[] = { task->pid, task->tid };

	begin_record(batch, PERF_RECORD_COMM, 0);
	put(batch, body, sizeof(body));
	put_text(batch, task->comm, PEV_COMM_LEN - 1);
	end_record(batch, task->pid, task->tid);
}

static void put_map(struct batch *batch, int pid, const struct pev_map *map)
{
	const struct {
		int pid, tid;
		uint64_t addr, len, pgoff;
		uint32_t maj, min;
		uint64_t ino, ino_generation;
		uint32_t prot, flags;
	} body = { pid, pid, map->start, map->end - map->start, map->pgoff, map->dso->maj,
		   map->dso->min, map->dso->ino, map->dso->generation, PROT_READ_EXEC,
		   MAP_PRIVATE_FLAG };

	begin_record(batch, PERF_RECORD_MMAP2, PERF_RECORD_MISC_USER);
	put(batch, &body, sizeof(body));
	put_text(batch, map->dso->path, NAME_MAX_BYTES - 1);
	end_record(batch, pid, pid);
}

static void put_task(struct batch *batch, const struct pev_task *task)
{
	const struct pev_map *map;

	/* Without a name, FORK would give it the parent's. */
	if (task->comm[0]) {
		put_fork(batch, task);
		put_comm(batch, task);
	}
	if (task->tid != task->pid || task->pid == batch->history->held)
		return;
	for (uint32_t i = 0; (map = pev_space_at(task->space, i)) != NULL; i++)
		put_map(batch, task->pid, map);
}

/* Processes come before their threads, which share the maps in perf, too. */
int pev_task_history_describe(const struct pev_task_history *history,
			      int (*write)(void *ctx, const void *records, size_t len), void *ctx)
{
	struct batch batch = { .history = history, .write = write, .ctx = ctx };
	const struct pev_task_image *image = &history->first;

	batch.bytes = malloc(BATCH);
	if (!batch.bytes)
		return -ENOMEM;
	for (int threads = 0; threads < 2; threads++)
		for (uint32_t i = 0; i < image->nr && batch.rc >= 0; i++)
			if ((image->tasks[i].tid != image->tasks[i].pid) == threads)
				put_task(&batch, &image->tasks[i]);
	flush(&batch);
	free(batch.bytes);
	return batch.rc < 0 ? batch.rc : 0;
}
