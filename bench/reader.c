/*
 * reader.c - measures the core's reader alone: reads and locates every sample in time order.
 *
 * The cost that a session and Lua add to it are other rows of bench/rows/1-replay.lua.
 */
#include <inttypes.h>
#include <stdio.h>

#include "perfdata/reader.h"
#include "base/sys.h"

int main(int argc, char **argv)
{
	const struct pev_reader_config config = { 0 };
	struct pev_err err = { 0 };
	struct pev_source_record from;
	struct pev_record rec;
	struct pev_reader *df;
	uint64_t samples = 0;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: reader FILE\n");
		return 2;
	}
	rc = pev_reader_open(&df, &pev_sys_linux, argv[1], -1, &config, &err);
	while (rc >= 0 && (rc = pev_reader_next(df, &from, &err)) > 0) {
		if (from.type != PERF_RECORD_SAMPLE)
			continue;
		rc = pev_reader_locate(df, &from, &rec, &err);
		samples++;
	}
	if (rc < 0)
		fprintf(stderr, "%s\n", err.text);
	pev_reader_close(df);
	printf("%" PRIu64 "\n", samples);
	return rc < 0;
}
