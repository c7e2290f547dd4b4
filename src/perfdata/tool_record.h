/*
 * tool_record.h - tool records, which the recorder writes: events, sections, rounds.
 */
#pragma once

#include "perfdata/reader_state.h"

/* Applies a tool record to the reader. Damage in the record ends the input after it. */
void pev_reader_apply_tool_record(struct pev_reader *reader, const struct pev_piece *piece);
