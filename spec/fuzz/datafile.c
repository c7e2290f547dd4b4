/*
 * datafile.c - libFuzzer: a recording; its first byte says how it is read.
 *
 * Bit 0: through a pipe, in pieces; bit 1: in the file's order; bit 2: a small window.
 * What must hold whatever the bytes are: a record takes 8 bytes of them at least, no
 * memory is touched that is not ours, and little is taken.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "datafile.h"
#include "touch.h"
#include "unzstd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *bytes;
	size_t len, pos;
	bool pipe;
	int open;
};

static int in_open(void *ctx, const char *path, int flags)
{
	(void)path, (void)flags;
	((struct input *)ctx)->open++;
	return 3;
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

	(void)fd;
	if (in->pipe)
		return -ESPIPE;
	if (offset >= in->len)
		return 0;
	if (len > in->len - offset)
		len = in->len - (size_t)offset;
	memcpy(buf, in->bytes + offset, len);
	return (int64_t)len;
}

static int64_t in_read(void *ctx, int fd, void *buf, size_t len)
{
	struct input *in = ctx;

	(void)fd;
	if (len > in->len - in->pos)
		len = in->len - in->pos;
	if (len > 13)
		len = 13;
	memcpy(buf, in->bytes + in->pos, len);
	in->pos += len;
	return (int64_t)len;
}

static const struct pev_inflate *get_inflate(void *ctx, struct pev_err *err)
{
	(void)ctx, (void)err;
	return &pev_unzstd;
}

static void touch_sections(struct pev_datafile *df)
{
	unsigned char buf[256];

	for (uint32_t i = 0; i < pev_datafile_sections(df); i++) {
		int64_t n = pev_datafile_section(df, i, 0, buf, sizeof(buf));

		if (n > 0)
			touch_bytes(buf, (size_t)n);
	}
}

static void read_all(struct pev_datafile *df, size_t size)
{
	const struct pev_datafile_stats *stats = pev_datafile_stats(df);
	struct pev_file_record from;
	struct pev_record rec;
	uint64_t nr = 0;

	while (pev_datafile_next(df, &from, NULL) > 0) {
		touch_bytes(from.bytes, from.size);
		if (from.event != PEV_NO_EVENT && !pev_datafile_event(df, from.event))
			__builtin_trap();
		if (from.type < PEV_USER_ATTR && pev_datafile_locate(df, &from, &rec, NULL) == 0)
			touch_record(&rec);
		nr++;
	}
	/* Records take 8 bytes at least, and the end is the end. */
	if (nr > (size + stats->inflated) / 8 || pev_datafile_next(df, &from, NULL) > 0)
		__builtin_trap();
	if (stats->blocks > (64u << 20) + 16 * size)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pev_datafile_config config = { .inflate = get_inflate };
	struct input in = { .bytes = data + 1, .len = size - 1 };
	struct pev_sys sys = {
		.ctx = &in,
		.open = in_open,
		.close = in_close,
		.pread = in_pread,
		.read = in_read,
	};
	struct pev_datafile *df;

	if (!size)
		return 0;
	in.pipe = data[0] & 1;
	config.unordered = data[0] & 2;
	config.window = data[0] & 4 ? 1 : 0;
	if (pev_datafile_open(&df, &sys, "fuzz", -1, &config, NULL) == 0) {
		touch_sections(df);
		read_all(df, in.len);
		touch_sections(df);
		pev_datafile_close(df);
	}
	if (in.open)
		__builtin_trap();
	return 0;
}
