/*
 * reader_open.c - opens a recording, reads its head, returns its facts; see reader.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"
#include "perfdata/record_stream.h"

#define NATIVE_BIG (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)
#define WINDOW_DEFAULT ((size_t)32 << 20)
#define WINDOW_MIN ((size_t)1 << 16)
#define ATTR_MAX 65536u

enum { HEAD_FILE = 104, HEAD_PIPE = 16, AHEAD_MAX = 65536 };

/* ---- events ---- */

/* Reads the ids of an event, up to the end of the file. */
static int read_ids(struct pev_reader *reader, struct pev_file_event *event, uint32_t number,
		    uint64_t off, uint64_t size)
{
	unsigned char buf[4096];
	uint64_t left = size / 8 * 8;

	if (off > reader->facts.size || left > reader->facts.size - off) {
		pev_reader_add_damage(reader,
				      "file cut short at 0x%" PRIx64
				      ": the ids of event %u should be %" PRIu64
				      " bytes from 0x%" PRIx64 " on",
				      reader->facts.size, number + 1, size, off);
		left = off < reader->facts.size ? (reader->facts.size - off) / 8 * 8 : 0;
	}
	while (left) {
		size_t want = left < sizeof(buf) ? (size_t)left : sizeof(buf);
		int64_t n = pev_blocks_read_at(&reader->inputs.main, buf, want, off);

		if (n < 0)
			return (int)n;
		for (int64_t i = 0; i + 8 <= n; i += 8) {
			/* Overlapping sections can reuse a few bytes as any number of ids. */
			if (reader->event_ids.nr_ids + reader->event_ids.shared_ids >
			    reader->facts.size / 8)
				return pev_reader_add_damage(reader,
							     "the ids of event %u, at 0x%" PRIx64
							     ": more ids than fit in the file",
							     number + 1, off);
			if (pev_event_ids_add_id(&reader->event_ids, event, number,
						 pev_reader_u64(reader, buf + i)) < 0)
				return -ENOMEM;
		}
		if (n < (int64_t)want)
			break;
		off += want;
		left -= want;
	}
	return 0;
}

/* Reads an entry of the section of events: an attr, and the offset and size of its ids. */
static int read_event(struct pev_reader *reader, unsigned char *buf, uint64_t off)
{
	size_t len = (size_t)reader->facts.attr_size;
	int64_t n = pev_blocks_read_at(&reader->inputs.main, buf, len, off);
	struct pev_file_event *event;
	struct pev_err err = { 0 };
	int rc;

	if (n < 0)
		return (int)n;
	if (n < (int64_t)len)
		return pev_reader_add_damage(
			reader, "file cut short at 0x%" PRIx64 ", in the event at 0x%" PRIx64,
			off + (uint64_t)n, off);
	rc = pev_event_ids_add(&reader->event_ids, buf, len - 16, &event, &err);
	if (rc == -ENOMEM)
		return rc;
	if (rc < 0) {
		pev_reader_add_damage(reader, "the event at 0x%" PRIx64 ": %s", off, err.text);
		return 0;
	}
	rc = read_ids(reader, event, reader->event_ids.nr - 1,
		      pev_reader_u64(reader, buf + len - 16),
		      pev_reader_u64(reader, buf + len - 8));
	return rc == -ENOMEM ? rc : 0;
}

static int read_events(struct pev_reader *reader, uint64_t off, uint64_t size)
{
	uint64_t len = reader->facts.attr_size;
	unsigned char *buf = malloc((size_t)len);
	int rc = 0;

	if (!buf)
		return -ENOMEM;
	if (size % len)
		pev_reader_add_damage(reader,
				      "the section of events at 0x%" PRIx64 " has %" PRIu64
				      " bytes, not a multiple of %" PRIu64,
				      off, size, len);
	for (uint64_t i = 0; rc == 0 && i < size / len; i++) {
		/* off + size may overflow. */
		if (off > reader->facts.size || i * len > reader->facts.size - off) {
			pev_reader_add_damage(reader,
					      "file cut short at 0x%" PRIx64
					      ": it should have %" PRIu64
					      " events from 0x%" PRIx64 " on",
					      reader->facts.size, size / len, off);
			break;
		}
		rc = read_event(reader, buf, off + i * len);
	}
	free(buf);
	return rc == -EBADMSG ? 0 : rc;
}

/* ---- features ---- */

/*
 * True if bit n of the features is set. The words have 64 bits, or 32 on a recorder with longs of
 * 32 bits. The two differ in a big-endian file only: there the bit of HOSTNAME decides, which
 * every recorder sets (perf_file_header__read()).
 */
static bool has_feature(const struct pev_reader *reader, const unsigned char *bitmap, unsigned n,
			unsigned bits)
{
	if (bits == 64)
		return pev_reader_u64(reader, bitmap + (size_t)(n / 64) * 8) >> (n % 64) & 1;
	return pev_reader_u32(reader, bitmap + (size_t)(n / 32) * 4) >> (n % 32) & 1;
}

static int read_features(struct pev_reader *reader, const unsigned char *bitmap, uint64_t off)
{
	unsigned bits = has_feature(reader, bitmap, PEV_FEAT_HOSTNAME, 64) ? 64 : 32;

	if (!has_feature(reader, bitmap, PEV_FEAT_HOSTNAME, bits))
		bits = 64;
	for (unsigned n = 0; n < PEV_READER_SECTIONS_MAX; n++) {
		unsigned char entry[16];
		int64_t got;

		if (!has_feature(reader, bitmap, n, bits))
			continue;
		got = pev_blocks_read_at(&reader->inputs.main, entry, sizeof(entry), off);
		if (got < 0)
			return (int)got;
		if (got < (int64_t)sizeof(entry)) {
			pev_reader_add_damage(
				reader, "file cut short at 0x%" PRIx64 ", in the table of features",
				reader->facts.size);
			return 0;
		}
		pev_reader_add_section(reader, n, pev_reader_u64(reader, entry),
				       pev_reader_u64(reader, entry + 8));
		off += sizeof(entry);
	}
	return 0;
}

/*
 * True if off is a table of features. A recorder sets the bits in its first head and writes the
 * table last. If it was killed, off is a record instead, and its header read as the first entry's
 * offset is larger than any file.
 */
static bool has_feature_table(const struct pev_reader *reader, uint64_t off)
{
	unsigned char entry[16];
	uint64_t first;

	if (pev_blocks_read_at(&reader->inputs.main, entry, sizeof(entry), off) <
	    (int64_t)sizeof(entry))
		return false;
	first = pev_reader_u64(reader, entry);
	return first > off && first <= reader->facts.size;
}

/* ---- the head of a file ---- */

static int fail_head(const struct pev_reader *reader, int64_t n, struct pev_err *err)
{
	if (n < 0)
		return pev_fail(err, (int)n, "%s: cannot be read: %s", reader->name,
				strerror((int)-n));
	if (n == 0)
		return pev_fail(err, -EBADMSG, "%s: empty: file cut short at 0x0, before its head",
				reader->name);
	return pev_fail(err, -EBADMSG, "%s: file cut short at 0x%" PRIx64 ", in its head",
			reader->name, (uint64_t)n);
}

static int read_file_head(struct pev_reader *reader, struct pev_err *err)
{
	struct pev_reader_facts *facts = &reader->facts;
	unsigned char head[HEAD_FILE] = { 0 };
	uint64_t size, data_size;
	bool killed;
	int64_t n;
	int rc;

	if (!reader->inputs.main.seekable)
		return pev_fail(err, -ESPIPE,
				"%s: a perf.data file cannot be read through a pipe, because "
				"its features follow its records; give the file's path, or record "
				"with -o -",
				reader->name);
	n = pev_blocks_read_at(&reader->inputs.main, head, sizeof(head), 0);
	size = pev_reader_u64(reader, head + 8);
	/* A head of 72 bytes (2009) has no feature sections. */
	if (n >= 0 && n < (int64_t)size)
		return fail_head(reader, n, err);
	if (n < 0)
		return fail_head(reader, n, err);
	facts->attr_size = pev_reader_u64(reader, head + 16);
	facts->data = pev_reader_u64(reader, head + 40);
	data_size = pev_reader_u64(reader, head + 48);
	if (facts->attr_size < PERF_ATTR_SIZE_VER0 + 16 || facts->attr_size > ATTR_MAX)
		return pev_fail(err, -EBADMSG,
				"%s: at 0x10: an event of %" PRIu64 " bytes, must be 80 "
				"to %u",
				reader->name, facts->attr_size, ATTR_MAX);
	facts->data_end =
		facts->data + data_size < facts->data ? UINT64_MAX : facts->data + data_size;
	killed = data_size == 0 && !has_feature_table(reader, facts->data);
	rc = read_events(reader, pev_reader_u64(reader, head + 24),
			 pev_reader_u64(reader, head + 32));
	if (rc == 0 && size == HEAD_FILE && !killed)
		rc = read_features(reader, head + 72, facts->data_end);
	if (rc < 0)
		return pev_fail(err, rc, "%s: %s", reader->name, strerror(-rc));
	/* The names of configs, which recorders wrote up to 3.10. */
	if (pev_reader_u64(reader, head + 64) && size == HEAD_FILE)
		pev_reader_add_section(reader, PEV_FEAT_EVENT_TYPES,
				       pev_reader_u64(reader, head + 56),
				       pev_reader_u64(reader, head + 64));
	if (killed) {
		facts->data_end = 0;
		pev_reader_add_damage(
			reader,
			"its head at 0x30 gives 0 bytes of records, as when the recorder was "
			"killed: all bytes up to the end at 0x%" PRIx64 " were read",
			facts->size);
	}
	reader->inputs.main.limit = facts->data_end;
	reader->inputs.main.pos = facts->data;
	return 0;
}

/* ---- open ---- */

static int open_input(struct pev_reader *reader, const char *path, int fd, struct pev_err *err)
{
	const struct pev_sys *sys = reader->inputs.main.sys;

	reader->own_fd = true;
	if (fd < 0 && strcmp(path, "-") == 0) {
		fd = 0;
		reader->own_fd = false;
	}
	if (fd < 0)
		fd = sys->open(sys->ctx, path, O_RDONLY);
	if (fd < 0)
		return pev_fail(err, fd, "%s: %s", reader->name, strerror(-fd));
	reader->inputs.main.fd = fd;
	return 0;
}

/* Opens the file "data" of a directory. Its head is the head of the directory's other files. */
static int enter_directory(struct pev_reader *reader, struct pev_err *err)
{
	const struct pev_sys *sys = reader->inputs.main.sys;
	size_t len = strlen(reader->name) + sizeof("/data");
	char *path = malloc(len);
	int fd;

	if (!path)
		return pev_fail(err, -ENOMEM, "%s: no memory", reader->name);
	snprintf(path, len, "%s/data", reader->name);
	fd = sys->open(sys->ctx, path, O_RDONLY);
	if (fd < 0) {
		free(path);
		return pev_fail(err, fd == -ENOENT ? -EISDIR : fd,
				fd == -ENOENT ? "%s: a directory, not a recording: it has no file "
						"'data', as perf record --threads writes it"
					      : "%s: its file 'data': %s",
				reader->name, strerror(-fd));
	}
	if (reader->own_fd)
		sys->close(sys->ctx, reader->inputs.main.fd);
	reader->own_fd = true;
	reader->inputs.main.fd = fd;
	reader->directory = reader->name;
	reader->inputs.main.name = reader->name = path;
	return 0;
}

/* Reads the first len bytes, and finds whether the input is seekable. */
static int64_t read_start(struct pev_reader *reader, unsigned char *head, size_t len)
{
	struct pev_blocks *input = &reader->inputs.main;
	int64_t n = input->sys->pread(input->sys->ctx, input->fd, head, len, 0);
	size_t got = 0;

	input->seekable = n != -ESPIPE;
	if (n < 0 && input->seekable)
		return n;
	while (got < len) {
		n = pev_blocks_read(input, head + got, len - got);
		if (n < 0)
			return n;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (int64_t)got;
}

/* Finds the byte order: the recorder writes PERFILE2 as a number. */
static int read_magic(struct pev_reader *reader, const unsigned char *head, struct pev_err *err)
{
	bool reversed = memcmp(head, "2ELIFREP", 8) == 0;
	bool same = memcmp(head, "PERFILE2", 8) == 0;
	uint64_t size = pev_load64(head + 8, false);

	reader->facts.version = 2;
	if (memcmp(head, "PERFFILE", 8) == 0) {
		reader->facts.version = 1;
		/* The same bytes in both orders. The head's size is below 2^32 in the right one. */
		reader->facts.swap = size > UINT32_MAX;
	} else if (same || reversed) {
		/* A little-endian recorder writes the bytes "PERFILE2". */
		reader->facts.swap = same == NATIVE_BIG;
	} else if (memcmp(head, "\x1f\x8b", 2) == 0 || memcmp(head, "\x28\xb5\x2f\xfd", 4) == 0) {
		return pev_fail(err, -EBADMSG,
				"%s: a compressed file; decompress it first, as in "
				"%s FILE",
				reader->name, head[0] == 0x1f ? "gzip -dk" : "zstd -d");
	} else {
		return pev_fail(err, -EBADMSG,
				"%s: not a recording: it does not begin with PERFILE2",
				reader->name);
	}
	reader->facts.big_endian = reader->facts.swap != NATIVE_BIG;
	reader->event_ids.plain.swap = reader->event_ids.swap = reader->inputs.main.swap =
		reader->facts.swap;
	return 0;
}

/* Reads the records of a pipe before the kernel's first: they define the events. */
static int read_ahead(struct pev_reader *reader)
{
	uint32_t cap = 0;
	int64_t type = 0;

	while (!reader->inputs.main.done && type != PEV_USER_FINISHED_INIT &&
	       reader->nr_ahead < AHEAD_MAX) {
		struct pev_reader_batch *batch = &reader->own_batch;
		struct pev_reader_ahead *ahead;
		struct pev_piece piece;

		type = pev_blocks_peek_type(&reader->inputs.main);
		if (type < 0) /* makes the error, with the record's offset */
			pev_blocks_next_record(&reader->inputs.main, &piece);
		if (type < PEV_USER_ATTR || type == PEV_USER_AUXTRACE ||
		    type == PEV_USER_COMPRESSED || type == PEV_USER_COMPRESSED2)
			break;
		if (pev_blocks_next_record(&reader->inputs.main, &piece) <= 0)
			break;
		if (!pev_list_reserve(&reader->ahead, &cap, reader->nr_ahead + 1, sizeof(*ahead)))
			return -ENOMEM;
		ahead = &reader->ahead[reader->nr_ahead++];
		pev_reader_return_tool_record(reader, &piece, &ahead->record);
		ahead->block = batch->held[--batch->nr_held].block;
	}
	return 0;
}

static int read_head(struct pev_reader *reader, struct pev_err *err)
{
	unsigned char head[HEAD_PIPE];
	int64_t n = read_start(reader, head, sizeof(head));
	int rc;

	if (n == -EISDIR) {
		rc = enter_directory(reader, err);
		if (rc < 0)
			return rc;
		n = read_start(reader, head, sizeof(head));
	}
	if (n < 8)
		return fail_head(reader, n, err);
	rc = read_magic(reader, head, err);
	if (rc < 0)
		return rc;
	if (n < (int64_t)sizeof(head))
		return fail_head(reader, n, err);
	if (reader->inputs.main.seekable)
		reader->facts.size = reader->inputs.main.size =
			pev_blocks_file_size(&reader->inputs.main);
	if (pev_reader_u64(reader, head + 8) == HEAD_PIPE) {
		reader->facts.pipe = true;
		reader->facts.data = HEAD_PIPE;
		rc = read_ahead(reader);
		if (rc < 0)
			return pev_fail(err, rc, "%s: %s", reader->name, strerror(-rc));
	} else if (pev_reader_u64(reader, head + 8) == HEAD_FILE ||
		   pev_reader_u64(reader, head + 8) == 72) {
		rc = read_file_head(reader, err);
		if (rc == 0 && reader->directory)
			rc = pev_input_files_open(&reader->inputs, reader->directory, err);
		if (rc < 0)
			return rc;
		reader->facts.size = pev_input_files_size(&reader->inputs);
	} else {
		return pev_fail(err, -EBADMSG,
				"%s: at 0x8: a head of %" PRIu64 " bytes, must be 16 or "
				"104",
				reader->name, pev_reader_u64(reader, head + 8));
	}
	reader->facts.files = 1 + reader->inputs.nr_others;
	if (reader->event_ids.nr)
		return 0;
	if (pev_reader_failure(reader, err) < 0)
		return err ? err->code : -EBADMSG;
	return pev_fail(err, -EBADMSG, "%s: no event up to 0x%" PRIx64, reader->name,
			reader->facts.pipe ? pev_blocks_offset(&reader->inputs.main)
					   : reader->facts.data);
}

int pev_reader_open(struct pev_reader **out, const struct pev_sys *sys, const char *path, int fd,
		    const struct pev_reader_config *config, struct pev_err *err)
{
	struct pev_reader *reader = calloc(1, sizeof(*reader));
	int rc;

	*out = NULL;
	if (reader)
		reader->name = strdup(fd < 0 && strcmp(path, "-") == 0 ? "standard input" : path);
	if (!reader || !reader->name) {
		free(reader);
		return pev_fail(err, -ENOMEM, "%s: no memory", path);
	}
	reader->taken = reader->batch = &reader->own_batch;
	reader->inputs.at = &reader->inputs.main;
	reader->inputs.main.pool = &reader->inputs.pool;
	reader->inputs.main.sys = sys;
	reader->inputs.main.name = reader->name;
	reader->inputs.main.fd = -1;
	if (config)
		reader->config = *config;
	reader->inputs.main.get_inflate = reader->config.inflate;
	reader->inputs.main.ctx = reader->config.ctx;
	if (!reader->config.window)
		reader->config.window = WINDOW_DEFAULT;
	if (reader->config.window < WINDOW_MIN)
		reader->config.window = WINDOW_MIN;
	rc = open_input(reader, path, fd, err);
	if (rc == 0)
		rc = read_head(reader, err);
	if (rc < 0) {
		pev_reader_close(reader);
		return rc;
	}
	*out = reader;
	return 0;
}

void pev_reader_close(struct pev_reader *reader)
{
	if (!reader)
		return;
	pev_pipeline_close(reader->pipeline);
	if (reader->own_fd && reader->inputs.main.fd >= 0)
		reader->inputs.main.sys->close(reader->inputs.main.sys->ctx,
					       reader->inputs.main.fd);
	for (uint32_t i = 0; i < reader->nr_sections; i++)
		free(reader->sections[i].bytes);
	pev_reorder_free(&reader->window);
	pev_file_runs_free(&reader->runs);
	pev_input_files_close(&reader->inputs);
	pev_event_ids_free(&reader->event_ids);
	free(reader->thread_batches);
	free(reader->rows);
	free(reader->ahead);
	free(reader->directory);
	free(reader->name);
	free(reader);
}

/* ---- facts, totals, events ---- */

const struct pev_reader_facts *pev_reader_facts(const struct pev_reader *reader)
{
	pev_pipeline_pause(reader->pipeline);
	return &reader->facts;
}

const struct pev_reader_totals *pev_reader_totals(struct pev_reader *reader)
{
	pev_reader_count_taken(reader);
	pev_pipeline_pause(reader->pipeline);
	pev_input_files_sum(&reader->inputs, &reader->totals.bytes, &reader->totals.compressed,
			    &reader->totals.inflated);
	reader->totals.blocks = reader->inputs.pool.peak;
	reader->totals.lost =
		reader->totals.lost_read ? reader->lost_by_counts : reader->lost_by_records;
	reader->totals.unknown_id = reader->taken->unknown_id;
	reader->totals.ambiguous = reader->event_ids.ambiguous;
	reader->totals.shared_ids = reader->event_ids.shared_ids;
	return &reader->totals;
}

uint32_t pev_reader_count_events(const struct pev_reader *reader) { return reader->event_ids.nr; }

uint32_t pev_reader_find_event(const struct pev_reader *reader, uint64_t id)
{
	return pev_event_ids_number_of_id(&reader->event_ids, id);
}

const struct pev_file_event *pev_reader_event(const struct pev_reader *reader, uint32_t n)
{
	return n < reader->event_ids.nr ? reader->event_ids.events[n] : NULL;
}

uint64_t pev_reader_changes(const struct pev_reader *reader) { return reader->changes; }

void pev_reader_set_stack_form(struct pev_reader *reader, uint32_t n,
			       const struct pev_stack_form *form)
{
	pev_pipeline_pause(reader->pipeline);
	if (n < reader->event_ids.nr)
		reader->event_ids.events[n]->plan.stack = *form;
}

void pev_reader_set_32bit(struct pev_reader *reader, bool narrow)
{
	pev_pipeline_pause(reader->pipeline);
	pev_event_ids_set_narrow(&reader->event_ids, narrow);
}

const char *pev_reader_damage(const struct pev_reader *reader)
{
	const struct pev_err *failure;

	pev_pipeline_pause(reader->pipeline);
	failure = pev_input_files_failure(&reader->inputs);
	if (failure)
		return failure->text;
	return reader->damage.code ? reader->damage.text : NULL;
}
