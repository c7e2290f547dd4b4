/*
 * sort.c - a minimal program that counts the system calls of a recording in time order.
 *
 * Maps the file and reads headers and times in place. The records of a CPU are a run that is
 * sorted already; the runs of a round are merged. The offsets of the time and of the call number
 * are arguments: nothing is checked or computed.
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

static uint64_t load_word(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static void deliver_item(const struct item *item)
{
	out_of_order += item->time < last_time;
	last_time = item->time;
	calls[load_word(item->bytes + call_at) % CALLS]++;
}

/* Delivers the items up to the limit, each from the run with the oldest one. */
static void merge_runs(uint64_t limit)
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
		deliver_item(&items[starts[best]++]);
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

static int take_record(uint64_t time, const unsigned char *bytes)
{
	if (nr_items == ITEMS_MAX || nr_runs == RUNS_MAX)
		return -1;
	if (!nr_runs || time < items[nr_items - 1].time)
		starts[nr_runs++] = nr_items;
	items[nr_items++] = (struct item){ time, bytes };
	ends[nr_runs - 1] = nr_items;
	return 0;
}

static int walk_records(const unsigned char *at, const unsigned char *end)
{
	uint64_t limit = 0, most = 0;

	while (end - at >= (ptrdiff_t)sizeof(struct perf_event_header)) {
		struct perf_event_header header;

		memcpy(&header, at, sizeof(header));
		if (header.size < sizeof(header) || header.size > end - at)
			return -1;
		if (header.type == PERF_RECORD_SAMPLE) {
			uint64_t time = load_word(at + time_at);

			most = time > most ? time : most;
			if (take_record(time, at) < 0)
				return -1;
		} else if (header.type == FINISHED_ROUND) {
			merge_runs(limit);
			limit = most;
		}
		at += header.size;
	}
	merge_runs(UINT64_MAX);
	return at == end ? 0 : -1;
}

int main(int argc, char **argv)
{
	int fd = argc == 4 ? open(argv[1], O_RDONLY) : -1;
	const unsigned char *file, *records;
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
	records = file + load_word(file + 40);
	rc = walk_records(records, records + load_word(file + 48));
	for (uint32_t i = 0; i < CALLS; i++)
		total += calls[i];
	printf("%" PRIu64 "\n", total);
	return rc < 0 || out_of_order;
}
