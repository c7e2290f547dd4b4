/*
 * blocks.h - reads the input of a recording in blocks and finds its records.
 *
 * There are two lanes: the bytes of the input itself, and the bytes that COMPRESSED
 * records inflate to. A record never crosses a block: an incomplete record at the end of a
 * block is copied to the next one. A caller that keeps a record keeps a reference to its
 * block. Parses record headers, and the body of COMPRESSED records only. Serves the reader.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "perfdata/zstd.h"
#include "record/record.h"
#include "base/sys.h"

#define PEV_BLOCK_BYTES ((size_t)1 << 20)
#define PEV_BLOCKS_SPARE 2
/*
 * Limits against decompression bombs. PEV_INFLATE_BYTES is the largest content of one
 * COMPRESSED record of 64 KiB if the recording does not have the size of the recorder's
 * buffers. All of them together inflate to at most that plus PEV_INFLATE_RATIO times their
 * size. Samples of one address with equal stacks pack to 1/300, no better.
 */
#define PEV_INFLATE_BYTES ((uint64_t)16 << 20)
#define PEV_INFLATE_RATIO 1024

/* Types of user-space records that contain other records or have data behind them. */
enum {
	PEV_BLOCKS_TRACING_DATA = 66,
	PEV_BLOCKS_AUXTRACE = 71,
	PEV_BLOCKS_COMPRESSED = 81,
	PEV_BLOCKS_COMPRESSED2 = 83,
	PEV_BLOCKS_SIMPLEPERF = 32768 /* larger types: simpleperf's own */
};

struct pev_block {
	unsigned char *bytes;
	size_t cap, len;
	uint64_t base;     /* offset of bytes[0] in the input */
	uint32_t refs, index;
	bool inflated;     /* base is that of the COMPRESSED record */
};

struct pev_block_lane {
	struct pev_block *cur; /* holds a reference */
	size_t pos;            /* offset of the next record */
};

/* A record from a lane. It does not hold a reference to its block. */
struct pev_piece {
	const unsigned char *bytes;
	struct pev_block *block;
	uint64_t offset;   /* in the input; if inflated, of the COMPRESSED record */
	uint32_t type;
	uint16_t size;
	uint32_t more;     /* bytes behind it, if it is longer than size can say */
};

/* All blocks of a recording, and a few free ones. */
struct pev_pool {
	struct pev_block **blocks, *spare[PEV_BLOCKS_SPARE];
	uint32_t nr_blocks, nr_spare;
	size_t block;              /* bytes of a block, at least 64 KiB; 0: PEV_BLOCK_BYTES */
	uint64_t bytes, peak;      /* in memory: now, and the maximum */
};

/* The owner sets the fields of the first part and zeros the others. */
struct pev_blocks {
	const struct pev_sys *sys; /* borrowed */
	struct pev_pool *pool;     /* borrowed */
	const char *name;          /* borrowed */
	int fd;
	bool seekable;             /* read with pread; else as a stream */
	bool swap;
	uint64_t size;             /* of a seekable input */
	uint64_t limit;            /* end of the records; 0: end of the input */
	uint64_t inflate_max;      /* maximal content of a COMPRESSED record; 0: 16 MiB */
	const struct pev_inflate *(*get_inflate)(void *ctx, struct pev_err *err);
	void *ctx;

	uint64_t pos;              /* offset of the next read */
	struct pev_block_lane raw, inflated;

	const struct pev_inflate *inflate;
	void *stream;
	struct pev_block *packed;  /* block of the COMPRESSED record being inflated, or NULL */
	const unsigned char *src;
	size_t src_len;
	uint64_t src_offset, inflate_left;

	bool done;
	struct pev_err end;        /* why reading ended early */
	uint64_t bytes, compressed, unpacked;

	struct pev_reader_range *skips; /* owned; ranges that the reader skips, see reader.h */
	const struct pev_reader_range *skip, *end_skip; /* in skips: those to come */
};

/*
 * Frees the stream of decompression and the ranges. The blocks are the pool's, the descriptor is
 * the owner's.
 */
void pev_blocks_free(struct pev_blocks *input);
/* Frees every block, even if references are left. */
void pev_pool_free(struct pev_pool *pool);
/* Returns a block with room for cap bytes and one reference, or NULL. */
struct pev_block *pev_pool_get(struct pev_pool *pool, size_t cap);
/* Sets the size of the blocks from now on; 0: PEV_BLOCK_BYTES. */
void pev_pool_set_block(struct pev_pool *pool, size_t bytes);

/* Returns the number of unread bytes in the lane's block. */
static inline size_t pev_block_lane_rest(const struct pev_block_lane *lane)
{
	return lane->cur ? lane->cur->len - lane->pos : 0;
}

/* Stops reading with this error. The input's name is put before the text. Returns code. */
int pev_blocks_stop(struct pev_blocks *input, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Reads at the current position. Returns the number of bytes, 0 at the end, or -errno. */
int64_t pev_blocks_read(struct pev_blocks *input, void *buf, size_t len);
/* Reads up to len bytes at off of a seekable input. Returns fewer at the end, or -errno. */
int64_t pev_blocks_read_at(const struct pev_blocks *input, void *buf, size_t len, uint64_t off);
/* Returns the size of a seekable input. Uses pread only. */
uint64_t pev_blocks_file_size(const struct pev_blocks *input);

/* Returns 1 and the next record, 0 at the end, or -errno when reading has ended early. */
int pev_blocks_next_record(struct pev_blocks *input, struct pev_piece *piece);
/* Returns the type of the next record without consuming it; -ENODATA at the end. */
int64_t pev_blocks_peek_type(struct pev_blocks *input);
/* Returns the offset of the next record. */
uint64_t pev_blocks_offset(const struct pev_blocks *input);
/* Skips bytes behind a record. Returns -ENODATA when there are fewer. */
int pev_blocks_skip(struct pev_blocks *input, uint64_t len);
/*
 * Copies the bytes behind a record into memory that the caller frees. The buffer grows with
 * the bytes that arrive, so a false length costs nothing. Returns their number, or -errno.
 */
int64_t pev_blocks_copy_bytes(struct pev_blocks *input, uint64_t len, unsigned char **bytes);

/* Starts to inflate a COMPRESSED record; pev_blocks_next_inflated() returns its records. */
int pev_blocks_start_inflate(struct pev_blocks *input, const struct pev_piece *piece);
/* Returns 1 and the next inflated record, 0 when more input is needed, or -errno. */
int pev_blocks_next_inflated(struct pev_blocks *input, struct pev_piece *piece);

/* Called when a block's last reference is gone. */
void pev_pool_recycle(struct pev_pool *pool, struct pev_block *block);

/* Drops nr references. block may be NULL. */
static inline void pev_pool_release(struct pev_pool *pool, struct pev_block *block, uint32_t nr)
{
	if (!block)
		return;
	block->refs -= nr;
	if (!block->refs)
		pev_pool_recycle(pool, block);
}
