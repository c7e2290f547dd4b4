/*
 * zstd.c - compression of records by libzstd; see zstd.h.
 */
#include "perfdata/zstd.h"

#include <errno.h>
#include <zstd.h>

#define WINDOW_LOG_MAX 27

static void *inflate_open(void)
{
	ZSTD_DStream *stream = ZSTD_createDStream();

	if (stream &&
	    ZSTD_isError(ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))) {
		ZSTD_freeDStream(stream);
		return NULL;
	}
	return stream;
}

static int64_t inflate_run(void *stream, const unsigned char **in, size_t *len, void *out,
			  size_t cap, struct pev_err *err)
{
	ZSTD_inBuffer input = { .src = *in, .size = *len };
	ZSTD_outBuffer output = { .dst = out, .size = cap };
	size_t rc;

	/* libzstd reports the end of a frame once, before it starts the next one. */
	do {
		rc = ZSTD_decompressStream(stream, &output, &input);
	} while (!ZSTD_isError(rc) && input.pos < input.size && output.pos < output.size);
	*in += input.pos;
	*len -= input.pos;
	if (ZSTD_isError(rc))
		return pev_fail(err, -EBADMSG, "zstd: %s", ZSTD_getErrorName(rc));
	return (int64_t)output.pos;
}

static void inflate_close(void *stream) { ZSTD_freeDStream(stream); }

const struct pev_inflate pev_zstd_inflate = {
	.open = inflate_open,
	.run = inflate_run,
	.close = inflate_close,
};

static void *deflate_open(int level)
{
	ZSTD_CStream *stream = ZSTD_createCStream();

	if (stream &&
	    ZSTD_isError(ZSTD_CCtx_setParameter(stream, ZSTD_c_compressionLevel, level))) {
		ZSTD_freeCStream(stream);
		return NULL;
	}
	return stream;
}

static int64_t deflate_run(void *stream, const unsigned char **in, size_t *len, void *out,
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

static void deflate_close(void *stream) { ZSTD_freeCStream(stream); }

const struct pev_deflate pev_zstd_deflate = {
	.open = deflate_open,
	.run = deflate_run,
	.close = deflate_close,
};
