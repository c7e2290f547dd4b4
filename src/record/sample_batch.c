/*
 * sample_batch.c - looks up the layout and the use of an id's samples; see sample_batch.h.
 */
#include "record/sample_batch.h"

static void look_up(const struct pev_batch *batch, struct pev_batch_kind *kind, uint64_t id)
{
	const struct pev_batch_config *config = batch->config;
	const struct pev_plan *plan;
	uint16_t id_at, last;
	uint32_t event;

	*kind = (struct pev_batch_kind){ .id = id };
	if (!batch->find(batch->source, id, &event, &plan))
		return;
	id_at = pev_plan_id_from_start(plan);
	kind->event = event;
	kind->time_at = plan->fixed[PEV_F_TIME];
	last = kind->time_at > id_at ? kind->time_at : id_at;
	if (config->exclude_pid && !config->events[event].keeps_excluded)
		kind->pid_at = plan->fixed[PEV_F_PID];
	last = kind->pid_at > last ? kind->pid_at : last;
	kind->least = (uint16_t)(last + 8u);
	kind->is_wanted = config->events[event].is_wanted;
	kind->plan = plan;
}

/* Which of the 8 bytes behind the fixed fields decide whether the tail fits: in memory order. */
static uint64_t mask_of_tail(enum pev_tail tail)
{
	static const unsigned char raw[8] = { 0xff, 0xff, 0xff, 0xff };

	if (tail == PEV_TAIL_NONE)
		return 0;
	return tail == PEV_TAIL_RAW ? pev_load64(raw, false) : UINT64_MAX;
}

const struct pev_batch_kind *pev_batch_find_kind(struct pev_batch *batch, uint64_t id,
						 const unsigned char *sample, uint32_t size)
{
	struct pev_batch_kind *kind = &batch->kinds[id % PEV_BATCH_KINDS];

	if (!kind->plan || kind->id != id)
		look_up(batch, kind, id);
	if (!kind->plan || size < kind->least || size % 8 ||
	    !pev_sample_fits(kind->plan, sample, size))
		return NULL;
	kind->size = (uint16_t)size;
	kind->tail_mask = mask_of_tail(kind->plan->tail);
	kind->tail_at = kind->tail_mask ? kind->plan->fixed_end : 0;
	kind->tail = pev_load64(sample + kind->tail_at, false) & kind->tail_mask;
	return kind;
}
