/* blocks.c - reads the input into blocks, and inflates COMPRESSED records; see blocks.h. */
#include "perfdata/blocks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK PEV_BLOCK_BYTES
#define HEADER_MAX 65535u /* largest value of header.size */
#define PIECE_MAX 65528u  /* of a longer record that is returned */

int pev_blocks_stop(struct pev_blocks *input, int code, const char *format, ...)
{
	char text[384]; /* message without the input's name */
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	input->done = true;
	return pev_fail(&input->end, code, "%s: %s", input->name, text);
}

static uint16_t u16_at(const struct pev_blocks *input, const void *p)
{
	return pev_load16(p, input->swap);
}

static uint32_t u32_at(const struct pev_blocks *input, const void *p)
{
	return pev_load32(p, input->swap);
}

static uint64_t u64_at(const struct pev_blocks *input, const void *p)
{
	return pev_load64(p, input->swap);
}

/* ---- the input ---- */

int64_t pev_blocks_read(struct pev_blocks *input, void *buf, size_t len)
{
	const struct pev_sys *sys = input->sys;
	int64_t n = input->seekable ? sys->pread(sys->ctx, input->fd, buf, len, input->pos)
				    : sys->read(sys->ctx, input->fd, buf, len);

	if (n > 0) {
		input->pos += (uint64_t)n;
		input->bytes += (uint64_t)n;
	}
	return n;
}

int64_t pev_blocks_read_at(const struct pev_blocks *input, void *buf, size_t len, uint64_t off)
{
	const struct pev_sys *sys = input->sys;
	size_t got = 0;

	/* pread() refuses offsets from 2^63 on. */
	if (off >= input->size)
		return 0;
	while (got < len) {
		int64_t n =
			sys->pread(sys->ctx, input->fd, (char *)buf + got, len - got, off + got);

		if (n < 0)
			return n;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (int64_t)got;
}

static bool has_byte(const struct pev_blocks *input, uint64_t off)
{
	char byte;

	return input->sys->pread(input->sys->ctx, input->fd, &byte, 1, off) == 1;
}

/* Doubles an offset until the byte is missing, then halves the interval. */
uint64_t pev_blocks_file_size(const struct pev_blocks *input)
{
	uint64_t low = 0, high = 1 << 16; /* the first low bytes exist, byte high does not */

	while (high < UINT64_C(1) << 62 && has_byte(input, high)) {
		low = high + 1;
		high *= 2;
	}
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (has_byte(input, middle))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ---- blocks ---- */

static size_t pool_block(const struct pev_pool *pool) { return pool->block ? pool->block : BLOCK; }

static void block_free(struct pev_pool *pool, struct pev_block *block)
{
	pool->bytes -= block->cap;
	free(block->bytes);
	free(block);
}

void pev_pool_recycle(struct pev_pool *pool, struct pev_block *block)
{
	pool->blocks[block->index] = NULL;
	if (block->cap == pool_block(pool) && pool->nr_spare < PEV_BLOCKS_SPARE)
		pool->spare[pool->nr_spare++] = block;
	else
		block_free(pool, block);
}

static int block_slot(struct pev_pool *pool)
{
	struct pev_block **blocks;
	uint32_t i = 0;

	while (i < pool->nr_blocks && pool->blocks[i])
		i++;
	if (i < pool->nr_blocks)
		return (int)i;
	blocks = realloc(pool->blocks, sizeof(struct pev_block *) * (i + 16));
	if (!blocks)
		return -ENOMEM;
	memset(&blocks[i], 0, sizeof(struct pev_block *) * 16);
	pool->blocks = blocks;
	pool->nr_blocks = i + 16;
	return (int)i;
}

static struct pev_block *block_new(struct pev_pool *pool, size_t cap)
{
	struct pev_block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	block->bytes = malloc(cap);
	if (!block->bytes) {
		free(block);
		return NULL;
	}
	block->cap = cap;
	pool->bytes += cap;
	if (pool->bytes > pool->peak)
		pool->peak = pool->bytes;
	return block;
}

struct pev_block *pev_pool_get(struct pev_pool *pool, size_t cap)
{
	int slot = block_slot(pool);
	struct pev_block *block;

	if (slot < 0)
		return NULL;
	if (pool->nr_spare && cap <= pool_block(pool))
		block = pool->spare[--pool->nr_spare];
	else
		block = block_new(pool, cap);
	if (!block)
		return NULL;
	block->len = 0;
	block->refs = 1;
	block->index = (uint32_t)slot;
	pool->blocks[slot] = block;
	return block;
}

void pev_pool_set_block(struct pev_pool *pool, size_t bytes)
{
	while (pool->nr_spare)
		block_free(pool, pool->spare[--pool->nr_spare]);
	pool->block = bytes;
}

void pev_pool_free(struct pev_pool *pool)
{
	for (uint32_t i = 0; i < pool->nr_blocks; i++)
		if (pool->blocks[i])
			block_free(pool, pool->blocks[i]);
	while (pool->nr_spare)
		block_free(pool, pool->spare[--pool->nr_spare]);
	free(pool->blocks);
	*pool = (struct pev_pool){ 0 };
}

/* ---- lanes ---- */

/* Makes room for need contiguous bytes at the lane's position. Unread bytes move along. */
static int lane_room(struct pev_blocks *input, struct pev_block_lane *lane, size_t need,
		     size_t want, uint64_t base)
{
	size_t rest = pev_block_lane_rest(lane);
	struct pev_block *block = lane->cur;

	if (block && !rest && block->refs == 1) {
		block->len = lane->pos = 0;
		block->base = base;
	}
	if (block && lane->pos + need <= block->cap)
		return 0;
	block = pev_pool_get(input->pool, want > need ? want : need);
	if (!block)
		return -ENOMEM;
	block->inflated = lane == &input->inflated;
	block->base = rest && !block->inflated ? lane->cur->base + lane->pos : base;
	block->len = rest;
	if (rest)
		memcpy(block->bytes, lane->cur->bytes + lane->pos, rest);
	pev_pool_release(input->pool, lane->cur, 1);
	lane->cur = block;
	lane->pos = 0;
	return 0;
}

/* Returns the number of unread bytes of records in the input; UINT64_MAX: unknown. */
static uint64_t raw_left(const struct pev_blocks *input)
{
	uint64_t end = input->limit;

	if (input->seekable && (!end || end > input->size))
		end = input->size;
	if (!end)
		return UINT64_MAX;
	return end > input->pos ? end - input->pos : 0;
}

/* Reads until need contiguous bytes are in the lane. Returns their number, fewer at the end. */
static int64_t raw_fill(struct pev_blocks *input, size_t need)
{
	struct pev_block_lane *lane = &input->raw;
	uint64_t left = raw_left(input);
	size_t limit = pool_block(input->pool);
	int rc;

	if (pev_block_lane_rest(lane) >= need)
		return (int64_t)pev_block_lane_rest(lane);
	rc = lane_room(input, lane, need, left < limit ? (size_t)left : limit, input->pos);
	while (rc == 0 && pev_block_lane_rest(lane) < need) {
		struct pev_block *block = lane->cur;
		size_t want = block->cap - block->len;
		int64_t n;

		left = raw_left(input);
		if (left < want)
			want = (size_t)left;
		n = want ? pev_blocks_read(input, block->bytes + block->len, want) : 0;
		if (n < 0)
			return n;
		if (n == 0)
			break;
		block->len += (size_t)n;
	}
	return rc < 0 ? rc : (int64_t)pev_block_lane_rest(lane);
}

uint64_t pev_blocks_offset(const struct pev_blocks *input)
{
	return input->raw.cur ? input->raw.cur->base + input->raw.pos : input->pos;
}

/* Reports an input that ends inside a record. */
static int report_cut_record(struct pev_blocks *input, const char *inside)
{
	uint64_t at = pev_blocks_offset(input), end = at + pev_block_lane_rest(&input->raw);
	const unsigned char *p = input->raw.cur->bytes + input->raw.pos;
	size_t rest = pev_block_lane_rest(&input->raw);
	char record_text[96] = "";

	if (rest >= 8)
		snprintf(record_text, sizeof(record_text), " (type %u, %u bytes)", u32_at(input, p),
			 u16_at(input, p + 6));
	/* If the file has shrunk, the end of the input is before the limit too. */
	if (input->limit && input->limit == end)
		return pev_blocks_stop(input, -EBADMSG,
				       "the record at 0x%" PRIx64 "%s extends past the end of the "
				       "records at 0x%" PRIx64,
				       at, record_text, end);
	return pev_blocks_stop(input, -EBADMSG,
			       "file cut short at 0x%" PRIx64 ", in %s at 0x%" PRIx64 "%s", end,
			       inside, at, record_text);
}

/* Checks at the end of the input that all records were there, as the file header says. */
static int check_end(struct pev_blocks *input)
{
	if (input->limit && input->pos < input->limit)
		return pev_blocks_stop(input, -EBADMSG,
				       "file cut short at 0x%" PRIx64 ": its records should "
				       "extend to 0x%" PRIx64,
				       input->pos < input->size ? input->pos : input->size,
				       input->limit);
	return 0;
}

/*
 * Returns the length of the record at p. Records of simpleperf's own types have a length of 32
 * bits: the upper half replaces misc (simpleperf_record_header in its record.h). They occur in
 * files only. If that length exceeds the input, another tool uses this type, and misc is misc.
 */
static uint32_t record_len(const struct pev_blocks *input, const unsigned char *p)
{
	uint32_t size = u16_at(input, p + 6);
	uint64_t whole = size | (uint64_t)u16_at(input, p + 4) << 16;

	if (!input->seekable || u32_at(input, p) <= PEV_BLOCKS_SIMPLEPERF ||
	    whole > pev_block_lane_rest(&input->raw) + raw_left(input))
		return size;
	return (uint32_t)whole;
}

static void take_piece(struct pev_blocks *input, struct pev_block_lane *lane, uint16_t size,
		       struct pev_piece *piece)
{
	piece->block = lane->cur;
	piece->bytes = lane->cur->bytes + lane->pos;
	piece->offset = lane->cur->base + (lane->cur->inflated ? 0 : lane->pos);
	piece->size = size;
	piece->more = 0;
	piece->type = u32_at(input, piece->bytes);
	lane->pos += size;
}

int64_t pev_blocks_peek_type(struct pev_blocks *input)
{
	int64_t n = raw_fill(input, sizeof(struct perf_event_header));

	if (n < 0)
		return n;
	if (n < (int64_t)sizeof(struct perf_event_header))
		return -ENODATA;
	return u32_at(input, input->raw.cur->bytes + input->raw.pos);
}

/* Fast path: a record of the kernel that is complete in the block. */
static bool take_kernel_record(struct pev_blocks *input, struct pev_piece *piece)
{
	size_t rest = pev_block_lane_rest(&input->raw);
	const unsigned char *p;
	uint16_t size;

	if (rest < sizeof(struct perf_event_header))
		return false;
	p = input->raw.cur->bytes + input->raw.pos;
	size = u16_at(input, p + 6);
	if (size < sizeof(struct perf_event_header) || size > rest ||
	    u32_at(input, p) > PEV_BLOCKS_SIMPLEPERF)
		return false;
	take_piece(input, &input->raw, size, piece);
	return true;
}

int pev_blocks_next_record(struct pev_blocks *input, struct pev_piece *piece)
{
	const unsigned char *p;
	uint32_t len;
	uint16_t size;
	int64_t n;

	if (take_kernel_record(input, piece))
		return 1;
	n = raw_fill(input, sizeof(struct perf_event_header));
	if (n < 0)
		return pev_blocks_stop(input, (int)n, "cannot read at 0x%" PRIx64, input->pos);
	if (n == 0)
		return check_end(input);
	if (n < (int64_t)sizeof(struct perf_event_header))
		return report_cut_record(input, "a record's header");
	p = input->raw.cur->bytes + input->raw.pos;
	len = record_len(input, p);
	size = len > HEADER_MAX ? PIECE_MAX : (uint16_t)len;
	if (size < sizeof(struct perf_event_header))
		return pev_blocks_stop(
			input, -EBADMSG,
			"the record at 0x%" PRIx64 " (type %u) has a size of %u "
			"bytes, but a record has at least 8: the next record cannot be found",
			pev_blocks_offset(input), u32_at(input, p), size);
	n = raw_fill(input, size);
	if (n < 0)
		return pev_blocks_stop(input, (int)n, "cannot read at 0x%" PRIx64, input->pos);
	if (n < size)
		return report_cut_record(input, "the record");
	take_piece(input, &input->raw, size, piece);
	piece->more = len - size;
	return 1;
}

int pev_blocks_skip(struct pev_blocks *input, uint64_t len)
{
	size_t rest = pev_block_lane_rest(&input->raw);
	char sink[16384];

	if (len <= rest) {
		input->raw.pos += (size_t)len;
		return 0;
	}
	len -= rest;
	pev_pool_release(input->pool, input->raw.cur, 1);
	input->raw = (struct pev_block_lane){ 0 };
	if (input->seekable) {
		uint64_t left = raw_left(input);

		input->pos += len < left ? len : left;
		return len <= left ? 0 : -ENODATA;
	}
	while (len) {
		int64_t n = pev_blocks_read(input, sink,
					    len < sizeof(sink) ? (size_t)len : sizeof(sink));

		if (n <= 0)
			return n < 0 ? (int)n : -ENODATA;
		len -= (uint64_t)n;
	}
	return 0;
}

int64_t pev_blocks_copy_bytes(struct pev_blocks *input, uint64_t len, unsigned char **bytes)
{
	uint64_t got = 0;
	size_t cap = 0;

	*bytes = NULL;
	while (got < len) {
		size_t want = len - got < 32768 ? (size_t)(len - got) : 32768;
		int64_t n = raw_fill(input, want);
		unsigned char *p;

		if (n < 0)
			return n;
		if (n == 0)
			break;
		if ((uint64_t)n < want)
			want = (size_t)n;
		if (got + want > cap) {
			if (got + want > SIZE_MAX / 2)
				return -ENOMEM;
			cap = 2 * (size_t)(got + want);
			p = realloc(*bytes, cap);
			if (!p)
				return -ENOMEM;
			*bytes = p;
		}
		memcpy(*bytes + got, input->raw.cur->bytes + input->raw.pos, want);
		input->raw.pos += want;
		got += want;
	}
	return (int64_t)got;
}

/* ---- COMPRESSED records ---- */

/* Limit for the next COMPRESSED record; HEADER_MAX covers the part of a record carried over. */
static uint64_t inflate_left(const struct pev_blocks *input)
{
	uint64_t limit = (input->inflate_max ? input->inflate_max : PEV_INFLATE_BYTES) + HEADER_MAX;
	uint64_t limit_all = PEV_INFLATE_BYTES + PEV_INFLATE_RATIO * input->compressed;
	uint64_t left = limit_all > input->unpacked ? limit_all - input->unpacked : 0;

	return left < limit ? left : limit;
}

int pev_blocks_start_inflate(struct pev_blocks *input, const struct pev_piece *piece)
{
	size_t head = piece->type == PEV_BLOCKS_COMPRESSED2 ? 16 : 8;
	uint64_t len = piece->size - head;
	struct pev_err err = { 0 };

	if (piece->size < head)
		return pev_blocks_stop(input, -EBADMSG,
				       "the record at 0x%" PRIx64 " (COMPRESSED2) has %u bytes, "
				       "needs 16",
				       piece->offset, piece->size);
	if (head == 16 && u64_at(input, piece->bytes + 8) > len)
		return pev_blocks_stop(input, -EBADMSG,
				       "the record at 0x%" PRIx64
				       " (COMPRESSED2) should hold %" PRIu64 " bytes, has %" PRIu64,
				       piece->offset, u64_at(input, piece->bytes + 8), len);
	if (head == 16)
		len = u64_at(input, piece->bytes + 8);
	if (!input->inflate && input->get_inflate)
		input->inflate = input->get_inflate(input->ctx, &err);
	if (!input->inflate)
		return pev_blocks_stop(
			input, -ENOSYS, "the records from 0x%" PRIx64 " on are compressed: %s",
			piece->offset, err.text[0] ? err.text : "no decompressor was given");
	if (!input->stream)
		input->stream = input->inflate->open();
	if (!input->stream)
		return pev_blocks_stop(input, -ENOMEM,
				       "no memory to decompress the record at 0x%" PRIx64,
				       piece->offset);
	input->packed = piece->block;
	input->packed->refs++;
	input->src = piece->bytes + head;
	input->src_len = (size_t)len;
	input->src_offset = piece->offset;
	input->compressed += piece->size;
	input->inflate_left = inflate_left(input);
	return 0;
}

static int64_t inflated_fill(struct pev_blocks *input, size_t need)
{
	struct pev_block_lane *lane = &input->inflated;
	struct pev_err err = { 0 };

	while (pev_block_lane_rest(lane) < need) {
		struct pev_block *block;
		int64_t n;

		if (lane_room(input, lane, need, pool_block(input->pool), input->src_offset) < 0)
			return pev_blocks_stop(input, -ENOMEM,
					       "no memory to decompress the record at 0x%" PRIx64,
					       input->src_offset);
		block = lane->cur;
		n = input->inflate->run(input->stream, &input->src, &input->src_len,
					block->bytes + block->len, block->cap - block->len, &err);
		if (n < 0)
			return pev_blocks_stop(input, (int)n,
					       "the compressed record at 0x%" PRIx64 ": %s",
					       input->src_offset, err.text);
		if (n == 0)
			break;
		block->len += (size_t)n;
		input->unpacked += (uint64_t)n;
		if ((uint64_t)n > input->inflate_left)
			return pev_blocks_stop(
				input, -EBADMSG,
				"the compressed record at 0x%" PRIx64 " inflates to "
				"more bytes than the recorder's buffer: perf did not write it",
				input->src_offset);
		input->inflate_left -= (uint64_t)n;
	}
	return (int64_t)pev_block_lane_rest(lane);
}

int pev_blocks_next_inflated(struct pev_blocks *input, struct pev_piece *piece)
{
	int64_t n = inflated_fill(input, sizeof(struct perf_event_header));
	const unsigned char *p;
	uint16_t size;

	if (n < (int64_t)sizeof(struct perf_event_header))
		return n < 0 ? (int)n : 0;
	p = input->inflated.cur->bytes + input->inflated.pos;
	size = u16_at(input, p + 6);
	if (size < sizeof(struct perf_event_header))
		return pev_blocks_stop(
			input, -EBADMSG,
			"a record inside the compressed one at 0x%" PRIx64
			" (type %u) has a size of %u bytes, but a record has at least 8",
			input->src_offset, u32_at(input, p), size);
	n = inflated_fill(input, size);
	if (n < size)
		return n < 0 ? (int)n : 0;
	take_piece(input, &input->inflated, size, piece);
	switch (piece->type) {
	case PEV_BLOCKS_COMPRESSED:
	case PEV_BLOCKS_COMPRESSED2:
	case PEV_BLOCKS_AUXTRACE:
	case PEV_BLOCKS_TRACING_DATA:
		return pev_blocks_stop(
			input, -EBADMSG,
			"a record of type %u inside the compressed one at 0x%" PRIx64
			": not allowed there",
			piece->type, input->src_offset);
	}
	return 1;
}

void pev_blocks_free(struct pev_blocks *input)
{
	if (input->stream)
		input->inflate->close(input->stream);
	free(input->skips);
}
