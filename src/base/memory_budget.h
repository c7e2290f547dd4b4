/*
 * memory_budget.h - how many bytes the stacks and keys of one session may take together.
 *
 * What a watched process does decides how many stacks and keys there are. Each table that keeps
 * them borrows the session's budget, asks before it allocates for a new one, and counts what
 * does not fit as (other).
 */
#ifndef PEV_MEMORY_BUDGET_H
#define PEV_MEMORY_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct pev_budget {
	uint64_t limit, used; /* bytes */
	uint64_t refused;     /* how often a stack or key did not fit */
	uint64_t failed;      /* how often there was no memory for one */
};

/* Is there room for bytes more? budget is NULL: always. */
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

#endif
