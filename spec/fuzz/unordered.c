/*
 * unordered.c - libFuzzer: reads a recording in order, and without order on 2 threads.
 *
 * Flags in the first byte: bit 0: also on 1 thread; bit 1: also on 3; others: see
 * parse_input().
 * Invariants for any input: each way passes the same samples, ends with the same error, and counts
 * the same records.
 */
#include <inttypes.h>
#include <stdio.h>

#include "engine/unordered.h"
#include "recording_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { JOBS_MAX = 3, FILES_MAX = 3, EVENTS_MAX = 4096, PART_MIN = 256 };

/* The sums do not depend on the order of the samples. */
struct sums {
	uint64_t samples, hash;
};

struct result {
	struct sums sums;
	uint64_t records, lost, unknown_id, malformed, ambiguous;
	int rc;
	struct pev_err err;
};

static void add_sample(struct sums *sums, uint32_t event, const unsigned char *bytes, size_t size)
{
	uint64_t hash = event + 1;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	sums->samples++;
	sums->hash += hash;
}

static void feed(void *ctx, uint32_t part, const struct pev_samples *samples)
{
	struct sums *parts = ctx;

	for (uint32_t i = 0; i < samples->nr; i++) {
		const unsigned char *bytes = samples->at[i];
		uint16_t size = pev_load16(bytes + 6, samples->plan->swap);

		if (!pev_sample_fits(samples->plan, bytes, size))
			__builtin_trap();
		add_sample(&parts[part], samples->event, bytes, size);
	}
}

static void drop(void *ctx, uint32_t part)
{
	((struct sums *)ctx)[part] = (struct sums){ 0 };
}

static bool join(void *ctx, uint32_t part)
{
	struct sums *parts = ctx;

	if (part) {
		parts[0].samples += parts[part].samples;
		parts[0].hash += parts[part].hash;
		drop(ctx, part);
	}
	return true;
}

static void read_unordered(struct pev_reader *reader, uint32_t jobs, struct result *result)
{
	static struct pev_batch_event events[EVENTS_MAX];
	struct pev_reader_area areas[FILES_MAX];
	struct sums parts[JOBS_MAX] = { 0 };
	struct pev_unordered_config config = {
		.areas = areas,
		.nr_areas = pev_reader_facts(reader)->files,
		.batch = { .events = events, .feed = feed, .ctx = parts },
		.jobs = jobs,
		.part_min = PART_MIN,
		.to = UINT64_MAX,
		.drop = drop,
		.join = join,
	};
	struct pev_reader_range *ranges;
	struct pev_unordered *unordered;
	uint32_t nr;
	int rc;

	for (uint32_t i = 0; i < EVENTS_MAX; i++)
		events[i].is_wanted = true;
	if (pev_reader_count_events(reader) > EVENTS_MAX)
		return;
	for (uint32_t i = 0; i < config.nr_areas; i++)
		if (pev_reader_get_area(reader, i, &areas[i]))
			return;
	unordered = pev_unordered_open(&config);
	if (!unordered)
		return;
	do
		rc = pev_unordered_step(unordered);
	while (rc > 0);
	if (rc < 0)
		parts[0] = (struct sums){ 0 };
	for (uint32_t i = 0; i < config.nr_areas; i++) {
		ranges = pev_unordered_take_ranges(unordered, i, &nr);
		pev_reader_skip_ranges(reader, i, ranges, nr);
	}
	pev_unordered_close(unordered);
	result->sums = parts[0];
}

/* jobs 0: in order */
static struct result read_recording(const struct pev_sys *sys,
				    const struct pev_reader_config *config, uint32_t jobs)
{
	const struct pev_reader_totals *totals;
	struct pev_source_record from;
	struct pev_reader *reader;
	struct result result = { 0 };
	struct pev_record rec;

	result.rc = pev_reader_open(&reader, sys, "fuzz", -1, config, &result.err);
	if (result.rc < 0)
		return result;
	if (jobs)
		read_unordered(reader, jobs, &result);
	while ((result.rc = pev_reader_next(reader, &from, &result.err)) > 0)
		if (from.type == PERF_RECORD_SAMPLE && from.event != PEV_NO_EVENT &&
		    pev_reader_locate(reader, &from, &rec, NULL) == 0)
			add_sample(&result.sums, from.event, from.bytes, from.size);
	totals = pev_reader_totals(reader);
	result.records = totals->records;
	result.lost = totals->lost + totals->lost_samples;
	result.unknown_id = totals->unknown_id;
	result.malformed = totals->malformed;
	result.ambiguous = totals->ambiguous;
	pev_reader_close(reader);
	return result;
}

static bool is_same(const struct result *a, const struct result *b)
{
	return a->rc == b->rc && (a->rc == 0 || strcmp(a->err.text, b->err.text) == 0) &&
	       a->sums.samples == b->sums.samples && a->sums.hash == b->sums.hash &&
	       a->records == b->records && a->lost == b->lost &&
	       a->unknown_id == b->unknown_id && a->malformed == b->malformed &&
	       a->ambiguous == b->ambiguous;
}

static void print_result(const struct result *result)
{
	fprintf(stderr, "%" PRIu64 " samples, %" PRIu64 " records, %d %s\n", result->sums.samples,
		result->records, result->rc, result->err.text);
}

static void check_threads(const struct pev_sys *sys, const struct pev_reader_config *config,
			  const struct result *expected, uint32_t jobs)
{
	struct result got = read_recording(sys, config, jobs);

	if (is_same(expected, &got))
		return;
	fprintf(stderr, "in order: ");
	print_result(expected);
	fprintf(stderr, "on %u threads: ", jobs);
	print_result(&got);
	__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pev_reader_config config;
	struct input in;
	struct pev_sys sys = sys_of_input(&in);
	struct result expected;

	if (!size)
		return 0;
	parse_input(&in, &config, data, size);
	expected = read_recording(&sys, &config, 0);
	check_threads(&sys, &config, &expected, 2);
	if (data[0] & 1)
		check_threads(&sys, &config, &expected, 1);
	if (data[0] & 2)
		check_threads(&sys, &config, &expected, 3);
	return 0;
}
