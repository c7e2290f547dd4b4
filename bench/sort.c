/*
 * sort.c - the least that counts the system calls of a recording in the order of time.
 *
 * The file is mapped, each record's header and time are looked at where they lie, what a
 * CPU wrote is a run that is sorted already, and the runs of a round are merged. Where a
 * sample has its time, and what is counted, it is told: nothing is checked, nothing found.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define FINISHED_ROUND 68
#define ITEMS_MAX (1u << 20)
#define RUNS_MAX 1024u
#define CALLS 512

struct item {
	uint64_t time;
	const unsigned char *bytes;
};

static struct item items[ITEMS_MAX];
static uint32_t starts[RUNS_MAX], ends[RUNS_MAX], nr_runs, nr_items;
static uint64_t calls[CALLS], out_of_order, last_time;
static size_t time_at, call_at; /* bytes from a sample's start */

static uint64_t load(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void deliver(const struct item *item)
{
	out_of_order += item->time < last_time;
	last_time = item->time;
	calls[load(item->bytes + call_at) % CALLS]++;
}

/* What is not later than the limit, always the first of the run that has the oldest. */
static void merge(uint64_t limit)
{
	uint32_t left = 0;

	for (;;) {
		uint32_t best = RUNS_MAX;

		for (uint32_t i = 0; i < nr_runs; i++)
			if (starts[i] < ends[i] &&
			    (best == RUNS_MAX || items[starts[i]].time < items[starts[best]].time))
				best = i;
		if (best == RUNS_MAX || items[starts[best]].time > limit)
			break;
		deliver(&items[starts[best]++]);
	}
	nr_items = 0;
	for (uint32_t i = 0; i < nr_runs; i++) {
		uint32_t nr = ends[i] - starts[i];

		if (!nr)
			continue;
		memmove(&items[nr_items], &items[starts[i]], nr * sizeof(items[0]));
		starts[left] = nr_items;
		ends[left++] = nr_items += nr;
	}
	nr_runs = left;
}

static int take(uint64_t time, const unsigned char *bytes)
{
	if (nr_items == ITEMS_MAX || nr_runs == RUNS_MAX)
		return -1;
	if (!nr_runs || time < items[nr_items - 1].time)
		starts[nr_runs++] = nr_items;
	items[nr_items++] = (struct item){ time, bytes };
	ends[nr_runs - 1] = nr_items;
	return 0;
}

static int walk(const unsigned char *at, const unsigned char *end)
{
	uint64_t limit = 0, most = 0;

	while (end - at >= (ptrdiff_t)sizeof(struct perf_event_header)) {
		struct perf_event_header header;

		memcpy(&header, at, sizeof(header));
		if (header.size < sizeof(header) || header.size > end - at)
			return -1;
		if (header.type == PERF_RECORD_SAMPLE) {
			uint64_t time = load(at + time_at);

			most = time > most ? time : most;
			if (take(time, at) < 0)
				return -1;
		} else if (header.type == FINISHED_ROUND) {
			merge(limit);
			limit = most;
		}
		at += header.size;
	}
	merge(UINT64_MAX);
	return at == end ? 0 : -1;
}

int main(int argc, char **argv)
{
	int fd = argc == 4 ? open(argv[1], O_RDONLY) : -1;
	const unsigned char *file;
	uint64_t total = 0;
	struct stat about;
	int rc;

	if (fd < 0 || fstat(fd, &about) < 0) {
		fprintf(stderr, "usage: sort FILE TIME_AT CALL_AT\n");
		return 2;
	}
	time_at = strtoul(argv[2], NULL, 0);
	call_at = strtoul(argv[3], NULL, 0);
	file = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		return 2;
	rc = walk(file + load(file + 40), file + load(file + 40) + load(file + 48));
	for (uint32_t i = 0; i < CALLS; i++)
		total += calls[i];
	printf("%" PRIu64 "\n", total);
	return rc < 0 || out_of_order;
}
