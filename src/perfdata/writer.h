/*
 * writer.h - writes a recording in the perf.data format.
 *
 * While it is written, a recording is a stream, as perf record -o - writes one: a head of 16
 * bytes, records that describe events, names, formats, machine and existing tasks, then the
 * rings' bytes as the kernel wrote them, with a FINISHED_ROUND after each round. Written bytes
 * are never changed. So after a kill -9 or on a full disk, perf and perfev can read the file
 * up to the last whole record.
 * When a regular file is finished, it becomes a recording in the file format, which perf
 * report can map and other tools can seek in: the tables of the file format are appended,
 * and one pwrite replaces the stream's head, and the record of padding behind it, by the file's
 * head of 104 bytes. Between these two steps, a reader of the stream sees the tables as
 * unreadable bytes after all records. A pipe, FIFO or device stays a stream.
 *
 * The file gets its own name with the first record of the kernel; before that it is
 * FILE.PID.new. So a killed recorder leaves its records under that name, and one that
 * recorded nothing leaves the previous file alone. With the option `whole` the file gets its name
 * at the end, and a failure leaves no file. The previous file is renamed to FILE.old,
 * as perf does. A new file has mode 0600: a recording contains addresses, command lines and
 * memory of other users' processes.
 * Contract: tools/perf/Documentation/perf.data-file-format.txt, util/header.c.
 *
 * The section with the recorder's version ends with the options that a replay needs to
 * deliver the same records as the session did. Lines of text, "key value\n"; a reader skips
 * unknown ones:
 *   recorder perfl            name of the writer
 *   exclude_pid 1234          records of this process were not delivered, except those of
 *   keep_own 0                  events with keep_own; events by their number from 0
 *   lost_own 12               number of lost records of hidden events
 *   hidden 1                  an event for names of tasks; its records are not delivered
 * After them it can have names of functions: lua/perfev/perfdata/perfl_section.lua.
 */
#pragma once

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
	const struct pev_deflate *deflate; /* NULL: uncompressed; borrowed */
	int level;
	uint32_t chunk;          /* maximal content of a COMPRESSED record in bytes; 0: 1 MiB */
	int fd;                  /* for "-": write here and close it; 0: standard output */
	bool whole;              /* the file gets its own name when it is finished */
};

struct pev_writer; /* opaque; owns its descriptor */

/*
 * Opens a new recording; "-" is standard output. Returns -EISDIR, -ELOOP (a symbolic link, which is
 * not followed), -ENXIO (a FIFO without reader), or another error of open(2). sys is borrowed.
 */
int pev_writer_open(struct pev_writer **writer, const struct pev_sys *sys, const char *path,
		    const struct pev_writer_config *config, struct pev_err *err);

/* Closes without finishing. Removes the file if it has not its own name yet. NULL is allowed. */
void pev_writer_close(struct pev_writer *writer);

/*
 * All functions that write return 0, or the first error, then always the same: the file
 * is cut back to its last readable record, and pev_writer_failure() has the reason.
 */

/* Adds an event: its attr, the ids of its records and its name. Before begin() or later. */
int pev_writer_event(struct pev_writer *writer, const struct pev_attr *attr,
		     const uint64_t *ids, uint32_t nr_ids, const char *name);
/* Adds a feature section. After begin(), a file gets it in finish(). */
int pev_writer_feature(struct pev_writer *writer, uint32_t id, const void *bytes, size_t len);
/* Adds the section with the tracepoints' formats (HEADER_TRACING_DATA). */
int pev_writer_tracing(struct pev_writer *writer, const void *bytes, size_t len);
/* Ends the description: records follow. */
int pev_writer_begin(struct pev_writer *writer);
/* Writes whole records that the caller made. */
int pev_writer_records(struct pev_writer *writer, const void *bytes, size_t len);
/*
 * Writes bytes of rings: whole records in each piece, or in two pieces if they wrap. Changes the
 * pieces. A reader that finds a mark delivers, in the order of time, the records from before the
 * previous mark. So nr_marks is 1 if records of this round can be older than some of the next
 * round, but not than those after it; 2 if all later records are younger; 0 if the round goes on.
 */
int pev_writer_round(struct pev_writer *writer, struct iovec *pieces, int nr, int nr_marks);
/*
 * Adds a record of at most 64 KiB. Records come in the order of time: they are written together,
 * and every round ends with two marks.
 */
int pev_writer_append(struct pev_writer *writer, const void *record, size_t len);

/*
 * Finishes the recording: a file gets the file format, and is renamed
 * to name (NULL: keeps its name). Close the writer afterwards.
 */
int pev_writer_finish(struct pev_writer *writer, const char *name, struct pev_err *err);

/*
 * Gives the file its name now, for a caller that cannot rename files later. Returns 0 or -errno,
 * which also stops the writing.
 */
int pev_writer_publish(struct pev_writer *writer);

/* Removes an earlier part of the recording. */
int pev_writer_remove(struct pev_writer *writer, const char *name, struct pev_err *err);

/* Returns the error that has stopped the writing, or NULL. */
const struct pev_err *pev_writer_failure(const struct pev_writer *writer);
/*
 * Returns the file's current path; it differs from its own name until the first record. Borrowed.
 */
const char *pev_writer_path(const struct pev_writer *writer);
/* Returns the number of bytes written. */
uint64_t pev_writer_size(const struct pev_writer *writer);
/* Number of samples written from rings, and the time of the first and last; 0: unknown. */
struct pev_writer_samples {
	uint64_t nr, first, last; /* ns */
};
struct pev_writer_samples pev_writer_samples(const struct pev_writer *writer);
/*
 * Returns the files that the recorded tasks had mapped, each name once. Valid until the next write.
 */
const struct pev_content_summary_map *pev_writer_maps(const struct pev_writer *writer,
						      uint32_t *nr);
/* True if the output is not a regular file. */
bool pev_writer_is_stream(const struct pev_writer *writer);
