/*
 * unzstd.c - struct pev_inflate by libzstd; see unzstd.h.
 */
#include "perfdata/unzstd.h"

#include <errno.h>
#include <zstd.h>

#define WINDOW_LOG_MAX 27

static void *unzstd_open(void)
{
	ZSTD_DStream *stream = ZSTD_createDStream();

	if (stream &&
	    ZSTD_isError(ZSTD_DCtx_setParameter(stream, ZSTD_d_windowLogMax, WINDOW_LOG_MAX))) {
		ZSTD_freeDStream(stream);
		return NULL;
	}
	return stream;
}

static int64_t unzstd_run(void *stream, const unsigned char **in, size_t *len, void *out,
			  size_t cap, struct pev_err *err)
{
	ZSTD_inBuffer input = { .src = *in, .size = *len };
	ZSTD_outBuffer output = { .dst = out, .size = cap };
	size_t rc;

	/* A frame's end is reported once, with the next one not yet begun. */
	do {
		rc = ZSTD_decompressStream(stream, &output, &input);
	} while (!ZSTD_isError(rc) && input.pos < input.size && output.pos < output.size);
	*in += input.pos;
	*len -= input.pos;
	if (ZSTD_isError(rc))
		return pev_fail(err, -EBADMSG, "zstd: %s", ZSTD_getErrorName(rc));
	return (int64_t)output.pos;
}

static void unzstd_close(void *stream) { ZSTD_freeDStream(stream); }

const struct pev_inflate pev_unzstd = {
	.open = unzstd_open,
	.run = unzstd_run,
	.close = unzstd_close,
};
