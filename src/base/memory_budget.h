/*
 * memory_budget.h - limits the bytes that the tasks, stacks and keys of one session take together.
 *
 * A watched process determines the number of tasks, stacks and keys. Each table of them borrows
 * the session's budget, asks it before each allocation, and counts a stack or key that does not
 * fit as (other). A task that does not fit is unknown.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pev_budget {
	uint64_t limit, used; /* bytes */
	uint64_t refused;     /* number of stacks and keys that did not fit */
	uint64_t failed;      /* number of failed allocations */
	uint64_t tasks;       /* number of records about tasks that did not fit */
};

/* True if bytes more fit. A NULL budget has no limit. */
static inline bool pev_budget_fits(const struct pev_budget *budget, uint64_t bytes)
{
	return !budget || (budget->used <= budget->limit && bytes <= budget->limit - budget->used);
}

/* The same for tasks and stacks: a quarter of the budget is left for the keys of aggregators. */
static inline bool pev_budget_has_room(const struct pev_budget *budget, uint64_t bytes)
{
	return !budget || pev_budget_fits(budget, bytes + budget->limit / 4);
}

static inline void pev_budget_use(struct pev_budget *budget, uint64_t bytes)
{
	if (budget)
		budget->used += bytes;
}

static inline void pev_budget_return(struct pev_budget *budget, uint64_t bytes)
{
	if (budget)
		budget->used -= bytes;
}

static inline void pev_budget_fail(struct pev_budget *budget)
{
	if (budget)
		budget->failed++;
}

static inline void pev_budget_refuse(struct pev_budget *budget)
{
	if (budget)
		budget->refused++;
}
