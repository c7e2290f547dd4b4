/*
 * writer.c - writes a recording in the perf.data format; see writer.h.
 *
 * All writing goes through write_pieces(), which knows the end of the last whole record.
 */
#define _GNU_SOURCE /* O_* */
#include "perfdata/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD_PIPE 16
#define HEAD_FILE 104
#define RECORD_MAX 65528u        /* header.size has 16 bits, and records are aligned */
#define PIECES_MAX 1024          /* IOV_MAX */
#define SECTIONS_MAX 256
#define CHUNK_DEFAULT (1u << 20)
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

struct section {
	uint32_t id;
	uint64_t offset, size;
	unsigned char *bytes; /* owned: to be written at the end; else NULL */
};

struct recorded_event {
	struct pev_attr attr;
	uint64_t *ids; /* owned */
	uint32_t nr_ids;
	struct pev_plan *plan; /* owned */
	uint64_t late_offset; /* offset of its ATTR records; 0: before begin() */
};

struct pev_writer {
	const struct pev_sys *sys;
	struct pev_writer_config config;
	char *path, *temporary; /* temporary: the name before the first round, then NULL */
	int fd;
	unsigned process; /* owner: pev_sys_process() */
	bool stream, begun, exists; /* exists: a file of that name exists */
	uint64_t end;    /* written */
	uint64_t marked; /* end at the last mark; 0: no mark yet */
	uint64_t data;   /* offset of the first record that is not description */
	uint64_t raw;    /* bytes of rings, and their size when compressed */
	uint64_t packed;
	bool has_unmarked;       /* has bytes of rings that a reader delivers at the next mark */
	void *deflate;
	unsigned char *pack_chunk; /* RECORD_MAX bytes */
	unsigned char *corrected; /* copy of a round with corrected records */
	struct recorded_event *events;
	uint32_t nr_events;
	struct section sections[SECTIONS_MAX];
	uint32_t nr_sections;
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

/*
 * The magic number is in this machine's byte order, which
 * readers take as the file's: PERFILE2 if little.
 */
static const uint64_t magic = UINT64_C(0x32454c4946524550);

static const char *output_name(const struct pev_writer *writer)
{
	return strcmp(writer->path, "-") == 0 ? "standard output" : writer->path;
}

/* ---- writing ---- */

/*
 * Cuts an incomplete record off, so that a reader gets to the end,
 * and the unfinished round if its marks do not fit.
 */
static void cut_to_whole_records(struct pev_writer *writer)
{
	const struct pev_sys *sys = writer->sys;

	sys->ftruncate(sys->ctx, writer->fd, writer->end);
	if (!writer->marked || writer->marked == writer->end)
		return;
	if (sys->pwrite(sys->ctx, writer->fd, marks, sizeof(marks), writer->end) == sizeof(marks)) {
		writer->end += sizeof(marks);
	} else if (sys->ftruncate(sys->ctx, writer->fd, writer->marked) == 0) {
		writer->end = writer->marked;
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
	if (!writer->stream && writer->fd >= 0)
		cut_to_whole_records(writer);
	return pev_fail(&writer->failed, code, "%s", text);
}

static int fail_memory(struct pev_writer *writer)
{
	return stop_writing(writer, -ENOMEM, "cannot record to %s: no memory", output_name(writer));
}

/* Skips n bytes of the pieces. Returns how many pieces are left. */
static int skip_bytes(struct iovec **pieces, int nr, size_t n)
{
	while (nr && n >= (*pieces)->iov_len) {
		n -= (*pieces)->iov_len;
		++*pieces;
		nr--;
	}
	if (nr) {
		(*pieces)->iov_base = (char *)(*pieces)->iov_base + n;
		(*pieces)->iov_len -= n;
	}
	return nr;
}

/* Writes all pieces, or for a reader none. Changes the pieces. */
static int write_pieces(struct pev_writer *writer, struct iovec *pieces, int nr)
{
	uint64_t end = writer->end;

	if (writer->failed.code)
		return writer->failed.code;
	while (nr) {
		int64_t n = writer->sys->writev(writer->sys->ctx, writer->fd, pieces,
						nr < PIECES_MAX ? nr : PIECES_MAX);

		if (n <= 0)
			return stop_writing(writer, n ? (int)n : -EIO, "cannot write to %s",
					    output_name(writer));
		end += (uint64_t)n;
		nr = skip_bytes(&pieces, nr, (size_t)n);
	}
	writer->end = end;
	return 0;
}

static struct iovec piece_of(const void *bytes, size_t len)
{
	return (struct iovec){ .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
}

/* Writes a record with a head and a body, padded with zeros. */
static int put_record(struct pev_writer *writer, const void *head, size_t head_len,
		      const void *body, size_t len)
{
	static const char zeros[8];
	struct iovec pieces[] = {
		piece_of(head, head_len),
		piece_of(body, len),
		piece_of(zeros, aligned(head_len + len) - head_len - len),
	};

	return write_pieces(writer, pieces, 3);
}

/* ---- opening ---- */

static int fail_open_memory(struct pev_err *err, const char *path)
{
	return pev_fail(err, -ENOMEM, "cannot record to %s: no memory", path);
}

static int fail_open(struct pev_err *err, int code, const char *path)
{
	const char *why = strerror(-code);

	if (code == -ELOOP)
		why = "it is a symbolic link, which is not followed";
	else if (code == -ENXIO)
		why = "it is a FIFO without a reader, or a socket";
	return pev_fail(err, code, "cannot record to %s: %s", path, why);
}

/* Checks an existing file with this name: a FIFO or device is opened, a regular file is kept. */
static int open_there(struct pev_writer *writer, struct pev_err *err)
{
	const struct pev_sys *sys = writer->sys;
	int fd = sys->open(sys->ctx, writer->path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct pev_stat st;
	int flags, rc;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fail_open(err, fd, writer->path);
	rc = sys->fstat(sys->ctx, fd, &st);
	if (rc < 0 || S_ISREG(st.mode)) {
		sys->close(sys->ctx, fd);
		writer->exists = rc == 0 && st.size > 0;
		return rc < 0 ? fail_open(err, rc, writer->path) : 0;
	}
	writer->stream = true;
	writer->fd = fd;
	flags = sys->fcntl(sys->ctx, fd, F_GETFL, 0);
	if (flags >= 0)
		flags = sys->fcntl(sys->ctx, fd, F_SETFL, flags & ~O_NONBLOCK);
	return flags < 0 ? fail_open(err, flags, writer->path) : 0;
}

static int open_new(struct pev_writer *writer, struct pev_err *err)
{
	const struct pev_sys *sys = writer->sys;
	int fd;

	if (asprintf(&writer->temporary, "%s.%d.new", writer->path, sys->getpid(sys->ctx)) < 0) {
		writer->temporary = NULL;
		return fail_open_memory(err, writer->path);
	}
	fd = sys->open(sys->ctx, writer->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
	if (fd < 0) {
		free(writer->temporary); /* the existing file is not ours */
		writer->temporary = NULL;
		return fail_open(err, fd, writer->path);
	}
	writer->fd = fd;
	return 0;
}

static int open_output(struct pev_writer *writer, struct pev_err *err)
{
	int rc;

	if (strcmp(writer->path, "-") == 0) {
		writer->stream = true;
		writer->fd = writer->config.fd > 0 ? writer->config.fd : 1;
		return 0;
	}
	rc = open_there(writer, err);
	return rc < 0 || writer->stream ? rc : open_new(writer, err);
}

/* Writes the stream's head and the space for the rest of a file's head. */
static int put_head(struct pev_writer *writer)
{
	const uint64_t size = HEAD_PIPE;
	const unsigned char room[HEAD_FILE - HEAD_PIPE - sizeof(struct perf_event_header)] = { 0 };
	struct perf_event_header padding = header_of(TYPE_PADDING, HEAD_FILE - HEAD_PIPE);
	struct iovec pieces[] = {
		piece_of(&magic, 8),
		piece_of(&size, sizeof(size)),
		piece_of(&padding, sizeof(padding)),
		piece_of(room, sizeof(room)),
	};

	return write_pieces(writer, pieces, writer->stream ? 2 : 4);
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
				    output_name(writer));
	compressed_section(writer, section);
	return pev_writer_feature(writer, FEAT_COMPRESSED, section, sizeof(section));
}

int pev_writer_open(struct pev_writer **out, const struct pev_sys *sys, const char *path,
		    const struct pev_writer_config *config, struct pev_err *err)
{
	struct pev_writer *writer = calloc(1, sizeof(*writer));
	int rc;

	if (!writer)
		return fail_open_memory(err, path);
	writer->sys = sys;
	writer->fd = -1;
	writer->process = pev_sys_process();
	writer->config = *config;
	if (!writer->config.chunk)
		writer->config.chunk = CHUNK_DEFAULT;
	writer->path = strdup(path);
	rc = writer->path ? open_output(writer, err) : fail_open_memory(err, path);
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
	if (writer->fd > 1)
		writer->sys->close(writer->sys->ctx, writer->fd);
	if (writer->temporary && writer->process == pev_sys_process())
		writer->sys->unlink(writer->sys->ctx, writer->temporary);
	if (writer->deflate)
		writer->config.deflate->close(writer->deflate);
	for (uint32_t i = 0; i < writer->nr_events; i++) {
		free(writer->events[i].ids);
		free(writer->events[i].plan);
	}
	for (uint32_t i = 0; i < writer->nr_sections; i++)
		free(writer->sections[i].bytes);
	pev_content_summary_free(&writer->summary);
	free(writer->events);
	free(writer->pack_chunk);
	free(writer->corrected);
	free(writer->temporary);
	free(writer->path);
	free(writer);
}

/* ---- description ---- */

/* Returns how many ids, from index at on, fit into one ATTR record with an attr of this size. */
static uint32_t ids_in_one(const struct recorded_event *event, size_t size, uint32_t at)
{
	uint32_t most = (uint32_t)((RECORD_MAX - size) / 8), left = event->nr_ids - at;

	return left < most ? left : most;
}

static size_t attr_head_size(const struct recorded_event *event)
{
	uint32_t size = event->attr.size < ATTR_STREAM ? ATTR_STREAM : event->attr.size;

	return sizeof(struct perf_event_header) + size;
}

/* { header, attr, ids... }, repeated until all ids are written. */
static int put_event(struct pev_writer *writer, const struct recorded_event *event)
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
	struct recorded_event *events, *event;
	int rc;

	if (writer->failed.code)
		return writer->failed.code;
	events = realloc(writer->events, sizeof(*events) * (writer->nr_events + 1));
	if (events)
		writer->events = events;
	event = events ? &events[writer->nr_events] : NULL;
	if (event)
		*event = (struct recorded_event){ .attr = *attr,
						  .ids = malloc(nr_ids ? nr_ids * 8 : 8),
						  .nr_ids = nr_ids,
						  .plan = malloc(sizeof(*event->plan)),
						  .late_offset = writer->begun ? writer->end : 0 };
	if (event)
		writer->nr_events++;
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

/* Returns the section for an id; a former one is replaced. */
static struct section *replace_section(struct pev_writer *writer, uint32_t id)
{
	uint32_t i = 0;

	while (i < writer->nr_sections && writer->sections[i].id != id)
		i++;
	if (i == writer->nr_sections)
		writer->nr_sections++;
	free(writer->sections[i].bytes);
	writer->sections[i] = (struct section){ .id = id };
	return &writer->sections[i];
}

/* Keeps a section for the end of a file, where its length is not limited. */
static int keep_section(struct pev_writer *writer, uint32_t id, const void *bytes, size_t len)
{
	struct section *section = replace_section(writer, id);

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
	struct section *section;
	int rc;

	if (writer->failed.code)
		return writer->failed.code;
	if (id >= SECTIONS_MAX)
		return stop_writing(writer, -EINVAL,
				    "cannot record feature %u: the numbers end at 255", id);
	if (!writer->stream && (writer->begun || !fits))
		return keep_section(writer, id, bytes, len);
	if (!fits)
		return 0;
	head.header = header_of(TYPE_FEATURE, aligned(sizeof(head) + len));
	rc = put_record(writer, &head, sizeof(head), bytes, len);
	if (rc < 0)
		return rc;
	section = replace_section(writer, id);
	section->offset = writer->end - head.header.size + sizeof(head);
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
		piece_of(&head, 12),
		piece_of(bytes, len),
		piece_of(zeros, aligned(len) - len),
	};
	uint64_t at = writer->end + 12;
	struct section *section;
	int rc = write_pieces(writer, pieces, 3);

	if (rc < 0)
		return rc;
	section = replace_section(writer, FEAT_TRACING_DATA);
	section->offset = at;
	section->size = len;
	return 0;
}

static int rename_to(struct pev_writer *writer, const char *from, const char *to)
{
	int rc = writer->sys->rename(writer->sys->ctx, from, to);

	return rc < 0 ? stop_writing(writer, rc, "cannot rename %s to %s", from, to) : 0;
}

static int keep_old(struct pev_writer *writer)
{
	char *old;
	int rc;

	if (!writer->exists)
		return 0;
	if (asprintf(&old, "%s.old", writer->path) < 0)
		return stop_writing(writer, -ENOMEM, "cannot record to %s: no memory",
				    output_name(writer));
	rc = rename_to(writer, writer->path, old);
	free(old);
	return rc;
}

static int rename_to_final(struct pev_writer *writer)
{
	int rc;

	if (!writer->temporary)
		return 0;
	rc = keep_old(writer);
	if (rc == 0)
		rc = rename_to(writer, writer->temporary, writer->path);
	if (rc < 0)
		return rc;
	free(writer->temporary);
	writer->temporary = NULL;
	return 0;
}

int pev_writer_begin(struct pev_writer *writer)
{
	writer->data = writer->end;
	writer->begun = true;
	return writer->failed.code;
}

/* ---- records ---- */

int pev_writer_records(struct pev_writer *writer, const void *bytes, size_t len)
{
	struct iovec piece = piece_of(bytes, len);

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
					    output_name(writer), err.text);
		if (n == 0)
			continue;
		header = header_of(TYPE_COMPRESSED, sizeof(header) + (size_t)n);
		memcpy(writer->pack_chunk, &header, sizeof(header));
		piece = piece_of(writer->pack_chunk, header.size);
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
	*whole = piece_of(bytes, len);
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
	struct iovec piece = piece_of(marks, (size_t)nr * sizeof(marks[0]));
	int rc = write_pieces(writer, &piece, 1);

	if (rc == 0) {
		writer->marked = writer->end;
		writer->safe_marked = writer->safe;
	}
	return rc;
}

/* An empty round is marked if a reader can deliver the last round's records then. */
int pev_writer_round(struct pev_writer *writer, struct iovec *pieces, int nr, int nr_marks)
{
	int rc = writer->failed.code;

	if (rc < 0 || (!nr && !writer->has_unmarked))
		return rc;
	rc = rename_to_final(writer);
	if (nr && rc == 0)
		rc = put_pieces(writer, pieces, nr);
	if (rc < 0)
		return rc;
	writer->has_unmarked = nr_marks == 0 || (nr_marks == 1 && nr);
	return nr_marks ? put_marks(writer, nr_marks) : 0;
}

/* ---- the end ---- */

static int compare_ids(const void *a, const void *b)
{
	const struct section *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* The tables behind a file's data, built in memory. */
struct tail {
	unsigned char *bytes;
	size_t len;
	uint64_t base; /* its offset in the file */
};

static uint64_t tail_end(const struct tail *tail)
{
	return tail->base + tail->len;
}

static void tail_add(struct tail *tail, const void *bytes, size_t len)
{
	if (len)
		memcpy(tail->bytes + tail->len, bytes, len);
	tail->len += len;
}

static uint32_t attr_size(const struct pev_writer *writer)
{
	uint32_t size = PERF_ATTR_SIZE_VER0;

	for (uint32_t i = 0; i < writer->nr_events; i++)
		if (writer->events[i].attr.size > size)
			size = writer->events[i].attr.size;
	return size;
}

static size_t tail_size(const struct pev_writer *writer)
{
	size_t size = (size_t)writer->nr_sections * 16;

	size += (size_t)writer->nr_events * (attr_size(writer) + 16);
	for (uint32_t i = 0; i < writer->nr_sections; i++)
		size += writer->sections[i].bytes ? (size_t)writer->sections[i].size : 0;
	for (uint32_t i = 0; i < writer->nr_events; i++)
		size += (size_t)writer->events[i].nr_ids * 8;
	return size;
}

/* Adds the table of sections, and those sections that are not in the stream. */
static void add_sections(struct pev_writer *writer, struct tail *tail)
{
	uint64_t at = tail->base + (uint64_t)writer->nr_sections * 16;

	qsort(writer->sections, writer->nr_sections, sizeof(writer->sections[0]), compare_ids);
	for (uint32_t i = 0; i < writer->nr_sections; i++) {
		struct section *section = &writer->sections[i];

		if (section->bytes) {
			section->offset = at;
			at += section->size;
		}
		tail_add(tail, &section->offset, 8);
		tail_add(tail, &section->size, 8);
	}
	for (uint32_t i = 0; i < writer->nr_sections; i++)
		if (writer->sections[i].bytes)
			tail_add(tail, writer->sections[i].bytes, (size_t)writer->sections[i].size);
}

/* Adds { attr, offset and size of its ids } of one size for all events; then the ids. */
static void add_events(const struct pev_writer *writer, struct tail *tail)
{
	uint32_t size = attr_size(writer);
	uint64_t at = tail_end(tail) + (uint64_t)writer->nr_events * (size + 16);

	for (uint32_t i = 0; i < writer->nr_events; i++) {
		struct pev_attr attr = writer->events[i].attr;
		uint64_t len = (uint64_t)writer->events[i].nr_ids * 8;

		attr.size = size;
		tail_add(tail, &attr, size);
		tail_add(tail, &at, 8);
		tail_add(tail, &len, 8);
		at += len;
	}
	for (uint32_t i = 0; i < writer->nr_events; i++)
		tail_add(tail, writer->events[i].ids, (size_t)writer->events[i].nr_ids * 8);
}

static void stay_stream(struct pev_writer *writer)
{
	const uint64_t size = HEAD_PIPE;
	struct perf_event_header padding = header_of(TYPE_PADDING, HEAD_FILE - HEAD_PIPE);
	unsigned char head[HEAD_PIPE + sizeof(padding)];

	memcpy(head, &magic, 8);
	memcpy(head + 8, &size, sizeof(size));
	memcpy(head + HEAD_PIPE, &padding, sizeof(padding));
	writer->sys->pwrite(writer->sys->ctx, writer->fd, head, sizeof(head), 0);
}

/*
 * A late event's ATTR record becomes padding, because the file's
 * table has the event: perf would take it for another event.
 */
static void hide_late_event(struct pev_writer *writer, const struct recorded_event *event)
{
	const uint32_t type = TYPE_PADDING;
	size_t size = attr_head_size(event);
	uint64_t off = event->late_offset;
	uint32_t at = 0;

	do {
		uint32_t nr = ids_in_one(event, size, at);

		writer->sys->pwrite(writer->sys->ctx, writer->fd, &type, sizeof(type), off);
		off += aligned(size) + (uint64_t)nr * 8;
		at += nr;
	} while (at < event->nr_ids);
}

/* struct perf_file_header: writing it makes the stream a file. */
static int put_file_head(struct pev_writer *writer, uint64_t data_end, uint64_t attrs)
{
	const uint64_t stride = attr_size(writer) + 16;
	uint64_t head[HEAD_FILE / 8] = {
		[1] = HEAD_FILE,
		[2] = stride,
		[3] = attrs,
		[4] = stride * writer->nr_events,
		[5] = writer->data,
		[6] = data_end - writer->data,
	};
	int64_t n;

	memcpy(head, &magic, sizeof(head[0]));
	for (uint32_t i = 0; i < writer->nr_sections; i++)
		head[9 + writer->sections[i].id / 64] |= UINT64_C(1) << writer->sections[i].id % 64;
	n = writer->sys->pwrite(writer->sys->ctx, writer->fd, head, sizeof(head), 0);
	if (n == sizeof(head))
		return 0;
	writer->end = data_end;
	stay_stream(writer);
	return stop_writing(writer, n < 0 ? (int)n : -EIO, "cannot write the head of %s",
			    writer->path);
}

static int become_file(struct pev_writer *writer)
{
	struct tail tail = { .bytes = malloc(tail_size(writer)), .base = writer->end };
	struct iovec piece;
	uint64_t attrs;
	int rc;

	if (!tail.bytes)
		return stop_writing(writer, -ENOMEM, "cannot finish %s: no memory",
				    output_name(writer));
	add_sections(writer, &tail);
	attrs = tail_end(&tail);
	add_events(writer, &tail);
	piece = piece_of(tail.bytes, tail.len);
	rc = write_pieces(writer, &piece, 1);
	if (rc == 0)
		rc = put_file_head(writer, tail.base, attrs);
	for (uint32_t i = 0; i < writer->nr_events && rc == 0; i++)
		if (writer->events[i].late_offset)
			hide_late_event(writer, &writer->events[i]);
	free(tail.bytes);
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
	int rc = writer->failed.code ? writer->failed.code : rename_to_final(writer);

	if (rc == 0)
		rc = put_end(writer);
	if (rc == 0 && !writer->stream)
		rc = become_file(writer);
	if (writer->fd > 1) {
		int closed = writer->sys->close(writer->sys->ctx, writer->fd);

		/* A file system may report a full disk as late as this (close(2), NOTES). */
		if (rc == 0 && closed < 0 && closed != -EINTR)
			rc = pev_fail(&writer->failed, closed, "cannot close %s",
				      output_name(writer));
	}
	writer->fd = -1;
	if (!writer->stream && name && writer->begun && writer->failed.code == 0)
		rc = rename_to(writer, writer->path, name);
	if (rc < 0)
		pev_fail(err, rc, "%s: %s", writer->failed.text, strerror(-rc));
	return rc;
}

const struct pev_err *pev_writer_failure(const struct pev_writer *writer)
{
	return writer->failed.code ? &writer->failed : NULL;
}

const char *pev_writer_path(const struct pev_writer *writer)
{
	return writer->temporary ? writer->temporary : writer->path;
}

uint64_t pev_writer_size(const struct pev_writer *writer)
{
	return writer->end;
}

bool pev_writer_is_stream(const struct pev_writer *writer)
{
	return writer->stream;
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
