/*
 * file_image.c - the bytes of a file, read part by part; see file_image.h.
 */
#include "base/file_image.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

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

/* Returns how many bytes were read: fewer if the file ends or cannot be read. */
static size_t read_bytes(const struct pev_file_image *image, unsigned char *to, uint64_t offset,
			 size_t len)
{
	size_t used = 0;

	while (used < len && *image->fd >= 0) {
		int64_t n = image->sys->pread(image->sys->ctx, *image->fd, to + used, len - used,
					      offset + used);

		if (n <= 0)
			break;
		used += (size_t)n;
	}
	return used;
}

/* Reads chunks from first to the one before end. */
static void load_chunks(struct pev_file_image *image, size_t first, size_t end)
{
	size_t at = first * CHUNK, stop = end * CHUNK < image->len ? end * CHUNK : image->len;

	for (size_t chunk = first; chunk < end; chunk++)
		image->loaded[chunk / 8] |= (unsigned char)(1 << chunk % 8);
	image->used += stop - at;
	read_bytes(image, (unsigned char *)(uintptr_t)image->bytes + at, at, stop - at);
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

/* len > 0; the bytes are in the file */
static bool has_loaded(const struct pev_file_image *image, uint64_t offset, size_t len)
{
	const size_t last = (size_t)((offset + len - 1) / CHUNK);
	size_t chunk = (size_t)(offset / CHUNK);

	while (image->loaded && chunk <= last && is_loaded(image, chunk))
		chunk++;
	return !image->loaded || chunk > last;
}

void pev_file_image_copy(const struct pev_file_image *image, uint64_t offset, size_t len, void *to)
{
	size_t there = offset < image->len ? (size_t)(image->len - offset) : 0;

	there = there < len ? there : len;
	if (there && has_loaded(image, offset, there))
		memcpy(to, image->bytes + offset, there);
	else
		there = read_bytes(image, to, offset, there);
	memset((unsigned char *)to + there, 0, len - there);
}

uint32_t pev_file_image_crc(struct pev_file_image *image)
{
	uint32_t table[256], crc = UINT32_MAX;

	pev_file_image_load(image, 0, image->len);
	for (uint32_t i = 0; i < 256; i++) {
		table[i] = i;
		for (int bit = 0; bit < 8; bit++)
			table[i] = table[i] >> 1 ^ (table[i] & 1 ? UINT32_C(0xedb88320) : 0);
	}
	for (size_t i = 0; i < image->len; i++)
		crc = crc >> 8 ^ table[(crc ^ image->bytes[i]) & 0xff];
	return ~crc;
}
