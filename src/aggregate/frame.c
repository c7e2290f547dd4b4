/*
 * frame.c - one frame; see frame.h. Uses libzstd and libmd.
 */
#include "aggregate/frame.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <sha2.h>
#include <zstd.h>
#include <zstd_errors.h>

#define CHECK_DIGITS 16
#define LEVEL        3 /* of zstd */

static void put_little(unsigned char *to, uint64_t n, size_t len)
{
	for (size_t i = 0; i < len; i++)
		to[i] = (unsigned char)(n >> 8 * i);
}

static uint32_t little(const unsigned char *from, size_t len)
{
	uint32_t n = 0;

	for (size_t i = len; i-- > 0;)
		n = n << 8 | from[i];
	return n;
}

void pev_sha256_hex(const void *bytes, size_t len, char hex[65])
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	SHA2_CTX ctx;

	SHA256Init(&ctx);
	SHA256Update(&ctx, bytes, len);
	SHA256Final(digest, &ctx);
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

/* ---- reading ---- */

static int check_limit(const char *part, uint32_t len, uint32_t most, struct pev_err *err)
{
	if (len <= most)
		return 0;
	return pev_fail(err, -E2BIG, "the %s has %" PRIu32 " bytes, more than %" PRIu32, part, len,
			most);
}

static int check_fixed(const unsigned char *p, struct pev_frame *frame, struct pev_err *err)
{
	uint32_t version = little(p + 8, 2), header = little(p + 12, 4);
	int rc;

	if (version != PEV_FRAME_VERSION)
		return pev_fail(err, -EPROTO, "its format is version %" PRIu32 "; %d is known",
				version, PEV_FRAME_VERSION);
	frame->body_len = little(p + 16, 4);
	frame->raw_len = little(p + 20, 4);
	rc = check_limit("header", header, PEV_FRAME_HEADER_MAX, err);
	if (rc == 0)
		rc = check_limit("body", frame->body_len, PEV_FRAME_BODY_MAX, err);
	if (rc == 0)
		rc = check_limit("content", frame->raw_len, PEV_FRAME_RAW_MAX, err);
	if (rc < 0)
		return rc;
	if (little(p + 10, 2) != 0 || header < PEV_FRAME_CHECK_LEN)
		return pev_fail(err, -EBADMSG, "its header is damaged");
	frame->header_len = header - PEV_FRAME_CHECK_LEN;
	return 0;
}

static void write_check(const unsigned char *bytes, size_t len, char line[PEV_FRAME_CHECK_LEN + 1])
{
	char hex[65];

	pev_sha256_hex(bytes, len, hex);
	snprintf(line, PEV_FRAME_CHECK_LEN + 1, "check=%.*s\n", CHECK_DIGITS, hex);
}

int pev_frame_parse(const void *bytes, size_t len, struct pev_frame *frame, struct pev_err *err)
{
	const unsigned char *p = bytes;
	size_t known = len < PEV_FRAME_MAGIC_LEN ? len : PEV_FRAME_MAGIC_LEN, start;
	char line[PEV_FRAME_CHECK_LEN + 1];
	int rc;

	*frame = (struct pev_frame){ .bytes = p, .len = PEV_FRAME_FIXED };
	if (memcmp(p, PEV_FRAME_MAGIC, known) != 0)
		return pev_fail(err, -EBADMSG, "it is not a frame");
	if (len < PEV_FRAME_FIXED)
		return 0;
	rc = check_fixed(p, frame, err);
	if (rc < 0)
		return rc;
	frame->header = (const char *)p + PEV_FRAME_FIXED;
	start = PEV_FRAME_FIXED + frame->header_len; /* of the check's line */
	frame->body = p + start + PEV_FRAME_CHECK_LEN;
	frame->len = start + PEV_FRAME_CHECK_LEN + frame->body_len;
	if (len < start + PEV_FRAME_CHECK_LEN)
		return 0;
	write_check(p, start, line);
	if (memcmp(line, p + start, PEV_FRAME_CHECK_LEN) != 0)
		return pev_fail(err, -EBADMSG, "its header is damaged");
	return len >= frame->len;
}

int pev_frame_decode(const struct pev_frame *frame, void *raw, struct pev_err *err)
{
	unsigned long long size = ZSTD_getFrameContentSize(frame->body, frame->body_len);
	size_t rc;

	if (size != frame->raw_len ||
	    ZSTD_findFrameCompressedSize(frame->body, frame->body_len) != frame->body_len)
		return pev_fail(err, -EBADMSG, "its body is damaged: not %" PRIu32 " bytes of zstd",
				frame->raw_len);
	/* The frame header's descriptor is byte 4; its bit 2 announces a checksum (RFC 8878). */
	if (!(frame->body[4] & 4))
		return pev_fail(err, -EBADMSG, "its body has no checksum");
	rc = ZSTD_decompress(raw, frame->raw_len, frame->body, frame->body_len);
	if (ZSTD_isError(rc) && ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation)
		return pev_fail(err, -ENOMEM, "no memory to decompress a frame");
	if (ZSTD_isError(rc))
		return pev_fail(err, -EBADMSG, "its body is damaged: %s", ZSTD_getErrorName(rc));
	if (rc != frame->raw_len)
		return pev_fail(err, -EBADMSG, "its body is damaged: %zu bytes, not %" PRIu32, rc,
				frame->raw_len);
	return 0;
}

/* ---- writing ---- */

size_t pev_frame_body_bound(size_t len) { return ZSTD_compressBound(len) + 4; }

int64_t pev_frame_compress(const void *raw, size_t len, void *body, size_t room,
			   struct pev_err *err)
{
	ZSTD_CCtx *ctx;
	size_t rc;

	if (len > PEV_FRAME_RAW_MAX)
		return pev_fail(err, -E2BIG, "the content has %zu bytes, more than %" PRIu32, len,
				PEV_FRAME_RAW_MAX);
	ctx = ZSTD_createCCtx();
	if (!ctx)
		return pev_fail(err, -ENOMEM, "no memory");
	ZSTD_CCtx_setParameter(ctx, ZSTD_c_compressionLevel, LEVEL);
	ZSTD_CCtx_setParameter(ctx, ZSTD_c_checksumFlag, 1);
	rc = ZSTD_compress2(ctx, body, room, raw, len);
	ZSTD_freeCCtx(ctx);
	if (ZSTD_isError(rc))
		return pev_fail(err, -ENOMEM, "zstd: %s", ZSTD_getErrorName(rc));
	return (int64_t)rc;
}

int pev_frame_start(const char *header, size_t header_len, size_t body_len, size_t raw_len,
		    void *out, struct pev_err *err)
{
	unsigned char *p = out;
	char line[PEV_FRAME_CHECK_LEN + 1];
	int rc;

	if (header_len > PEV_FRAME_HEADER_MAX - PEV_FRAME_CHECK_LEN)
		return pev_fail(err, -E2BIG, "the header has %zu bytes, more than %d", header_len,
				PEV_FRAME_HEADER_MAX - PEV_FRAME_CHECK_LEN);
	rc = check_limit("body", body_len > UINT32_MAX ? UINT32_MAX : (uint32_t)body_len,
			 PEV_FRAME_BODY_MAX, err);
	if (rc < 0)
		return rc;
	for (size_t i = 0; i < PEV_FRAME_MAGIC_LEN; i++)
		p[i] = (unsigned char)PEV_FRAME_MAGIC[i];
	put_little(p + 8, PEV_FRAME_VERSION, 2);
	put_little(p + 10, 0, 2);
	put_little(p + 12, header_len + PEV_FRAME_CHECK_LEN, 4);
	put_little(p + 16, body_len, 4);
	put_little(p + 20, raw_len, 4);
	memcpy(p + PEV_FRAME_FIXED, header, header_len);
	write_check(p, PEV_FRAME_FIXED + header_len, line);
	memcpy(p + PEV_FRAME_FIXED + header_len, line, PEV_FRAME_CHECK_LEN);
	return (int)(PEV_FRAME_FIXED + header_len + PEV_FRAME_CHECK_LEN);
}
