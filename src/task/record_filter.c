/*
 * record_filter.c - selects records of a recording; see record_filter.h.
 */
#include "task/record_filter.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pev_record_filter_free(struct pev_record_filter *wanted)
{
	for (uint32_t i = 0; i < wanted->nr_comms; i++)
		free(wanted->comms[i]);
	free(wanted->comms);
	free(wanted->cpus.list);
	free(wanted->pids.list);
	free(wanted->tids.list);
	*wanted = (struct pev_record_filter){ .to = UINT64_MAX };
}

/* The index of n, or where to insert it. */
static uint32_t find_place(const struct pev_numbers *numbers, int n)
{
	uint32_t low = 0, high = numbers->nr;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (numbers->list[middle] < n)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool has_number(const struct pev_numbers *numbers, int n)
{
	uint32_t at = find_place(numbers, n);

	return at < numbers->nr && numbers->list[at] == n;
}

int pev_numbers_add(struct pev_numbers *numbers, int n)
{
	uint32_t at = find_place(numbers, n);
	int *list;

	if (has_number(numbers, n))
		return 0;
	list = realloc(numbers->list, sizeof(*list) * (numbers->nr + (size_t)1));
	if (!list)
		return -ENOMEM;
	memmove(&list[at + 1], &list[at], sizeof(*list) * (numbers->nr - at));
	list[at] = n;
	numbers->list = list;
	numbers->nr++;
	return 0;
}

int pev_record_filter_comm(struct pev_record_filter *wanted, const char *pattern)
{
	char *copy = strdup(pattern);
	char **comms =
		copy ? realloc(wanted->comms, sizeof(*comms) * (wanted->nr_comms + (size_t)1))
		     : NULL;

	if (!comms) {
		free(copy);
		return -ENOMEM;
	}
	comms[wanted->nr_comms++] = copy;
	wanted->comms = comms;
	return 0;
}

static uint64_t add_time(uint64_t time, uint64_t by)
{
	return by > UINT64_MAX - time ? UINT64_MAX : time + by;
}

void pev_record_filter_begin(struct pev_record_filter *wanted, uint64_t time)
{
	if (wanted->from_first)
		wanted->from = add_time(time, wanted->from);
	if (wanted->to_first)
		wanted->to = add_time(time, wanted->to);
	wanted->from_first = wanted->to_first = false;
}

static bool has_field(const struct pev_numbers *numbers, const struct pev_record *rec,
		      enum pev_field field)
{
	struct pev_value value;

	return pev_record_get(rec, field, &value) && has_number(numbers, (int)(int64_t)value.u);
}

/* Writes r.comm: the record's own, else its task's, ":TID" if that has no name. */
static bool read_comm(const struct pev_record *rec, struct pev_tasks *tasks, char *name, size_t len)
{
	struct pev_value value;

	if (pev_record_get(rec, PEV_F_COMM, &value)) {
		snprintf(name, len, "%.*s", (int)value.len, (const char *)value.p);
		return true;
	}
	if (!pev_record_get(rec, PEV_F_TID, &value))
		return false;
	snprintf(name, len, "%s", pev_tasks_name(tasks, (int)(int64_t)value.u));
	return true;
}

static bool has_comm(const struct pev_record_filter *wanted, const struct pev_record *rec,
		     struct pev_tasks *tasks)
{
	char name[256];

	if (!read_comm(rec, tasks, name, sizeof(name)))
		return false;
	for (uint32_t i = 0; i < wanted->nr_comms; i++)
		if (fnmatch(wanted->comms[i], name, 0) == 0)
			return true;
	return false;
}

bool pev_record_filter_has(const struct pev_record_filter *wanted, const struct pev_record *rec,
			   struct pev_tasks *tasks)
{
	return (!wanted->cpus.nr || has_field(&wanted->cpus, rec, PEV_F_CPU)) &&
	       (!wanted->pids.nr || has_field(&wanted->pids, rec, PEV_F_PID)) &&
	       (!wanted->tids.nr || has_field(&wanted->tids, rec, PEV_F_TID)) &&
	       (!wanted->nr_comms || has_comm(wanted, rec, tasks));
}
