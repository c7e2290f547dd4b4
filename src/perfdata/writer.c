/*
 * writer.c - writes a recording in the perf.data format; see writer.h.
 *
 * All writing goes through write_pieces(), which knows the end of the last whole record.
 */
#include "perfdata/writer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/output_file.h"
#include "perfdata/file_tables.h"

#define HEAD_PIPE 16
#define RECORD_MAX 65528u /* header.size has 16 bits, and records are aligned */
#define CHUNK_DEFAULT (1u << 20)
#define APPENDED_MAX ((size_t)1 << 20) /* bytes of a round of pev_writer_append() */
#define FEAT_TRACING_DATA 1
#define FEAT_COMPRESSED 27
/*
 * Readers of streams expect an attr of their own size, whatever size it has
 * (perf_event__process_attr() up to Linux 6.3): the size of 5.13 to 6.2 suits most.
 */
#define ATTR_STREAM 128u

/* Types of the records written here; see enum pev_user_type. */
enum {
	TYPE_ATTR = 64,
	TYPE_PADDING = 65, /* EVENT_TYPE: unused since 3.10 */
	TYPE_TRACING_DATA = 66,
	TYPE_FINISHED_ROUND = 68,
	TYPE_EVENT_UPDATE = 78,
	TYPE_FEATURE = 80,
	TYPE_COMPRESSED = 81
};
enum { UPDATE_NAME = 2, COMP_ZSTD = 1 };

struct pev_writer {
	struct pev_output_file file;
	struct pev_writer_config config;
	bool begun;
	uint64_t marked; /* file.end at the last mark; 0: no mark yet */
	uint64_t data;   /* offset of the first record that is not description */
	uint64_t raw;    /* bytes of rings, and their size when compressed */
	uint64_t packed;
	bool has_unmarked; /* has bytes of rings that a reader delivers at the next mark */
	void *deflate;
	unsigned char *pack_chunk; /* RECORD_MAX bytes */
	unsigned char *corrected; /* copy of a round with corrected records */
	unsigned char *appended;  /* records to write, of at most APPENDED_MAX bytes */
	size_t appended_len;
	struct pev_description description;
	struct pev_content_summary summary;
	struct pev_writer_samples safe, safe_marked; /* samples up to end, and up to marked */
	struct pev_err failed;
};

static struct perf_event_header header_of(uint32_t type, size_t size)
{
	return (struct perf_event_header){ .type = type, .size = (uint16_t)size };
}

static size_t aligned(size_t len)
{
	return (len + 7) & ~(size_t)7;
}

/* Two marks let a reader deliver all records before the first. */
static const struct perf_event_header marks[2] = {
	{ .type = TYPE_FINISHED_ROUND, .size = sizeof(marks[0]) },
	{ .type = TYPE_FINISHED_ROUND, .size = sizeof(marks[0]) },
};

/* ---- writing ---- */

static int64_t write_at(struct pev_writer *writer, const void *bytes, size_t len, uint64_t offset)
{
	const struct pev_sys *sys = writer->file.sys;

	return sys->pwrite(sys->ctx, writer->file.fd, bytes, len, offset);
}

/*
 * Cuts an incomplete record off, so that a reader gets to the end,
 * and the unfinished round if its marks do not fit.
 */
static void cut_to_whole_records(struct pev_writer *writer)
{
	const struct pev_sys *sys = writer->file.sys;

	sys->ftruncate(sys->ctx, writer->file.fd, writer->file.end);
	if (!writer->marked || writer->marked == writer->file.end)
		return;
	if (write_at(writer, marks, sizeof(marks), writer->file.end) == sizeof(marks)) {
		writer->file.end += sizeof(marks);
	} else if (sys->ftruncate(sys->ctx, writer->file.fd, writer->marked) == 0) {
		writer->file.end = writer->marked;
		writer->safe = writer->safe_marked;
	}
}

__attribute__((format(printf, 3, 4))) static int stop_writing(struct pev_writer *writer, int code,
							      const char *format, ...)
{
	char text[256];
	va_list args;

	if (writer->failed.code)
		return writer->failed.code;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!writer->file.stream && writer->file.fd >= 0)
		cut_to_whole_records(writer);
	return pev_fail(&writer->failed, code, "%s", text);
}

static int fail_memory(struct pev_writer *writer)
{
	return stop_writing(writer, -ENOMEM, "cannot record to %s: no memory",
			    pev_output_file_name(&writer->file));
}

/* Writes all pieces, or for a reader none. Changes the pieces. */
static int write_pieces(struct pev_writer *writer, struct iovec *pieces, int nr)
{
	int rc = writer->failed.code;

	if (rc < 0)
		return rc;
	rc = pev_output_file_write(&writer->file, pieces, nr);
	if (rc < 0)
		return stop_writing(writer, rc, "cannot write to %s",
				    pev_output_file_name(&writer->file));
	return 0;
}

/* Writes a record with a head and a body, padded with zeros. */
static int put_record(struct pev_writer *writer, const void *head, size_t head_len,
		      const void *body, size_t len)
{
	static const char zeros[8];
	struct iovec pieces[] = {
		pev_piece_of(head, head_len),
		pev_piece_of(body, len),
		pev_piece_of(zeros, aligned(head_len + len) - head_len - len),
	};

	return write_pieces(writer, pieces, 3);
}

/* ---- opening ---- */

/* Writes the stream's head and the space for the rest of a file's head. */
static int put_head(struct pev_writer *writer)
{
	const uint64_t magic = PEV_FILE_MAGIC, size = HEAD_PIPE;
	struct perf_event_header padding = header_of(TYPE_PADDING, PEV_FILE_HEAD - HEAD_PIPE);
	const unsigned char room[PEV_FILE_HEAD - HEAD_PIPE - sizeof(padding)] = { 0 };
	struct iovec pieces[] = {
		pev_piece_of(&magic, sizeof(magic)),
		pev_piece_of(&size, sizeof(size)),
		pev_piece_of(&padding, sizeof(padding)),
		pev_piece_of(room, sizeof(room)),
	};

	return write_pieces(writer, pieces, writer->file.stream ? 2 : 4);
}

/* { version, type, level, ratio, mmap_len }: write_compressed() */
static void compressed_section(const struct pev_writer *writer, uint32_t out[5])
{
	out[0] = 0;
	out[1] = COMP_ZSTD;
	out[2] = (uint32_t)writer->config.level;
	out[3] = writer->packed ? (uint32_t)((writer->raw + writer->packed / 2) / writer->packed)
				: 1;
	out[4] = writer->config.chunk;
}

static int begin_packing(struct pev_writer *writer)
{
	uint32_t section[5];

	if (!writer->config.deflate)
		return 0;
	writer->pack_chunk = malloc(RECORD_MAX);
	writer->deflate = writer->config.deflate->open(writer->config.level);
	if (!writer->pack_chunk || !writer->deflate)
		return stop_writing(writer, -ENOMEM, "cannot record to %s: no memory to compress",
				    pev_output_file_name(&writer->file));
	compressed_section(writer, section);
	return pev_writer_feature(writer, FEAT_COMPRESSED, section, sizeof(section));
}

int pev_writer_open(struct pev_writer **out, const struct pev_sys *sys, const char *path,
		    const struct pev_writer_config *config, struct pev_err *err)
{
	struct pev_writer *writer = calloc(1, sizeof(*writer));
	int rc;

	if (!writer)
		return pev_fail(err, -ENOMEM, "cannot record to %s: no memory", path);
	writer->config = *config;
	if (!writer->config.chunk)
		writer->config.chunk = CHUNK_DEFAULT;
	rc = pev_output_file_open(&writer->file, sys, path, config->fd, err);
	if (rc == 0) {
		rc = put_head(writer);
		if (rc == 0)
			rc = begin_packing(writer);
		if (rc < 0)
			pev_fail(err, rc, "%s: %s", writer->failed.text, strerror(-rc));
	}
	if (rc < 0) {
		pev_writer_close(writer);
		return rc;
	}
	*out = writer;
	return 0;
}

void pev_writer_close(struct pev_writer *writer)
{
	if (!writer)
		return;
	pev_output_file_free(&writer->file);
	if (writer->deflate)
		writer->config.deflate->close(writer->deflate);
	pev_description_free(&writer->description);
	pev_content_summary_free(&writer->summary);
	free(writer->pack_chunk);
	free(writer->corrected);
	free(writer->appended);
	free(writer);
}

/* ---- description ---- */

/* Returns how many ids, from index at on, fit into one ATTR record with an attr of this size. */
static uint32_t ids_in_one(const struct pev_recorded_event *event, size_t size, uint32_t at)
{
	uint32_t most = (uint32_t)((RECORD_MAX - size) / 8), left = event->nr_ids - at;

	return left < most ? left : most;
}

static size_t attr_head_size(const struct pev_recorded_event *event)
{
	uint32_t size = event->attr.size < ATTR_STREAM ? ATTR_STREAM : event->attr.size;

	return sizeof(struct perf_event_header) + size;
}

/* { header, attr, ids... }, repeated until all ids are written. */
static int put_event(struct pev_writer *writer, const struct pev_recorded_event *event)
{
	struct {
		struct perf_event_header header;
		unsigned char attr[sizeof(struct pev_attr)];
	} head;
	struct pev_attr attr = event->attr;
	size_t size = attr_head_size(event);
	uint32_t at = 0;

	attr.size = (uint32_t)(size - sizeof(head.header));
	memcpy(head.attr, &attr, sizeof(head.attr));
	do {
		uint32_t nr = ids_in_one(event, size, at);
		int rc;

		head.header = header_of(TYPE_ATTR, size + (size_t)nr * 8);
		rc = put_record(writer, &head, size, nr ? event->ids + at : NULL, (size_t)nr * 8);
		if (rc < 0)
			return rc;
		at += nr;
	} while (at < event->nr_ids);
	return 0;
}

/* { header, u64 what, u64 id, name }: perf_event__synthesize_event_update_name() */
static int put_name(struct pev_writer *writer, uint64_t id, const char *name)
{
	struct {
		struct perf_event_header header;
		uint64_t what, id;
	} head = { .what = UPDATE_NAME, .id = id };
	size_t len = strlen(name) + 1;

	if (len > RECORD_MAX - sizeof(head))
		return 0;
	head.header = header_of(TYPE_EVENT_UPDATE, aligned(sizeof(head) + len));
	return put_record(writer, &head, sizeof(head), name, len);
}

int pev_writer_event(struct pev_writer *writer, const struct pev_attr *attr,
		     const uint64_t *ids, uint32_t nr_ids, const char *name)
{
	struct pev_description *description = &writer->description;
	struct pev_recorded_event *events, *event;
	int rc;

	if (writer->failed.code)
		return writer->failed.code;
	events = realloc(description->events, sizeof(*events) * (description->nr_events + 1));
	if (events)
		description->events = events;
	event = events ? &events[description->nr_events] : NULL;
	if (event)
		*event = (struct pev_recorded_event){
			.attr = *attr,
			.ids = malloc(nr_ids ? nr_ids * 8 : 8),
			.nr_ids = nr_ids,
			.plan = malloc(sizeof(*event->plan)),
			.late_offset = writer->begun ? writer->file.end : 0,
		};
	if (event)
		description->nr_events++;
	if (!event || !event->ids || !event->plan)
		return fail_memory(writer);
	if (nr_ids)
		memcpy(event->ids, ids, (size_t)nr_ids * 8);
	pev_plan_init(event->plan, attr, false);
	for (uint32_t i = 0; i < nr_ids; i++)
		if (pev_content_summary_add_event(&writer->summary, ids[i], event->plan) < 0)
			return fail_memory(writer);
	rc = put_event(writer, event);
	return rc < 0 || !nr_ids ? rc : put_name(writer, ids[0], name);
}

/* Keeps a section for the end of a file, where its length is not limited. */
static int keep_section(struct pev_writer *writer, uint32_t id, const void *bytes, size_t len)
{
	struct pev_recorded_section *section = pev_description_section(&writer->description, id);

	section->bytes = malloc(len ? len : 1);
	if (!section->bytes)
		return fail_memory(writer);
	memcpy(section->bytes, bytes, len);
	section->size = len;
	return 0;
}

int pev_writer_feature(struct pev_writer *writer, uint32_t id, const void *bytes, size_t len)
{
	struct {
		struct perf_event_header header;
		uint64_t id;
	} head = { .id = id };
	bool fits = len <= RECORD_MAX - sizeof(head);
	struct pev_recorded_section *section;
	int rc;

	if (writer->failed.code)
		return writer->failed.code;
	if (id >= PEV_SECTIONS_MAX)
		return stop_writing(writer, -EINVAL,
				    "cannot record feature %u: the numbers end at 255", id);
	if (!writer->file.stream && (writer->begun || !fits))
		return keep_section(writer, id, bytes, len);
	if (!fits)
		return 0;
	head.header = header_of(TYPE_FEATURE, aligned(sizeof(head) + len));
	rc = put_record(writer, &head, sizeof(head), bytes, len);
	if (rc < 0)
		return rc;
	section = pev_description_section(&writer->description, id);
	section->offset = writer->file.end - head.header.size + sizeof(head);
	section->size = len;
	return 0;
}

/* { header, u32 size }, then the bytes: perf_event__synthesize_tracing_data() */
int pev_writer_tracing(struct pev_writer *writer, const void *bytes, size_t len)
{
	static const char zeros[8];
	struct {
		struct perf_event_header header;
		uint32_t size;
	} head = { .header = header_of(TYPE_TRACING_DATA, 12), .size = (uint32_t)aligned(len) };
	struct iovec pieces[] = {
		pev_piece_of(&head, 12),
		pev_piece_of(bytes, len),
		pev_piece_of(zeros, aligned(len) - len),
	};
	uint64_t at = writer->file.end + 12;
	struct pev_recorded_section *section;
	int rc = write_pieces(writer, pieces, 3);

	if (rc < 0)
		return rc;
	section = pev_description_section(&writer->description, FEAT_TRACING_DATA);
	section->offset = at;
	section->size = len;
	return 0;
}

int pev_writer_begin(struct pev_writer *writer)
{
	writer->data = writer->file.end;
	writer->begun = true;
	return writer->failed.code;
}

/* ---- records ---- */

int pev_writer_records(struct pev_writer *writer, const void *bytes, size_t len)
{
	struct iovec piece = pev_piece_of(bytes, len);

	pev_content_summary_add_records(&writer->summary, &piece, 1);
	return write_pieces(writer, &piece, 1);
}

/* Writes a chunk as COMPRESSED records; each inflates to at most the size of the chunk. */
static int pack_chunk(struct pev_writer *writer, const unsigned char *bytes, size_t len)
{
	struct perf_event_header header;
	bool more = true;

	while (len || more) {
		struct iovec piece;
		struct pev_err err;
		int64_t n = writer->config.deflate->run(writer->deflate, &bytes, &len,
							writer->pack_chunk + sizeof(header),
							RECORD_MAX - sizeof(header), &more, &err);
		int rc;

		if (n < 0)
			return stop_writing(writer, (int)n, "cannot compress for %s: %s",
					    pev_output_file_name(&writer->file), err.text);
		if (n == 0)
			continue;
		header = header_of(TYPE_COMPRESSED, sizeof(header) + (size_t)n);
		memcpy(writer->pack_chunk, &header, sizeof(header));
		piece = pev_piece_of(writer->pack_chunk, header.size);
		writer->packed += (uint64_t)n;
		rc = write_pieces(writer, &piece, 1);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int pack_pieces(struct pev_writer *writer, const struct iovec *pieces, int nr)
{
	int rc = 0;

	for (int i = 0; i < nr; i++) {
		const unsigned char *bytes = pieces[i].iov_base;
		size_t left = pieces[i].iov_len;

		while (left && rc == 0) {
			size_t len = left < writer->config.chunk ? left : writer->config.chunk;

			rc = pack_chunk(writer, bytes, len);
			bytes += len;
			left -= len;
		}
	}
	return rc;
}

/*
 * A ring is read-only for records (perf_mmap_fault()). If an MMAP2 record has the bit of
 * a build id but no build id, the round is copied and the bit is cleared. perf up to 6.1
 * trusts the bit, and aborts if the length of that build id exceeds its buffer.
 */
static int clear_false_build_ids(struct pev_writer *writer, struct iovec *whole,
				 const struct iovec *pieces, int nr, size_t len)
{
	const struct pev_content_summary *summary = &writer->summary;
	unsigned char *bytes = realloc(writer->corrected, len);
	size_t end = 0;

	if (!bytes)
		return fail_memory(writer);
	writer->corrected = bytes;
	for (int i = 0; i < nr; i++) {
		memcpy(bytes + end, pieces[i].iov_base, pieces[i].iov_len);
		end += pieces[i].iov_len;
	}
	for (uint32_t i = 0; i < summary->nr_false_build_ids; i++) {
		unsigned char *at = bytes + summary->false_build_ids[i] +
				    offsetof(struct perf_event_header, misc);
		uint16_t misc = pev_load16(at, false) & (uint16_t)~PEV_MISC_MMAP_BUILD_ID;

		memcpy(at, &misc, sizeof(misc));
	}
	*whole = pev_piece_of(bytes, len);
	return 0;
}

static int put_pieces(struct pev_writer *writer, struct iovec *pieces, int nr)
{
	struct iovec whole = { 0 };
	size_t len = 0;
	int rc;

	for (int i = 0; i < nr; i++)
		len += pieces[i].iov_len;
	writer->raw += len;
	/* Must come first: writing changes the pieces. It also brings them into the cache. */
	pev_content_summary_add_records(&writer->summary, pieces, nr);
	if (writer->summary.nr_false_build_ids) {
		rc = clear_false_build_ids(writer, &whole, pieces, nr, len);
		if (rc < 0)
			return rc;
		pieces = &whole;
		nr = 1;
	}
	rc = writer->deflate ? pack_pieces(writer, pieces, nr) : write_pieces(writer, pieces, nr);
	if (rc == 0)
		writer->safe =
			(struct pev_writer_samples){ writer->summary.samples, writer->summary.first,
						     writer->summary.last };
	return rc;
}

static int put_marks(struct pev_writer *writer, int nr)
{
	struct iovec piece = pev_piece_of(marks, (size_t)nr * sizeof(marks[0]));
	int rc = write_pieces(writer, &piece, 1);

	if (rc == 0) {
		writer->marked = writer->file.end;
		writer->safe_marked = writer->safe;
	}
	return rc;
}

/* With the first record of the kernel, or at the end. */
int pev_writer_publish(struct pev_writer *writer)
{
	struct pev_err err;
	int rc = pev_output_file_publish(&writer->file, &err);

	return rc < 0 ? stop_writing(writer, rc, "%s", err.text) : 0;
}

/* An empty round is marked if a reader can deliver the last round's records then. */
int pev_writer_round(struct pev_writer *writer, struct iovec *pieces, int nr, int nr_marks)
{
	int rc = writer->failed.code;

	if (rc < 0 || (!nr && !writer->has_unmarked))
		return rc;
	if (!writer->config.whole)
		rc = pev_writer_publish(writer);
	if (nr && rc == 0)
		rc = put_pieces(writer, pieces, nr);
	if (rc < 0)
		return rc;
	writer->has_unmarked = nr_marks == 0 || (nr_marks == 1 && nr);
	return nr_marks ? put_marks(writer, nr_marks) : 0;
}

static int write_appended(struct pev_writer *writer)
{
	struct iovec piece = pev_piece_of(writer->appended, writer->appended_len);

	if (!writer->appended_len)
		return writer->failed.code;
	writer->appended_len = 0;
	return pev_writer_round(writer, &piece, 1, 2);
}

int pev_writer_append(struct pev_writer *writer, const void *record, size_t len)
{
	int rc = writer->failed.code;

	if (!writer->appended)
		writer->appended = malloc(APPENDED_MAX);
	if (!writer->appended)
		return fail_memory(writer);
	if (len > APPENDED_MAX - writer->appended_len)
		rc = write_appended(writer);
	if (rc < 0)
		return rc;
	memcpy(writer->appended + writer->appended_len, record, len);
	writer->appended_len += len;
	return 0;
}

/* ---- the end ---- */

static void stay_stream(struct pev_writer *writer)
{
	const uint64_t magic = PEV_FILE_MAGIC, size = HEAD_PIPE;
	struct perf_event_header padding = header_of(TYPE_PADDING, PEV_FILE_HEAD - HEAD_PIPE);
	unsigned char head[HEAD_PIPE + sizeof(padding)];

	memcpy(head, &magic, sizeof(magic));
	memcpy(head + 8, &size, sizeof(size));
	memcpy(head + HEAD_PIPE, &padding, sizeof(padding));
	write_at(writer, head, sizeof(head), 0);
}

/*
 * A late event's ATTR record becomes padding, because the file's
 * table has the event: perf would take it for another event.
 */
static void hide_late_event(struct pev_writer *writer, const struct pev_recorded_event *event)
{
	const uint32_t type = TYPE_PADDING;
	size_t size = attr_head_size(event);
	uint64_t off = event->late_offset;
	uint32_t at = 0;

	do {
		uint32_t nr = ids_in_one(event, size, at);

		write_at(writer, &type, sizeof(type), off);
		off += aligned(size) + (uint64_t)nr * 8;
		at += nr;
	} while (at < event->nr_ids);
}

/* Writes the head, which makes the stream a file. */
static int put_file_head(struct pev_writer *writer, const struct pev_file_tables *tables)
{
	uint64_t head[PEV_FILE_HEAD / 8];
	int64_t n;

	pev_file_tables_head(tables, &writer->description, writer->data, head);
	n = write_at(writer, head, sizeof(head), 0);
	if (n == sizeof(head))
		return 0;
	writer->file.end = tables->base;
	stay_stream(writer);
	return stop_writing(writer, n < 0 ? (int)n : -EIO, "cannot write the head of %s",
			    writer->file.path);
}

static int become_file(struct pev_writer *writer)
{
	struct pev_description *description = &writer->description;
	struct pev_file_tables tables;
	struct iovec piece;
	int rc = pev_file_tables_build(&tables, description, writer->file.end);

	if (rc < 0)
		return stop_writing(writer, rc, "cannot finish %s: no memory",
				    pev_output_file_name(&writer->file));
	piece = pev_piece_of(tables.bytes, tables.len);
	rc = write_pieces(writer, &piece, 1);
	if (rc == 0)
		rc = put_file_head(writer, &tables);
	for (uint32_t i = 0; i < description->nr_events && rc == 0; i++)
		if (description->events[i].late_offset)
			hide_late_event(writer, &description->events[i]);
	free(tables.bytes);
	return rc;
}

/* Writes the compression ratio, and the marks that end the last round. */
static int put_end(struct pev_writer *writer)
{
	uint32_t section[5];
	int rc = 0;

	if (writer->deflate) {
		compressed_section(writer, section);
		rc = pev_writer_feature(writer, FEAT_COMPRESSED, section, sizeof(section));
	}
	return rc ? rc : put_marks(writer, 2);
}

int pev_writer_finish(struct pev_writer *writer, const char *name, struct pev_err *err)
{
	int rc = write_appended(writer);
	int closed;

	if (rc == 0 && !writer->config.whole)
		rc = pev_writer_publish(writer);
	if (rc == 0)
		rc = put_end(writer);
	if (rc == 0 && !writer->file.stream)
		rc = become_file(writer);
	closed = pev_output_file_close(&writer->file);
	if (rc == 0 && closed < 0)
		rc = pev_fail(&writer->failed, closed, "cannot close %s",
			      pev_output_file_name(&writer->file));
	if (rc == 0)
		rc = pev_writer_publish(writer);
	if (!writer->file.stream && name && writer->begun && writer->failed.code == 0)
		rc = pev_output_file_rename(&writer->file, writer->file.path, name,
					    &writer->failed);
	if (rc < 0)
		pev_fail(err, rc, "%s: %s", writer->failed.text, strerror(-rc));
	return rc;
}

int pev_writer_remove(struct pev_writer *writer, const char *name, struct pev_err *err)
{
	int rc = writer->file.sys->unlink(writer->file.sys->ctx, name);

	return rc < 0 ? pev_fail(err, rc, "cannot remove %s", name) : 0;
}

const struct pev_err *pev_writer_failure(const struct pev_writer *writer)
{
	return writer->failed.code ? &writer->failed : NULL;
}

const char *pev_writer_path(const struct pev_writer *writer)
{
	return writer->file.temporary ? writer->file.temporary : writer->file.path;
}

uint64_t pev_writer_size(const struct pev_writer *writer)
{
	return writer->file.end;
}

bool pev_writer_is_stream(const struct pev_writer *writer)
{
	return writer->file.stream;
}

struct pev_writer_samples pev_writer_samples(const struct pev_writer *writer)
{
	return writer->safe;
}

const struct pev_content_summary_map *pev_writer_maps(const struct pev_writer *writer, uint32_t *nr)
{
	*nr = writer->summary.nr_maps;
	return writer->summary.maps;
}
