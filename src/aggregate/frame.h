/*
 * frame.h - a packed aggregator or profile with a header, for files, pipes and messages.
 *
 * In little-endian byte order:
 *   "perfevFR", u16 version, u16 flags (0), u32 header length, u32 body length, u32 raw length,
 *   the header: lines "key=value\n", the last of which is "check=" and 16 hexadecimal digits,
 *   the body: one zstd frame that has a checksum and the raw length as its content size.
 * The check is the start of the SHA-256 of all bytes before its line, so that a reader knows that
 * the lengths are right before it waits for the body. Frames may follow each other.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define PEV_FRAME_MAGIC      "perfevFR"
#define PEV_FRAME_MAGIC_LEN  8
#define PEV_FRAME_VERSION    1
#define PEV_FRAME_FIXED      24                      /* bytes before the header */
#define PEV_FRAME_CHECK_LEN  23                      /* of the line "check=...\n" */
#define PEV_FRAME_HEADER_MAX 4096                    /* with the check */
#define PEV_FRAME_BODY_MAX   (UINT32_C(768) << 10)   /* NATS takes messages of 1 MiB */
#define PEV_FRAME_RAW_MAX    (UINT32_C(64) << 20)
#define PEV_FRAME_MAX        (PEV_FRAME_FIXED + PEV_FRAME_HEADER_MAX + PEV_FRAME_BODY_MAX)

/* Borrows the caller's bytes. */
struct pev_frame {
	const unsigned char *bytes;
	size_t len;
	const char *header; /* without the check */
	uint32_t header_len;
	const unsigned char *body;
	uint32_t body_len, raw_len;
};

/*
 * Reads the frame at the start of bytes. Returns 1 and fills frame; 0 if it needs more bytes:
 * frame->len is how many it has when it is complete, as far as that is known. -EPROTO: another
 * version; -E2BIG: a length beyond its limit; -EBADMSG: not a frame, or its header is damaged. Does
 * not look into the body.
 */
int pev_frame_parse(const void *bytes, size_t len, struct pev_frame *frame, struct pev_err *err);
/*
 * Decompresses the body into raw, which has room for frame->raw_len bytes. -EBADMSG: the body is
 * damaged. Writes and allocates no more than the raw length, whatever the body promises.
 */
int pev_frame_decode(const struct pev_frame *frame, void *raw, struct pev_err *err);

/* The largest body that pev_frame_compress() makes of len bytes. */
size_t pev_frame_body_bound(size_t len);
/* Returns the length of the body, or -E2BIG (raw beyond its limit), -ENOMEM. */
int64_t pev_frame_compress(const void *raw, size_t len, void *body, size_t room,
			   struct pev_err *err);
/*
 * Writes the fixed part and the header with its check to out, which has room for
 * PEV_FRAME_FIXED + PEV_FRAME_HEADER_MAX bytes; the body follows it. Returns their length, or
 * -E2BIG: the header or the body is beyond its limit.
 */
int pev_frame_start(const char *header, size_t header_len, size_t body_len, size_t raw_len,
		    void *out, struct pev_err *err);

/* The SHA-256 of bytes as 64 hexadecimal digits and a NUL. */
void pev_sha256_hex(const void *bytes, size_t len, char hex[65]);
