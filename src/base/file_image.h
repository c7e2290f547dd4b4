/*
 * file_image.h - the bytes of a file, read part by part when they are needed.
 *
 * A reader of ELF files needs a few MB of a program of 100 MB. The file is not mapped, because
 * whoever can truncate it could then kill this process (SIGBUS, mmap(2)).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/sys.h"

struct pev_file_image {
	const unsigned char *bytes; /* 0 where nothing was loaded */
	size_t len;
	size_t used;            /* bytes loaded */
	/* NULL: all bytes are there, and are borrowed. */
	unsigned char *loaded;  /* owned; a bit for each chunk */
	const struct pev_sys *sys; /* borrowed */
	const int *fd;          /* borrowed; negative: closed, no more is loaded */
};

/* The image of bytes that are all there. */
static inline struct pev_file_image pev_file_image_of(const void *bytes, size_t len)
{
	/* As C++ reads it, too. */
	struct pev_file_image image = { (const unsigned char *)bytes, len, len, NULL, NULL, NULL };

	return image;
}

/* Makes the image of an open file without loading anything. Returns 0 or -ENOMEM. */
int pev_file_image_open(struct pev_file_image *image, const struct pev_sys *sys, const int *fd,
			size_t len);
void pev_file_image_close(struct pev_file_image *image);

/* Loads all and returns its checksum, the CRC-32 of gzip and .gnu_debuglink. */
uint32_t pev_file_image_crc(struct pev_file_image *image);

/* Loads len bytes at an offset. Bytes that the file lacks, or that cannot be read, stay 0. */
void pev_file_image_load(struct pev_file_image *image, uint64_t offset, uint64_t len);
/* Copies such bytes, without loading them. */
void pev_file_image_copy(const struct pev_file_image *image, uint64_t offset, size_t len, void *to);
