/* recording_source.h - a recording as a source of records. */
#pragma once

#include <stdint.h>

#include "perfdata/reader.h"
#include "record/lost.h"
#include "record/source.h"
#include "task/task.h"

struct pev_recording_source {
	struct pev_source source;
	struct pev_reader *reader; /* borrowed */
	uint64_t lost_own;         /* set by the caller: lost records of hidden events */
	uint64_t last_loss[PEV_LOSS_WORDS]; /* LOST record for the remaining losses, and its plan */
	struct pev_plan plain;
};

/* Makes a source of a reader and its task table; both are borrowed. Allocates nothing. */
void pev_recording_source_init(struct pev_recording_source *recording, struct pev_reader *reader,
			       struct pev_tasks *tasks);
