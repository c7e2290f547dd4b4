/*
 * zstd.h - compression of records, as tables of functions, and both tables by libzstd.
 *
 * The reader and the writer of recordings link no library: a caller that needs COMPRESSED
 * records gives them a table. zstd.c is in a module of its own, loaded for such recordings alone.
 */
#ifndef PEV_ZSTD_H
#define PEV_ZSTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pev_inflate {
	/* A stream, or NULL without memory. */
	void *(*open)(void);
	/*
	 * Decompresses *in, of which *len bytes are left; both move on. Returns how many bytes it
	 * wrote to out, at most cap; 0 with *len == 0: it needs more input. -EBADMSG with the
	 * reason: another format, or it needs too much memory.
	 */
	int64_t (*run)(void *stream, const unsigned char **in, size_t *len, void *out,
		       size_t cap, struct pev_err *err);
	void (*close)(void *stream);
};

struct pev_deflate {
	/* A stream with that level, or NULL without memory. */
	void *(*open)(int level);
	/*
	 * Compresses *in, of which *len bytes are left; both move on. Returns how many bytes it
	 * wrote to out, at most cap. *more: not all of the input is in out yet; call again, with
	 * the rest of *in or nothing. Otherwise a decompressor can restore everything so far.
	 */
	int64_t (*run)(void *stream, const unsigned char **in, size_t *len, void *out,
		       size_t cap, bool *more, struct pev_err *err);
	void (*close)(void *stream);
};

/* A frame may need a window of at most 128 MiB, as perf record -z22 writes. */
extern const struct pev_inflate pev_zstd_inflate;
/* Levels 1 to 22, as of perf record -z. */
extern const struct pev_deflate pev_zstd_deflate;

#endif
