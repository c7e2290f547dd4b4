/*
 * reader.h - recordings: perf.data from a file, a pipe or a descriptor, read as a stream.
 *
 * Records are handed out in place, in the reader's own blocks: a file is read by pread and not
 * mapped, because a mapped file that another process truncates raises SIGBUS. Records are in
 * order of time between FINISHED_ROUND marks, or within a bounded window; this bounds the memory,
 * whatever the length of the file. Damage ends the reading with its byte offset, after all
 * records before it were handed out. Contract: tools/perf/Documentation/
 * perf.data-file-format.txt, tools/perf/util/header.c and session.c.
 */
#ifndef PEV_READER_H
#define PEV_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "event/attr.h"
#include "base/err.h"
#include "perfdata/zstd.h"
#include "record/record.h"
#include "perfdata/event_ids.h"
#include "base/sys.h"

/* Types of records that tools write, not the kernel: enum perf_user_event_type. */
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
	PEV_FEAT_EVENT_TYPES, /* not a feature: the head says where it is */
	PEV_FEAT_TRACING_DATA = 1,
	PEV_FEAT_HOSTNAME = 3,
	PEV_FEAT_COMPRESSED = 27
};

/* A record as it lies; borrowed until the next pev_reader_next() or _more(). */
struct pev_file_record {
	const unsigned char *bytes; /* the header, in the file's byte order */
	const struct pev_plan *plan;
	uint64_t time;              /* ns; 0 where it has none */
	uint64_t offset;            /* of the record, or of its COMPRESSED record, in the file */
	uint32_t type;
	uint32_t event;             /* its number, or PEV_NO_EVENT */
	uint16_t size;              /* 65528 for a longer record of simpleperf */
	bool synthesised;           /* by the recorder: state before the recording, or a count */
};

/* Consecutive records: from at to before end. */
struct pev_file_run {
	const struct pev_file_record *at, *end;
};

struct pev_reader_config {
	bool unordered;          /* hand out in the order of the file */
	size_t window;           /* most bytes of records to put in order; 0: 32 MiB */
	/* Returns the decompressor, at the first COMPRESSED record; NULL with the reason. */
	const struct pev_inflate *(*inflate)(void *ctx, struct pev_err *err);
	/* Called with a sentence that a user should read. May be NULL. */
	void (*note)(void *ctx, const char *text);
	void *ctx;
};

struct pev_reader_totals {
	uint64_t bytes;          /* of the input, read so far */
	uint64_t records;        /* handed out */
	uint64_t types[128];     /* by type; what is beyond is in other_types */
	uint64_t other_types;
	uint64_t rounds;         /* FINISHED_ROUND */
	uint64_t forced;         /* times the window was full before a round was */
	uint64_t late;           /* handed out after a record of a later time */
	uint64_t unknown_id;     /* whose id is no event's */
	uint64_t ambiguous;      /* of several events, without an id to tell them apart */
	uint64_t shared_ids;     /* ids that two events claim; the first has them */
	uint64_t malformed;      /* which pev_reader_locate() refused */
	uint64_t lost;           /* by LOST records, or by counts that the recorder read */
	bool lost_read;          /* it is the latter */
	uint64_t lost_samples;   /* by the hardware: LOST_SAMPLES of the kernel's */
	uint64_t compressed, inflated; /* bytes of COMPRESSED records, and what they held */
	uint64_t auxtrace;       /* bytes passed over */
	uint64_t blocks;         /* bytes in memory at most at one time */
};

/* A feature section, of the file or from a FEATURE record. */
struct pev_file_section {
	uint32_t id;             /* HEADER_TRACING_DATA is 1, ... */
	uint64_t offset, size;   /* in the file */
	unsigned char *bytes;    /* of a pipe; NULL for a file: see pev_reader_section() */
};

/* The layout of the recording, read from its head. */
struct pev_reader_facts {
	bool pipe;               /* records from byte 16 on, described by records */
	bool swap, big_endian;   /* of the other byte order; which one */
	int version;             /* 1 "PERFFILE", 2 */
	uint64_t size;           /* of the file or files, bytes; 0: a pipe */
	uint32_t files;          /* 1; of a directory, its data and data.N */
	uint64_t data, data_end; /* where the records are; data_end 0: to the end */
	uint64_t attr_size;      /* of an entry; 0: a pipe */
	char kernel_symbol[32];  /* "_text", as the MMAP of the kernel has it; "": none so far */
	uint64_t kernel_addr;    /* where that is in the recorder's kernel */
};

struct pev_reader;

/*
 * Open path, "-" for standard input, a directory as perf record --threads makes it; or
 * read fd (>= 0) that path is a name for, which is the reader's to close then. Reads the
 * head, the events and, of a pipe, all that comes before the first record of the kernel.
 * -EBADMSG: no recording, or none with an event. sys and what config points to are
 * borrowed until close.
 */
int pev_reader_open(struct pev_reader **df, const struct pev_sys *sys, const char *path,
		    int fd, const struct pev_reader_config *config, struct pev_err *err);
void pev_reader_close(struct pev_reader *df);

/*
 * The next record: 1; 0 at the end of one that is whole. -errno with the reason and the
 * byte where reading ended early, once all that was read has been handed out; then always.
 * Records of tools (type >= 64) come at their place in the file, ahead of
 * what is still being put in order; their plan has no fields.
 */
int pev_reader_next(struct pev_reader *df, struct pev_file_record *out,
		    struct pev_err *err);
/*
 * The same for many at a time. What comes next stands in the reader's run, whose at is moved on
 * as they are taken: with it they are handed out. Where there is none left, more() has some
 * put there, and takes back those before: 1, 0 and -errno as of pev_reader_next(). Nothing is
 * read, and nothing learnt of events, but in there.
 */
struct pev_file_run *pev_reader_run(struct pev_reader *df);
int pev_reader_more(struct pev_reader *df, struct pev_err *err);
/* As pev_reader_locate(), of any record. */
int pev_reader_locate_any(struct pev_reader *df, const struct pev_file_record *from,
			  struct pev_record *rec, struct pev_err *err);
/*
 * Find the fields of what was handed out. -EBADMSG with its place in the
 * file: the record is counted as malformed, and reading can go on.
 */
static inline int pev_reader_locate(struct pev_reader *df, const struct pev_file_record *from,
				    struct pev_record *rec, struct pev_err *err)
{
	if (from->type == PERF_RECORD_SAMPLE &&
	    pev_record_locate_sample(rec, from->plan, from->bytes, from->size))
		return 0;
	return pev_reader_locate_any(df, from, rec, err);
}

const struct pev_reader_facts *pev_reader_facts(const struct pev_reader *df);
/* Updates the totals and returns them. */
const struct pev_reader_totals *pev_reader_totals(struct pev_reader *df);
/* The events so far: a pipe can have more later. */
uint32_t pev_reader_events(const struct pev_reader *df);
const struct pev_file_event *pev_reader_event(const struct pev_reader *df, uint32_t n);
/* The number of the event with this id, or PEV_NO_EVENT. */
uint32_t pev_reader_number(const struct pev_reader *df, uint64_t id);
/* Increases with each new event, name of an event, or section. */
uint64_t pev_reader_news(const struct pev_reader *df);
/* How call chains in samples of the n-th event are reported. */
void pev_reader_stacks(struct pev_reader *df, uint32_t n, const struct pev_stack_form *form);
/* Are the records of a 32-bit kernel? The caller knows the arch. */
void pev_reader_narrow(struct pev_reader *df, bool narrow);

uint32_t pev_reader_sections(const struct pev_reader *df);
const struct pev_file_section *pev_reader_section_at(const struct pev_reader *df, uint32_t n);
/* Reads at most len bytes of a section at off. Returns how many, 0 past its end, or -errno. */
int64_t pev_reader_section(struct pev_reader *df, uint32_t n, uint64_t off, void *buf,
			   size_t len);
/* The damage that was found so far: a sentence with its byte offset, or NULL. */
const char *pev_reader_damage(const struct pev_reader *df);

#endif
