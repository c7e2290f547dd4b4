/*
 * reader_state.h - the state of struct pev_reader, shared by the reader's files; see reader.h.
 *
 * reader_open.c reads events and sections from the head. blocks.h cuts the inputs into records,
 * event_ids.h finds the event of each, and tool_record.h applies the tool records.
 * record_stream.h returns tool records and records without a time at once, and sorts the others
 * by time in a window (reorder.h). Each record holds a reference to its block. The reader checks
 * each count in the input against the bytes that follow before it uses the count.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/pipeline.h"
#include "perfdata/reader.h"
#include "perfdata/input_files.h"
#include "perfdata/blocks.h"
#include "perfdata/event_ids.h"
#include "perfdata/sorted_runs.h"
#include "perfdata/reorder.h"

enum {
	PEV_READER_SECTIONS_MAX = 256,
	PEV_READER_RUN_MAX = 64, /* records in a run */
	PEV_READER_NOTES_MAX = 3 /* each kind of note comes once */
};

/* A tool record that pev_reader_open() has read; it is returned first. */
struct pev_reader_ahead {
	struct pev_source_record record;
	struct pev_block *block;
};

/* nr references to a block, held by consecutive records of the run. */
struct pev_reader_held {
	struct pev_block *block;
	uint32_t nr;
};

/* The records of a run, and what the caller learns with them. */
struct pev_reader_batch {
	struct pev_source_record records[PEV_READER_RUN_MAX];
	struct pev_reader_held held[PEV_READER_RUN_MAX]; /* their blocks */
	uint32_t nr, nr_held, nr_notes;
	bool is_plain;       /* all records are samples, in order of time */
	bool has_rows;       /* numbers has the rows of the records */
	uint64_t unknown_id; /* of the totals, up to here */
	int64_t numbers[PEV_READER_RUN_MAX * PEV_ROW_MAX];
	char notes[PEV_READER_NOTES_MAX][192];
};

struct pev_reader {
	struct pev_input_files inputs;
	struct pev_reader_config config;
	struct pev_reader_facts facts;
	struct pev_reader_totals totals;
	uint64_t lost_by_records, lost_by_counts; /* LOST records; counts read at the end */
	char *name, *directory;                   /* directory contains name, or is NULL */
	bool own_fd;

	struct pev_source_run run;
	const struct pev_source_record *counted; /* totals include the run's records before it */
	const struct pev_reader_batch *taken;    /* has the run's records */
	struct pev_reader_batch *batch;          /* that is filled now, or was last */
	struct pev_reader_batch own_batch;       /* the caller's thread fills it */
	struct pev_reader_batch *thread_batches;  /* the thread that reads ahead fills them */
	struct pev_pipeline *pipeline;           /* that thread, or NULL */
	struct pev_number_row *rows; /* by event: numbers that the thread reads from samples */
	uint32_t nr_rows, cap_rows;

	struct pev_event_ids event_ids;
	uint64_t changes; /* see pev_reader_changes() */

	struct pev_file_section sections[PEV_READER_SECTIONS_MAX + 1]; /* and event types */
	uint32_t nr_sections;
	uint64_t kept; /* bytes in sections: in memory for a pipe, in the file for a file */

	struct pev_reader_ahead *ahead;
	uint32_t nr_ahead, next_ahead;
	struct pev_reorder window;
	struct pev_file_runs runs; /* sorted runs that have no room in the window */
	struct pev_sample_kind kinds[PEV_SAMPLE_KINDS];
	uint64_t window_bytes, limit, round_max, max_time, last_time;
	uint64_t last_added; /* time of the record that was added last to window or runs */
	bool forcing, forced, noted_odd, noted_ambiguous;
	bool has_kernel;  /* a kernel record was read */
	bool in_round;    /* a record with a time was read after the last round */
	bool empty_round; /* a round had no record with a time */

	struct pev_err damage; /* damage that does not end an input */
};

/* Keeps the first damage, after the recording's name. Returns -EBADMSG. */
int pev_reader_add_damage(struct pev_reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Calls config.note with a warning for the user. */
void pev_reader_note(const struct pev_reader *reader, const char *text);
/* Returns the error that ended an input, else the damage, else 0: the recording is whole. */
int pev_reader_failure(const struct pev_reader *reader, struct pev_err *err);

/* Keeps a section of a pipe. Takes ownership of bytes. */
void pev_reader_keep_section(struct pev_reader *reader, uint32_t id, uint64_t offset,
			     unsigned char *bytes, uint64_t size);
/* Adds a section of the file. Reports a section that is cut or overlaps others as damage. */
void pev_reader_add_section(struct pev_reader *reader, uint32_t id, uint64_t off, uint64_t size);
/* Reads the size of the recorder's buffers from a section COMPRESSED: the limit of a record. */
void pev_reader_set_buffers(struct pev_reader *reader, const unsigned char *bytes, uint64_t len);

/* Numbers in the byte order of the recording. */
static inline uint16_t pev_reader_u16(const struct pev_reader *reader, const void *p)
{
	return pev_load16(p, reader->facts.swap);
}

static inline uint32_t pev_reader_u32(const struct pev_reader *reader, const void *p)
{
	return pev_load32(p, reader->facts.swap);
}

static inline uint64_t pev_reader_u64(const struct pev_reader *reader, const void *p)
{
	return pev_load64(p, reader->facts.swap);
}
