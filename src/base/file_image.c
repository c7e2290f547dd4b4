/*
 * file_image.c - the bytes of a file, read part by part; see file_image.h.
 */
#include "base/file_image.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define CHUNK ((size_t)64 << 10) /* is read at once */

int pev_file_image_open(struct pev_file_image *image, const struct pev_sys *sys, const int *fd,
			size_t len)
{
	/* Memory of this size comes zeroed from the kernel: only the chunks loaded take any. */
	unsigned char *bytes = calloc(len ? len : 1, 1);
	unsigned char *loaded = calloc(len / CHUNK / 8 + 1, 1);

	*image = (struct pev_file_image){ .bytes = bytes, .len = len, .loaded = loaded,
					  .sys = sys, .fd = fd };
	if (bytes && loaded)
		return 0;
	free(bytes);
	free(loaded);
	*image = (struct pev_file_image){ 0 };
	return -ENOMEM;
}

void pev_file_image_close(struct pev_file_image *image)
{
	if (image->loaded)
		free((void *)(uintptr_t)image->bytes);
	free(image->loaded);
	*image = (struct pev_file_image){ 0 };
}

static bool is_loaded(const struct pev_file_image *image, size_t chunk)
{
	return image->loaded[chunk / 8] >> chunk % 8 & 1;
}

/* Reads chunks from first to the one before end. */
static void load_chunks(struct pev_file_image *image, size_t first, size_t end)
{
	size_t at = first * CHUNK, stop = end * CHUNK < image->len ? end * CHUNK : image->len;

	for (size_t chunk = first; chunk < end; chunk++)
		image->loaded[chunk / 8] |= (unsigned char)(1 << chunk % 8);
	image->used += stop - at;
	while (at < stop && *image->fd >= 0) {
		void *to = (unsigned char *)(uintptr_t)image->bytes + at;
		int64_t n = image->sys->pread(image->sys->ctx, *image->fd, to, stop - at, at);

		if (n <= 0)
			return;
		at += (size_t)n;
	}
}

void pev_file_image_load(struct pev_file_image *image, uint64_t offset, uint64_t len)
{
	size_t chunk, end;

	if (!image->loaded || !len || offset >= image->len)
		return;
	if (len > image->len - offset)
		len = image->len - offset;
	end = (size_t)((offset + len - 1) / CHUNK + 1);
	for (chunk = (size_t)(offset / CHUNK); chunk < end; chunk++) {
		size_t first = chunk;

		while (chunk < end && !is_loaded(image, chunk))
			chunk++;
		if (chunk > first)
			load_chunks(image, first, chunk);
	}
}
