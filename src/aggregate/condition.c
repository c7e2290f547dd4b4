/*
 * condition.c - a condition on a record; see condition.h.
 */
#include "aggregate/condition.h"

#include <errno.h>
#include <string.h>

static int order_bytes(const struct pev_key_part *a, const struct pev_key_part *b)
{
	uint32_t len = a->len < b->len ? a->len : b->len;
	int rc = len ? memcmp(a->p, b->p, len) : 0;

	return rc ? rc : (a->len > b->len) - (a->len < b->len);
}

int pev_condition_order(const struct pev_key_part *a, const struct pev_key_part *b)
{
	if (a->type != b->type)
		return a->type < b->type ? -1 : 1;
	if (a->type == PEV_KEY_STRING)
		return order_bytes(a, b);
	return (a->integer > b->integer) - (a->integer < b->integer);
}

static int check_target(uint32_t at, uint16_t target, uint32_t nr, struct pev_err *err)
{
	if (target == PEV_WHERE_YES || target == PEV_WHERE_NO)
		return 0;
	if (target <= at || target >= nr)
		return pev_fail(err, -EINVAL, "test %u jumps to %u", at, target);
	return 0;
}

int pev_condition_check(const struct pev_condition *where, struct pev_err *err)
{
	int rc = 0;

	if (where->nr == 0 || where->nr > PEV_WHERE_MOST)
		return pev_fail(err, -EINVAL, "%u tests", where->nr);
	for (uint32_t i = 0; i < where->nr && rc == 0; i++) {
		const struct pev_condition_test *test = &where->tests[i];

		if (test->nr == 0 || test->nr > where->nr_literals ||
		    test->first > where->nr_literals - test->nr)
			return pev_fail(err, -EINVAL, "test %u has no literal", i);
		rc = check_target(i, test->yes, where->nr, err);
		if (rc == 0)
			rc = check_target(i, test->no, where->nr, err);
	}
	return rc;
}

static bool is_among(const struct pev_key_part *literals, uint32_t nr,
		     const struct pev_key_part *value)
{
	uint32_t low = 0;

	while (low < nr) {
		uint32_t mid = low + (nr - low) / 2;
		int rc = pev_condition_order(value, &literals[mid]);

		if (rc == 0)
			return true;
		if (rc < 0)
			nr = mid;
		else
			low = mid + 1;
	}
	return false;
}

static bool begins_with(const struct pev_key_part *value, const struct pev_key_part *with)
{
	return value->type == PEV_KEY_STRING && with->type == PEV_KEY_STRING &&
	       value->len >= with->len && (!with->len || !memcmp(value->p, with->p, with->len));
}

/* < 0, 0, > 0 of two integers. */
static int order_integers(int64_t a, int64_t b, bool is_unsigned)
{
	if (is_unsigned)
		return ((uint64_t)a > (uint64_t)b) - ((uint64_t)a < (uint64_t)b);
	return (a > b) - (a < b);
}

static bool compare_values(enum pev_condition_op op, const struct pev_key_part *value,
		    const struct pev_key_part *with, bool is_unsigned)
{
	int rc;

	if (value->type != PEV_KEY_INTEGER || with->type != PEV_KEY_INTEGER)
		return false;
	if (op == PEV_WHERE_BITS)
		return value->integer & with->integer;
	rc = order_integers(value->integer, with->integer, is_unsigned);
	switch (op) {
	case PEV_WHERE_LESS:
		return rc < 0;
	case PEV_WHERE_LESS_OR_IS:
		return rc <= 0;
	case PEV_WHERE_MORE:
		return rc > 0;
	default:
		return rc >= 0;
	}
}

static bool test_holds(const struct pev_condition_test *test, const struct pev_key_part *literals,
		  const struct pev_key_part *value, bool is_unsigned)
{
	switch (test->op) {
	case PEV_WHERE_IS:
		return is_among(literals, test->nr, value);
	case PEV_WHERE_IS_NOT:
		return !is_among(literals, test->nr, value);
	case PEV_WHERE_BEGINS:
		return begins_with(value, literals);
	default:
		return compare_values(test->op, value, literals, is_unsigned);
	}
}

bool pev_condition_holds(const struct pev_condition *where, pev_condition_read read, void *ctx,
			 bool *blind)
{
	uint32_t at = 0;

	while (at < where->nr) {
		const struct pev_condition_test *test = &where->tests[at];
		bool is_unsigned = false;
		struct pev_key_part value = read(ctx, at, &is_unsigned);

		if (value.type == PEV_KEY_END) {
			*blind = true;
			at = test->no;
		} else {
			at = test_holds(test, &where->literals[test->first], &value, is_unsigned) ?
				     test->yes :
				     test->no;
		}
	}
	return at == PEV_WHERE_YES;
}
