/*
 * file_tables.h - the tables of the file format: what makes a finished stream a file.
 *
 * A file ends with { offset, size } of each feature section, by number, the sections that are not
 * in the stream, { attr, offset and size of its ids } of each event, and the ids. Its head of
 * PEV_FILE_HEAD bytes says where these tables are.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/sys.h"
#include "event/attr.h"
#include "record/record.h"

#define PEV_FILE_HEAD 104 /* sizeof(struct perf_file_header) */
#define PEV_SECTIONS_MAX 256
/*
 * The magic number is in this machine's byte order, which
 * readers take as the file's: PERFILE2 if little.
 */
#define PEV_FILE_MAGIC UINT64_C(0x32454c4946524550)

struct pev_recorded_section {
	uint32_t id;
	uint64_t offset, size;
	unsigned char *bytes; /* owned: to be written at the end; else NULL */
};

struct pev_recorded_event {
	struct pev_attr attr;
	uint64_t *ids; /* owned */
	uint32_t nr_ids;
	struct pev_plan *plan; /* owned */
	uint64_t late_offset; /* offset of its ATTR records; 0: before begin() */
};

/* The description of a recording. */
struct pev_description {
	struct pev_recorded_event *events;
	uint32_t nr_events;
	struct pev_recorded_section sections[PEV_SECTIONS_MAX];
	uint32_t nr_sections;
};

struct pev_file_tables {
	unsigned char *bytes; /* owned */
	size_t len;
	uint64_t base;  /* their offset in the file */
	uint64_t attrs; /* the offset of the events' table */
};

/* Returns the section for an id; a former one is replaced. The id is below PEV_SECTIONS_MAX. */
struct pev_recorded_section *pev_description_section(struct pev_description *description,
						     uint32_t id);

void pev_description_free(struct pev_description *description);

/*
 * Builds the tables for an offset in the file, and sorts the sections.
 * Returns 0 or -ENOMEM. The caller frees bytes.
 */
int pev_file_tables_build(struct pev_file_tables *tables, struct pev_description *description,
			  uint64_t base);

/*
 * Replaces a feature section of a finished file, of any writer: appends the bytes to the file, then
 * changes the section's entry in the table. Returns 0; -EBADMSG if the file has no such section;
 * -errno. sys is borrowed.
 */
int pev_file_replace_section(const struct pev_sys *sys, const char *path, uint32_t id,
			     const void *bytes, size_t len, struct pev_err *err);

/* Sets head to struct perf_file_header of a file whose records are from data on. */
void pev_file_tables_head(const struct pev_file_tables *tables,
			  const struct pev_description *description, uint64_t data,
			  uint64_t head[PEV_FILE_HEAD / 8]);
