/*
 * reader.h - reads a recording (perf.data) from a file, a pipe or a descriptor, as a stream.
 *
 * The reader returns records in place, in its own blocks. It reads a file with pread(2) and does
 * not map it: a mapped file that another process truncates raises SIGBUS. It sorts records by
 * time between two FINISHED_ROUND marks. What has no room in a window of limited size is read
 * again from the file in order, or of a pipe is sorted within the window, so the memory does not
 * grow with the recording. Damage ends the reading: all records before the damage are returned,
 * then an error with the byte offset. Format: tools/perf/Documentation/
 * perf.data-file-format.txt, tools/perf/util/header.c and session.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/attr.h"
#include "base/err.h"
#include "perfdata/zstd.h"
#include "record/number_field.h"
#include "record/record.h"
#include "record/source.h"
#include "perfdata/event_ids.h"
#include "base/sys.h"

/* Types of tool records, which a recorder writes and not the kernel: enum perf_user_event_type. */
enum pev_user_type {
	PEV_USER_ATTR = 64, PEV_USER_EVENT_TYPE, PEV_USER_TRACING_DATA, PEV_USER_BUILD_ID,
	PEV_USER_FINISHED_ROUND, PEV_USER_ID_INDEX, PEV_USER_AUXTRACE_INFO, PEV_USER_AUXTRACE,
	PEV_USER_AUXTRACE_ERROR, PEV_USER_THREAD_MAP, PEV_USER_CPU_MAP, PEV_USER_STAT_CONFIG,
	PEV_USER_STAT, PEV_USER_STAT_ROUND, PEV_USER_EVENT_UPDATE, PEV_USER_TIME_CONV,
	PEV_USER_FEATURE, PEV_USER_COMPRESSED, PEV_USER_FINISHED_INIT, PEV_USER_COMPRESSED2,
	PEV_USER_NR,
	/* simpleperf's records about events (system/extras/simpleperf/record.h). */
	PEV_SIMPLEPERF_EVENT_ID = 32774,
	PEV_SIMPLEPERF_TRACING_DATA = 32777
};

/* Feature sections that the reader itself uses. */
enum {
	PEV_FEAT_EVENT_TYPES, /* not a feature: the head has its offset */
	PEV_FEAT_TRACING_DATA = 1,
	PEV_FEAT_HOSTNAME = 3,
	PEV_FEAT_COMPRESSED = 27
};

struct pev_reader_config {
	bool unordered;          /* keep the order of the file */
	size_t window;           /* limit of the bytes of records to sort; 0: 32 MiB */
	/* Returns the decompressor; called at the first COMPRESSED record. NULL: see err. */
	const struct pev_inflate *(*inflate)(void *ctx, struct pev_err *err);
	/* Called with a warning for the user. May be NULL. */
	void (*note)(void *ctx, const char *text);
	void *ctx;
};

struct pev_reader_totals {
	uint64_t bytes;          /* read from the input so far */
	uint64_t records;        /* returned to the caller */
	uint64_t types[128];     /* returned, by type; higher types are in other_types */
	uint64_t other_types;
	uint64_t rounds;         /* FINISHED_ROUND marks */
	uint64_t forced;         /* times that the window was full before a round ended */
	uint64_t late;           /* returned after a record with a later time */
	uint64_t unknown_id;     /* the id belongs to no event */
	uint64_t ambiguous;      /* without an id, in a recording of several events */
	uint64_t shared_ids;     /* ids that two events have; the first event gets the records */
	uint64_t malformed;      /* refused by pev_reader_locate() */
	uint64_t lost;           /* from LOST records, or from counts that the recorder read */
	bool lost_read;          /* lost is from the recorder's counts */
	uint64_t lost_samples;   /* lost by the hardware: the kernel's LOST_SAMPLES */
	uint64_t compressed, inflated; /* bytes of COMPRESSED records, and of their contents */
	uint64_t auxtrace;       /* bytes of AUX data that were skipped */
	uint64_t blocks;         /* peak of the bytes in memory */
};

/* A feature section: a section of the file, or the contents of a FEATURE record. */
struct pev_file_section {
	uint32_t id;             /* HEADER_TRACING_DATA is 1, ... */
	uint64_t offset, size;   /* in the file */
	unsigned char *bytes;    /* kept for a pipe; NULL: pev_reader_read_section() reads it */
};

/* The layout of the recording, read from its head. */
struct pev_reader_facts {
	bool pipe;               /* pipe format: records from byte 16 on describe the events */
	bool swap, big_endian;   /* the recording has the other byte order; has big-endian */
	int version;             /* 1: "PERFFILE"; 2: "PERFILE2" */
	uint64_t size;           /* bytes of all files; 0: a pipe */
	uint32_t files;          /* 1, or the number of a directory's files data and data.N */
	uint64_t data, data_end; /* offsets of the records; data_end 0: to the end of the file */
	uint64_t attr_size;      /* of an event's entry; 0: a pipe */
	char kernel_symbol[32];  /* "_text", from the kernel's MMAP record; "": not yet read */
	uint64_t kernel_addr;    /* the symbol's address in the recorder's kernel */
};

struct pev_reader;

/*
 * Opens path: a file, "-" for standard input, or a directory that perf record --threads made.
 * With fd >= 0 reads fd and owns it; path is then only the name in messages. Reads the head and
 * the events; of a pipe, all records before the kernel's first. Returns -EBADMSG if path is not
 * a recording, or a recording without an event. sys and the pointers in config must stay valid
 * until pev_reader_close().
 */
int pev_reader_open(struct pev_reader **out, const struct pev_sys *sys, const char *path,
		    int fd, const struct pev_reader_config *config, struct pev_err *err);
void pev_reader_close(struct pev_reader *reader);

/*
 * Returns 1 and the next record, 0 at the end of a whole recording, or -errno with the cause and
 * the byte offset if the recording is damaged. The error comes after all records that could be
 * read, and again at each later call. Tool records (type >= 64) are returned as soon as they are
 * read, before records that are still being sorted; their plan has no fields.
 */
int pev_reader_next(struct pev_reader *reader, struct pev_source_record *out,
		    struct pev_err *err);
/*
 * The same for many records at a time. The reader has a run of records; the caller takes them by
 * advancing run->at. When the run is empty, pev_reader_fill_run() releases the records before and
 * fills the run again; it returns 1, 0 or -errno as pev_reader_next() does. No other function
 * reads the input or adds events.
 */
struct pev_source_run *pev_reader_run(struct pev_reader *reader);
int pev_reader_fill_run(struct pev_reader *reader, struct pev_err *err);
/*
 * Starts a thread that reads ahead of the caller and fills the next runs. Runs, notes and errors
 * stay the same. False if the input is a pipe, has hooks, or there is no thread.
 */
bool pev_reader_start_thread(struct pev_reader *reader);
/*
 * Lets this thread read the row of numbers of the event's samples, too, for later runs. Replaces
 * the event's row. Returns 0, -EAGAIN without the thread, or -ENOMEM.
 */
int pev_reader_set_row(struct pev_reader *reader, uint32_t event, const struct pev_number_row *row);
/* pev_reader_locate() without the short cut for samples. */
int pev_reader_locate_any(struct pev_reader *reader, const struct pev_source_record *from,
			  struct pev_record *rec, struct pev_err *err);
/*
 * Finds the fields of a record. Returns -EBADMSG with the record's offset in the file if it is
 * malformed: the record is counted, and the caller can read on.
 */
static inline int pev_reader_locate(struct pev_reader *reader, const struct pev_source_record *from,
				    struct pev_record *rec, struct pev_err *err)
{
	if (from->type == PERF_RECORD_SAMPLE &&
	    pev_record_locate_sample(rec, from->plan, from->bytes, from->size))
		return 0;
	return pev_reader_locate_any(reader, from, rec, err);
}

const struct pev_reader_facts *pev_reader_facts(const struct pev_reader *reader);
/* Updates the totals and returns them. */
const struct pev_reader_totals *pev_reader_totals(struct pev_reader *reader);
/* Returns the number of events so far. A pipe can add more later. */
uint32_t pev_reader_count_events(const struct pev_reader *reader);
const struct pev_file_event *pev_reader_event(const struct pev_reader *reader, uint32_t n);
/* Returns the number of the event with this id, or PEV_NO_EVENT. */
uint32_t pev_reader_find_event(const struct pev_reader *reader, uint64_t id);
/* Returns a count that increases with each new event, event name or section. */
uint64_t pev_reader_changes(const struct pev_reader *reader);
/* Sets how call chains in samples of event n are reported. */
void pev_reader_set_stack_form(struct pev_reader *reader, uint32_t n,
			       const struct pev_stack_form *form);
/* Declares that a 32-bit kernel wrote the records. Only the caller knows the arch. */
void pev_reader_set_32bit(struct pev_reader *reader, bool narrow);

/*
 * The records of one file, for a caller that reads some of them by itself. Files have numbers
 * below facts.files. Borrowed.
 */
struct pev_reader_area {
	const struct pev_sys *sys;
	int fd;
	const struct pev_event_ids *event_ids;
	uint64_t begin, end;     /* offsets in the file */
};
/* Samples that the caller has read: whole records, one after the other. */
struct pev_reader_range {
	uint64_t begin, end;     /* offsets in the file */
	uint64_t samples;
};
/* Returns why *area was not set: the input has no areas, or its records were read; or NULL. */
const char *pev_reader_get_area(const struct pev_reader *reader, uint32_t file,
				struct pev_reader_area *area);
/*
 * Counts the samples in the file's ranges as read and skips them. Takes ownership of the list,
 * which is sorted and made by malloc(). Called once for a file, before the first record is read.
 */
void pev_reader_skip_ranges(struct pev_reader *reader, uint32_t file,
			    struct pev_reader_range *ranges, uint32_t nr);

/* Returns the number of sections so far. */
uint32_t pev_reader_count_sections(const struct pev_reader *reader);
const struct pev_file_section *pev_reader_section_at(const struct pev_reader *reader, uint32_t n);
/* Reads at most len bytes at off in section n. Returns their number, 0 at its end, or -errno. */
int64_t pev_reader_read_section(struct pev_reader *reader, uint32_t n, uint64_t off, void *buf,
			   size_t len);
/* Returns the first damage so far, a sentence with a byte offset, or NULL. */
const char *pev_reader_damage(const struct pev_reader *reader);
