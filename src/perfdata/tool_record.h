/*
 * tool_record.h - records that recorders write, not the kernel: events, sections, rounds.
 */
#ifndef PEV_TOOL_RECORD_H
#define PEV_TOOL_RECORD_H

#include "perfdata/reader_state.h"

/* Does what a record of a tool says. Damage in it ends the input after the record. */
void pev_reader_apply(struct pev_reader *reader, const struct pev_piece *piece);

#endif
