/*
 * inflate.h - a decompressor, as a table of functions.
 *
 * The reader of recordings knows no library: who needs COMPRESSED records gives
 * it such a table. There is one, in unzstd.h, which is kept apart so that nothing
 * but a compressed recording asks for libzstd.
 */
#ifndef PEV_INFLATE_H
#define PEV_INFLATE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pev_inflate {
	/* A stream, or NULL without memory. */
	void *(*open)(void);
	/*
	 * Go on with *in, of which *len bytes are left; both move on. How many bytes
	 * it wrote to out, at most cap; 0 with *len == 0 when it needs more to go on.
	 * -EBADMSG with the reason for what is not its format or needs too much memory.
	 */
	int64_t (*run)(void *stream, const unsigned char **in, size_t *len, void *out,
		       size_t cap, struct pev_err *err);
	void (*close)(void *stream);
};

#endif
