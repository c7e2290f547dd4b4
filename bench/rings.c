/*
 * rings.c - measures the merge alone: SOURCES sources, each ascending in time, like CPUs' rings.
 * rings SOURCES RECORDS
 *
 * The time between two records of a source is random, so that sources lead in bursts, as CPUs
 * do.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/merge.h"

static uint64_t state = 88172645463325252;

/* Marsaglia's xorshift64. */
static uint64_t next_random(void)
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
		pev_merge_push(&merge, next_random(), i);
	for (; left; left--) {
		uint64_t time = pev_merge_top(&merge)->time;

		disorder += time < last;
		last = time;
		pev_merge_replace(&merge, time + next_random());
	}
	pev_merge_free(&merge);
	printf("%" PRIu64 "\n", last);
	return disorder != 0;
}
