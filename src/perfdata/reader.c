/*
 * reader.c - the reader of recordings; see reader.h.
 *
 * The head tells of events and sections; records come out of the lanes (lanes.h), are
 * told whose they are (recorded.h), and go out at once (of tools, or without a time)
 * or through the window (window.h). Whoever holds a record holds its block. No count
 * is believed before the bytes that it speaks of are there.
 */
#include "perfdata/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/input_files.h"
#include "perfdata/blocks.h"
#include "perfdata/event_ids.h"
#include "perfdata/sample_run.h"
#include "perfdata/reorder.h"

#define NATIVE_BIG (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
#define WINDOW_DEFAULT ((size_t)32 << 20)
#define WINDOW_MIN ((size_t)1 << 16)
#define HEAD_FILE 104
#define HEAD_PIPE 16
#define ATTR_MAX 65536u
#define SECTIONS_MAX 256
#define AHEAD_MAX 65536
#define RUN_MAX 64 /* records that are handed out without a look at the input */
#define BUFFERS_MAX ((uint64_t)128 << 20) /* of a recorder, as far as we believe it */
#define KEPT_MAX ((uint64_t)256 << 20) /* of a pipe's features and tracing data */

/* A record of tools that open() has read, to be handed out first. */
struct ahead {
	struct pev_file_record record;
	struct pev_block *block;
};

/* References to a block, of records that stand one behind the other in the run. */
struct held {
	struct pev_block *block;
	uint32_t nr;
};

struct pev_reader {
	struct pev_input_files in;
	struct pev_reader_config config;
	struct pev_reader_facts facts;
	struct pev_reader_totals totals;
	uint64_t told_lost, read_lost; /* by LOST records; by counts read at the end */
	char *name, *directory; /* that name is in; or NULL */
	bool own_fd;

	struct pev_file_run run;
	const struct pev_file_record *counted; /* those of the run before it are in totals */
	struct pev_file_record records[RUN_MAX];
	struct held held[RUN_MAX]; /* by the run */
	uint32_t nr_held;
	bool is_plain; /* the run: samples alone, none of which is late */

	struct pev_event_ids recorded;
	uint64_t news;

	struct pev_file_section sections[SECTIONS_MAX + 1]; /* event types are one more */
	uint32_t nr_sections;
	uint64_t kept; /* bytes in sections: of a pipe in memory, of a file to be read */

	struct ahead *ahead;
	uint32_t nr_ahead, at_ahead;
	struct pev_reorder window;
	struct pev_sample_kind kinds[PEV_SAMPLE_KINDS];
	uint64_t window_bytes, limit, round_max, max_time, last_time;
	bool forcing, forced, told_odd, told_ambiguous;
	bool has_kernel;       /* a record of the kernel's came */
	bool in_round, hollow; /* one with a time, its round not over; a round was over without */

	struct pev_err damage; /* what else is wrong */
};

__attribute__((format(printf, 2, 3))) static int damaged(struct pev_reader *df,
							 const char *format, ...)
{
	char text[384];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!df->damage.code)
		pev_fail(&df->damage, -EBADMSG, "%s: %s", df->name, text);
	return -EBADMSG;
}

static void note(const struct pev_reader *df, const char *text)
{
	if (df->config.note)
		df->config.note(df->config.ctx, text);
}

static uint16_t u16_at(const struct pev_reader *df, const void *p)
{
	return pev_load16(p, df->facts.swap);
}

static uint32_t u32_at(const struct pev_reader *df, const void *p)
{
	return pev_load32(p, df->facts.swap);
}

static uint64_t u64_at(const struct pev_reader *df, const void *p)
{
	return pev_load64(p, df->facts.swap);
}

/* ---- events ---- */

/* The ids of a file's event, as many as are there. */
static int read_ids(struct pev_reader *df, struct pev_file_event *event, uint32_t number,
		    uint64_t off, uint64_t size)
{
	unsigned char buf[4096];
	uint64_t left = size / 8 * 8;

	if (off > df->facts.size || left > df->facts.size - off) {
		damaged(df,
			"file cut short at 0x%" PRIx64 ": the ids of event %u should be %" PRIu64
			" bytes from 0x%" PRIx64 " on",
			df->facts.size, number + 1, size, off);
		left = off < df->facts.size ? (df->facts.size - off) / 8 * 8 : 0;
	}
	while (left) {
		size_t want = left < sizeof(buf) ? (size_t)left : sizeof(buf);
		int64_t n = pev_blocks_read_at(&df->in.main, buf, want, off);

		if (n < 0)
			return (int)n;
		for (int64_t i = 0; i + 8 <= n; i += 8) {
			/* Sections that overlap would make of a few bytes any number of ids. */
			if (df->recorded.nr_ids + df->recorded.shared_ids > df->facts.size / 8)
				return damaged(df,
					       "the ids of event %u, at 0x%" PRIx64
					       ": more than the file has room for",
					       number + 1, off);
			if (pev_event_ids_id(&df->recorded, event, number, u64_at(df, buf + i)) < 0)
				return -ENOMEM;
		}
		if (n < (int64_t)want)
			break;
		off += want;
		left -= want;
	}
	return 0;
}

/* One entry of the section of attrs: the attr, and where its ids are. */
static int read_event(struct pev_reader *df, unsigned char *buf, uint64_t off)
{
	size_t len = (size_t)df->facts.attr_size;
	int64_t n = pev_blocks_read_at(&df->in.main, buf, len, off);
	struct pev_file_event *event;
	struct pev_err err = { 0 };
	int rc;

	if (n < 0)
		return (int)n;
	if (n < (int64_t)len)
		return damaged(df, "file cut short at 0x%" PRIx64 ", in the event at 0x%" PRIx64,
			       off + (uint64_t)n, off);
	rc = pev_event_ids_add(&df->recorded, buf, len - 16, &event, &err);
	if (rc == -ENOMEM)
		return rc;
	if (rc < 0) {
		damaged(df, "the event at 0x%" PRIx64 ": %s", off, err.text);
		return 0;
	}
	rc = read_ids(df, event, df->recorded.nr - 1, u64_at(df, buf + len - 16),
		      u64_at(df, buf + len - 8));
	return rc == -ENOMEM ? rc : 0;
}

static int read_events(struct pev_reader *df, uint64_t off, uint64_t size)
{
	uint64_t len = df->facts.attr_size;
	unsigned char *buf = malloc((size_t)len);
	int rc = 0;

	if (!buf)
		return -ENOMEM;
	if (size % len)
		damaged(df,
			"the section of events at 0x%" PRIx64 " has %" PRIu64 " bytes, no multiple "
			"of %" PRIu64,
			off, size, len);
	for (uint64_t i = 0; rc == 0 && i < size / len; i++) {
		/* off + size can be anything. */
		if (off > df->facts.size || i * len > df->facts.size - off) {
			damaged(df,
				"file cut short at 0x%" PRIx64 ": it should have %" PRIu64
				" events "
				"from 0x%" PRIx64 " on",
				df->facts.size, size / len, off);
			break;
		}
		rc = read_event(df, buf, off + i * len);
	}
	free(buf);
	return rc == -EBADMSG ? 0 : rc;
}

/* ---- sections ---- */

static struct pev_file_section *find_section(struct pev_reader *df, uint32_t id)
{
	for (uint32_t i = 0; i < df->nr_sections; i++)
		if (df->sections[i].id == id)
			return &df->sections[i];
	return NULL;
}

/* Keep what a pipe says of itself; takes bytes over. */
static void keep_section(struct pev_reader *df, uint32_t id, uint64_t offset,
			 unsigned char *bytes, uint64_t size)
{
	struct pev_file_section *section = find_section(df, id);

	if (!section && df->nr_sections <= SECTIONS_MAX)
		section = &df->sections[df->nr_sections++];
	if (!section || df->kept + size > KEPT_MAX) {
		free(bytes);
		return;
	}
	df->kept += size - (section->bytes ? section->size : 0);
	free(section->bytes);
	*section = (struct pev_file_section){ id, offset, size, bytes };
	df->news++;
}

/* What the recorder's buffers held: no COMPRESSED record inflates to more. */
static void learn_compressed(struct pev_reader *df, const unsigned char *bytes, uint64_t len)
{
	uint64_t max = len >= 20 ? u32_at(df, bytes + 16) : 0;

	df->in.main.inflate_max = max < BUFFERS_MAX ? max : BUFFERS_MAX;
}

/* Sections that overlap would make of a file any number of times its bytes. */
static bool claim(struct pev_reader *df, uint64_t off, uint64_t size)
{
	uint64_t there = off < df->facts.size ? df->facts.size - off : 0;

	if (there > size)
		there = size;
	if (there > df->facts.size - df->kept)
		return false;
	df->kept += there;
	return true;
}

static void add_section(struct pev_reader *df, uint32_t id, uint64_t off, uint64_t size)
{
	unsigned char head[20];

	df->sections[df->nr_sections++] = (struct pev_file_section){ id, off, size, NULL };
	if (!claim(df, off, size)) {
		df->sections[df->nr_sections - 1].size = 0;
		damaged(df,
			"feature %u, %" PRIu64 " bytes at 0x%" PRIx64 ", stands where others do: "
			"they have more bytes than the file",
			id, size, off);
		return;
	}
	if (off > df->facts.size || size > df->facts.size - off)
		damaged(df,
			"file cut short at 0x%" PRIx64 ": feature %u should be %" PRIu64 " bytes "
			"from 0x%" PRIx64 " on",
			df->facts.size, id, size, off);
	else if (id == PEV_FEAT_COMPRESSED && size >= sizeof(head) &&
		 pev_blocks_read_at(&df->in.main, head, sizeof(head), off) == sizeof(head))
		learn_compressed(df, head, sizeof(head));
}

/*
 * Bit n of the features: words of 64 bits, or of 32 where the recorder had such longs.
 * A little-endian one looks the same; of a big-endian one, HOSTNAME tells, which
 * every recorder writes (perf_file_header__read()).
 */
static bool has_feature(const struct pev_reader *df, const unsigned char *bitmap, unsigned n,
			unsigned bits)
{
	if (bits == 64)
		return u64_at(df, bitmap + (size_t)(n / 64) * 8) >> (n % 64) & 1;
	return u32_at(df, bitmap + (size_t)(n / 32) * 4) >> (n % 32) & 1;
}

static int read_features(struct pev_reader *df, const unsigned char *bitmap, uint64_t off)
{
	unsigned bits = has_feature(df, bitmap, PEV_FEAT_HOSTNAME, 64) ? 64 : 32;

	if (!has_feature(df, bitmap, PEV_FEAT_HOSTNAME, bits))
		bits = 64;
	for (unsigned n = 0; n < SECTIONS_MAX; n++) {
		unsigned char entry[16];
		int64_t got;

		if (!has_feature(df, bitmap, n, bits))
			continue;
		got = pev_blocks_read_at(&df->in.main, entry, sizeof(entry), off);
		if (got < 0)
			return (int)got;
		if (got < (int64_t)sizeof(entry)) {
			damaged(df, "file cut short at 0x%" PRIx64 ", in the table of features",
				df->facts.size);
			return 0;
		}
		add_section(df, n, u64_at(df, entry), u64_at(df, entry + 8));
		off += sizeof(entry);
	}
	return 0;
}

/*
 * Is there a table of features at off? A recorder promises features in its first head,
 * and writes them last: of one that was killed, a record stands there, whose size
 * makes of the first entry a place beyond any file.
 */
static bool is_table(const struct pev_reader *df, uint64_t off)
{
	unsigned char entry[16];
	uint64_t at;

	if (pev_blocks_read_at(&df->in.main, entry, sizeof(entry), off) < (int64_t)sizeof(entry))
		return false;
	at = u64_at(df, entry);
	return at > off && at <= df->facts.size;
}

/* ---- records of tools ---- */

/* After a record, len bytes of something: over it. */
static int skip_behind(struct pev_reader *df, const struct pev_piece *piece, uint64_t len,
		       const char *what)
{
	int rc = pev_blocks_skip(df->in.at, len);

	if (rc == -ENODATA)
		pev_blocks_end(df->in.at, -EBADMSG,
			       "file cut short at 0x%" PRIx64 ": the %s at 0x%" PRIx64 " should "
			       "be %" PRIu64 " bytes",
			       df->in.at->pos, what, piece->offset, len);
	else if (rc < 0)
		pev_blocks_end(df->in.at, rc, "cannot read at 0x%" PRIx64, df->in.at->pos);
	return rc;
}

static void keep_tracing_data(struct pev_reader *df, const struct pev_piece *piece, uint32_t len)
{
	uint64_t offset = piece->offset + piece->size;
	unsigned char *bytes;
	int64_t n = pev_blocks_take(df->in.at, len, &bytes);

	if (n < 0) {
		free(bytes);
		pev_blocks_end(df->in.at, (int)n, "cannot read the formats at 0x%" PRIx64 ": %s",
			       offset, strerror((int)-n));
		return;
	}
	keep_section(df, PEV_FEAT_TRACING_DATA, offset, bytes, (uint64_t)n);
	if (n < len)
		pev_blocks_end(df->in.at, -EBADMSG,
			       "file cut short at 0x%" PRIx64 ": the formats at 0x%" PRIx64
			       " should be %u bytes",
			       offset + (uint64_t)n, offset, len);
}

static void keep_feature(struct pev_reader *df, const struct pev_piece *piece)
{
	uint64_t len = piece->size - 16u, id;
	unsigned char *bytes;

	if (piece->size < 16)
		return;
	id = u64_at(df, piece->bytes + 8);
	bytes = malloc(len ? (size_t)len : 1);
	if (!bytes || id > UINT32_MAX) {
		free(bytes);
		return;
	}
	memcpy(bytes, piece->bytes + 16, (size_t)len);
	if (id == PEV_FEAT_COMPRESSED)
		learn_compressed(df, bytes, len);
	keep_section(df, (uint32_t)id, piece->offset + 16, bytes, len);
}

/* { header, attr, ids... }: of a pipe; a file has its events in its head. */
static void learn_event(struct pev_reader *df, const struct pev_piece *piece)
{
	struct pev_file_event *event;
	struct pev_err err = { 0 };
	uint32_t size;

	if (!df->facts.pipe)
		return;
	size = piece->size >= 16 ? u32_at(df, piece->bytes + 12) : 0;
	if (!size)
		size = PERF_ATTR_SIZE_VER0;
	if (size > piece->size - 8u ||
	    pev_event_ids_add(&df->recorded, piece->bytes + 8, piece->size - 8u, &event,
			      &err) < 0) {
		damaged(df, "the event at 0x%" PRIx64 ": %s", piece->offset,
			err.text[0] ? err.text : "its attr leads past its record");
		return;
	}
	for (size_t at = 8 + (size_t)size; at + 8 <= piece->size; at += 8)
		if (pev_event_ids_id(&df->recorded, event, df->recorded.nr - 1,
				     u64_at(df, piece->bytes + at)) < 0)
			return;
}

/* { header, u64 type, u64 id, name }: PERF_EVENT_UPDATE__NAME is 2. */
static void learn_update(struct pev_reader *df, const struct pev_piece *piece)
{
	struct pev_file_event *event;
	size_t len;
	char *name;

	if (piece->size <= 24 || u64_at(df, piece->bytes + 8) != 2)
		return;
	event = pev_event_ids_find(&df->recorded, u64_at(df, piece->bytes + 16));
	len = strnlen((const char *)piece->bytes + 24, piece->size - 24u);
	name = event ? strndup((const char *)piece->bytes + 24, len) : NULL;
	if (!name)
		return;
	free(event->name);
	event->name = name;
	df->news++;
}

/*
 * All that a round shows is older than what the next one can: what the round before
 * had seen may go (ordered_events__flush(), OE_FLUSH__ROUND).
 */
static void end_round(struct pev_reader *df)
{
	df->totals.rounds++;
	df->hollow |= !df->in_round;
	df->in_round = false;
	/* Of several inputs, a round of one says nothing of the others. */
	if (df->in.nr_others)
		return;
	df->limit = df->round_max;
	df->round_max = df->max_time;
}

/* Formats in a record longer than its piece: what follows it, too. */
static void learn_long_formats(struct pev_reader *df, const struct pev_piece *piece, uint32_t len)
{
	uint32_t first = piece->size - 12u;
	unsigned char *rest, *bytes;
	int64_t n = pev_blocks_take(df->in.at, piece->more, &rest);

	bytes = n == (int64_t)piece->more ? malloc(len) : NULL;
	if (bytes) {
		memcpy(bytes, piece->bytes + 12, first);
		memcpy(bytes + first, rest, len - first);
		keep_section(df, PEV_FEAT_TRACING_DATA, piece->offset + 12, bytes, len);
	} else {
		pev_blocks_end(df->in.at, n < 0 ? (int)n : -EBADMSG,
			       "cannot read the formats at 0x%" PRIx64, piece->offset);
	}
	free(rest);
}

/*
 * { header, u32 len }, and so many bytes behind the record; simpleperf has them in it, as
 * a longer one of a type of its own or, up to 2019, of perf's.
 */
static void learn_formats(struct pev_reader *df, const struct pev_piece *piece)
{
	uint64_t whole = (uint64_t)piece->size + piece->more;
	uint32_t len = piece->size >= 12 ? u32_at(df, piece->bytes + 8) : 0;
	unsigned char *bytes;

	if (!len || whole < 12 + (uint64_t)len) {
		if (len && piece->type == PEV_USER_TRACING_DATA)
			keep_tracing_data(df, piece, len);
		else
			skip_behind(df, piece, piece->more, "record");
		return;
	}
	if (len > piece->size - 12u) {
		learn_long_formats(df, piece, len);
		return;
	}
	skip_behind(df, piece, piece->more, "record");
	bytes = malloc(len);
	if (!bytes)
		return;
	memcpy(bytes, piece->bytes + 12, len);
	keep_section(df, PEV_FEAT_TRACING_DATA, piece->offset + 12, bytes, len);
}

/* { header, u64 nr, { u64 event, u64 id } x nr }: of events that came later, a CPU's for one. */
static void learn_ids(struct pev_reader *df, const struct pev_piece *piece)
{
	for (size_t at = 16; at + 16 <= piece->size; at += 16) {
		uint64_t n = u64_at(df, piece->bytes + at);

		if (n < df->recorded.nr &&
		    pev_event_ids_id(&df->recorded, df->recorded.events[n], (uint32_t)n,
				     u64_at(df, piece->bytes + at + 8)) < 0)
			return;
	}
	df->news++;
}

/* Act on a record of tools. What is wrong ends the reading behind it. */
static void obey(struct pev_reader *df, const struct pev_piece *piece)
{
	if (piece->more && piece->type != PEV_SIMPLEPERF_TRACING_DATA)
		skip_behind(df, piece, piece->more, "record");
	switch (piece->type) {
	case PEV_USER_ATTR: learn_event(df, piece); break;
	case PEV_USER_EVENT_UPDATE: learn_update(df, piece); break;
	case PEV_USER_FEATURE: keep_feature(df, piece); break;
	case PEV_USER_FINISHED_ROUND: end_round(df); break;
	case PEV_USER_TRACING_DATA:
	case PEV_SIMPLEPERF_TRACING_DATA: learn_formats(df, piece); break;
	case PEV_SIMPLEPERF_EVENT_ID: learn_ids(df, piece); break;
	case PEV_USER_AUXTRACE:
		if (piece->size < 16)
			break;
		df->totals.auxtrace += u64_at(df, piece->bytes + 8);
		skip_behind(df, piece, u64_at(df, piece->bytes + 8), "AUX data");
		break;
	case PEV_USER_COMPRESSED:
	case PEV_USER_COMPRESSED2: pev_blocks_inflate(df->in.at, piece); break;
	}
}

/* ---- handing out ---- */

/*
 * The kernel writes LOST_SAMPLES for losses of the hardware. A recorder writes it at its end for
 * the count that read(2) returns, which includes the LOST records, or for records that a filter
 * dropped.
 */
static void count_lost_samples(struct pev_reader *df, const struct pev_file_record *out)
{
	uint64_t lost = u64_at(df, out->bytes + 8);

	if (!out->synthesised) {
		df->totals.lost_samples += lost;
	} else if (!(pev_load16(out->bytes + 4, df->recorded.swap) & PEV_MISC_LOST_SAMPLES_BPF)) {
		df->read_lost += lost;
		df->totals.lost_read = true;
	}
}

static void count_type(struct pev_reader *df, const struct pev_file_record *out)
{
	struct pev_reader_totals *totals = &df->totals;

	if (out->type < sizeof(totals->types) / sizeof(totals->types[0]))
		totals->types[out->type]++;
	else
		totals->other_types++;
	if (out->type == PERF_RECORD_LOST && out->size >= 24)
		df->told_lost += u64_at(df, out->bytes + 16);
	else if (out->type == PERF_RECORD_LOST_SAMPLES && out->size >= 16)
		count_lost_samples(df, out);
}

/* So many samples, the last of that time, of a run that is plain. */
static void count_plain(struct pev_reader *df, uint64_t nr, uint64_t time)
{
	df->totals.types[PERF_RECORD_SAMPLE] += nr;
	df->last_time = time;
}

static void count_any(struct pev_reader *df, const struct pev_file_record *out)
{
	count_type(df, out);
	if (!out->time || df->config.unordered)
		return;
	df->totals.late += out->time < df->last_time;
	df->last_time = out->time > df->last_time ? out->time : df->last_time;
}

/* Those that were taken since the last time. */
static void count_taken(struct pev_reader *df)
{
	const struct pev_file_record *out = df->counted, *end = df->run.at;

	df->totals.records += (uint64_t)(end - out);
	if (df->is_plain && out < end)
		count_plain(df, (uint64_t)(end - out), end[-1].time);
	for (; !df->is_plain && out < end; out++)
		count_any(df, out);
	df->counted = end;
}

static void fill_out(const struct pev_piece *piece, const struct pev_plan *plan, uint32_t event,
		     uint64_t time, struct pev_file_record *out)
{
	*out = (struct pev_file_record){
		.bytes = piece->bytes,
		.plan = plan,
		.time = time,
		.offset = piece->offset,
		.type = piece->type,
		.event = event,
		.size = piece->size,
	};
}

/* So many references are the run's. */
static void keep(struct pev_reader *df, struct pev_block *block, uint32_t nr)
{
	struct held *last = df->held + df->nr_held;

	if (df->nr_held && last[-1].block == block)
		last[-1].nr += nr;
	else if (nr)
		df->held[df->nr_held++] = (struct held){ block, nr };
}

static void hold(struct pev_reader *df, struct pev_block *block)
{
	block->refs++;
	keep(df, block, 1);
}

static int user_record(struct pev_reader *df, const struct pev_piece *piece,
		       struct pev_file_record *out)
{
	hold(df, piece->block);
	fill_out(piece, &df->recorded.plain, PEV_NO_EVENT, 0, out);
	obey(df, piece);
	return 1;
}

static int put_in_window(struct pev_reader *df, const struct pev_piece *piece, uint32_t event,
			 uint64_t time)
{
	struct pev_reorder_item item = { time, piece->bytes, piece->block->index, event,
					 (uint16_t)piece->type, piece->size };

	if (pev_reorder_add(&df->window, &item) < 0)
		return pev_blocks_end(df->in.at, -ENOMEM,
				      "no memory to put the records at 0x%" PRIx64 " in order",
				      piece->offset);
	piece->block->refs++;
	df->window_bytes += piece->size + sizeof(item);
	if (time > df->max_time)
		df->max_time = time;
	if (df->in.nr_others)
		pev_input_files_passed(&df->in, time);
	return 0;
}

/*
 * MMAP of the kernel itself, pid -1: { header, pid, tid, addr, len, pgoff, [MMAP2's], name }.
 * Behind the name's bracket is a symbol, and pgoff is its address; modules and
 * recorders that do not say so have none (perf_event__synthesize_kernel_mmap()).
 */
static void learn_kernel(struct pev_reader *df, const struct pev_piece *piece)
{
	static const char kernel[] = "[kernel.kallsyms]";
	size_t at = piece->type == PERF_RECORD_MMAP2 ? 72 : 40, len = sizeof(kernel) - 1;
	const char *name = (const char *)piece->bytes + at;

	if (df->facts.kernel_symbol[0] || piece->size <= at + len ||
	    u32_at(df, piece->bytes + 8) != UINT32_MAX || memcmp(name, kernel, len) != 0)
		return;
	name += len;
	len = strnlen(name, piece->size - at - len);
	if (len >= sizeof(df->facts.kernel_symbol))
		return;
	memcpy(df->facts.kernel_symbol, name, len);
	df->facts.kernel_addr = u64_at(df, piece->bytes + 32);
}

/* What is no reason to stop, told at the first one. */
static void look_odd(struct pev_reader *df, const struct pev_piece *piece)
{
	char text[160];

	if (piece->size % 8 && !df->told_odd) {
		df->told_odd = true;
		snprintf(text, sizeof(text),
			 "the record at 0x%" PRIx64 " (type %u) has %u bytes, no multiple of 8 as "
			 "the kernel's have",
			 piece->offset, piece->type, piece->size);
		note(df, text);
	}
	if (df->recorded.ambiguous && !df->told_ambiguous) {
		df->told_ambiguous = true;
		snprintf(text, sizeof(text),
			 "the sample at 0x%" PRIx64 " has no id that tells which of %u events it "
			 "is of: such samples have no event, and no fields",
			 piece->offset, df->recorded.nr);
		note(df, text);
	}
}

static inline const struct pev_plan *plan_of(const struct pev_reader *df, uint32_t event,
					     uint32_t type)
{
	return event == PEV_NO_EVENT ? pev_event_ids_plan(&df->recorded, type) :
				       &df->recorded.events[event]->plan;
}

/* A record of the kernel: at once (1) or into the window (0). */
static int kernel_record(struct pev_reader *df, const struct pev_piece *piece,
			 struct pev_file_record *out)
{
	const struct pev_piece *written = piece;
	const struct pev_plan *plan;
	struct pev_piece trimmed;
	uint32_t event;
	uint64_t time;

	if (PEV_RARELY(pev_record_may_overstate(piece->type))) {
		trimmed = *piece;
		pev_event_ids_trim(&df->recorded, &trimmed);
		written = &trimmed;
	}
	event = pev_event_ids_choose(&df->recorded, written);
	plan = plan_of(df, event, piece->type);
	time = pev_event_ids_time(plan, written);
	if (piece->type == PERF_RECORD_MMAP || piece->type == PERF_RECORD_MMAP2)
		learn_kernel(df, piece);
	df->has_kernel = true;
	df->in_round |= time != 0;
	if (piece->size % 8 || df->recorded.ambiguous)
		look_odd(df, piece);
	if (time && !df->config.unordered)
		return put_in_window(df, piece, event, time);
	hold(df, piece->block);
	fill_out(piece, plan, event, time, out);
	out->synthesised = !time && pev_event_ids_synthesised(&df->recorded, plan, written);
	return 1;
}

/* Of each input a block or two are there, whatever is in the window. */
static bool is_full(const struct pev_reader *df)
{
	return df->window_bytes > df->config.window ||
	       df->in.pool.bytes > 2 * df->config.window +
					   (4 + df->in.nr_others / 4) * PEV_LANES_BLOCK;
}

/* The window is full before a round was: half of it goes. */
static bool is_forced(struct pev_reader *df)
{
	if (df->forcing) {
		df->forcing = df->window_bytes > df->config.window / 2;
		return df->forcing;
	}
	if (!is_full(df))
		return false;
	df->forcing = true;
	df->totals.forced++;
	if (df->forced || df->in.nr_others)
		return true;
	df->forced = true;
	note(df,
	     df->totals.rounds
		     ? "a round of the recorder's is longer than the window: records are put in "
		       "order within the window alone"
		     : "the recording has no FINISHED_ROUND marks: records are put in order within "
		       "a window of bytes");
	return true;
}

/*
 * Items of the window, at least one, as records that are handed out, the run's from that place
 * on; their references go along. Most are of the event, and in the block, of the one before.
 */
static void from_items(struct pev_reader *df, const struct pev_reorder_item *item, uint32_t nr,
		       struct pev_file_record *out)
{
	const struct pev_reorder_item *end = item + nr, *of = item, *in = item;
	const struct pev_plan *plan = plan_of(df, of->event, of->type);
	struct pev_block *block = df->in.pool.blocks[in->block];
	uint64_t last = out > df->records ? out[-1].time : df->last_time;
	bool is_plain = of->type == PERF_RECORD_SAMPLE;
	size_t bytes = nr * sizeof(*item);

	for (; item < end; item++, out++) {
		if (item->block != in->block) {
			keep(df, block, (uint32_t)(item - in));
			block = df->in.pool.blocks[item->block];
			in = item;
		}
		if (item->event != of->event || item->type != of->type) {
			plan = plan_of(df, item->event, item->type);
			is_plain = is_plain && item->type == PERF_RECORD_SAMPLE;
			of = item;
		}
		/* They are looked at when others have been: by then they are near. */
		__builtin_prefetch(item->bytes);
		__builtin_prefetch(item->bytes + 64);
		*out = (struct pev_file_record){
			.bytes = item->bytes,
			.plan = plan,
			.time = item->time,
			.offset = block->base +
				  (block->inflated ? 0 : (uint64_t)(item->bytes - block->bytes)),
			.type = item->type,
			.event = item->event,
			.size = item->size,
		};
		is_plain = is_plain && item->time >= last;
		last = item->time;
		bytes += item->size;
	}
	keep(df, block, (uint32_t)(end - in));
	df->window_bytes -= bytes;
	df->is_plain = df->is_plain && is_plain;
}

/* How many of the window's may go at once, up to which time. */
static uint32_t may_go(struct pev_reader *df, uint64_t *limit)
{
	if (!df->window.live)
		return 0;
	*limit = df->in.done ? UINT64_MAX : df->limit;
	if (pev_reorder_first(&df->window) <= *limit)
		return RUN_MAX;
	*limit = UINT64_MAX;
	return is_forced(df);
}

/* The window's oldest records, those that may go: how many. */
static uint32_t from_window(struct pev_reader *df)
{
	struct pev_reorder_item items[RUN_MAX];
	uint32_t nr = 0, some;
	uint64_t limit;

	df->is_plain = true;
	while (nr < RUN_MAX && (some = may_go(df, &limit)) > 0) {
		if (some > RUN_MAX - nr)
			some = RUN_MAX - nr;
		some = pev_reorder_take(&df->window, limit, items, some);
		if (some)
			from_items(df, items, some, &df->records[nr]);
		nr += some;
	}
	df->is_plain = df->is_plain && nr;
	return nr;
}

/* The next piece of the input at hand: 1; 0 to go on; -ENODATA at its end. */
static int next_piece(struct pev_reader *df, struct pev_piece *piece)
{
	struct pev_blocks *in = df->in.at;
	int rc;

	if (in->done)
		return -ENODATA;
	if (in->packed) {
		rc = pev_blocks_inflated(in, piece);
		if (rc == 0) {
			pev_pool_put(in->pool, in->packed, 1);
			in->packed = NULL;
			return 0;
		}
	} else {
		rc = pev_blocks_record(in, piece);
		if (rc == 0 && pev_block_lane_rest(&in->inflated))
			pev_blocks_end(in, -EBADMSG,
				       "what is compressed ends inside of a record, in the one "
				       "at 0x%" PRIx64,
				       in->src_offset);
	}
	return rc > 0 ? 1 : -ENODATA;
}

/* The samples that come next, as far as they extend the window's last run. */
static void take_samples(struct pev_reader *df)
{
	struct pev_blocks *in = df->in.at;
	struct pev_block_lane *lane = in->packed ? &in->inflated : &in->raw;
	struct pev_reorder_item *items;
	uint32_t nr = pev_reorder_room(&df->window, &items);
	struct pev_block *block = lane->cur;
	struct pev_sample_run samples;

	/* Of several inputs, which one is next is asked after each record. */
	if (!nr || !block || df->in.nr_others || df->config.unordered)
		return;
	samples = (struct pev_sample_run){
		.kinds = df->kinds,
		.at = block->bytes + lane->pos,
		.end = block->bytes + block->len,
		.since = df->window.last,
		.block = block->index,
		/* What cannot fill it: the item of the smallest sample is twice as large. */
		.room = (df->config.window - df->window_bytes) / 3,
	};
	nr = pev_sample_run_take(&samples, &df->recorded, items, nr);
	if (!nr)
		return;
	df->window_bytes += (size_t)(samples.at - block->bytes) - lane->pos + nr * sizeof(*items);
	lane->pos = (size_t)(samples.at - block->bytes);
	block->refs += nr;
	pev_reorder_extend(&df->window, nr);
	if (df->window.last > df->max_time)
		df->max_time = df->window.last;
}

/*
 * On through the input: 1 for a record that goes out at once, 0 when the window may have one.
 * That is after a mark, or a record older than the last one.
 */
static int step(struct pev_reader *df, struct pev_file_record *out)
{
	struct pev_piece piece;
	int rc;

	while ((rc = next_piece(df, &piece)) > 0) {
		if (piece.type >= PEV_USER_ATTR)
			return user_record(df, &piece, out);
		if (kernel_record(df, &piece, out) > 0)
			return 1;
		if (df->window.last <= df->limit || is_full(df) || df->in.done)
			return 0;
		take_samples(df);
		if (is_full(df))
			return 0;
	}
	if (rc < 0)
		pev_input_files_ended(&df->in);
	return 0;
}

/*
 * A pipe can be cut between two records, and nothing says how long it should be. But what
 * perf has drained it ends with FINISHED_ROUND, what was there before with FINISHED_INIT
 * (5.19), and features stand before both (4.16); of recorders that mark nothing, only that
 * something was recorded is known. perf inject passes marks on at once, and records later:
 * then a mark comes that ends nothing, and the last one means as little.
 */
static void look_cut(struct pev_reader *df)
{
	bool begun = df->totals.types[PEV_USER_FINISHED_INIT];
	bool marks = df->totals.rounds || df->nr_sections;
	uint64_t at = df->in.main.pos;

	if (!df->facts.pipe || df->in.main.end.code || df->damage.code)
		return;
	if (!df->has_kernel && !begun)
		damaged(df, "file cut short at 0x%" PRIx64 ": before any record of the kernel's",
			at);
	else if (marks && df->in_round && !df->hollow)
		damaged(df,
			"file cut short at 0x%" PRIx64 ": its recorder was not done with a round",
			at);
	else if (marks && !df->totals.rounds && !begun)
		damaged(df, "file cut short at 0x%" PRIx64 ": its recorder had not begun", at);
}

static int finish(const struct pev_reader *df, struct pev_err *err)
{
	const struct pev_err *why = pev_input_files_failure(&df->in);

	if (!why)
		why = &df->damage;
	return why->code ? pev_fail(err, why->code, "%s", why->text) : 0;
}

/* What is not in the window yet: how many records, 0 at the end, or -errno. */
static int read_on(struct pev_reader *df, struct pev_err *err)
{
	uint32_t nr;

	if (df->at_ahead < df->nr_ahead) {
		const struct ahead *ahead = &df->ahead[df->at_ahead++];

		keep(df, ahead->block, 1);
		df->records[0] = ahead->record;
		return 1;
	}
	do {
		if (df->in.done) {
			look_cut(df);
			return finish(df, err);
		}
		if (step(df, &df->records[0]) > 0)
			return 1;
		nr = from_window(df);
	} while (!nr);
	return (int)nr;
}

/* The run is over. */
static void let_go(struct pev_reader *df)
{
	while (df->nr_held) {
		const struct held *held = &df->held[--df->nr_held];

		pev_pool_put(&df->in.pool, held->block, held->nr);
	}
}

int pev_reader_more(struct pev_reader *df, struct pev_err *err)
{
	int nr;

	count_taken(df);
	let_go(df);
	nr = (int)from_window(df);
	if (!nr)
		nr = read_on(df, err);
	df->run.at = df->run.end = df->counted = df->records;
	if (nr <= 0)
		return nr;
	df->run.end += nr;
	return 1;
}

struct pev_file_run *pev_reader_run(struct pev_reader *df) { return &df->run; }

int pev_reader_next(struct pev_reader *df, struct pev_file_record *out, struct pev_err *err)
{
	int rc = df->run.at == df->run.end ? pev_reader_more(df, err) : 1;

	if (rc > 0)
		*out = *df->run.at++;
	return rc;
}

int pev_reader_locate_any(struct pev_reader *df, const struct pev_file_record *from,
			  struct pev_record *rec, struct pev_err *err)
{
	struct pev_err why;

	/* A sample that could be any event's has no field that we could be sure of. */
	if (from->plan == &df->recorded.plain && from->type == PERF_RECORD_SAMPLE) {
		*rec = (struct pev_record){
			.bytes = from->bytes,
			.plan = from->plan,
			.type = from->type,
			.misc = u16_at(df, from->bytes + 4),
			.size = from->size,
			.end = from->size,
		};
		return 0;
	}
	if (pev_record_locate(rec, from->plan, from->bytes, from->size, &why) == 0)
		return 0;
	df->totals.malformed++;
	return pev_fail(err, -EBADMSG, "at 0x%" PRIx64 ": %s", from->offset, why.text);
}

/* ---- opening ---- */

static int open_input(struct pev_reader *df, const char *path, int fd, struct pev_err *err)
{
	const struct pev_sys *sys = df->in.main.sys;

	df->own_fd = true;
	if (fd < 0 && strcmp(path, "-") == 0) {
		fd = 0;
		df->own_fd = false;
	}
	if (fd < 0)
		fd = sys->open(sys->ctx, path, O_RDONLY);
	if (fd < 0)
		return pev_fail(err, fd, "%s: %s", df->name, strerror(-fd));
	df->in.main.fd = fd;
	return 0;
}

/* In the place of a directory: its file "data", which describes them all. */
static int enter_directory(struct pev_reader *df, struct pev_err *err)
{
	const struct pev_sys *sys = df->in.main.sys;
	size_t len = strlen(df->name) + sizeof("/data");
	char *path = malloc(len);
	int fd;

	if (!path)
		return pev_fail(err, -ENOMEM, "%s: no memory", df->name);
	snprintf(path, len, "%s/data", df->name);
	fd = sys->open(sys->ctx, path, O_RDONLY);
	if (fd < 0) {
		free(path);
		return pev_fail(err, fd == -ENOENT ? -EISDIR : fd,
				fd == -ENOENT ? "%s: a directory, and no recording: perf record "
						"--threads makes one with a file 'data' in it"
					      : "%s: its file 'data': %s",
				df->name, strerror(-fd));
	}
	if (df->own_fd)
		sys->close(sys->ctx, df->in.main.fd);
	df->own_fd = true;
	df->in.main.fd = fd;
	df->directory = df->name;
	df->in.main.name = df->name = path;
	return 0;
}

/* The first bytes, by pread if there is a place to read from. */
static int64_t read_start(struct pev_reader *df, unsigned char *head, size_t len)
{
	struct pev_blocks *in = &df->in.main;
	int64_t n = in->sys->pread(in->sys->ctx, in->fd, head, len, 0);
	size_t got = 0;

	in->seekable = n != -ESPIPE;
	if (n < 0 && in->seekable)
		return n;
	while (got < len) {
		n = pev_blocks_read(in, head + got, len - got);
		if (n < 0)
			return n;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (int64_t)got;
}

static int fail_start(struct pev_reader *df, int64_t n, struct pev_err *err)
{
	if (n < 0)
		return pev_fail(err, (int)n, "%s: cannot be read: %s", df->name, strerror((int)-n));
	if (n == 0)
		return pev_fail(err, -EBADMSG, "%s: empty: file cut short at 0x0, before its head",
				df->name);
	return pev_fail(err, -EBADMSG, "%s: file cut short at 0x%" PRIx64 ", in its head", df->name,
			(uint64_t)n);
}

/* Magic and size tell the byte order: PERFILE2 is written as a number, PERFFILE as a string. */
static int read_magic(struct pev_reader *df, const unsigned char *head, struct pev_err *err)
{
	bool reversed = memcmp(head, "2ELIFREP", 8) == 0;
	bool same = memcmp(head, "PERFILE2", 8) == 0;
	uint64_t size = pev_load64(head + 8, false);

	df->facts.version = 2;
	if (memcmp(head, "PERFFILE", 8) == 0) {
		df->facts.version = 1;
		/* Of either byte order; a size below 2^32 has its zeros at one end. */
		df->facts.swap = size > UINT32_MAX;
	} else if (same || reversed) {
		/* The number's first byte is its lowest where "PERFILE2" can be read. */
		df->facts.swap = same == NATIVE_BIG;
	} else if (memcmp(head, "\x1f\x8b", 2) == 0 || memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0) {
		return pev_fail(err, -EBADMSG,
				"%s: packed as a whole; unpack it into a file first, as in "
				"%s FILE",
				df->name, head[0] == 0x1f ? "gzip -dk" : "zstd -d");
	} else {
		return pev_fail(err, -EBADMSG, "%s: no recording: it does not begin with PERFILE2",
				df->name);
	}
	df->facts.big_endian = df->facts.swap != NATIVE_BIG;
	df->recorded.plain.swap = df->recorded.swap = df->in.main.swap = df->facts.swap;
	return 0;
}

static int read_file_head(struct pev_reader *df, struct pev_err *err)
{
	struct pev_reader_facts *facts = &df->facts;
	unsigned char head[HEAD_FILE] = { 0 };
	uint64_t size, data_size;
	bool killed;
	int64_t n;
	int rc;

	if (!df->in.main.seekable)
		return pev_fail(err, -ESPIPE,
				"%s: a file's recording through a pipe, but what describes "
				"its records stands behind them; give the file's path, or record "
				"with -o -",
				df->name);
	n = pev_blocks_read_at(&df->in.main, head, sizeof(head), 0);
	size = u64_at(df, head + 8);
	/* A head of 72 bytes is older than feature sections (2009). */
	if (n >= 0 && n < (int64_t)size)
		return fail_start(df, n, err);
	if (n < 0)
		return fail_start(df, n, err);
	facts->attr_size = u64_at(df, head + 16);
	facts->data = u64_at(df, head + 40);
	data_size = u64_at(df, head + 48);
	if (facts->attr_size < PERF_ATTR_SIZE_VER0 + 16 || facts->attr_size > ATTR_MAX)
		return pev_fail(err, -EBADMSG,
				"%s: at 0x10: an event of %" PRIu64 " bytes, must be 80 "
				"to %u",
				df->name, facts->attr_size, ATTR_MAX);
	facts->data_end =
		facts->data + data_size < facts->data ? UINT64_MAX : facts->data + data_size;
	killed = data_size == 0 && !is_table(df, facts->data);
	rc = read_events(df, u64_at(df, head + 24), u64_at(df, head + 32));
	if (rc == 0 && size == HEAD_FILE && !killed)
		rc = read_features(df, head + 72, facts->data_end);
	if (rc < 0)
		return pev_fail(err, rc, "%s: %s", df->name, strerror(-rc));
	/* Names of configs, as recorders had them up to 3.10. */
	if (u64_at(df, head + 64) && size == HEAD_FILE)
		add_section(df, PEV_FEAT_EVENT_TYPES, u64_at(df, head + 56), u64_at(df, head + 64));
	if (killed) {
		facts->data_end = 0;
		damaged(df,
			"its head at 0x30 says that there are no records, as when the recorder was "
			"killed: all to the end at 0x%" PRIx64 " was read",
			facts->size);
	}
	df->in.main.limit = facts->data_end;
	df->in.main.pos = facts->data;
	return 0;
}

/* All that a pipe says before the kernel's first record, so that its events are known. */
static int look_ahead(struct pev_reader *df)
{
	uint32_t cap = 0;
	int64_t type = 0;

	while (!df->in.main.done && type != PEV_USER_FINISHED_INIT && df->nr_ahead < AHEAD_MAX) {
		struct ahead *ahead = df->ahead;
		struct pev_piece piece;

		type = pev_blocks_peek(&df->in.main);
		if (type < 0) /* which record it is that cannot be read */
			pev_blocks_record(&df->in.main, &piece);
		if (type < PEV_USER_ATTR || type == PEV_USER_AUXTRACE ||
		    type == PEV_USER_COMPRESSED || type == PEV_USER_COMPRESSED2)
			break;
		if (pev_blocks_record(&df->in.main, &piece) <= 0)
			break;
		if (df->nr_ahead == cap) {
			cap = cap ? 2 * cap : 32;
			ahead = realloc(ahead, sizeof(*ahead) * cap);
			if (!ahead)
				return -ENOMEM;
			df->ahead = ahead;
		}
		user_record(df, &piece, &ahead[df->nr_ahead].record);
		ahead[df->nr_ahead++].block = df->held[--df->nr_held].block;
	}
	return 0;
}

static int read_head(struct pev_reader *df, struct pev_err *err)
{
	unsigned char head[HEAD_PIPE];
	int64_t n = read_start(df, head, sizeof(head));
	int rc;

	if (n == -EISDIR) {
		rc = enter_directory(df, err);
		if (rc < 0)
			return rc;
		n = read_start(df, head, sizeof(head));
	}
	if (n < 8)
		return fail_start(df, n, err);
	rc = read_magic(df, head, err);
	if (rc < 0)
		return rc;
	if (n < (int64_t)sizeof(head))
		return fail_start(df, n, err);
	if (df->in.main.seekable)
		df->facts.size = df->in.main.size = pev_blocks_file_size(&df->in.main);
	if (u64_at(df, head + 8) == HEAD_PIPE) {
		df->facts.pipe = true;
		df->facts.data = HEAD_PIPE;
		rc = look_ahead(df);
		if (rc < 0)
			return pev_fail(err, rc, "%s: %s", df->name, strerror(-rc));
	} else if (u64_at(df, head + 8) == HEAD_FILE || u64_at(df, head + 8) == 72) {
		rc = read_file_head(df, err);
		if (rc == 0 && df->directory)
			rc = pev_input_files_open(&df->in, df->directory, err);
		if (rc < 0)
			return rc;
		df->facts.size = pev_input_files_size(&df->in);
	} else {
		return pev_fail(err, -EBADMSG,
				"%s: at 0x8: a head of %" PRIu64 " bytes, must be 16 or "
				"104",
				df->name, u64_at(df, head + 8));
	}
	df->facts.files = 1 + df->in.nr_others;
	if (df->recorded.nr)
		return 0;
	if (finish(df, err) < 0)
		return err ? err->code : -EBADMSG;
	return pev_fail(err, -EBADMSG, "%s: no event in it, up to 0x%" PRIx64, df->name,
			df->facts.pipe ? pev_blocks_offset(&df->in.main) : df->facts.data);
}

int pev_reader_open(struct pev_reader **out, const struct pev_sys *sys, const char *path,
		    int fd, const struct pev_reader_config *config, struct pev_err *err)
{
	struct pev_reader *df = calloc(1, sizeof(*df));
	int rc;

	*out = NULL;
	if (df)
		df->name = strdup(fd < 0 && strcmp(path, "-") == 0 ? "standard input" : path);
	if (!df || !df->name) {
		free(df);
		return pev_fail(err, -ENOMEM, "%s: no memory", path);
	}
	df->in.at = &df->in.main;
	df->in.main.pool = &df->in.pool;
	df->in.main.sys = sys;
	df->in.main.name = df->name;
	df->in.main.fd = -1;
	if (config)
		df->config = *config;
	df->in.main.get_inflate = df->config.inflate;
	df->in.main.ctx = df->config.ctx;
	if (!df->config.window)
		df->config.window = WINDOW_DEFAULT;
	if (df->config.window < WINDOW_MIN)
		df->config.window = WINDOW_MIN;
	rc = open_input(df, path, fd, err);
	if (rc == 0)
		rc = read_head(df, err);
	if (rc < 0) {
		pev_reader_close(df);
		return rc;
	}
	*out = df;
	return 0;
}

void pev_reader_close(struct pev_reader *df)
{
	if (!df)
		return;
	if (df->own_fd && df->in.main.fd >= 0)
		df->in.main.sys->close(df->in.main.sys->ctx, df->in.main.fd);
	for (uint32_t i = 0; i < df->nr_sections; i++)
		free(df->sections[i].bytes);
	pev_reorder_free(&df->window);
	pev_input_files_close(&df->in);
	pev_event_ids_free(&df->recorded);
	free(df->ahead);
	free(df->directory);
	free(df->name);
	free(df);
}

/* ---- what is known ---- */

const struct pev_reader_facts *pev_reader_facts(const struct pev_reader *df)
{
	return &df->facts;
}

const struct pev_reader_totals *pev_reader_totals(struct pev_reader *df)
{
	count_taken(df);
	pev_input_files_count(&df->in, &df->totals.bytes, &df->totals.compressed,
			      &df->totals.inflated);
	df->totals.blocks = df->in.pool.peak;
	df->totals.lost = df->totals.lost_read ? df->read_lost : df->told_lost;
	df->totals.unknown_id = df->recorded.unknown_id;
	df->totals.ambiguous = df->recorded.ambiguous;
	df->totals.shared_ids = df->recorded.shared_ids;
	return &df->totals;
}

uint32_t pev_reader_events(const struct pev_reader *df) { return df->recorded.nr; }

uint32_t pev_reader_number(const struct pev_reader *df, uint64_t id)
{
	return pev_event_ids_number(&df->recorded, id);
}

const struct pev_file_event *pev_reader_event(const struct pev_reader *df, uint32_t n)
{
	return n < df->recorded.nr ? df->recorded.events[n] : NULL;
}

uint64_t pev_reader_news(const struct pev_reader *df) { return df->news; }

void pev_reader_stacks(struct pev_reader *df, uint32_t n, const struct pev_stack_form *form)
{
	if (n < df->recorded.nr)
		df->recorded.events[n]->plan.stack = *form;
}

void pev_reader_narrow(struct pev_reader *df, bool narrow)
{
	pev_event_ids_narrow(&df->recorded, narrow);
}

uint32_t pev_reader_sections(const struct pev_reader *df) { return df->nr_sections; }

const struct pev_file_section *pev_reader_section_at(const struct pev_reader *df, uint32_t n)
{
	return n < df->nr_sections ? &df->sections[n] : NULL;
}

int64_t pev_reader_section(struct pev_reader *df, uint32_t n, uint64_t off, void *buf,
			   size_t len)
{
	const struct pev_file_section *section = pev_reader_section_at(df, n);

	if (!section)
		return -EINVAL;
	if (off >= section->size)
		return 0;
	if (len > section->size - off)
		len = (size_t)(section->size - off);
	if (section->bytes) {
		memcpy(buf, section->bytes + off, len);
		return (int64_t)len;
	}
	if (section->offset > df->in.main.size || off > df->in.main.size - section->offset)
		return 0;
	return pev_blocks_read_at(&df->in.main, buf, len, section->offset + off);
}

const char *pev_reader_damage(const struct pev_reader *df)
{
	const struct pev_err *failure = pev_input_files_failure(&df->in);

	if (failure)
		return failure->text;
	return df->damage.code ? df->damage.text : NULL;
}
