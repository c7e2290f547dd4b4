/*
 * sample_batch.c - looks up the layout and the use of an id's samples; see sample_batch.h.
 */
#include "record/sample_batch.h"

void pev_batch_find_kind(struct pev_batch *batch, struct pev_batch_kind *kind, uint64_t id)
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
