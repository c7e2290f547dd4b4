/*
 * frame_stream.h - reads frames from a stream: as bytes, or armoured as text, mixed.
 *
 * An armoured frame is base64 without padding, in lines between a begin and an end line. Each of
 * its lines may have a prefix ("node1: "), so that the lines of several frames may be mixed, and
 * spaces or a CR at its end. Other text is ignored, as messages of ssh between the frames are.
 * After damage the stream goes on at the next frame.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "aggregate/frame.h"
#include "base/err.h"

#define PEV_ARMOR_BEGIN   "-----BEGIN PERFEV FRAME-----"
#define PEV_ARMOR_END     "-----END PERFEV FRAME-----"
#define PEV_ARMOR_OPEN    (UINT64_C(64) << 20) /* bytes of incomplete armoured frames */
#define PEV_ARMOR_BLOCKS  1024                 /* incomplete armoured frames */
#define PEV_STREAM_LINE   8192                 /* longest line with armoured text */

struct pev_frame_stream;

struct pev_frame_stream *pev_frame_stream_new(void);
void pev_frame_stream_free(struct pev_frame_stream *stream);
/* Keeps a copy of bytes until pev_frame_stream_next() has read them. 0 or -ENOMEM. */
int pev_frame_stream_feed(struct pev_frame_stream *stream, const void *bytes, size_t len);
/* No bytes follow: what is not complete is damaged. */
void pev_frame_stream_end(struct pev_frame_stream *stream);
/*
 * Returns 1 and the next frame, whose body is intact and is decompressed in *raw; both are valid
 * until the next call. *offset is that of its first byte, or of its begin line, in the stream.
 * 0: needs more bytes, or the end. -errno: bytes were skipped; err has the reason, their offset and
 * number, and the next call goes on behind them. After -ENOMEM the call can be repeated.
 */
int pev_frame_stream_next(struct pev_frame_stream *stream, struct pev_frame *frame,
			  const unsigned char **raw, uint64_t *offset, struct pev_err *err);

/* The length of a frame of len bytes as armoured text. */
size_t pev_armor_len(size_t len);
void pev_armor(const void *frame, size_t len, char *out);
