/*
 * writer.c - the writer of recordings; see writer.h.
 *
 * All that is written goes through put(), which knows how far the file is whole.
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
 * Readers of streams take an attr of the size that their own has, whatever it says
 * (perf_event__process_attr() up to Linux 6.3): that of 5.13 to 6.2 is the best bet.
 */
#define ATTR_STREAM 128u

/* Types of records that we write; see enum pev_user_type. */
enum {
	TYPE_ATTR = 64,
	TYPE_PADDING = 65, /* EVENT_TYPE: nobody has looked at it since 3.10 */
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
	unsigned char *bytes; /* owned: still to be written, at the end; else NULL */
};

struct recorded_event {
	struct pev_attr attr;
	uint64_t *ids; /* owned */
	uint32_t nr_ids;
	struct pev_plan *plan; /* owned */
	uint64_t late; /* where its ATTR records are, if that is among the kernel's; else 0 */
};

struct pev_writer {
	const struct pev_sys *sys;
	struct pev_writer_config config;
	char *path, *temporary; /* temporary: its name up to the first round; NULL then */
	int fd;
	unsigned process; /* whose it is: pev_sys_process() */
	bool stream, begun, there; /* there: another file has the name */
	uint64_t end;    /* written */
	uint64_t marked; /* up to here when the last round was marked; 0: none was */
	uint64_t data;   /* where the records begin that are no description */
	uint64_t raw;    /* bytes of rings, and what COMPRESSED records made of them */
	uint64_t packed;
	bool held;       /* bytes of rings came that a reader hands out at the next mark */
	void *deflate;
	unsigned char *pack; /* RECORD_MAX bytes */
	unsigned char *mended; /* a round whose records had to be changed */
	struct recorded_event *events;
	uint32_t nr_events;
	struct section sections[SECTIONS_MAX];
	uint32_t nr_sections;
	struct pev_content_summary survey;
	struct pev_writer_samples sure, sure_marked; /* those up to end, up to marked */
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

/* The second lets a reader hand out what came since the first of the two before. */
static const struct perf_event_header marks[2] = {
	{ .type = TYPE_FINISHED_ROUND, .size = sizeof(marks[0]) },
	{ .type = TYPE_FINISHED_ROUND, .size = sizeof(marks[0]) },
};

/* In this machine's byte order, by which readers know that of the file: PERFILE2 if little. */
static const uint64_t magic = UINT64_C(0x32454c4946524550);

static const char *shown(const struct pev_writer *rec)
{
	return strcmp(rec->path, "-") == 0 ? "standard output" : rec->path;
}

/* ---- writing ---- */

/*
 * What is not whole goes, so that the rest can be read to its end; and what is in no
 * finished round, where there is no room left to finish it.
 */
static void cut(struct pev_writer *rec)
{
	const struct pev_sys *sys = rec->sys;

	sys->ftruncate(sys->ctx, rec->fd, rec->end);
	if (!rec->marked || rec->marked == rec->end)
		return;
	if (sys->pwrite(sys->ctx, rec->fd, marks, sizeof(marks), rec->end) == sizeof(marks)) {
		rec->end += sizeof(marks);
	} else if (sys->ftruncate(sys->ctx, rec->fd, rec->marked) == 0) {
		rec->end = rec->marked;
		rec->sure = rec->sure_marked;
	}
}

__attribute__((format(printf, 3, 4))) static int fail(struct pev_writer *rec, int code,
						      const char *format, ...)
{
	char text[256];
	va_list args;

	if (rec->failed.code)
		return rec->failed.code;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!rec->stream && rec->fd >= 0)
		cut(rec);
	return pev_fail(&rec->failed, code, "%s", text);
}

static int no_room(struct pev_writer *rec)
{
	return fail(rec, -ENOMEM, "cannot record to %s: no memory", shown(rec));
}

/* Step over n bytes of the pieces; how many pieces are left. */
static int advance(struct iovec **pieces, int nr, size_t n)
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

/* All pieces, or none of them as far as a reader is concerned. They are changed. */
static int put(struct pev_writer *rec, struct iovec *pieces, int nr)
{
	uint64_t end = rec->end;

	if (rec->failed.code)
		return rec->failed.code;
	while (nr) {
		int64_t n = rec->sys->writev(rec->sys->ctx, rec->fd, pieces,
					     nr < PIECES_MAX ? nr : PIECES_MAX);

		if (n <= 0)
			return fail(rec, n ? (int)n : -EIO, "cannot write to %s", shown(rec));
		end += (uint64_t)n;
		nr = advance(&pieces, nr, (size_t)n);
	}
	rec->end = end;
	return 0;
}

static struct iovec piece_of(const void *bytes, size_t len)
{
	return (struct iovec){ .iov_base = (void *)(uintptr_t)bytes, .iov_len = len };
}

/* A record of a head and a body, with zeros up to its alignment. */
static int put_record(struct pev_writer *rec, const void *head, size_t head_len,
		      const void *body, size_t len)
{
	static const char zeros[8];
	struct iovec pieces[] = {
		piece_of(head, head_len),
		piece_of(body, len),
		piece_of(zeros, aligned(head_len + len) - head_len - len),
	};

	return put(rec, pieces, 3);
}

/* ---- a new one ---- */

static int no_memory(struct pev_err *err, const char *path)
{
	return pev_fail(err, -ENOMEM, "cannot record to %s: no memory", path);
}

static int refuse(struct pev_err *err, int code, const char *path)
{
	const char *why = strerror(-code);

	if (code == -ELOOP)
		why = "it is a symbolic link, and none is followed";
	else if (code == -ENXIO)
		why = "it is a FIFO that nobody reads, or a socket";
	return pev_fail(err, code, "cannot record to %s: %s", path, why);
}

/* What has the name already: a FIFO or a device is written to as it is, a file is kept. */
static int open_there(struct pev_writer *rec, struct pev_err *err)
{
	const struct pev_sys *sys = rec->sys;
	int fd = sys->open(sys->ctx, rec->path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct pev_stat st;
	int flags, rc;

	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return refuse(err, fd, rec->path);
	rc = sys->fstat(sys->ctx, fd, &st);
	if (rc < 0 || S_ISREG(st.mode)) {
		sys->close(sys->ctx, fd);
		rec->there = rc == 0 && st.size > 0;
		return rc < 0 ? refuse(err, rc, rec->path) : 0;
	}
	rec->stream = true;
	rec->fd = fd;
	flags = sys->fcntl(sys->ctx, fd, F_GETFL, 0);
	if (flags >= 0)
		flags = sys->fcntl(sys->ctx, fd, F_SETFL, flags & ~O_NONBLOCK);
	return flags < 0 ? refuse(err, flags, rec->path) : 0;
}

static int open_new(struct pev_writer *rec, struct pev_err *err)
{
	const struct pev_sys *sys = rec->sys;
	int fd;

	if (asprintf(&rec->temporary, "%s.%d.new", rec->path, sys->getpid(sys->ctx)) < 0) {
		rec->temporary = NULL;
		return no_memory(err, rec->path);
	}
	fd = sys->open(sys->ctx, rec->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW);
	if (fd < 0) {
		free(rec->temporary); /* what has this name is not ours */
		rec->temporary = NULL;
		return refuse(err, fd, rec->path);
	}
	rec->fd = fd;
	return 0;
}

static int open_output(struct pev_writer *rec, struct pev_err *err)
{
	int rc;

	if (strcmp(rec->path, "-") == 0) {
		rec->stream = true;
		rec->fd = rec->config.fd > 0 ? rec->config.fd : 1;
		return 0;
	}
	rc = open_there(rec, err);
	return rc < 0 || rec->stream ? rc : open_new(rec, err);
}

/* The stream's head, and room for the rest of a file's. */
static int put_head(struct pev_writer *rec)
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

	return put(rec, pieces, rec->stream ? 2 : 4);
}

/* { version, type, level, ratio, mmap_len }: write_compressed() */
static void compressed_section(const struct pev_writer *rec, uint32_t out[5])
{
	out[0] = 0;
	out[1] = COMP_ZSTD;
	out[2] = (uint32_t)rec->config.level;
	out[3] = rec->packed ? (uint32_t)((rec->raw + rec->packed / 2) / rec->packed) : 1;
	out[4] = rec->config.chunk;
}

static int begin_packing(struct pev_writer *rec)
{
	uint32_t section[5];

	if (!rec->config.deflate)
		return 0;
	rec->pack = malloc(RECORD_MAX);
	rec->deflate = rec->config.deflate->open(rec->config.level);
	if (!rec->pack || !rec->deflate)
		return fail(rec, -ENOMEM, "cannot record to %s: no memory to compress",
			    shown(rec));
	compressed_section(rec, section);
	return pev_writer_feature(rec, FEAT_COMPRESSED, section, sizeof(section));
}

int pev_writer_open(struct pev_writer **out, const struct pev_sys *sys, const char *path,
		    const struct pev_writer_config *config, struct pev_err *err)
{
	struct pev_writer *rec = calloc(1, sizeof(*rec));
	int rc;

	if (!rec)
		return no_memory(err, path);
	rec->sys = sys;
	rec->fd = -1;
	rec->process = pev_sys_process();
	rec->config = *config;
	if (!rec->config.chunk)
		rec->config.chunk = CHUNK_DEFAULT;
	rec->path = strdup(path);
	rc = rec->path ? open_output(rec, err) : no_memory(err, path);
	if (rc == 0) {
		rc = put_head(rec);
		if (rc == 0)
			rc = begin_packing(rec);
		if (rc < 0)
			pev_fail(err, rc, "%s: %s", rec->failed.text, strerror(-rc));
	}
	if (rc < 0) {
		pev_writer_close(rec);
		return rc;
	}
	*out = rec;
	return 0;
}

void pev_writer_close(struct pev_writer *rec)
{
	if (!rec)
		return;
	if (rec->fd > 1)
		rec->sys->close(rec->sys->ctx, rec->fd);
	if (rec->temporary && rec->process == pev_sys_process())
		rec->sys->unlink(rec->sys->ctx, rec->temporary);
	if (rec->deflate)
		rec->config.deflate->close(rec->deflate);
	for (uint32_t i = 0; i < rec->nr_events; i++) {
		free(rec->events[i].ids);
		free(rec->events[i].plan);
	}
	for (uint32_t i = 0; i < rec->nr_sections; i++)
		free(rec->sections[i].bytes);
	pev_content_summary_free(&rec->survey);
	free(rec->events);
	free(rec->pack);
	free(rec->mended);
	free(rec->temporary);
	free(rec->path);
	free(rec);
}

/* ---- what describes it ---- */

/* How many ids from at on go into one ATTR record of an attr of that size, header included. */
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

/* { header, attr, ids... }, as often as the ids need it. */
static int put_event(struct pev_writer *rec, const struct recorded_event *event)
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
		rc = put_record(rec, &head, size, nr ? event->ids + at : NULL, (size_t)nr * 8);
		if (rc < 0)
			return rc;
		at += nr;
	} while (at < event->nr_ids);
	return 0;
}

/* { header, u64 what, u64 id, name }: perf_event__synthesize_event_update_name() */
static int put_name(struct pev_writer *rec, uint64_t id, const char *name)
{
	struct {
		struct perf_event_header header;
		uint64_t what, id;
	} head = { .what = UPDATE_NAME, .id = id };
	size_t len = strlen(name) + 1;

	if (len > RECORD_MAX - sizeof(head))
		return 0;
	head.header = header_of(TYPE_EVENT_UPDATE, aligned(sizeof(head) + len));
	return put_record(rec, &head, sizeof(head), name, len);
}

int pev_writer_event(struct pev_writer *rec, const struct pev_attr *attr,
		     const uint64_t *ids, uint32_t nr_ids, const char *name)
{
	struct recorded_event *events, *event;
	int rc;

	if (rec->failed.code)
		return rec->failed.code;
	events = realloc(rec->events, sizeof(*events) * (rec->nr_events + 1));
	if (events)
		rec->events = events;
	event = events ? &events[rec->nr_events] : NULL;
	if (event)
		*event = (struct recorded_event){ .attr = *attr,
						  .ids = malloc(nr_ids ? nr_ids * 8 : 8),
						  .nr_ids = nr_ids,
						  .plan = malloc(sizeof(*event->plan)),
						  .late = rec->begun ? rec->end : 0 };
	if (event)
		rec->nr_events++;
	if (!event || !event->ids || !event->plan)
		return no_room(rec);
	if (nr_ids)
		memcpy(event->ids, ids, (size_t)nr_ids * 8);
	pev_plan_init(event->plan, attr, false);
	for (uint32_t i = 0; i < nr_ids; i++)
		if (pev_content_summary_event(&rec->survey, ids[i], event->plan) < 0)
			return no_room(rec);
	rc = put_event(rec, event);
	return rc < 0 || !nr_ids ? rc : put_name(rec, ids[0], name);
}

/* The latest of a kind is the one that counts. */
static struct section *section_of(struct pev_writer *rec, uint32_t id)
{
	uint32_t i = 0;

	while (i < rec->nr_sections && rec->sections[i].id != id)
		i++;
	if (i == rec->nr_sections)
		rec->nr_sections++;
	free(rec->sections[i].bytes);
	rec->sections[i] = (struct section){ .id = id };
	return &rec->sections[i];
}

/* For the end of a file, where there is room for any length. */
static int keep_section(struct pev_writer *rec, uint32_t id, const void *bytes, size_t len)
{
	struct section *section = section_of(rec, id);

	section->bytes = malloc(len ? len : 1);
	if (!section->bytes)
		return no_room(rec);
	memcpy(section->bytes, bytes, len);
	section->size = len;
	return 0;
}

int pev_writer_feature(struct pev_writer *rec, uint32_t id, const void *bytes, size_t len)
{
	struct {
		struct perf_event_header header;
		uint64_t id;
	} head = { .id = id };
	bool fits = len <= RECORD_MAX - sizeof(head);
	struct section *section;
	int rc;

	if (rec->failed.code)
		return rec->failed.code;
	if (id >= SECTIONS_MAX)
		return fail(rec, -EINVAL, "cannot record feature %u: a head has bits for 256", id);
	if (!rec->stream && (rec->begun || !fits))
		return keep_section(rec, id, bytes, len);
	if (!fits)
		return 0;
	head.header = header_of(TYPE_FEATURE, aligned(sizeof(head) + len));
	rc = put_record(rec, &head, sizeof(head), bytes, len);
	if (rc < 0)
		return rc;
	section = section_of(rec, id);
	section->offset = rec->end - head.header.size + sizeof(head);
	section->size = len;
	return 0;
}

/* { header, u32 size }, the bytes behind it: perf_event__synthesize_tracing_data() */
int pev_writer_tracing(struct pev_writer *rec, const void *bytes, size_t len)
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
	uint64_t at = rec->end + 12;
	struct section *section;
	int rc = put(rec, pieces, 3);

	if (rc < 0)
		return rc;
	section = section_of(rec, FEAT_TRACING_DATA);
	section->offset = at;
	section->size = len;
	return 0;
}

static int rename_to(struct pev_writer *rec, const char *from, const char *to)
{
	int rc = rec->sys->rename(rec->sys->ctx, from, to);

	return rc < 0 ? fail(rec, rc, "cannot rename %s to %s", from, to) : 0;
}

static int keep_old(struct pev_writer *rec)
{
	char *old;
	int rc;

	if (!rec->there)
		return 0;
	if (asprintf(&old, "%s.old", rec->path) < 0)
		return fail(rec, -ENOMEM, "cannot record to %s: no memory", shown(rec));
	rc = rename_to(rec, rec->path, old);
	free(old);
	return rc;
}

static int take_name(struct pev_writer *rec)
{
	int rc;

	if (!rec->temporary)
		return 0;
	rc = keep_old(rec);
	if (rc == 0)
		rc = rename_to(rec, rec->temporary, rec->path);
	if (rc < 0)
		return rc;
	free(rec->temporary);
	rec->temporary = NULL;
	return 0;
}

int pev_writer_begin(struct pev_writer *rec)
{
	rec->data = rec->end;
	rec->begun = true;
	return rec->failed.code;
}

/* ---- records ---- */

int pev_writer_records(struct pev_writer *rec, const void *bytes, size_t len)
{
	struct iovec piece = piece_of(bytes, len);

	pev_content_summary_take(&rec->survey, &piece, 1);
	return put(rec, &piece, 1);
}

/* A chunk as COMPRESSED records, each of which inflates to no more than it. */
static int pack(struct pev_writer *rec, const unsigned char *bytes, size_t len)
{
	struct perf_event_header header;
	bool more = true;

	while (len || more) {
		struct iovec piece;
		struct pev_err err;
		int64_t n = rec->config.deflate->run(rec->deflate, &bytes, &len,
						     rec->pack + sizeof(header),
						     RECORD_MAX - sizeof(header), &more, &err);
		int rc;

		if (n < 0)
			return fail(rec, (int)n, "cannot compress for %s: %s", shown(rec),
				    err.text);
		if (n == 0)
			continue;
		header = header_of(TYPE_COMPRESSED, sizeof(header) + (size_t)n);
		memcpy(rec->pack, &header, sizeof(header));
		piece = piece_of(rec->pack, header.size);
		rec->packed += (uint64_t)n;
		rc = put(rec, &piece, 1);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int pack_pieces(struct pev_writer *rec, const struct iovec *pieces, int nr)
{
	int rc = 0;

	for (int i = 0; i < nr; i++) {
		const unsigned char *bytes = pieces[i].iov_base;
		size_t left = pieces[i].iov_len;

		while (left && rc == 0) {
			size_t len = left < rec->config.chunk ? left : rec->config.chunk;

			rc = pack(rec, bytes, len);
			bytes += len;
			left -= len;
		}
	}
	return rc;
}

/*
 * A ring cannot be written to (perf_mmap_fault()): where an MMAP2 record has the bit of a build id
 * and none, all is copied, and the bit cleared there. perf up to 6.1 goes by the bit alone, and
 * aborts where the length of that build id is beyond its room.
 */
static int mend_pieces(struct pev_writer *rec, struct iovec *whole, const struct iovec *pieces,
		       int nr, size_t len)
{
	const struct pev_content_summary *survey = &rec->survey;
	unsigned char *bytes = realloc(rec->mended, len);
	size_t end = 0;

	if (!bytes)
		return no_room(rec);
	rec->mended = bytes;
	for (int i = 0; i < nr; i++) {
		memcpy(bytes + end, pieces[i].iov_base, pieces[i].iov_len);
		end += pieces[i].iov_len;
	}
	for (uint32_t i = 0; i < survey->nr_false_build_ids; i++) {
		unsigned char *at = bytes + survey->false_build_ids[i] +
				    offsetof(struct perf_event_header, misc);
		uint16_t misc = pev_load16(at, false) & (uint16_t)~PEV_MISC_MMAP_BUILD_ID;

		memcpy(at, &misc, sizeof(misc));
	}
	*whole = piece_of(bytes, len);
	return 0;
}

static int put_pieces(struct pev_writer *rec, struct iovec *pieces, int nr)
{
	struct iovec whole = { 0 };
	size_t len = 0;
	int rc;

	for (int i = 0; i < nr; i++)
		len += pieces[i].iov_len;
	rec->raw += len;
	/* Before they are written, which changes the pieces and brings them into the cache. */
	pev_content_summary_take(&rec->survey, pieces, nr);
	if (rec->survey.nr_false_build_ids) {
		rc = mend_pieces(rec, &whole, pieces, nr, len);
		if (rc < 0)
			return rc;
		pieces = &whole;
		nr = 1;
	}
	rc = rec->deflate ? pack_pieces(rec, pieces, nr) : put(rec, pieces, nr);
	if (rc == 0)
		rec->sure = (struct pev_writer_samples){ rec->survey.samples, rec->survey.first,
							 rec->survey.last };
	return rc;
}

static int put_marks(struct pev_writer *rec, int nr)
{
	struct iovec piece = piece_of(marks, (size_t)nr * sizeof(marks[0]));
	int rc = put(rec, &piece, 1);

	if (rc == 0) {
		rec->marked = rec->end;
		rec->sure_marked = rec->sure;
	}
	return rc;
}

/* A round with nothing new is marked where that lets the last one's records go. */
int pev_writer_round(struct pev_writer *rec, struct iovec *pieces, int nr, int nr_marks)
{
	int rc = rec->failed.code;

	if (rc < 0 || (!nr && !rec->held))
		return rc;
	rc = take_name(rec);
	if (nr && rc == 0)
		rc = put_pieces(rec, pieces, nr);
	if (rc < 0)
		return rc;
	rec->held = nr_marks == 0 || (nr_marks == 1 && nr);
	return nr_marks ? put_marks(rec, nr_marks) : 0;
}

/* ---- the end ---- */

static int by_id(const void *a, const void *b)
{
	const struct section *x = a, *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* What a file has behind its data, as it grows in memory. */
struct tail {
	unsigned char *bytes;
	size_t len;
	uint64_t base; /* where it will stand */
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

static uint32_t attr_size(const struct pev_writer *rec)
{
	uint32_t size = PERF_ATTR_SIZE_VER0;

	for (uint32_t i = 0; i < rec->nr_events; i++)
		if (rec->events[i].attr.size > size)
			size = rec->events[i].attr.size;
	return size;
}

static size_t tail_size(const struct pev_writer *rec)
{
	size_t size = (size_t)rec->nr_sections * 16;

	size += (size_t)rec->nr_events * (attr_size(rec) + 16);
	for (uint32_t i = 0; i < rec->nr_sections; i++)
		size += rec->sections[i].bytes ? (size_t)rec->sections[i].size : 0;
	for (uint32_t i = 0; i < rec->nr_events; i++)
		size += (size_t)rec->events[i].nr_ids * 8;
	return size;
}

/* The table of sections, and those that are not in the stream. */
static void add_sections(struct pev_writer *rec, struct tail *tail)
{
	uint64_t at = tail->base + (uint64_t)rec->nr_sections * 16;

	qsort(rec->sections, rec->nr_sections, sizeof(rec->sections[0]), by_id);
	for (uint32_t i = 0; i < rec->nr_sections; i++) {
		struct section *section = &rec->sections[i];

		if (section->bytes) {
			section->offset = at;
			at += section->size;
		}
		tail_add(tail, &section->offset, 8);
		tail_add(tail, &section->size, 8);
	}
	for (uint32_t i = 0; i < rec->nr_sections; i++)
		if (rec->sections[i].bytes)
			tail_add(tail, rec->sections[i].bytes, (size_t)rec->sections[i].size);
}

/* { attr, where its ids are }, of one size for all; then the ids. */
static void add_events(const struct pev_writer *rec, struct tail *tail)
{
	uint32_t size = attr_size(rec);
	uint64_t at = tail_end(tail) + (uint64_t)rec->nr_events * (size + 16);

	for (uint32_t i = 0; i < rec->nr_events; i++) {
		struct pev_attr attr = rec->events[i].attr;
		uint64_t len = (uint64_t)rec->events[i].nr_ids * 8;

		attr.size = size;
		tail_add(tail, &attr, size);
		tail_add(tail, &at, 8);
		tail_add(tail, &len, 8);
		at += len;
	}
	for (uint32_t i = 0; i < rec->nr_events; i++)
		tail_add(tail, rec->events[i].ids, (size_t)rec->events[i].nr_ids * 8);
}

static void stay_stream(struct pev_writer *rec)
{
	const uint64_t size = HEAD_PIPE;
	struct perf_event_header padding = header_of(TYPE_PADDING, HEAD_FILE - HEAD_PIPE);
	unsigned char head[HEAD_PIPE + sizeof(padding)];

	memcpy(head, &magic, 8);
	memcpy(head + 8, &size, sizeof(size));
	memcpy(head + HEAD_PIPE, &padding, sizeof(padding));
	rec->sys->pwrite(rec->sys->ctx, rec->fd, head, sizeof(head), 0);
}

/* In a file, an event that came late is in the head: perf would take its record for another. */
static void hide_late(struct pev_writer *rec, const struct recorded_event *event)
{
	const uint32_t type = TYPE_PADDING;
	size_t size = attr_head_size(event);
	uint64_t off = event->late;
	uint32_t at = 0;

	do {
		uint32_t nr = ids_in_one(event, size, at);

		rec->sys->pwrite(rec->sys->ctx, rec->fd, &type, sizeof(type), off);
		off += aligned(size) + (uint64_t)nr * 8;
		at += nr;
	} while (at < event->nr_ids);
}

/* struct perf_file_header: from here on it is a file's recording. */
static int put_file_head(struct pev_writer *rec, uint64_t data_end, uint64_t attrs)
{
	const uint64_t stride = attr_size(rec) + 16;
	uint64_t head[HEAD_FILE / 8] = {
		[1] = HEAD_FILE,
		[2] = stride,
		[3] = attrs,
		[4] = stride * rec->nr_events,
		[5] = rec->data,
		[6] = data_end - rec->data,
	};
	int64_t n;

	memcpy(head, &magic, sizeof(head[0]));
	for (uint32_t i = 0; i < rec->nr_sections; i++)
		head[9 + rec->sections[i].id / 64] |= UINT64_C(1) << rec->sections[i].id % 64;
	n = rec->sys->pwrite(rec->sys->ctx, rec->fd, head, sizeof(head), 0);
	if (n == sizeof(head))
		return 0;
	rec->end = data_end;
	stay_stream(rec);
	return fail(rec, n < 0 ? (int)n : -EIO, "cannot write the head of %s", rec->path);
}

static int become_file(struct pev_writer *rec)
{
	struct tail tail = { .bytes = malloc(tail_size(rec)), .base = rec->end };
	struct iovec piece;
	uint64_t attrs;
	int rc;

	if (!tail.bytes)
		return fail(rec, -ENOMEM, "cannot finish %s: no memory", shown(rec));
	add_sections(rec, &tail);
	attrs = tail_end(&tail);
	add_events(rec, &tail);
	piece = piece_of(tail.bytes, tail.len);
	rc = put(rec, &piece, 1);
	if (rc == 0)
		rc = put_file_head(rec, tail.base, attrs);
	for (uint32_t i = 0; i < rec->nr_events && rc == 0; i++)
		if (rec->events[i].late)
			hide_late(rec, &rec->events[i]);
	free(tail.bytes);
	return rc;
}

/* What is known by now: how well it was packed; and the marks that let the last records go. */
static int put_end(struct pev_writer *rec)
{
	uint32_t section[5];
	int rc = 0;

	if (rec->deflate) {
		compressed_section(rec, section);
		rc = pev_writer_feature(rec, FEAT_COMPRESSED, section, sizeof(section));
	}
	return rc ? rc : put_marks(rec, 2);
}

int pev_writer_finish(struct pev_writer *rec, const char *name, struct pev_err *err)
{
	int rc = rec->failed.code ? rec->failed.code : take_name(rec);

	if (rc == 0)
		rc = put_end(rec);
	if (rc == 0 && !rec->stream)
		rc = become_file(rec);
	if (rec->fd > 1) {
		int closed = rec->sys->close(rec->sys->ctx, rec->fd);

		/* A file system can tell of a full disk as late as this (close(2), NOTES). */
		if (rc == 0 && closed < 0 && closed != -EINTR)
			rc = pev_fail(&rec->failed, closed, "cannot close %s", shown(rec));
	}
	rec->fd = -1;
	if (!rec->stream && name && rec->begun && rec->failed.code == 0)
		rc = rename_to(rec, rec->path, name);
	if (rc < 0)
		pev_fail(err, rc, "%s: %s", rec->failed.text, strerror(-rc));
	return rc;
}

const struct pev_err *pev_writer_failure(const struct pev_writer *rec)
{
	return rec->failed.code ? &rec->failed : NULL;
}

const char *pev_writer_path(const struct pev_writer *rec)
{
	return rec->temporary ? rec->temporary : rec->path;
}

uint64_t pev_writer_size(const struct pev_writer *rec)
{
	return rec->end;
}

bool pev_writer_is_stream(const struct pev_writer *rec)
{
	return rec->stream;
}

struct pev_writer_samples pev_writer_samples(const struct pev_writer *rec)
{
	return rec->sure;
}

const struct pev_content_summary_map *pev_writer_maps(const struct pev_writer *rec, uint32_t *nr)
{
	*nr = rec->survey.nr_maps;
	return rec->survey.maps;
}
