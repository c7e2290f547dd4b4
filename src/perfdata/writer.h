/*
 * writer.h - the writer of recordings: perf.data as it grows.
 *
 * A recording in flight is a stream, as perf record -o - writes one: a head of 16 bytes,
 * records that tell of its events, names, formats and machine, what tasks there are,
 * then the rings' bytes as the kernel wrote them, with a FINISHED_ROUND behind each round.
 * Nothing that was written is written again, so whatever stops us, a kill -9 or a full
 * disk, what is there up to the last whole record can be read by perf and by us.
 * Finished in peace, a regular file becomes a file's recording, which perf report maps
 * and others seek in: what a file has its tables for is appended, and one pwrite puts a
 * file's head of 104 bytes over the stream's, and over the record of padding behind it.
 * Between these two the tables are a stream's last, unreadable bytes; a reader has been
 * given all records by then. A pipe, FIFO or device stays a stream.
 *
 * It has its own name from the first record of the kernel's on, so that whatever a
 * killed recorder leaves behind is found there; before, it is FILE.PID.new, so that one
 * that never came to record anything has not touched what was there. That is
 * FILE.old from then on, as with perf. A new file is its owner's alone (0600): a
 * recording holds addresses, command lines and memory of others' processes.
 * Contract: tools/perf/Documentation/perf.data-file-format.txt, util/header.c.
 *
 * Behind the recorder's version, in its section, stands what a replay has to know to deliver
 * what was delivered live. Lines of text, "key value\n"; a reader skips those it does not know:
 *   recorder perfl            who wrote it
 *   exclude_pid 1234          records of this process were not delivered, but of events with
 *   keep_own 0                  keep_own; events by their number, from 0, in their order
 *   lost_own 12               so many records of such events were lost
 *   hidden 1                  an event nobody asked for: who is who, and not delivered
 */
#ifndef PEV_WRITER_H
#define PEV_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "event/attr.h"
#include "perfdata/zstd.h"
#include "base/err.h"
#include "perfdata/content_summary.h"
#include "base/sys.h"

struct pev_writer_config {
	const struct pev_deflate *deflate; /* COMPRESSED records; NULL: as they are. Borrowed. */
	int level;
	uint32_t chunk;          /* bytes that a COMPRESSED record holds at most; 0: 1 MiB */
	int fd;                  /* for "-": write here, and close it; 0: to standard output */
};

struct pev_writer; /* opaque; owns its descriptor */

/*
 * A new recording: "-" is standard output. -EISDIR, -ELOOP (a symbolic link, which is not
 * followed), -ENXIO (a FIFO that nobody reads), or what open(2) says. sys is borrowed.
 */
int pev_writer_open(struct pev_writer **rec, const struct pev_sys *sys, const char *path,
		    const struct pev_writer_config *config, struct pev_err *err);

/* Without a word more; one that was not begun yet goes, and leaves no file. NULL is none. */
void pev_writer_close(struct pev_writer *rec);

/*
 * All that write give 0, or what stopped the writing, always then: the file has been cut
 * back to where it can be read, and what was wrong is told by pev_writer_failure().
 */

/* An event: its attr, the ids of its records and its name. Before begin(), or later. */
int pev_writer_event(struct pev_writer *rec, const struct pev_attr *attr,
		     const uint64_t *ids, uint32_t nr_ids, const char *name);
/* A feature section; after begin() one of the end: a file gets it with finish(). */
int pev_writer_feature(struct pev_writer *rec, uint32_t id, const void *bytes, size_t len);
/* The section of the tracepoints' formats (HEADER_TRACING_DATA). */
int pev_writer_tracing(struct pev_writer *rec, const void *bytes, size_t len);
/* What describes it is written: records follow. */
int pev_writer_begin(struct pev_writer *rec);
/* Whole records, made by us. */
int pev_writer_records(struct pev_writer *rec, const void *bytes, size_t len);
/*
 * Bytes of rings, whole records each piece or each two that wrap; the pieces are changed.
 * A reader that meets a mark hands out, in the order of time, what had come up to the
 * mark before. So 1: records of this round can be older than some of the next one's, but not
 * than those behind; 2: all that comes is younger; 0: the round goes on.
 */
int pev_writer_round(struct pev_writer *rec, struct iovec *pieces, int nr, int nr_marks);

/*
 * The end: a file becomes a file's recording, and is called name (NULL: as it is). The
 * recorder is to be closed then.
 */
int pev_writer_finish(struct pev_writer *rec, const char *name, struct pev_err *err);

/* Why nothing is written any more, or NULL. */
const struct pev_err *pev_writer_failure(const struct pev_writer *rec);
/* Where it is now, before it has its own name. Borrowed. */
const char *pev_writer_path(const struct pev_writer *rec);
/* Bytes written so far. */
uint64_t pev_writer_size(const struct pev_writer *rec);
/* Samples of rings that it has by now; when the first and the last was, 0: of none it is known. */
struct pev_writer_samples {
	uint64_t nr, first, last; /* ns */
};
struct pev_writer_samples pev_writer_samples(const struct pev_writer *rec);
/* The files that its tasks had mapped, each name once. Borrowed until something is written. */
const struct pev_content_summary_map *pev_writer_maps(const struct pev_writer *rec, uint32_t *nr);
/* It is no regular file. */
bool pev_writer_is_stream(const struct pev_writer *rec);

#endif
