/*
 * rings.c - the merge alone: so many sources, each ascending in time, as rings of CPUs are.
 * rings SOURCES RECORDS
 *
 * How far apart the records of a source are is random, so that sources go ahead of each
 * other by bursts, as CPUs do.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/merge.h"

static uint64_t state = 88172645463325252;

/* Marsaglia's xorshift64. */
static uint64_t step(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % 1000 + 1;
}

int main(int argc, char **argv)
{
	uint32_t nr = argc == 3 ? (uint32_t)strtoul(argv[1], NULL, 0) : 0;
	uint64_t left = argc == 3 ? strtoull(argv[2], NULL, 0) : 0, last = 0, disorder = 0;
	struct pev_merge merge;

	pev_merge_init(&merge, 0, 0);
	if (!nr || pev_merge_reserve(&merge, nr) < 0)
		return 2;
	for (uint32_t i = 0; i < nr; i++)
		pev_merge_push(&merge, step(), i);
	for (; left; left--) {
		uint64_t time = pev_merge_top(&merge)->time;

		disorder += time < last;
		last = time;
		pev_merge_replace(&merge, time + step());
	}
	pev_merge_free(&merge);
	printf("%" PRIu64 "\n", last);
	return disorder != 0;
}
