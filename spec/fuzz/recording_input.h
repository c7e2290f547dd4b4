/*
 * recording_input.h - the fuzzer's bytes as the files of a recording, and as a pipe.
 */
#pragma once

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "perfdata/reader.h"
#include "perfdata/zstd.h"

struct file {
	const uint8_t *bytes;
	size_t len;
};

struct input {
	struct file files[3]; /* "data", "data.0", "data.1" */
	size_t pos;
	size_t bad; /* bytes from here on cannot be read */
	bool pipe, repeated, directory;
	int open;
};

enum { FD_DIRECTORY = 2, FD_FILES };

static int in_open(void *ctx, const char *path, int flags)
{
	static const char *const names[] = { "fuzz/data", "fuzz/data.0", "fuzz/data.1" };
	struct input *in = ctx;

	(void)flags;
	in->open++;
	if (!in->directory)
		return FD_FILES;
	for (int i = 0; i < 3; i++)
		if (strcmp(path, names[i]) == 0)
			return FD_FILES + i;
	return FD_DIRECTORY;
}

static int in_list(void *ctx, const char *path, char **names, size_t *len)
{
	static const char list[] = "data.1\0data\0data.x\0data.0";

	(void)ctx, (void)path;
	*names = malloc(sizeof(list));
	if (!*names)
		return -ENOMEM;
	memcpy(*names, list, sizeof(list));
	*len = sizeof(list);
	return 0;
}

static int in_close(void *ctx, int fd)
{
	(void)fd;
	((struct input *)ctx)->open--;
	return 0;
}

static int64_t in_pread(void *ctx, int fd, void *buf, size_t len, uint64_t offset)
{
	const struct input *in = ctx;
	const struct file *file;

	if (fd == FD_DIRECTORY)
		return -EISDIR;
	file = &in->files[fd - FD_FILES];
	if (in->pipe)
		return -ESPIPE;
	if (offset >= in->bad)
		return -EIO;
	if (offset >= file->len)
		return 0;
	if (len > file->len - offset)
		len = file->len - (size_t)offset;
	memcpy(buf, file->bytes + offset, len);
	return (int64_t)len;
}

static int64_t in_read(void *ctx, int fd, void *buf, size_t len)
{
	struct input *in = ctx;
	const struct file *file = &in->files[0];

	(void)fd;
	if (in->pos >= in->bad)
		return -EIO;
	if (len > file->len - in->pos)
		len = file->len - in->pos;
	if (len > 13)
		len = 13;
	memcpy(buf, file->bytes + in->pos, len);
	in->pos += len;
	return (int64_t)len;
}

#define REPEATS_MAX (256u << 10) /* bounds the time of one input */

/* A token: count, length, bytes; its output is the bytes repeated count times. */
struct repeats {
	unsigned char token[2 + 255];
	size_t have;      /* bytes of the token that were read */
	size_t given, of; /* bytes of its output: written, total */
	size_t all;       /* output so far, up to REPEATS_MAX */
};

static void *repeats_open(void) { return calloc(1, sizeof(struct repeats)); }
static void repeats_close(void *stream) { free(stream); }

static bool read_token(struct repeats *r, const unsigned char **in, size_t *len)
{
	while (*len && (r->have < 2 || r->have < 2u + r->token[1])) {
		r->token[r->have++] = *(*in)++;
		--*len;
	}
	if (r->have < 2 || r->have < 2u + r->token[1])
		return false;
	r->of = (size_t)r->token[0] * r->token[1];
	return true;
}

static int64_t repeats_run(void *stream, const unsigned char **in, size_t *len, void *out,
			   size_t cap, struct pev_err *err)
{
	struct repeats *r = stream;
	size_t n = 0;

	while (n < cap) {
		if (r->given == r->of) {
			if (r->of)
				r->have = r->given = r->of = 0;
			if (!read_token(r, in, len))
				break;
			r->all += r->of;
			if (!r->of || r->all > REPEATS_MAX)
				return pev_fail(err, -EBADMSG, "no token");
		}
		((unsigned char *)out)[n++] = r->token[2 + r->given++ % r->token[1]];
	}
	return (int64_t)n;
}

static const struct pev_inflate repeats = { repeats_open, repeats_run, repeats_close };

static const struct pev_inflate *get_inflate(void *ctx, struct pev_err *err)
{
	(void)err;
	return ((struct input *)ctx)->repeated ? &repeats : &pev_zstd_inflate;
}

/* Cuts the files of a directory off the input, the last one first. */
static inline void split_files(struct input *in)
{
	struct file *data = &in->files[0];

	if (data->len < 4)
		return;
	for (int i = 1; i <= 2; i++) {
		size_t len = pev_load16(data->bytes, false);

		data->bytes += 2;
		data->len -= 2;
		if (len > data->len - (i == 1 ? 2u : 0u))
			len = data->len - (i == 1 ? 2u : 0u);
		data->len -= len;
		in->files[i] = (struct file){ data->bytes + data->len, len };
	}
}

/*
 * Parses the fuzzer's bytes, at least one. Flags in the first byte: bit 2: a small window; bit 4:
 * compressed data is a list of repeats (above), which random bytes can form, unlike zstd; bit 5:
 * the medium fails in the middle; bit 6: a directory with data.0 and data.1, the last parts of the
 * input, whose sizes are the first two 16-bit numbers.
 */
static inline void parse_input(struct input *in, struct pev_reader_config *config,
			       const uint8_t *data, size_t size)
{
	*in = (struct input){
		.files[0] = { data + 1, size - 1 },
		.bad = data[0] & 32 ? size / 2 : SIZE_MAX,
		.repeated = data[0] & 16,
		.directory = data[0] & 64,
	};
	if (in->directory)
		split_files(in);
	*config = (struct pev_reader_config){
		.window = data[0] & 4 ? 1 : 0,
		.inflate = get_inflate,
		.ctx = in,
	};
}

static int in_clock(void *ctx, int clockid, uint64_t *ns)
{
	(void)ctx;
	(void)clockid;
	*ns = 0;
	return 0;
}

/* The calls that a reader of the input makes. Threads may use pread at the same time. */
static inline struct pev_sys sys_of_input(struct input *in)
{
	return (struct pev_sys){
		.ctx = in,
		.open = in_open,
		.close = in_close,
		.list = in_list,
		.pread = in_pread,
		.read = in_read,
		.clock = in_clock,
	};
}
