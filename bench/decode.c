/*
 * decode.c - measures reading three fields of records in memory: by perfev, or by minimal C code
 * with fixed offsets.
 * decode perfev|minimal raw|callchain|mmap2|comm RECORDS
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "event/attr.h"
#include "record/record.h"

#define NR 64 /* records in memory, read repeatedly */

static unsigned char bytes[NR * 256];
static size_t size;

static void put_bytes(unsigned char **at, uint64_t value, size_t len)
{
	memcpy(*at, &value, len);
	*at += len;
}

static void put_header(unsigned char **at, uint32_t type)
{
	put_bytes(at, type, 4);
	put_bytes(at, 0, 2);
	put_bytes(at, 0, 2); /* the size, written later */
}

/* ip, tid, time, cpu, period, as in perf record; then the varying fields. */
static void put_sample(unsigned char **at, uint64_t i, bool chain)
{
	put_header(at, PERF_RECORD_SAMPLE);
	put_bytes(at, 0xffffffff81000000 + i, 8);
	put_bytes(at, 1000 + i, 4);
	put_bytes(at, 1000 + i, 4);
	put_bytes(at, 1000000 + i, 8);
	put_bytes(at, i & 1, 8);
	put_bytes(at, 1, 8);
	if (chain) {
		put_bytes(at, 10, 8);
		for (uint64_t n = 0; n < 10; n++)
			put_bytes(at, 0x400000 + n + i, 8);
		return;
	}
	put_bytes(at, 68, 4);
	for (uint64_t n = 0; n < 17; n++)
		put_bytes(at, n + i, 4);
}

static void put_trailer(unsigned char **at, uint64_t i)
{
	put_bytes(at, 1000 + i, 4);
	put_bytes(at, 1000 + i, 4);
	put_bytes(at, 1000000 + i, 8);
	put_bytes(at, i & 1, 8);
}

static void put_mmap2(unsigned char **at, uint64_t i)
{
	put_header(at, PERF_RECORD_MMAP2);
	put_bytes(at, 1000 + i, 4);
	put_bytes(at, 1000 + i, 4);
	put_bytes(at, 0x400000, 8);
	put_bytes(at, 0x1000, 8);
	for (int n = 0; n < 5; n++)
		put_bytes(at, 1, 8);
	memcpy(*at, "/usr/lib/libc.so.6\0\0\0\0\0", 24);
	*at += 24;
	put_trailer(at, i);
}

static void put_comm(unsigned char **at, uint64_t i)
{
	put_header(at, PERF_RECORD_COMM);
	put_bytes(at, 1000 + i, 4);
	put_bytes(at, 1000 + i, 4);
	memcpy(*at, "task\0\0\0", 8);
	*at += 8;
	put_trailer(at, i);
}

static void fill_buffer(const char *kind)
{
	unsigned char *at = bytes;

	for (uint64_t i = 0; i < NR; i++) {
		unsigned char *start = at;

		if (strcmp(kind, "mmap2") == 0)
			put_mmap2(&at, i);
		else if (strcmp(kind, "comm") == 0)
			put_comm(&at, i);
		else
			put_sample(&at, i, strcmp(kind, "callchain") == 0);
		size = (size_t)(at - start);
		memcpy(start + 6, &(uint16_t){ (uint16_t)size }, 2);
	}
}

/* Checks header and sizes against the buffer, and nothing else. */
static uint64_t read_minimal(const unsigned char *p, size_t len, bool chain)
{
	struct perf_event_header header;

	memcpy(&header, p, sizeof(header));
	if (header.size > len)
		abort();
	if (header.type == PERF_RECORD_SAMPLE && chain) {
		uint64_t nr = pev_load64(p + 48, false), sum = 0;

		if (nr > (header.size - 56u) / 8)
			abort();
		for (uint64_t i = 0; i < nr; i++)
			sum += pev_load64(p + 56 + 8 * i, false);
		return sum + pev_load32(p + 20, false) + pev_load64(p + 24, false);
	}
	if (header.type == PERF_RECORD_SAMPLE) {
		if (pev_load32(p + 48, false) > header.size - 52u)
			abort();
		return pev_load64(p + 60, false) + pev_load32(p + 20, false) + pev_load64(p + 24,
				false);
	}
	if (header.type == PERF_RECORD_COMM)
		return strnlen((const char *)p + 16, header.size - 16u) + pev_load32(p + 8, false) +
		       pev_load64(p + header.size - 16, false);
	return strnlen((const char *)p + 72, header.size - 72u) + pev_load64(p + 16, false) +
	       pev_load64(p + header.size - 16, false);
}

static uint64_t sum_of_chain(const unsigned char *words, uint32_t nr, bool swap)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < nr; i++)
		sum += pev_load64(words + 8 * (size_t)i, swap);
	return sum;
}

static uint64_t read_sample(const struct pev_record *rec, bool chain)
{
	const unsigned char *p;
	uint64_t tid, time;
	uint32_t nr;

	if (!pev_record_number(rec, PEV_F_TID, &tid) || !pev_record_number(rec, PEV_F_TIME, &time))
		abort();
	if (chain && pev_record_chain(rec, &p, &nr))
		return tid + time + sum_of_chain(p, nr, rec->plan->swap);
	if (chain || !pev_record_raw(rec, &p, &nr) || nr < 16)
		abort();
	return tid + time + pev_load64(p + 8, rec->plan->swap);
}

static uint64_t read_comm(const struct pev_record *rec)
{
	uint64_t pid, time;
	const char *comm;
	uint32_t len;

	if (!pev_record_number(rec, PEV_F_PID, &pid) ||
	    !pev_record_number(rec, PEV_F_TIME, &time) ||
	    !pev_record_string(rec, PEV_F_COMM, &comm, &len))
		abort();
	return pid + time + len;
}

static uint64_t read_mmap2(const struct pev_record *rec)
{
	const char *filename;
	uint64_t addr, time;
	uint32_t len;

	if (!pev_record_number(rec, PEV_F_ADDR, &addr) ||
	    !pev_record_number(rec, PEV_F_TIME, &time) ||
	    !pev_record_string(rec, PEV_F_FILENAME, &filename, &len))
		abort();
	return addr + time + len;
}

static uint64_t read_perfev(const struct pev_plan *plan, const unsigned char *p, size_t len,
			    bool chain)
{
	static struct pev_record rec;

	if (pev_record_locate(&rec, plan, p, len, NULL) < 0)
		abort();
	if (rec.type == PERF_RECORD_SAMPLE)
		return read_sample(&rec, chain);
	return rec.type == PERF_RECORD_COMM ? read_comm(&rec) : read_mmap2(&rec);
}

int main(int argc, char **argv)
{
	struct pev_attr attr = {
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |
			       PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD,
		.flags = PEV_ATTR_SAMPLE_ID_ALL,
	};
	bool minimal, chain;
	static struct pev_plan plan;
	uint64_t sum = 0, nr;

	if (argc != 4)
		return 2;
	minimal = strcmp(argv[1], "minimal") == 0;
	chain = strcmp(argv[2], "callchain") == 0;
	nr = strtoull(argv[3], NULL, 0);
	attr.sample_type |= chain ? PERF_SAMPLE_CALLCHAIN : PERF_SAMPLE_RAW;
	pev_plan_init(&plan, &attr, false);
	fill_buffer(argv[2]);
	for (uint64_t i = 0; i < nr; i++) {
		const unsigned char *p = bytes + i % NR * size;

		sum += minimal ? read_minimal(p, size, chain) : read_perfev(&plan, p, size, chain);
	}
	printf("%" PRIu64 "\n", sum);
	return 0;
}
