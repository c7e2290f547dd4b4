/*
 * history.h - names the tasks of the last seconds: the tasks as of an earlier time, and the records
 * about tasks since then.
 *
 * A ring that is overwritten has samples of tasks that ended, changed their name, or had a tid that
 * another task has now. The history has the records of one event from a time before these samples
 * on, and an image of the task table as of that time. The records take a limited number of bytes:
 * halfway a second image is made, and when they are full, the first half is dropped and the second
 * image becomes the first. Tasks that ended are in an image as long as they are in the table.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "task/task.h"

/* The tasks of a table, whose maps are shared with it. */
struct pev_task_image {
	struct pev_task *tasks;
	uint32_t nr;
};

struct pev_task_history {
	const struct pev_plan *plan;  /* of the event whose records are kept; borrowed */
	uint64_t id;                  /* of that event */
	int held;                     /* a process before its exec, or 0 */
	size_t limit;                 /* most bytes of records */
	unsigned char *records;       /* in the order of time */
	size_t len, cap;
	size_t half;                  /* the records from here on follow the second image */
	bool has_second;
	struct pev_task_image first, second;
};

/*
 * Begins with the tasks as of now. held: a process before its exec, whose maps are left out
 * because perf would take them for the new program's; 0: none. Returns 0 or -ENOMEM. Call free()
 * in each case.
 */
int pev_task_history_begin(struct pev_task_history *history, const struct pev_tasks *tasks,
			   const struct pev_plan *plan, uint64_t id, int held, size_t limit);
void pev_task_history_free(struct pev_task_history *history);

/*
 * Adds a record, before the table learns from it. Ignores those of other events. Leaves it out if
 * there is no memory.
 */
void pev_task_history_add(struct pev_task_history *history, const struct pev_tasks *tasks,
			  const struct pev_record *rec);

/*
 * Passes records of the first image to write(), some at a time: FORK, COMM and MMAP2 records of
 * the event, with time 0. Returns 0, -ENOMEM or what write() returned below 0.
 */
int pev_task_history_describe(const struct pev_task_history *history,
			      int (*write)(void *ctx, const void *records, size_t len), void *ctx);
