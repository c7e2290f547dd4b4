/*
 * record_stream.h - the records of a recording, read, put in order of time and handed out.
 */
#ifndef PEV_RECORD_STREAM_H
#define PEV_RECORD_STREAM_H

#include "perfdata/reader_state.h"

/* Hands out a record of a tool, after it was applied. The run holds its block. Returns 1. */
int pev_reader_hand_out_tool_record(struct pev_reader *reader, const struct pev_piece *piece,
				    struct pev_file_record *out);
/* Counts the records that the caller took since the last call. */
void pev_reader_count_taken(struct pev_reader *reader);

#endif
