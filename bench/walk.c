/*
 * walk.c - the minimal reader of a recording: counts the headers by type.
 *
 * Without order, events and fields, its cost is that of reading the file. bench/rows/1-replay.lua
 * compares other readers to it.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCK ((size_t)1 << 20)
#define DATA_AT 40 /* in the header: offset and size of the records */

static uint64_t counts[128];

/* Counts the whole records; returns their size in bytes. */
static size_t count_records(const unsigned char *bytes, size_t len)
{
	struct perf_event_header header;
	size_t at = 0;

	while (len - at >= sizeof(header)) {
		memcpy(&header, bytes + at, sizeof(header));
		if (header.size < sizeof(header) || header.size > len - at)
			break;
		counts[header.type % 128]++;
		at += header.size;
	}
	return at;
}

int main(int argc, char **argv)
{
	static unsigned char block[BLOCK + 65536];
	uint64_t where[2], left;
	int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	size_t rest = 0;

	if (fd < 0 || pread(fd, where, sizeof(where), DATA_AT) != sizeof(where)) {
		fprintf(stderr, "usage: walk FILE\n");
		return 2;
	}
	lseek(fd, (off_t)where[0], SEEK_SET);
	for (left = where[1]; left;) {
		ssize_t n = read(fd, block + rest, left < BLOCK ? (size_t)left : BLOCK);
		size_t done;

		if (n <= 0)
			break;
		left -= (uint64_t)n;
		rest += (size_t)n;
		done = count_records(block, rest);
		rest -= done;
		memmove(block, block + done, rest);
	}
	close(fd);
	printf("%" PRIu64 "\n", counts[PERF_RECORD_SAMPLE]);
	return left || rest;
}
