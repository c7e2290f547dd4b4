/*
 * wrap.c - reads records of every size at every offset around the end of a ring.
 *
 * Built and run by spec/engine/ring_spec.lua, because half a million records of 32 KiB are too
 * many for Lua. Each word of the ring contains its own offset, so a record's
 * bytes follow from its offset and only its header is written.
 * Prints the number of correct records; exits with 1 at the first wrong one.
 */
#include "live/ring.h"

#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>

#define RING (128u << 10)
#define PAGE 4096u
#define MOST 65528u
#define STARTS 64u

static unsigned char mapped[PAGE + RING] __attribute__((aligned(PAGE)));
static uint64_t pattern[2 * RING / 8]; /* twice, so that a record is contiguous in it */

static int map_ring(void *ctx, size_t len, int prot, int fd, uint64_t offset, void **addr)
{
	(void)ctx, (void)prot, (void)fd, (void)offset;
	*addr = mapped;
	return len == sizeof(mapped) ? 0 : -1;
}

static int unmap_ring(void *ctx, void *addr, size_t len)
{
	(void)ctx, (void)addr, (void)len;
	return 0;
}

static int get_pagesize(void *ctx)
{
	(void)ctx;
	return PAGE;
}

static int is_whole(struct pev_ring *ring, uint32_t size)
{
	struct perf_event_mmap_page *page = ring->page;
	uint32_t at = ring->tail % RING;
	struct perf_event_header header = { .type = 63, .size = (uint16_t)size };
	const unsigned char *bytes;
	uint16_t seen = 0;
	int same;

	memcpy(mapped + PAGE + at, &header, sizeof(header));
	page->data_head = ring->tail + size;
	pev_ring_refresh(ring);
	bytes = pev_ring_peek(ring, &seen);
	same = bytes && seen == size && memcmp(bytes, &header, sizeof(header)) == 0 &&
	       memcmp(bytes + 8, pattern + at / 8 + 1, size - 8) == 0;
	memcpy(mapped + PAGE + at, &pattern[at / 8], 8);
	if (same)
		pev_ring_pop(ring, seen);
	return same && !pev_ring_peek(ring, &seen);
}

int main(void)
{
	struct pev_sys sys = { .mmap = map_ring, .munmap = unmap_ring, .pagesize = get_pagesize };
	struct pev_ring ring;
	unsigned long nr = 0;

	for (uint32_t i = 0; i < 2 * RING / 8; i++)
		pattern[i] = (i % (RING / 8) + 1) * UINT64_C(0x9e3779b97f4a7c15);
	memcpy(mapped + PAGE, pattern, RING);
	if (pev_ring_map(&ring, &sys, 3, RING) < 0)
		return 1;
	for (uint32_t size = 8; size <= MOST; size += 8) {
		for (uint32_t i = 0; i <= STARTS; i++, nr++) {
			ring.tail = (ring.tail / RING + 1) * RING - UINT64_C(8) * i;
			if (is_whole(&ring, size))
				continue;
			printf("size %u at %u bytes before the end\n", size, 8 * i);
			return 1;
		}
	}
	pev_ring_unmap(&ring);
	printf("%lu\n", nr);
	return 0;
}
