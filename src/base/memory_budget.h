/*
 * memory_budget.h - limits the bytes that the stacks and keys of one session take together.
 *
 * A watched process determines the number of stacks and keys. Each table of stacks or keys
 * borrows the session's budget, asks it before each allocation, and counts an entry that does
 * not fit as (other).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct pev_budget {
	uint64_t limit, used; /* bytes */
	uint64_t refused;     /* number of stacks and keys that did not fit */
	uint64_t failed;      /* number of failed allocations */
};

/* True if bytes more fit. A NULL budget has no limit. */
static inline bool pev_budget_fits(const struct pev_budget *budget, uint64_t bytes)
{
	return !budget || (budget->used <= budget->limit && bytes <= budget->limit - budget->used);
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
