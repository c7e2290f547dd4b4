/*
 * samples.c - samples that stand one behind the other; see samples.h.
 */
#include "samples.h"

/* The event that the last one was of, and what of its plan is asked for. */
struct kind {
	uint64_t id;
	uint32_t event; /* its number, or PEV_NO_EVENT */
	uint16_t id_off, time_off, min; /* of a sample; time_off 0: it has none */
};

static void look_up(struct kind *kind, const struct pev_recorded *of)
{
	const struct pev_plan *plan;

	kind->event = of->nr == 1 ? 0 : pev_recorded_number(of, kind->id);
	if (kind->event == PEV_NO_EVENT)
		return;
	plan = &of->events[kind->event]->plan;
	kind->time_off = plan->fixed[PEV_F_TIME];
	kind->min = (uint16_t)(kind->time_off + 8u);
	if (kind->min < kind->id_off + 8u)
		kind->min = (uint16_t)(kind->id_off + 8u);
}

/* Of one event it is known before the first sample; of several only by an id. */
static bool begin(struct kind *kind, const struct pev_recorded *of)
{
	*kind = (struct kind){ .event = PEV_NO_EVENT };
	if (of->nr == 1) {
		look_up(kind, of);
		return kind->time_off;
	}
	kind->id_off = of->sample_id_off;
	kind->min = (uint16_t)(kind->id_off + 8u);
	return kind->id_off;
}

/* Whose the sample is, of size bytes, min at least; false: that cannot be told. */
static inline bool tell(struct kind *kind, const struct pev_recorded *of,
			const unsigned char *bytes, uint16_t size, bool swap)
{
	uint64_t id = pev_load64(bytes + kind->id_off, swap);

	if (id != kind->id || kind->event == PEV_NO_EVENT) {
		kind->id = id;
		look_up(kind, of);
	}
	return kind->event != PEV_NO_EVENT && kind->time_off && size >= kind->min;
}

/* Made twice by the compiler, without and with a look at ids. */
static inline __attribute__((always_inline)) uint32_t
take(struct pev_samples *samples, const struct pev_recorded *of, struct kind *kind,
     struct pev_window_item *items, uint32_t nr, bool has_id)
{
	const unsigned char *at = samples->at, *end = samples->end;
	const unsigned char *last = samples->room < (size_t)(end - at) ? at + samples->room : end;
	uint64_t since = samples->since;
	bool swap = of->swap;
	uint32_t taken = 0;

	while (taken < nr && at < last && (size_t)(end - at) >= sizeof(struct perf_event_header)) {
		uint16_t size = pev_load16(at + 6, swap);
		uint64_t time;

		if (pev_load32(at, swap) != PERF_RECORD_SAMPLE || size < kind->min || size % 8 ||
		    size > (size_t)(end - at) || (has_id && !tell(kind, of, at, size, swap)))
			break;
		time = pev_load64(at + kind->time_off, swap);
		if (time < since || time == UINT64_MAX)
			break;
		items[taken++] = (struct pev_window_item){ time, at, samples->block, kind->event,
							   PERF_RECORD_SAMPLE, size };
		since = time;
		at += size;
	}
	samples->at = at;
	return taken;
}

uint32_t pev_samples_take(struct pev_samples *samples, const struct pev_recorded *of,
			  struct pev_window_item *items, uint32_t nr)
{
	struct kind kind;

	if (!begin(&kind, of))
		return 0;
	return kind.id_off ? take(samples, of, &kind, items, nr, true)
			   : take(samples, of, &kind, items, nr, false);
}
