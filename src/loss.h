/*
 * loss.h - records that the session makes of a loss that it learns of at the end.
 *
 * The kernel writes LOST only when a later record fits; read(2) of an event with
 * PERF_FORMAT_LOST gives the whole count. What no LOST record told is handed out as one more
 * LOST record with PEV_MISC_LOST_AT_END, and a recording gets the count of each event as a
 * LOST_SAMPLES record, as perf 6.1 and later write it (perf_record__read_lost_samples(),
 * tools/perf/builtin-record.c). Such a record has an id and no time; one that the
 * kernel writes for losses of the hardware has a time (perf_log_lost_samples(),
 * kernel/events/core.c).
 */
#ifndef PEV_LOSS_H
#define PEV_LOSS_H

#include <stdint.h>

#include "record.h"

#define PEV_LOSS_WORDS 9 /* header, id, count, and a trailer of six words */

/*
 * Fills words with a LOST or LOST_SAMPLES record of that plan's event, with its trailer: of no
 * task and no CPU. Returns its size in bytes.
 */
uint16_t pev_loss_record(uint64_t words[PEV_LOSS_WORDS], const struct pev_plan *plan,
			 const struct perf_event_header *header, uint64_t id, uint64_t lost,
			 uint64_t time);

#endif
