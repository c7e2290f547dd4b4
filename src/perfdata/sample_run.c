/*
 * sample_run.c - samples that stand one behind the other; see sample_run.h.
 */
#include "perfdata/sample_run.h"

/* Of an event that has a time; else it goes on to be unknown. */
static void learn(struct pev_sample_kind *kind, const struct pev_event_ids *of, uint32_t event,
		  uint64_t id)
{
	uint16_t id_off = of->nr > 1 ? of->sample_id_off : 0;

	*kind = (struct pev_sample_kind){ .id = id, .event = event };
	if (event == PEV_NO_EVENT)
		return;
	kind->time_off = of->events[event]->plan.fixed[PEV_F_TIME];
	kind->min = (uint16_t)((kind->time_off > id_off ? kind->time_off : id_off) + 8u);
}

/* Whose the sample of size bytes is, by its id; NULL: that cannot be told. */
static inline const struct pev_sample_kind *
tell(const struct pev_sample_run *samples, const struct pev_event_ids *of,
     const unsigned char *bytes,
     uint16_t size, bool swap)
{
	struct pev_sample_kind *kind;
	uint64_t id;

	if (size < of->sample_id_off + 8u)
		return NULL;
	id = pev_load64(bytes + of->sample_id_off, swap);
	kind = &samples->kinds[id % PEV_SAMPLE_KINDS];
	if (!kind->time_off || kind->id != id)
		learn(kind, of, pev_event_ids_number(of, id), id);
	return kind->time_off ? kind : NULL;
}

/* Made twice by the compiler: for samples that are all of one kind, and for those with an id. */
static inline __attribute__((always_inline)) uint32_t
take(struct pev_sample_run *samples, const struct pev_event_ids *of,
     const struct pev_sample_kind *one,
     struct pev_reorder_item *items, uint32_t nr)
{
	const unsigned char *at = samples->at, *end = samples->end;
	const unsigned char *last = samples->room < (size_t)(end - at) ? at + samples->room : end;
	const struct pev_sample_kind *kind = one;
	uint64_t since = samples->since;
	bool swap = of->swap;
	uint32_t taken = 0;

	while (taken < nr && at < last && (size_t)(end - at) >= sizeof(struct perf_event_header)) {
		uint16_t size = pev_load16(at + 6, swap);
		uint64_t time;

		if (pev_load32(at, swap) != PERF_RECORD_SAMPLE || size % 8 ||
		    size > (size_t)(end - at))
			break;
		if (!one)
			kind = tell(samples, of, at, size, swap);
		if (!kind || size < kind->min)
			break;
		time = pev_load64(at + kind->time_off, swap);
		if (time < since || time == UINT64_MAX)
			break;
		items[taken++] = (struct pev_reorder_item){ time, at, samples->block, kind->event,
							    PERF_RECORD_SAMPLE, size };
		since = time;
		at += size;
	}
	samples->at = at;
	return taken;
}

uint32_t pev_sample_run_take(struct pev_sample_run *samples, const struct pev_event_ids *of,
			     struct pev_reorder_item *items, uint32_t nr)
{
	struct pev_sample_kind one;

	if (of->nr > 1)
		return of->sample_id_off ? take(samples, of, NULL, items, nr) : 0;
	learn(&one, of, of->nr ? 0 : PEV_NO_EVENT, 0);
	return one.time_off ? take(samples, of, &one, items, nr) : 0;
}
