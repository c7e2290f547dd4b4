/*
 * frame.c - libFuzzer: a stream of frames, raw and armoured, and the packs in them.
 *
 * The first byte: bits 0-3 are the size of the pieces that the stream is fed with; bit 4: the
 * checks of the headers are made right, so that changed headers are read; bit 5: the rest is the
 * content of a frame, so that changed packs are read; bit 6: nothing is fed after each piece.
 * Packs are unpacked by frame.lua, in a Lua with the core linked in. Runs in the tree's root.
 *
 * FUZZ_BYTES=N in the environment: stops after N bytes and prints the sums.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "aggregate/frame.h"
#include "aggregate/frame_stream.h"
#include "lua_state.h"

#define REPAIRED 16
#define CONTENT 32
#define IDLE 64
#define RAW_LEAST (1 << 20) /* content so large is not unpacked, but for its first bytes */

const char *__asan_default_options(void);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
	uint64_t bytes, inputs, frames, packs, damages;
} sums;

/* Lua's collector frees later. The quarantine would count as memory of the reader. */
const char *__asan_default_options(void)
{
	return "detect_leaks=0:quarantine_size_mb=8";
}

static void unpack(lua_State *L, const unsigned char *raw, size_t len)
{
	lua_pushvalue(L, 2);
	lua_pushlstring(L, (const char *)raw, len < RAW_LEAST ? len : RAW_LEAST);
	if (lua_pcall(L, 1, 1, 1) != LUA_OK)
		die(L);
	sums.packs += (uint64_t)lua_toboolean(L, -1);
	lua_pop(L, 1);
}

/* Every frame is a frame again, and its armoured text too. */
static void check_frame(const struct pev_frame *frame, const unsigned char *raw)
{
	char start[PEV_FRAME_FIXED + PEV_FRAME_HEADER_MAX], *text;
	size_t len = pev_armor_len(frame->len);
	struct pev_frame_stream *stream = pev_frame_stream_new();
	struct pev_frame again;
	const unsigned char *content;
	uint64_t offset;
	int n = pev_frame_start(frame->header, frame->header_len, frame->body_len, frame->raw_len,
				start, NULL);

	if (n < 0 || memcmp(start, frame->bytes, (size_t)n) != 0 ||
	    (size_t)n + frame->body_len != frame->len)
		abort();
	text = malloc(len);
	pev_armor(frame->bytes, frame->len, text);
	pev_frame_stream_feed(stream, text, len);
	free(text);
	if (pev_frame_stream_next(stream, &again, &content, &offset, NULL) != 1 ||
	    again.len != frame->len || memcmp(again.bytes, frame->bytes, again.len) != 0 ||
	    memcmp(content, raw, frame->raw_len) != 0 || offset != 0)
		abort();
	pev_frame_stream_free(stream);
}

static void read_frames(lua_State *L, struct pev_frame_stream *stream, uint64_t fed)
{
	const unsigned char *raw;
	struct pev_frame frame;
	struct pev_err err;
	uint64_t offset;
	int rc;

	while ((rc = pev_frame_stream_next(stream, &frame, &raw, &offset, &err)) != 0) {
		if (rc < 0) {
			sums.damages++;
			if (!*err.text)
				abort();
			continue;
		}
		if (offset >= fed)
			abort();
		sums.frames++;
		check_frame(&frame, raw);
		unpack(L, raw, frame.raw_len);
	}
}

/* Writes the check of each header that the lengths allow. */
static void repair(unsigned char *bytes, size_t len)
{
	unsigned char *at = bytes, *end = bytes + len;
	unsigned char start[PEV_FRAME_FIXED + PEV_FRAME_HEADER_MAX];

	while ((at = memmem(at, (size_t)(end - at), PEV_FRAME_MAGIC, PEV_FRAME_MAGIC_LEN))) {
		uint32_t header, body, raw;
		size_t room = (size_t)(end - at);
		int n;

		at += PEV_FRAME_MAGIC_LEN;
		if (room < PEV_FRAME_FIXED)
			return;
		memcpy(&header, at + 4, sizeof(header));
		memcpy(&body, at + 8, sizeof(body));
		memcpy(&raw, at + 12, sizeof(raw));
		if (header < PEV_FRAME_CHECK_LEN || header > room - PEV_FRAME_FIXED)
			continue;
		n = pev_frame_start((char *)at + 16, header - PEV_FRAME_CHECK_LEN, body, raw, start,
				    NULL);
		if (n > 0)
			memcpy(at - PEV_FRAME_MAGIC_LEN, start, (size_t)n);
	}
}

/* Makes a frame of its content. Returns its length. */
static size_t make_frame(const uint8_t *data, size_t size, unsigned char **bytes)
{
	size_t room = pev_frame_body_bound(size);
	unsigned char *body = malloc(room);
	int64_t len = pev_frame_compress(data, size, body, room, NULL);
	int n;

	*bytes = malloc(PEV_FRAME_FIXED + PEV_FRAME_HEADER_MAX + (size_t)len);
	n = len < 0 ? -1 : pev_frame_start("a=b\n", 4, (size_t)len, size, *bytes, NULL);
	if (n < 0)
		abort();
	memcpy(*bytes + n, body, (size_t)len);
	free(body);
	return (size_t)n + (size_t)len;
}

static void count(size_t size)
{
	const char *most = getenv("FUZZ_BYTES");
	struct rusage usage;

	sums.bytes += size;
	sums.inputs++;
	if (!most || sums.bytes < strtoull(most, NULL, 10))
		return;
	getrusage(RUSAGE_SELF, &usage);
	fprintf(stderr,
		"%llu bytes in %llu inputs: %llu frames intact, %llu packs, %llu damages; "
		"at most %ld MiB of memory\n",
		(unsigned long long)sums.bytes, (unsigned long long)sums.inputs,
		(unsigned long long)sums.frames, (unsigned long long)sums.packs,
		(unsigned long long)sums.damages, usage.ru_maxrss / 1024);
	_Exit(0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static lua_State *L;
	struct pev_frame_stream *stream = pev_frame_stream_new();
	unsigned char *bytes;
	size_t len, piece;

	if (!L)
		L = make_state("spec/fuzz/frame.lua");
	if (!stream || size < 1)
		goto out;
	piece = (size_t)1 << (*data & 15);
	if (*data & CONTENT) {
		len = make_frame(data + 1, size - 1, &bytes);
	} else {
		len = size - 1;
		bytes = malloc(len + 1);
		memcpy(bytes, data + 1, len);
		if (*data & REPAIRED)
			repair(bytes, len);
	}
	for (size_t at = 0; at < len; at += piece) {
		size_t part = len - at < piece ? len - at : piece;
		/* A copy of exact size, so that a sanitizer sees an access behind it. */
		unsigned char *copy = malloc(part);

		memcpy(copy, bytes + at, part);
		if (pev_frame_stream_feed(stream, copy, part) < 0)
			abort();
		free(copy);
		if (*data & IDLE && pev_frame_stream_feed(stream, "", 0) < 0)
			abort();
		read_frames(L, stream, at + part);
	}
	pev_frame_stream_end(stream);
	read_frames(L, stream, len);
	free(bytes);
out:
	pev_frame_stream_free(stream);
	count(size);
	return 0;
}
