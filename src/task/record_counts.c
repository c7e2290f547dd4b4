/*
 * record_counts.c - counts the records of a recording; see record_counts.h.
 */
#include "task/record_counts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int pev_record_counts_init(struct pev_record_counts *counts)
{
	const struct pev_agg_config config = { .kind = PEV_AGG_COUNT,
					       .max_keys = PEV_AGG_MOST_KEYS };
	struct pev_err err;

	*counts = (struct pev_record_counts){ 0 };
	return pev_agg_init(&counts->comms, &config, &err);
}

void pev_record_counts_free(struct pev_record_counts *counts)
{
	pev_agg_free(&counts->comms);
	free(counts->events);
	*counts = (struct pev_record_counts){ 0 };
}

static __attribute__((noinline)) int add_events(struct pev_record_counts *counts, uint32_t event)
{
	uint32_t nr = event + 1 > 2 * counts->nr_events ? event + 1 : 2 * counts->nr_events;
	struct pev_event_counts *events = realloc(counts->events, nr * sizeof(*events));

	if (!events)
		return -ENOMEM;
	memset(&events[counts->nr_events], 0, (nr - counts->nr_events) * sizeof(*events));
	counts->events = events;
	counts->nr_events = nr;
	return 0;
}

static void widen_span(struct pev_time_span *span, uint64_t time)
{
	if (!span->first || time < span->first)
		span->first = time;
	if (time > span->last)
		span->last = time;
}

/* ---- samples by the name of their task ---- */

static int flush_task(struct pev_record_counts *counts, struct pev_task_samples *task)
{
	int rc = 0;

	if (task->nr)
		rc = pev_agg_add(&counts->comms, task->comm, sizeof(task->comm), (int64_t)task->nr);
	task->nr = 0;
	return rc;
}

int pev_record_counts_finish(struct pev_record_counts *counts)
{
	int rc = 0;

	for (int i = 0; i < PEV_COUNTED_TASKS && counts->has_tasks && rc == 0; i++)
		rc = flush_task(counts, &counts->tasks[i]);
	counts->has_tasks = false;
	return rc;
}

/* Puts another task in this place. */
static __attribute__((noinline)) int name_task(struct pev_record_counts *counts,
					       struct pev_tasks *tasks,
					       struct pev_task_samples *task, int tid)
{
	const char *comm = tid == PEV_NOBODY ? NULL : pev_tasks_comm(tasks, tid);
	int rc = flush_task(counts, task);

	*task = (struct pev_task_samples){ .tid = tid, .comm = "?" };
	if (comm)
		memcpy(task->comm, comm, strnlen(comm, PEV_COMM_LEN - 1));
	counts->has_tasks = true;
	return rc;
}

static int count_task(struct pev_record_counts *counts, struct pev_tasks *tasks,
		      const struct pev_record *rec)
{
	struct pev_task_samples *task;
	uint64_t number;
	int tid = pev_record_number(rec, PEV_F_TID, &number) ? (int)(int64_t)number : PEV_NOBODY;
	int rc = 0;

	task = &counts->tasks[(uint32_t)tid % PEV_COUNTED_TASKS];
	if (task->tid != tid || !task->nr)
		rc = name_task(counts, tasks, task, tid);
	task->nr++;
	return rc;
}

/* ---- records ---- */

/* Returns the counts of the event; NULL: out of memory. */
static inline struct pev_event_counts *find_event(struct pev_record_counts *counts, uint32_t event)
{
	if (event >= counts->nr_events && add_events(counts, event) < 0)
		return NULL;
	return &counts->events[event];
}

int pev_record_counts_add_sample(struct pev_record_counts *counts, struct pev_tasks *tasks,
				 const struct pev_record *rec, uint32_t number, uint64_t period)
{
	struct pev_event_counts *event;
	uint64_t time, own;

	counts->samples++;
	if (pev_record_number(rec, PEV_F_TIME, &time) && time)
		widen_span(&counts->sampled, time);
	if (count_task(counts, tasks, rec) < 0)
		return -ENOMEM;
	if (number == PEV_UNCOUNTED_EVENT)
		return 0;
	event = find_event(counts, number);
	if (!event)
		return -ENOMEM;
	event->types[PERF_RECORD_SAMPLE]++;
	event->samples++;
	if (!pev_record_number(rec, PEV_F_PERIOD, &own) && !pev_record_fixed_period(rec, &own))
		own = period;
	event->periods += own;
	return 0;
}

int pev_record_counts_add(struct pev_record_counts *counts, const struct pev_record *rec,
			  uint32_t number, bool synthesised)
{
	struct pev_event_counts *event;
	uint64_t time;

	if (synthesised)
		counts->synthesised[rec->type]++;
	else if (pev_record_number(rec, PEV_F_TIME, &time) && time)
		widen_span(&counts->others, time);
	/* The record may have changed the names of tasks. */
	if (counts->has_tasks && pev_tasks_are_changed_by(rec->type) &&
	    pev_record_counts_finish(counts) < 0)
		return -ENOMEM;
	if (number == PEV_UNCOUNTED_EVENT)
		return 0;
	event = find_event(counts, number);
	if (!event)
		return -ENOMEM;
	event->types[rec->type]++;
	return 0;
}
