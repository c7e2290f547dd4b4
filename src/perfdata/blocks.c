/*
 * blocks.c - the input, its blocks, and the two lanes of records; see blocks.h.
 */
#include "perfdata/blocks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK PEV_LANES_BLOCK
#define HEADER_MAX 65535u /* what a record's size can say */
#define PIECE_MAX 65528u  /* of a longer one that is handed out */

/* Reading ends here. */
int pev_blocks_end(struct pev_blocks *in, int code, const char *format, ...)
{
	char text[384];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	in->done = true;
	return pev_fail(&in->end, code, "%s: %s", in->name, text);
}
static uint16_t u16_at(const struct pev_blocks *in, const void *p)
{
	return pev_load16(p, in->swap);
}

static uint32_t u32_at(const struct pev_blocks *in, const void *p)
{
	return pev_load32(p, in->swap);
}

static uint64_t u64_at(const struct pev_blocks *in, const void *p)
{
	return pev_load64(p, in->swap);
}
/* ---- the input ---- */

/* Some bytes from where we are; 0 at the end. */
int64_t pev_blocks_read(struct pev_blocks *in, void *buf, size_t len)
{
	const struct pev_sys *sys = in->sys;
	int64_t n = in->seekable ? sys->pread(sys->ctx, in->fd, buf, len, in->pos)
				 : sys->read(sys->ctx, in->fd, buf, len);

	if (n > 0) {
		in->pos += (uint64_t)n;
		in->bytes += (uint64_t)n;
	}
	return n;
}

/* As many bytes from off on as are there, at most len. */
int64_t pev_blocks_read_at(const struct pev_blocks *in, void *buf, size_t len, uint64_t off)
{
	const struct pev_sys *sys = in->sys;
	size_t got = 0;

	/* A place beyond 2^63 is none to pread() at all. */
	if (off >= in->size)
		return 0;
	while (got < len) {
		int64_t n = sys->pread(sys->ctx, in->fd, (char *)buf + got, len - got, off + got);

		if (n < 0)
			return n;
		if (n == 0)
			break;
		got += (size_t)n;
	}
	return (int64_t)got;
}

static bool has_byte(const struct pev_blocks *in, uint64_t off)
{
	char byte;

	return in->sys->pread(in->sys->ctx, in->fd, &byte, 1, off) == 1;
}

/* How long the file is, as pread alone can tell: doubled until it is not there, then halved. */
uint64_t pev_blocks_file_size(const struct pev_blocks *in)
{
	uint64_t low = 0, high = 1 << 16; /* low bytes are there, byte high is not */

	while (high < UINT64_C(1) << 62 && has_byte(in, high)) {
		low = high + 1;
		high *= 2;
	}
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (has_byte(in, middle))
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

void pev_pool_take_back(struct pev_pool *pool, struct pev_block *block)
{
	pool->blocks[block->index] = NULL;
	if (block->cap == pool_block(pool) && pool->nr_spare < PEV_LANES_SPARE)
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

/* One with room for cap bytes, and one reference. */
static struct pev_block *block_get(struct pev_pool *pool, size_t cap)
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

/* Room for need bytes in one piece from the lane's place on; what is there comes along. */
static int lane_room(struct pev_blocks *in, struct pev_block_lane *lane, size_t need, size_t want,
		     uint64_t base)
{
	size_t rest = pev_block_lane_rest(lane);
	struct pev_block *block = lane->cur;

	if (block && !rest && block->refs == 1) {
		block->len = lane->pos = 0;
		block->base = base;
	}
	if (block && lane->pos + need <= block->cap)
		return 0;
	block = block_get(in->pool, want > need ? want : need);
	if (!block)
		return -ENOMEM;
	block->inflated = lane == &in->inflated;
	block->base = rest && !block->inflated ? lane->cur->base + lane->pos : base;
	block->len = rest;
	if (rest)
		memcpy(block->bytes, lane->cur->bytes + lane->pos, rest);
	pev_pool_put(in->pool, lane->cur, 1);
	lane->cur = block;
	lane->pos = 0;
	return 0;
}

/* How many bytes of records the input has yet to give; UINT64_MAX: nobody knows. */
static uint64_t raw_left(const struct pev_blocks *in)
{
	uint64_t end = in->limit;

	if (in->seekable && (!end || end > in->size))
		end = in->size;
	if (!end)
		return UINT64_MAX;
	return end > in->pos ? end - in->pos : 0;
}

/* Have need bytes in one piece: how many are there, fewer at the end. */
static int64_t raw_fill(struct pev_blocks *in, size_t need)
{
	struct pev_block_lane *lane = &in->raw;
	uint64_t left = raw_left(in);
	size_t most = pool_block(in->pool);
	int rc;

	if (pev_block_lane_rest(lane) >= need)
		return (int64_t)pev_block_lane_rest(lane);
	rc = lane_room(in, lane, need, left < most ? (size_t)left : most, in->pos);
	while (rc == 0 && pev_block_lane_rest(lane) < need) {
		struct pev_block *block = lane->cur;
		size_t want = block->cap - block->len;
		int64_t n;

		left = raw_left(in);
		if (left < want)
			want = (size_t)left;
		n = want ? pev_blocks_read(in, block->bytes + block->len, want) : 0;
		if (n < 0)
			return n;
		if (n == 0)
			break;
		block->len += (size_t)n;
	}
	return rc < 0 ? rc : (int64_t)pev_block_lane_rest(lane);
}

uint64_t pev_blocks_offset(const struct pev_blocks *in)
{
	return in->raw.cur ? in->raw.cur->base + in->raw.pos : in->pos;
}

/* The input ends inside of something. */
static int raw_cut(struct pev_blocks *in, const char *inside)
{
	uint64_t at = pev_blocks_offset(in), end = at + pev_block_lane_rest(&in->raw);
	const unsigned char *p = in->raw.cur->bytes + in->raw.pos;
	size_t rest = pev_block_lane_rest(&in->raw);
	char what[96] = "";

	if (rest >= 8)
		snprintf(what, sizeof(what), " (type %u, %u bytes)", u32_at(in, p),
			 u16_at(in, p + 6));
	/* Of a file that has shrunk since, the end is before that too. */
	if (in->limit && in->limit == end)
		return pev_blocks_end(in, -EBADMSG,
				      "the record at 0x%" PRIx64 "%s leads past the records' end "
				      "at 0x%" PRIx64,
				      at, what, end);
	return pev_blocks_end(in, -EBADMSG,
			      "file cut short at 0x%" PRIx64 ", in %s at 0x%" PRIx64 "%s", end,
			      inside, at, what);
}

/* The input's end, between two records: is it where the head says? */
static int raw_end(struct pev_blocks *in)
{
	if (in->limit && in->pos < in->limit)
		return pev_blocks_end(in, -EBADMSG,
				      "file cut short at 0x%" PRIx64 ": its records should go "
				      "on to 0x%" PRIx64,
				      in->pos < in->size ? in->pos : in->size, in->limit);
	return 0;
}

/*
 * How long the record is whose header is at p. Those of simpleperf's own types have 32 bits
 * for it, the upper ones in the place of misc (its record.h, simpleperf_record_header), and
 * stand in files alone. What leads past the end is somebody else's type, with a misc.
 */
static uint32_t record_len(const struct pev_blocks *in, const unsigned char *p)
{
	uint32_t size = u16_at(in, p + 6);
	uint64_t whole = size | (uint64_t)u16_at(in, p + 4) << 16;

	if (!in->seekable || u32_at(in, p) <= PEV_LANES_SIMPLEPERF ||
	    whole > pev_block_lane_rest(&in->raw) + raw_left(in))
		return size;
	return (uint32_t)whole;
}

static void take_piece(struct pev_blocks *in, struct pev_block_lane *lane, uint16_t size,
		       struct pev_piece *piece)
{
	piece->block = lane->cur;
	piece->bytes = lane->cur->bytes + lane->pos;
	piece->offset = lane->cur->base + (lane->cur->inflated ? 0 : lane->pos);
	piece->size = size;
	piece->more = 0;
	piece->type = u32_at(in, piece->bytes);
	lane->pos += size;
}

/* The next header's type without stepping over it; -ENODATA when there is none. */
int64_t pev_blocks_peek(struct pev_blocks *in)
{
	int64_t n = raw_fill(in, sizeof(struct perf_event_header));

	if (n < 0)
		return n;
	if (n < (int64_t)sizeof(struct perf_event_header))
		return -ENODATA;
	return u32_at(in, in->raw.cur->bytes + in->raw.pos);
}

/* The next record where it is what nearly all are: a kernel's, and in the block as a whole. */
static bool take_at_once(struct pev_blocks *in, struct pev_piece *piece)
{
	size_t rest = pev_block_lane_rest(&in->raw);
	const unsigned char *p;
	uint16_t size;

	if (rest < sizeof(struct perf_event_header))
		return false;
	p = in->raw.cur->bytes + in->raw.pos;
	size = u16_at(in, p + 6);
	if (size < sizeof(struct perf_event_header) || size > rest ||
	    u32_at(in, p) > PEV_LANES_SIMPLEPERF)
		return false;
	take_piece(in, &in->raw, size, piece);
	return true;
}

/* The next record of the input: 1, 0 at its end, or -errno when reading has ended early. */
int pev_blocks_record(struct pev_blocks *in, struct pev_piece *piece)
{
	const unsigned char *p;
	uint32_t len;
	uint16_t size;
	int64_t n;

	if (take_at_once(in, piece))
		return 1;
	n = raw_fill(in, sizeof(struct perf_event_header));
	if (n < 0)
		return pev_blocks_end(in, (int)n, "cannot read at 0x%" PRIx64, in->pos);
	if (n == 0)
		return raw_end(in);
	if (n < (int64_t)sizeof(struct perf_event_header))
		return raw_cut(in, "a record's header");
	p = in->raw.cur->bytes + in->raw.pos;
	len = record_len(in, p);
	size = len > HEADER_MAX ? PIECE_MAX : (uint16_t)len;
	if (size < sizeof(struct perf_event_header))
		return pev_blocks_end(
			in, -EBADMSG,
			"the record at 0x%" PRIx64 " (type %u) says that it has %u "
			"bytes, but a record has at least 8: where the next one is cannot be told",
			pev_blocks_offset(in), u32_at(in, p), size);
	n = raw_fill(in, size);
	if (n < 0)
		return pev_blocks_end(in, (int)n, "cannot read at 0x%" PRIx64, in->pos);
	if (n < size)
		return raw_cut(in, "the record");
	take_piece(in, &in->raw, size, piece);
	piece->more = len - size;
	return 1;
}

/* Step over bytes that follow a record. */
int pev_blocks_skip(struct pev_blocks *in, uint64_t len)
{
	size_t rest = pev_block_lane_rest(&in->raw);
	char sink[16384];

	if (len <= rest) {
		in->raw.pos += (size_t)len;
		return 0;
	}
	len -= rest;
	pev_pool_put(in->pool, in->raw.cur, 1);
	in->raw = (struct pev_block_lane){ 0 };
	if (in->seekable) {
		uint64_t left = raw_left(in);

		in->pos += len < left ? len : left;
		return len <= left ? 0 : -ENODATA;
	}
	while (len) {
		int64_t n =
			pev_blocks_read(in, sink, len < sizeof(sink) ? (size_t)len : sizeof(sink));

		if (n <= 0)
			return n < 0 ? (int)n : -ENODATA;
		len -= (uint64_t)n;
	}
	return 0;
}

/* Bytes that follow a record, in memory that grows as they come; how many did. */
int64_t pev_blocks_take(struct pev_blocks *in, uint64_t len, unsigned char **bytes)
{
	uint64_t got = 0;
	size_t cap = 0;

	*bytes = NULL;
	while (got < len) {
		size_t want = len - got < 32768 ? (size_t)(len - got) : 32768;
		int64_t n = raw_fill(in, want);
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
		memcpy(*bytes + got, in->raw.cur->bytes + in->raw.pos, want);
		in->raw.pos += want;
		got += want;
	}
	return (int64_t)got;
}

/* ---- what is inflated ---- */

/* How much the next COMPRESSED record may hold; what was carried over is no record yet. */
static uint64_t inflate_left(const struct pev_blocks *in)
{
	uint64_t most = (in->inflate_max ? in->inflate_max : PEV_LANES_INFLATE) + HEADER_MAX;
	uint64_t all = PEV_LANES_INFLATE + PEV_LANES_RATIO * in->compressed;
	uint64_t left = all > in->unpacked ? all - in->unpacked : 0;

	return left < most ? left : most;
}

int pev_blocks_inflate(struct pev_blocks *in, const struct pev_piece *piece)
{
	size_t head = piece->type == PEV_LANES_COMPRESSED2 ? 16 : 8;
	uint64_t len = piece->size - head;
	struct pev_err err = { 0 };

	if (piece->size < head)
		return pev_blocks_end(in, -EBADMSG,
				      "the record at 0x%" PRIx64 " (COMPRESSED2) has %u bytes, "
				      "needs 16",
				      piece->offset, piece->size);
	if (head == 16 && u64_at(in, piece->bytes + 8) > len)
		return pev_blocks_end(in, -EBADMSG,
				      "the record at 0x%" PRIx64
				      " (COMPRESSED2) should hold %" PRIu64 " bytes, has %" PRIu64,
				      piece->offset, u64_at(in, piece->bytes + 8), len);
	if (head == 16)
		len = u64_at(in, piece->bytes + 8);
	if (!in->inflate && in->get_inflate)
		in->inflate = in->get_inflate(in->ctx, &err);
	if (!in->inflate)
		return pev_blocks_end(
			in, -ENOSYS, "the records from 0x%" PRIx64 " on are compressed: %s",
			piece->offset, err.text[0] ? err.text : "no decompressor was given");
	if (!in->stream)
		in->stream = in->inflate->open();
	if (!in->stream)
		return pev_blocks_end(in, -ENOMEM,
				      "no memory to decompress the record at 0x%" PRIx64,
				      piece->offset);
	in->packed = piece->block;
	in->packed->refs++;
	in->src = piece->bytes + head;
	in->src_len = (size_t)len;
	in->src_offset = piece->offset;
	in->compressed += piece->size;
	in->inflate_left = inflate_left(in);
	return 0;
}

static int64_t inflated_fill(struct pev_blocks *in, size_t need)
{
	struct pev_block_lane *lane = &in->inflated;
	struct pev_err err = { 0 };

	while (pev_block_lane_rest(lane) < need) {
		struct pev_block *block;
		int64_t n;

		if (lane_room(in, lane, need, pool_block(in->pool), in->src_offset) < 0)
			return pev_blocks_end(in, -ENOMEM,
					      "no memory to decompress the record at 0x%" PRIx64,
					      in->src_offset);
		block = lane->cur;
		n = in->inflate->run(in->stream, &in->src, &in->src_len, block->bytes + block->len,
				     block->cap - block->len, &err);
		if (n < 0)
			return pev_blocks_end(in, (int)n,
					      "the compressed record at 0x%" PRIx64 ": %s",
					      in->src_offset, err.text);
		if (n == 0)
			break;
		block->len += (size_t)n;
		in->unpacked += (uint64_t)n;
		if ((uint64_t)n > in->inflate_left)
			return pev_blocks_end(
				in, -EBADMSG,
				"the compressed record at 0x%" PRIx64 " holds more "
				"than its recorder's buffer could: it is none of perf's",
				in->src_offset);
		in->inflate_left -= (uint64_t)n;
	}
	return (int64_t)pev_block_lane_rest(lane);
}

/* The next record of what is inflated: 1, or 0 when the input has to go on. */
int pev_blocks_inflated(struct pev_blocks *in, struct pev_piece *piece)
{
	int64_t n = inflated_fill(in, sizeof(struct perf_event_header));
	const unsigned char *p;
	uint16_t size;

	if (n < (int64_t)sizeof(struct perf_event_header))
		return n < 0 ? (int)n : 0;
	p = in->inflated.cur->bytes + in->inflated.pos;
	size = u16_at(in, p + 6);
	if (size < sizeof(struct perf_event_header))
		return pev_blocks_end(
			in, -EBADMSG,
			"a record inside of the compressed one at 0x%" PRIx64
			" (type %u) says that it has %u bytes, but a record has at least 8",
			in->src_offset, u32_at(in, p), size);
	n = inflated_fill(in, size);
	if (n < size)
		return n < 0 ? (int)n : 0;
	take_piece(in, &in->inflated, size, piece);
	switch (piece->type) {
	case PEV_LANES_COMPRESSED:
	case PEV_LANES_COMPRESSED2:
	case PEV_LANES_AUXTRACE:
	case PEV_LANES_TRACING_DATA:
		return pev_blocks_end(
			in, -EBADMSG,
			"a record of type %u inside of the compressed one at 0x%" PRIx64
			", where it cannot be",
			piece->type, in->src_offset);
	}
	return 1;
}

void pev_blocks_free(struct pev_blocks *in)
{
	if (in->stream)
		in->inflate->close(in->stream);
}
