/*
 * deflate.h - a compressor, as a table of functions: the other way of inflate.h.
 *
 * The writer of recordings knows no library: who wants COMPRESSED records gives it such
 * a table. There is one, in zpack.h, in the same shared object as the decompressor.
 */
#ifndef PEV_DEFLATE_H
#define PEV_DEFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pev_deflate {
	/* A stream of that level, or NULL without memory. */
	void *(*open)(int level);
	/*
	 * Go on with *in, of which *len bytes are left; both move on. How many bytes it wrote
	 * to out, at most cap. *more: what was taken is not all in there yet; call again, with
	 * what is left of *in or nothing. Without, a decompressor has all up to here.
	 */
	int64_t (*run)(void *stream, const unsigned char **in, size_t *len, void *out,
		       size_t cap, bool *more, struct pev_err *err);
	void (*close)(void *stream);
};

#endif
