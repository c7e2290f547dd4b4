/*
 * source.h - records in order, as a recording or a live session has them.
 *
 * A source fills a run of records. The caller takes records from its begin and asks for the next
 * run when it is empty.
 */
#ifndef PEV_SOURCE_H
#define PEV_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "record/record.h"

/* A record in place, valid until the source fills its run again. */
struct pev_source_record {
	const unsigned char *bytes; /* the header, in the source's byte order */
	const struct pev_plan *plan;
	uint64_t time;              /* ns; 0: the record has no time */
	uint64_t offset;            /* in the file: of the record, or of its COMPRESSED record */
	uint32_t type;
	uint32_t event;             /* the event's number, or PEV_NO_EVENT */
	uint16_t size;              /* 65528 for a longer record of simpleperf */
	bool synthesised;           /* the recorder made it: earlier state, or a count */
};

/* Consecutive records: at is the first, end is behind the last. */
struct pev_source_run {
	const struct pev_source_record *at, *end;
};

#endif
