/*
 * condition.h - a condition on a record: comparisons, each of which says what comes next.
 *
 * "and", "or" and "not" are gone when it is compiled: they are where a comparison leads to when
 * it holds and when it does not, always forward (as the kernel's own filters have it since 4.17,
 * kernel/trace/trace_events_filter.c, predicate_parse()). So a record costs the comparisons that
 * decide it, and nothing else.
 */
#ifndef PEV_CONDITION_H
#define PEV_CONDITION_H

#include <stdbool.h>
#include <stdint.h>

#include "aggregate/aggregator.h"
#include "base/err.h"

enum pev_condition_op {
	PEV_WHERE_IS,     /* one of the literals, which stand in order */
	PEV_WHERE_IS_NOT, /* none of them */
	PEV_WHERE_LESS, PEV_WHERE_LESS_OR_IS, PEV_WHERE_MORE, PEV_WHERE_MORE_OR_IS,
	PEV_WHERE_BITS,   /* a bit of the literal's is set */
	PEV_WHERE_BEGINS  /* a string, with the literal */
};

/* Where it leads to: a test behind it, or one of these. */
#define PEV_WHERE_YES UINT16_MAX
#define PEV_WHERE_NO (UINT16_MAX - 1)
#define PEV_WHERE_MOST 1000 /* tests; and literals of one */

struct pev_condition_test {
	enum pev_condition_op op;
	uint16_t yes, no;
	uint32_t first, nr;      /* its literals */
};

/* Borrows its tests and their literals, which are integers, strings and truth values. */
struct pev_condition {
	const struct pev_condition_test *tests; /* the first one is where it begins */
	const struct pev_key_part *literals;
	uint32_t nr, nr_literals;
};

/* What stands before another, as literals have to: by type, then by value. < 0, 0, > 0. */
int pev_condition_order(const struct pev_key_part *a, const struct pev_key_part *b);

/* It ends, and reads no literal that is not there. -EINVAL with what is wrong. */
int pev_condition_check(const struct pev_condition *where, struct pev_err *err);

/*
 * What the record has for the test of that number; PEV_KEY_END: nothing. *is_unsigned: an
 * integer is 64 bits without a sign.
 */
typedef struct pev_key_part (*pev_condition_read)(void *ctx, uint32_t test, bool *is_unsigned);

/*
 * Does it hold? A comparison with what is not there does not, whichever it is; *blind is then
 * set, and else left alone. Integers compare by their sign, those without one as what they are.
 */
bool pev_condition_holds(const struct pev_condition *where, pev_condition_read read, void *ctx,
			 bool *blind);

#endif
