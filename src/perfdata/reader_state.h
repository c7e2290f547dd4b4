/*
 * reader_state.h - what the files of the reader of recordings share; see reader.h.
 *
 * The head describes events and sections (reader_open.c). Records come out of the inputs
 * (blocks.h) and get their event (event_ids.h). Records of tools are applied (tool_record.h).
 * They and records without a time are handed out at once, all others in order of time, through the
 * window (reorder.h, record_stream.h). Each record holds a reference to its block. No count is
 * believed before the bytes that it counts were read.
 */
#ifndef PEV_READER_STATE_H
#define PEV_READER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "perfdata/reader.h"
#include "perfdata/input_files.h"
#include "perfdata/blocks.h"
#include "perfdata/event_ids.h"
#include "perfdata/sample_run.h"
#include "perfdata/reorder.h"

enum {
	PEV_READER_SECTIONS_MAX = 256,
	PEV_READER_RUN_MAX = 64 /* records that are handed out between two reads */
};

/* A record of a tool that open() has read, to be handed out first. */
struct pev_reader_ahead {
	struct pev_file_record record;
	struct pev_block *block;
};

/* References to a block, by consecutive records of the run. */
struct pev_reader_held {
	struct pev_block *block;
	uint32_t nr;
};

struct pev_reader {
	struct pev_input_files inputs;
	struct pev_reader_config config;
	struct pev_reader_facts facts;
	struct pev_reader_totals totals;
	uint64_t lost_by_records, lost_by_counts; /* LOST records; counts read at the end */
	char *name, *directory;                   /* that name is in; or NULL */
	bool own_fd;

	struct pev_file_run run;
	const struct pev_file_record *counted; /* records of the run before it are in totals */
	struct pev_file_record records[PEV_READER_RUN_MAX];
	struct pev_reader_held held[PEV_READER_RUN_MAX]; /* by the run */
	uint32_t nr_held;
	bool is_plain; /* the run has only samples, none of them late */

	struct pev_event_ids event_ids;
	uint64_t news;

	struct pev_file_section sections[PEV_READER_SECTIONS_MAX + 1]; /* and event types */
	uint32_t nr_sections;
	uint64_t kept; /* bytes in sections: in memory for a pipe, in the file for a file */

	struct pev_reader_ahead *ahead;
	uint32_t nr_ahead, next_ahead;
	struct pev_reorder window;
	struct pev_sample_kind kinds[PEV_SAMPLE_KINDS];
	uint64_t window_bytes, limit, round_max, max_time, last_time;
	bool forcing, forced, noted_odd, noted_ambiguous;
	bool has_kernel;  /* a record of the kernel was read */
	bool in_round;    /* a record with a time was read after the last round */
	bool empty_round; /* a round had no record with a time */

	struct pev_err damage; /* other damage than the end of an input */
};

/* Keeps the first damage, with the recording's name. Returns -EBADMSG. */
int pev_reader_add_damage(struct pev_reader *reader, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Passes a sentence for the user to the caller of open(). */
void pev_reader_note(const struct pev_reader *reader, const char *text);
/* Reports what ended the reading, or the damage. 0: the recording is whole. */
int pev_reader_failure(const struct pev_reader *reader, struct pev_err *err);

/* Keeps a section of a pipe. Owns bytes from then on. */
void pev_reader_keep_section(struct pev_reader *reader, uint32_t id, uint64_t offset,
			     unsigned char *bytes, uint64_t size);
/* Adds a section of the file, and reports one that is cut or overlaps others. */
void pev_reader_add_section(struct pev_reader *reader, uint32_t id, uint64_t off, uint64_t size);
/* The section COMPRESSED has the size of the recorder's buffers: no record inflates to more. */
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

#endif
