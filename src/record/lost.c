/*
 * lost.c - builds LOST and LOST_SAMPLES records; see lost.h.
 */
#include "record/lost.h"

#include <string.h>

static void put_trailer(unsigned char *end, const struct pev_plan *plan, enum pev_field field,
			uint64_t value)
{
	if (plan->from_end[field])
		memcpy(end - plan->from_end[field], &value, sizeof(value));
}

uint16_t pev_lost_record(uint64_t words[PEV_LOSS_WORDS], const struct pev_plan *plan,
			 const struct perf_event_header *header, uint64_t id, uint64_t lost,
			 uint64_t time)
{
	struct perf_event_header head = *header;
	unsigned char *end;
	uint32_t nr = 1;

	memset(words, 0, PEV_LOSS_WORDS * sizeof(words[0]));
	if (head.type == PERF_RECORD_LOST)
		words[nr++] = id;
	words[nr++] = lost;
	head.size = (uint16_t)(nr * sizeof(words[0]) + plan->trailer);
	memcpy(words, &head, sizeof(head));
	end = (unsigned char *)words + head.size;
	put_trailer(end, plan, PEV_F_TIME, time);
	put_trailer(end, plan, PEV_F_ID, id);
	put_trailer(end, plan, PEV_F_STREAM_ID, id);
	put_trailer(end, plan, PEV_F_IDENTIFIER, id);
	return head.size;
}
