/*
 * blocks.h - the bytes of a recording as records that lie in one piece.
 *
 * Bytes come into blocks through two lanes: the input as it is, and what COMPRESSED
 * records of it inflate to. A record never crosses blocks: what a block ends with is
 * carried to the next. Whoever holds a record holds a reference to its block. For
 * datafile.c; knows headers, but no record's body but COMPRESSED ones'.
 */
#ifndef PEV_BLOCKS_H
#define PEV_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "perfdata/zstd.h"
#include "record/record.h"
#include "base/sys.h"

#define PEV_LANES_BLOCK ((size_t)1 << 20)
#define PEV_LANES_SPARE 2
/*
 * What one COMPRESSED record of 64 KiB may hold at most where the recording does not say how
 * large its recorder's buffers were, and all of them beyond that: times their size. Samples
 * of one spot with copies of one stack pack to 1/300, and no better.
 */
#define PEV_LANES_INFLATE ((uint64_t)16 << 20)
#define PEV_LANES_RATIO 1024

/* Records of tools that bytes of their own follow, or that others are packed in. */
enum {
	PEV_LANES_TRACING_DATA = 66,
	PEV_LANES_AUXTRACE = 71,
	PEV_LANES_COMPRESSED = 81,
	PEV_LANES_COMPRESSED2 = 83,
	PEV_LANES_SIMPLEPERF = 32768 /* types beyond are simpleperf's own */
};

struct pev_block {
	unsigned char *bytes;
	size_t cap, len;
	uint64_t base;     /* where bytes[0] stands in the input */
	uint32_t refs, index;
	bool inflated;     /* then base is the COMPRESSED record */
};

struct pev_block_lane {
	struct pev_block *cur; /* holds a reference */
	size_t pos;            /* of the next record in it */
};

/* A record as it comes out of a lane. Its block has no reference on its account. */
struct pev_piece {
	const unsigned char *bytes;
	struct pev_block *block;
	uint64_t offset;   /* in the input; of what was inflated, the COMPRESSED record's */
	uint32_t type;
	uint16_t size;
	uint32_t more;     /* bytes of it that follow, of one that is longer than size can say */
};

/* Where the blocks of a recording's inputs come from. */
struct pev_pool {
	struct pev_block **blocks, *spare[PEV_LANES_SPARE];
	uint32_t nr_blocks, nr_spare;
	size_t block;              /* bytes of one, at least 64 KiB; 0: PEV_LANES_BLOCK */
	uint64_t bytes, peak;      /* in memory now, and at most */
};

/* The owner sets the first part; a zeroed rest is an input that is at its start. */
struct pev_blocks {
	const struct pev_sys *sys; /* borrowed */
	struct pev_pool *pool;     /* borrowed */
	const char *name;          /* borrowed */
	int fd;
	bool seekable;             /* read by pread; else as a stream */
	bool swap;
	uint64_t size;             /* of the input, where it is seekable */
	uint64_t limit;            /* where its records end; 0: with the input */
	uint64_t inflate_max;      /* bytes one COMPRESSED record may hold; 0: 16 MiB */
	const struct pev_inflate *(*get_inflate)(void *ctx, struct pev_err *err);
	void *ctx;

	uint64_t pos;              /* of the next byte to be read */
	struct pev_block_lane raw, inflated;

	const struct pev_inflate *inflate;
	void *stream;
	struct pev_block *packed;  /* of the COMPRESSED record that is being inflated, or NULL */
	const unsigned char *src;
	size_t src_len;
	uint64_t src_offset, inflate_left;

	bool done;
	struct pev_err end;        /* why reading ended early */
	uint64_t bytes, compressed, unpacked;
};

/* What it holds but for its blocks; the descriptor is the owner's. */
void pev_blocks_free(struct pev_blocks *in);
/* Every block, whoever holds it. */
void pev_pool_free(struct pev_pool *pool);

/* Bytes of the lane that are not yet stepped over. */
static inline size_t pev_block_lane_rest(const struct pev_block_lane *lane)
{
	return lane->cur ? lane->cur->len - lane->pos : 0;
}

/* Reading ends here: code, with the input's name before the sentence. */
int pev_blocks_end(struct pev_blocks *in, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Some bytes from where we are; 0 at the end, or -errno. */
int64_t pev_blocks_read(struct pev_blocks *in, void *buf, size_t len);
/* As many bytes from off on as are there, at most len, or -errno. Seekable ones only. */
int64_t pev_blocks_read_at(const struct pev_blocks *in, void *buf, size_t len, uint64_t off);
/* How long a seekable input is, as pread alone can tell. */
uint64_t pev_blocks_file_size(const struct pev_blocks *in);

/* The next record of the input: 1; 0 at its end; -errno when reading has ended early. */
int pev_blocks_record(struct pev_blocks *in, struct pev_piece *piece);
/* Its type, without stepping over it; -ENODATA when there is none. */
int64_t pev_blocks_peek(struct pev_blocks *in);
/* Where that one stands. */
uint64_t pev_blocks_offset(const struct pev_blocks *in);
/* Step over bytes behind a record. -ENODATA when there are fewer. */
int pev_blocks_skip(struct pev_blocks *in, uint64_t len);
/* Bytes behind a record, in memory that grows as they come, the caller's; how many did, -errno. */
int64_t pev_blocks_take(struct pev_blocks *in, uint64_t len, unsigned char **bytes);

/* From here on what a COMPRESSED record holds: until pev_blocks_inflated() gives 0. */
int pev_blocks_inflate(struct pev_blocks *in, const struct pev_piece *piece);
/* The next record of that: 1; 0 when the input has to go on; -errno when reading has ended. */
int pev_blocks_inflated(struct pev_blocks *in, struct pev_piece *piece);

/* Nobody holds the block any more. */
void pev_pool_take_back(struct pev_pool *pool, struct pev_block *block);

/* Give so many references back. NULL has none. */
static inline void pev_pool_put(struct pev_pool *pool, struct pev_block *block, uint32_t nr)
{
	if (!block)
		return;
	block->refs -= nr;
	if (!block->refs)
		pev_pool_take_back(pool, block);
}

#endif
