/*
 * lost.h - records of losses that the session learns of at its end.
 *
 * The kernel writes LOST only when a later record fits; read(2) of an event with
 * PERF_FORMAT_LOST gives the whole count. The session delivers the difference as one more
 * LOST record with PEV_MISC_LOST_AT_END, and writes the count of each event to a recording as a
 * LOST_SAMPLES record, as perf 6.1 and later do (perf_record__read_lost_samples(),
 * tools/perf/builtin-record.c). Such a record has an id and no time; one that the
 * kernel writes for losses of the hardware has a time (perf_log_lost_samples(),
 * kernel/events/core.c).
 */
#pragma once

#include <stdint.h>

#include "record/record.h"

#define PEV_LOSS_WORDS 9 /* header, id, count, and a trailer of six words */

/*
 * Fills words with a LOST or LOST_SAMPLES record of the plan's event. Its trailer names no task
 * and no CPU. Returns the size in bytes.
 */
uint16_t pev_lost_record(uint64_t words[PEV_LOSS_WORDS], const struct pev_plan *plan,
			 const struct perf_event_header *header, uint64_t id, uint64_t lost,
			 uint64_t time);
