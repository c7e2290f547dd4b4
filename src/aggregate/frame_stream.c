/*
 * frame_stream.c - frames of a stream; see frame_stream.h.
 */
#define _GNU_SOURCE /* memmem() */
#include "aggregate/frame_stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing_list.h"

#define LINE_BYTES   48 /* of a frame in a line of 64 characters */
#define PREFIX_MAX   256
#define RAW_KEPT     (1 << 20)
#define BYTES_KEPT   (2 * (size_t)PEV_FRAME_MAX)
/* Decompressed for nothing in one damaged place; then a frame is skipped whole. */
#define WASTE_MAX    (4 * (uint64_t)PEV_FRAME_RAW_MAX)

/* An armoured frame whose end is missing. */
struct block {
	uint64_t offset; /* of its begin line */
	char *prefix;
	unsigned char *bytes;
	uint32_t len, cap, prefix_len;
	uint32_t bits, nr_bits; /* read, but not a byte yet */
	int refused;            /* -errno: its bytes are dropped */
};

/* Bytes that are skipped for one reason. */
struct damage {
	bool is_open;
	uint64_t offset, end;
	struct pev_err why;
};

struct pev_frame_stream {
	unsigned char *bytes;
	size_t start, len, cap; /* bytes[start..len) are not read yet */
	uint64_t offset;        /* in the stream, of bytes[start] */
	bool is_at_end;
	bool is_in_line; /* the start of the line is dropped: it is too long */

	struct damage damage;
	uint64_t waste;    /* bytes decompressed in this damage */
	uint64_t ignored;  /* bytes of other text */
	uint64_t reported; /* frames and damages */

	struct block *blocks;
	uint32_t nr_blocks, cap_blocks;
	uint64_t blocks_len;

	unsigned char *raw;
	size_t raw_cap;
	unsigned char *held; /* the bytes of a frame that was armoured; it is valid until next() */
	bool is_ready;       /* `ready` is found, but not returned */
	size_t ready_len;    /* bytes that the caller has borrowed: dropped at the next call */
	struct pev_frame ready;
	uint64_t ready_offset;
};

struct pev_frame_stream *pev_frame_stream_new(void)
{
	return calloc(1, sizeof(struct pev_frame_stream));
}

static void free_block(struct pev_frame_stream *stream, struct block *block)
{
	stream->blocks_len -= block->len;
	free(block->prefix);
	free(block->bytes);
	*block = stream->blocks[--stream->nr_blocks];
}

void pev_frame_stream_free(struct pev_frame_stream *stream)
{
	if (!stream)
		return;
	for (uint32_t i = 0; i < stream->nr_blocks; i++) {
		free(stream->blocks[i].prefix);
		free(stream->blocks[i].bytes);
	}
	free(stream->blocks);
	free(stream->bytes);
	free(stream->raw);
	free(stream->held);
	free(stream);
}

static void drop(struct pev_frame_stream *stream, size_t len)
{
	stream->start += len;
	stream->offset += len;
}

/* Drops bytes that belong to no frame. */
static void skip(struct pev_frame_stream *stream, size_t len)
{
	drop(stream, len);
	stream->ignored += len;
	stream->damage.end = stream->offset;
}

int pev_frame_stream_feed(struct pev_frame_stream *stream, const void *bytes, size_t len)
{
	size_t left, need;

	/* The frame that next() returned last ends with this call. */
	drop(stream, stream->ready_len);
	stream->ready_len = 0;
	left = stream->len - stream->start;
	if (left && stream->start)
		memmove(stream->bytes, stream->bytes + stream->start, left);
	stream->start = 0;
	stream->len = left;
	need = left + len;
	if (need > stream->cap || (stream->cap > BYTES_KEPT && need < stream->cap / 4)) {
		size_t cap = need + need / 2 + 1; /* never 0, which would free it */
		unsigned char *grown = need < len ? NULL : realloc(stream->bytes, cap);

		if (!grown)
			return -ENOMEM;
		stream->bytes = grown;
		stream->cap = cap;
	}
	if (len)
		memcpy(stream->bytes + left, bytes, len);
	stream->len = need;
	return 0;
}

void pev_frame_stream_end(struct pev_frame_stream *stream) { stream->is_at_end = true; }

/* ---- damage ---- */

static void note_damage(struct pev_frame_stream *stream, int code, const char *why)
{
	struct damage *damage = &stream->damage;

	if (damage->is_open)
		return;
	*damage = (struct damage){ .is_open = true, .offset = stream->offset };
	pev_fail(&damage->why, code, "%s", why);
	stream->waste = 0;
}

/* Reports the damage that ends here. */
static int report_damage(struct pev_frame_stream *stream, struct pev_err *err)
{
	struct damage *damage = &stream->damage;

	damage->is_open = false;
	stream->reported++;
	return pev_fail(err, damage->why.code,
			"byte %" PRIu64 ": %s; %" PRIu64 " bytes are skipped", damage->offset,
			damage->why.text, damage->end - damage->offset);
}

static int report_block(struct pev_frame_stream *stream, struct block *block, int code,
			const char *why, struct pev_err *err)
{
	uint32_t len = block->prefix_len;
	uint64_t offset = block->offset;
	char prefix[PREFIX_MAX + 4] = "";

	if (len)
		snprintf(prefix, sizeof(prefix), " (%.*s)", (int)len, block->prefix);
	free_block(stream, block);
	stream->reported++;
	return pev_fail(err, code, "byte %" PRIu64 "%s: armoured frame: %s", offset, prefix, why);
}

/* ---- decompressing ---- */

static int decode(struct pev_frame_stream *stream, const struct pev_frame *frame,
		  struct pev_err *err)
{
	size_t need = frame->raw_len ? frame->raw_len : 1;

	if (need > stream->raw_cap || (stream->raw_cap > RAW_KEPT && need <= RAW_KEPT)) {
		free(stream->raw);
		stream->raw_cap = 0;
		stream->raw = malloc(need);
		if (!stream->raw)
			return pev_fail(err, -ENOMEM, "no memory for a frame of %zu bytes", need);
		stream->raw_cap = need;
	}
	return pev_frame_decode(frame, stream->raw, err);
}

/* ---- armour ---- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int value_of(unsigned char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	if (c == '+')
		return 62;
	return c == '/' ? 63 : -1;
}

size_t pev_armor_len(size_t len)
{
	return sizeof(PEV_ARMOR_BEGIN) + sizeof(PEV_ARMOR_END) + (len * 4 + 2) / 3 +
	       (len + LINE_BYTES - 1) / LINE_BYTES;
}

void pev_armor(const void *frame, size_t len, char *out)
{
	const unsigned char *p = frame;

	out = stpcpy(out, PEV_ARMOR_BEGIN "\n");
	for (size_t at = 0; at < len; at += 3) {
		uint32_t left = len - at < 3 ? (uint32_t)(len - at) : 3, n = (uint32_t)p[at] << 16;

		n |= left > 1 ? (uint32_t)p[at + 1] << 8 : 0;
		n |= left > 2 ? p[at + 2] : 0;
		for (uint32_t i = 0; i <= left; i++)
			*out++ = digits[n >> (18 - 6 * i) & 63];
		if ((at + 3) % LINE_BYTES == 0 || at + 3 >= len)
			*out++ = '\n';
	}
	memcpy(out, PEV_ARMOR_END "\n", sizeof(PEV_ARMOR_END));
}

static struct block *find_block(struct pev_frame_stream *stream, const unsigned char *prefix,
				size_t len)
{
	for (uint32_t i = 0; i < stream->nr_blocks; i++) {
		struct block *block = &stream->blocks[i], found;

		if (block->prefix_len != len || memcmp(block->prefix, prefix, len) != 0)
			continue;
		/* The next line is often of the same frame. */
		found = *block;
		*block = stream->blocks[0];
		stream->blocks[0] = found;
		return stream->blocks;
	}
	return NULL;
}

static int open_block(struct pev_frame_stream *stream, const unsigned char *prefix, size_t len)
{
	struct block *block;
	char *copy = malloc(len + 1);

	if (!copy || !pev_list_reserve(&stream->blocks, &stream->cap_blocks,
				       (uint64_t)stream->nr_blocks + 1, sizeof(*block))) {
		free(copy);
		return -ENOMEM;
	}
	memcpy(copy, prefix, len);
	block = &stream->blocks[stream->nr_blocks++];
	*block = (struct block){ .offset = stream->offset, .prefix = copy,
				 .prefix_len = (uint32_t)len };
	return 0;
}

/* Adds the digits of a line. */
static int extend_block(struct pev_frame_stream *stream, struct block *block,
			const unsigned char *line, size_t len)
{
	if (block->refused)
		return 0;
	if (block->len + len > PEV_FRAME_MAX || stream->blocks_len + len > PEV_ARMOR_OPEN) {
		block->refused = -E2BIG;
		return 0;
	}
	if (!pev_list_reserve(&block->bytes, &block->cap, block->len + len, 1))
		return -ENOMEM;
	stream->blocks_len -= block->len;
	for (size_t i = 0; i < len; i++) {
		block->bits = block->bits << 6 | (uint32_t)value_of(line[i]);
		block->nr_bits += 6;
		if (block->nr_bits < 8)
			continue;
		block->nr_bits -= 8;
		block->bytes[block->len++] = (unsigned char)(block->bits >> block->nr_bits);
	}
	stream->blocks_len += block->len;
	return 0;
}

/* The block ends here: 1 and the frame is ready, or its damage. */
static int close_block(struct pev_frame_stream *stream, struct block *block, struct pev_err *err)
{
	struct pev_frame frame = { 0 };
	struct pev_err why = { 0 };
	int rc;

	if (block->refused)
		return report_block(stream, block, block->refused, "it is too large", err);
	rc = block->len ? pev_frame_parse(block->bytes, block->len, &frame, &why) : 0;
	if (rc < 0)
		return report_block(stream, block, rc, why.text, err);
	if (rc == 0 || frame.len != block->len)
		return report_block(stream, block, -EBADMSG, "lines are missing or added", err);
	rc = decode(stream, &frame, &why);
	if (rc == -ENOMEM)
		return pev_fail(err, rc, "%s", why.text);
	if (rc < 0)
		return report_block(stream, block, rc, why.text, err);
	free(stream->held);
	stream->held = block->bytes;
	stream->blocks_len -= block->len;
	block->bytes = NULL;
	block->len = 0;
	stream->ready_offset = block->offset;
	free_block(stream, block);
	stream->ready = frame;
	stream->is_ready = true;
	return 1;
}

/* ---- lines ---- */

static bool is_text(const unsigned char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (line[i] < ' ' && !strchr("\t\n\r\f\b\033", line[i]))
			return false;
	return !memchr(line, 0, len);
}

static size_t without_blanks(const unsigned char *line, size_t len)
{
	while (len && strchr(" \t\r", line[len - 1]) && line[len - 1])
		len--;
	return len;
}

/* The offset of the marker at the end of the line, or PREFIX_MAX + 1. */
static size_t find_marker(const unsigned char *line, size_t len, const char *marker)
{
	size_t marker_len = strlen(marker);

	if (len < marker_len || len - marker_len > PREFIX_MAX ||
	    memcmp(line + len - marker_len, marker, marker_len) != 0)
		return PREFIX_MAX + 1;
	return len - marker_len;
}

/* 1: it was of an armoured frame. Does not drop it. */
static int read_armor(struct pev_frame_stream *stream, const unsigned char *line, size_t len,
		      struct pev_err *err)
{
	size_t begin = find_marker(line, len, PEV_ARMOR_BEGIN);
	size_t end = find_marker(line, len, PEV_ARMOR_END), at = len;
	struct block *block;
	int rc;

	if (begin <= PREFIX_MAX) {
		block = find_block(stream, line, begin);
		if (!block && stream->nr_blocks == PEV_ARMOR_BLOCKS) {
			stream->reported++;
			return pev_fail(err, -E2BIG,
					"byte %" PRIu64 ": armoured frame: %d are incomplete",
					stream->offset, PEV_ARMOR_BLOCKS);
		}
		rc = open_block(stream, line, begin);
		if (rc < 0)
			return pev_fail(err, rc, "no memory for an armoured frame");
		if (!block)
			return 1;
		/* find_block() has made it the first one; the list may have moved. */
		return report_block(stream, stream->blocks, -EBADMSG, "its end line is missing",
				    err);
	}
	if (!stream->nr_blocks)
		return 0;
	if (end <= PREFIX_MAX) {
		block = find_block(stream, line, end);
		return block ? close_block(stream, block, err) : 0;
	}
	while (at && value_of(line[at - 1]) >= 0)
		at--;
	block = at <= PREFIX_MAX ? find_block(stream, line, at) : NULL;
	if (!block)
		return 0;
	rc = extend_block(stream, block, line + at, len - at);
	return rc < 0 ? pev_fail(err, rc, "no memory for an armoured frame") : 1;
}

/* Reads a line of len bytes, its LF included. */
static int read_line(struct pev_frame_stream *stream, size_t len, struct pev_err *err)
{
	const unsigned char *line = stream->bytes + stream->start;
	size_t text = len && line[len - 1] == '\n' ? len - 1 : len;
	int rc = 0;

	if (!stream->is_in_line && text <= PEV_STREAM_LINE)
		rc = read_armor(stream, line, without_blanks(line, text), err);
	if (rc == -ENOMEM)
		return rc;
	if (rc == 0 && !is_text(line, len))
		note_damage(stream, -EBADMSG, "not a frame");
	if (rc == 0)
		skip(stream, len);
	else
		drop(stream, len);
	stream->is_in_line = false;
	return rc < 0 ? rc : stream->is_ready;
}

/* ---- frames as bytes ---- */

/* The magic number is at the start. 1: a frame is ready; 0: looks further; 2: needs more bytes. */
static int read_frame(struct pev_frame_stream *stream, struct pev_err *err)
{
	const unsigned char *p = stream->bytes + stream->start;
	size_t len = stream->len - stream->start;
	struct pev_frame frame;
	struct pev_err why = { 0 };
	int rc = pev_frame_parse(p, len, &frame, &why);

	if (rc == 0 && !stream->is_at_end)
		return 2;
	if (rc == 0) {
		char cut[80];

		snprintf(cut, sizeof(cut), "the frame is cut off: %zu bytes of %s%zu", len,
			 len < PEV_FRAME_FIXED ? "at least " : "", frame.len);
		note_damage(stream, -EBADMSG, cut);
	} else if (rc > 0) {
		rc = decode(stream, &frame, &why);
		if (rc == -ENOMEM)
			return pev_fail(err, rc, "%s", why.text);
		if (rc == 0) {
			stream->ready = frame;
			stream->ready_offset = stream->offset;
			stream->is_ready = true;
			return 1;
		}
		note_damage(stream, rc, why.text);
		stream->waste += frame.raw_len;
		if (stream->waste > WASTE_MAX) {
			skip(stream, frame.len);
			stream->waste = 0;
			return 0;
		}
	} else {
		note_damage(stream, rc, why.text);
	}
	skip(stream, 1);
	stream->is_in_line = true;
	return 0;
}

/* The first magic number in a line; the high byte of a version is 0, and text has no such byte. */
static const unsigned char *find_magic(const unsigned char *p, size_t line, size_t len)
{
	const unsigned char *end = p + line, *at = p;

	while ((at = memmem(at, (size_t)(end - at), PEV_FRAME_MAGIC, PEV_FRAME_MAGIC_LEN))) {
		if ((size_t)(at - p) + PEV_FRAME_MAGIC_LEN + 2 > len ||
		    at[PEV_FRAME_MAGIC_LEN + 1] == 0)
			return at;
		at++;
	}
	return NULL;
}

/* The largest part of the magic number at the end of the bytes. */
static size_t partial_magic(const unsigned char *p, size_t len)
{
	size_t n = len < PEV_FRAME_MAGIC_LEN - 1 ? len : PEV_FRAME_MAGIC_LEN - 1;

	while (n && memcmp(p + len - n, PEV_FRAME_MAGIC, n) != 0)
		n--;
	return n;
}

/* Reads a line or a frame. 1: a frame is ready; 0: one step further; 2: needs more bytes. */
static int step(struct pev_frame_stream *stream, struct pev_err *err)
{
	const unsigned char *p, *magic, *lf;
	size_t len = stream->len - stream->start, line;

	if (len == 0)
		return 2;
	p = stream->bytes + stream->start;
	lf = memchr(p, '\n', len);
	line = lf ? (size_t)(lf - p) + 1 : len;
	magic = find_magic(p, line, len);
	if (magic == p)
		return read_frame(stream, err);
	if (magic)
		return read_line(stream, (size_t)(magic - p), err);
	if (lf || stream->is_at_end)
		return read_line(stream, line, err);
	if (len <= PEV_STREAM_LINE)
		return 2;
	line -= partial_magic(p, len);
	if (!is_text(p, line))
		note_damage(stream, -EBADMSG, "not a frame");
	skip(stream, line);
	stream->is_in_line = true;
	return 2;
}

static int report_end(struct pev_frame_stream *stream, struct pev_err *err)
{
	if (stream->damage.is_open)
		return report_damage(stream, err);
	if (stream->nr_blocks)
		return report_block(stream, stream->blocks, -EBADMSG, "its end line is missing",
				    err);
	if (!stream->reported && stream->ignored) {
		stream->reported++;
		return pev_fail(err, -EBADMSG, "no frame in %" PRIu64 " bytes", stream->ignored);
	}
	return 0;
}

int pev_frame_stream_next(struct pev_frame_stream *stream, struct pev_frame *frame,
			  const unsigned char **raw, uint64_t *offset, struct pev_err *err)
{
	int rc = stream->is_ready;

	drop(stream, stream->ready_len);
	stream->ready_len = 0;
	while (rc == 0)
		rc = step(stream, err);
	if (rc == 2)
		return stream->is_at_end ? report_end(stream, err) : 0;
	if (rc < 0)
		return rc;
	if (stream->damage.is_open) {
		/* The caller may feed before the next call, which moves the bytes. */
		stream->is_ready = stream->ready.bytes == stream->held;
		return report_damage(stream, err);
	}
	stream->is_ready = false;
	stream->reported++;
	*frame = stream->ready;
	*raw = stream->raw;
	*offset = stream->ready_offset;
	if (frame->bytes != stream->held)
		stream->ready_len = frame->len;
	return 1;
}
