/*
 * condition.h - a compiled condition on a record: comparisons with jumps.
 *
 * "and", "or" and "not" become the two jumps of each comparison, for true and for false, always
 * forward, as in the kernel's filters since 4.17 (kernel/trace/trace_events_filter.c,
 * predicate_parse()). So a record costs only the comparisons that decide the condition.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/aggregator.h"
#include "base/err.h"

enum pev_condition_op {
	PEV_WHERE_IS,     /* one of the literals, which are sorted */
	PEV_WHERE_IS_NOT, /* not one of the literals */
	PEV_WHERE_LESS, PEV_WHERE_LESS_OR_IS, PEV_WHERE_MORE, PEV_WHERE_MORE_OR_IS,
	PEV_WHERE_BITS,   /* a bit of the literal is set */
	PEV_WHERE_BEGINS  /* a string begins with the literal */
};

/* The target of a jump: a later test, or one of these. */
#define PEV_WHERE_YES UINT16_MAX
#define PEV_WHERE_NO (UINT16_MAX - 1)
#define PEV_WHERE_MOST 1000 /* tests; literals of one test */

struct pev_condition_test {
	enum pev_condition_op op;
	uint16_t yes, no;
	uint32_t first, nr;      /* its literals */
};

/* Borrows its tests and their literals, which are integers, strings and truth values. */
struct pev_condition {
	const struct pev_condition_test *tests; /* evaluation begins at the first */
	const struct pev_key_part *literals;
	uint32_t nr, nr_literals;
};

/* Compares two literals by type, then by value, for sorting. Returns < 0, 0 or > 0. */
int pev_condition_order(const struct pev_key_part *a, const struct pev_key_part *b);

/* Checks that jumps go forward and literals exist. -EINVAL with the reason. */
int pev_condition_check(const struct pev_condition *where, struct pev_err *err);

/*
 * Reads the record's value for a test; PEV_KEY_END: no such field. *is_unsigned: the integer is
 * unsigned.
 */
typedef struct pev_key_part (*pev_condition_read)(void *ctx, uint32_t test, bool *is_unsigned);

/*
 * True if the condition holds. Any comparison with a missing field is false, and sets *blind, which
 * is otherwise unchanged. Integers compare as signed or unsigned, as they are declared.
 */
bool pev_condition_holds(const struct pev_condition *where, pev_condition_read read, void *ctx,
			 bool *blind);
