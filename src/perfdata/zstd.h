/*
 * zstd.h - compresses and decompresses records, as tables of functions; two tables use libzstd.
 *
 * The reader and the writer of recordings do not link a library: for COMPRESSED records the
 * caller gives them a table. zstd.c is in a separate module, loaded only for such recordings.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pev_inflate {
	/* Returns a stream, or NULL without memory. */
	void *(*open)(void);
	/*
	 * Decompresses *in with *len bytes; both advance. Returns how many bytes
	 * it wrote to out, at most cap; 0 with *len == 0 if it needs more input.
	 * -EBADMSG with the reason: another format, or too much memory needed.
	 */
	int64_t (*run)(void *stream, const unsigned char **in, size_t *len, void *out,
		       size_t cap, struct pev_err *err);
	void (*close)(void *stream);
};

struct pev_deflate {
	/* Returns a stream with that level, or NULL without memory. */
	void *(*open)(int level);
	/*
	 * Compresses *in with *len bytes; both advance. Returns how many bytes it wrote to
	 * out, at most cap. *more: some output is missing; call again with the rest of *in,
	 * or without input. If *more is false, a decompressor can restore all input so far.
	 */
	int64_t (*run)(void *stream, const unsigned char **in, size_t *len, void *out,
		       size_t cap, bool *more, struct pev_err *err);
	void (*close)(void *stream);
};

/* A frame may need a window of at most 128 MiB, as perf record -z22 writes. */
extern const struct pev_inflate pev_zstd_inflate;
/* Levels 1 to 22, as of perf record -z. */
extern const struct pev_deflate pev_zstd_deflate;
