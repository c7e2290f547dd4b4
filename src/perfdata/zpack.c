/*
 * zpack.c - struct pev_deflate by libzstd; see zpack.h.
 */
#include "perfdata/zpack.h"

#include <errno.h>
#include <zstd.h>

static void *zpack_open(int level)
{
	ZSTD_CStream *stream = ZSTD_createCStream();

	if (stream &&
	    ZSTD_isError(ZSTD_CCtx_setParameter(stream, ZSTD_c_compressionLevel, level))) {
		ZSTD_freeCStream(stream);
		return NULL;
	}
	return stream;
}

static int64_t zpack_run(void *stream, const unsigned char **in, size_t *len, void *out,
			 size_t cap, bool *more, struct pev_err *err)
{
	ZSTD_inBuffer input = { .src = *in, .size = *len };
	ZSTD_outBuffer output = { .dst = out, .size = cap };
	size_t left = ZSTD_compressStream2(stream, &output, &input, ZSTD_e_flush);

	if (ZSTD_isError(left))
		return pev_fail(err, -EIO, "zstd: %s", ZSTD_getErrorName(left));
	*in += input.pos;
	*len -= input.pos;
	*more = left != 0;
	return (int64_t)output.pos;
}

static void zpack_close(void *stream) { ZSTD_freeCStream(stream); }

const struct pev_deflate pev_zpack = {
	.open = zpack_open,
	.run = zpack_run,
	.close = zpack_close,
};
