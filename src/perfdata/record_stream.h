/*
 * record_stream.h - reads the records of a recording, sorts them by time and returns them.
 */
#pragma once

#include "perfdata/reader_state.h"

/* Applies a tool record and returns it in *out. The run holds its block. Returns 1. */
int pev_reader_return_tool_record(struct pev_reader *reader, const struct pev_piece *piece,
				    struct pev_source_record *out);
/* Adds the records that the caller took since the last call to the totals. */
void pev_reader_count_taken(struct pev_reader *reader);
