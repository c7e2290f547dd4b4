/* sample_run.c - reads runs of consecutive samples; see sample_run.h. */
#include "perfdata/sample_run.h"

/* Fills kind. It stays unknown if the event has no time. */
static void fill_kind(struct pev_sample_kind *kind, const struct pev_event_ids *table,
		      uint32_t event, uint64_t id)
{
	uint16_t id_off = table->nr > 1 ? table->sample_id_off : 0;

	*kind = (struct pev_sample_kind){ .id = id, .event = event };
	if (event == PEV_NO_EVENT)
		return;
	kind->time_off = table->events[event]->plan.fixed[PEV_F_TIME];
	kind->min = (uint16_t)((kind->time_off > id_off ? kind->time_off : id_off) + 8u);
}

/* Returns the kind of the sample by its id, or NULL if the id has no event. */
static inline const struct pev_sample_kind *
find_kind(const struct pev_sample_run *samples, const struct pev_event_ids *table,
	  const unsigned char *bytes,
	  uint16_t size, bool swap)
{
	struct pev_sample_kind *kind;
	uint64_t id;

	if (size < table->sample_id_off + 8u)
		return NULL;
	id = pev_load64(bytes + table->sample_id_off, swap);
	kind = &samples->kinds[id % PEV_SAMPLE_KINDS];
	if (!kind->time_off || kind->id != id)
		fill_kind(kind, table, pev_event_ids_number_of_id(table, id), id);
	return kind->time_off ? kind : NULL;
}

/* The compiler makes two versions: one kind for all samples, and a kind for each id. */
static inline __attribute__((always_inline)) uint32_t
take_samples(struct pev_sample_run *samples, const struct pev_event_ids *table,
	     const struct pev_sample_kind *only_kind,
	     struct pev_reorder_item *items, uint32_t nr)
{
	const unsigned char *sample = samples->at, *end = samples->end;
	const unsigned char *last =
		samples->room < (size_t)(end - sample) ? sample + samples->room : end;
	const struct pev_sample_kind *kind = only_kind;
	uint64_t since = samples->since;
	bool swap = table->swap;
	uint32_t taken = 0;

	while (taken < nr && sample < last &&
	       (size_t)(end - sample) >= sizeof(struct perf_event_header)) {
		uint16_t size = pev_load16(sample + 6, swap);
		uint64_t time;

		if (pev_load32(sample, swap) != PERF_RECORD_SAMPLE || size % 8 ||
		    size > (size_t)(end - sample))
			break;
		if (!only_kind)
			kind = find_kind(samples, table, sample, size, swap);
		if (!kind || size < kind->min)
			break;
		time = pev_load64(sample + kind->time_off, swap);
		if (time < since || time == UINT64_MAX)
			break;
		items[taken++] = (struct pev_reorder_item){
			time, sample, samples->block, kind->event, PERF_RECORD_SAMPLE, size
		};
		since = time;
		sample += size;
	}
	samples->at = sample;
	return taken;
}

uint32_t pev_sample_run_read(struct pev_sample_run *samples, const struct pev_event_ids *table,
			     struct pev_reorder_item *items, uint32_t nr)
{
	struct pev_sample_kind only_kind;

	if (table->nr > 1)
		return table->sample_id_off ? take_samples(samples, table, NULL, items, nr) : 0;
	fill_kind(&only_kind, table, table->nr ? 0 : PEV_NO_EVENT, 0);
	return only_kind.time_off ? take_samples(samples, table, &only_kind, items, nr) : 0;
}
