/*
 * ring.c - one perf buffer, from the consumer's side.
 *
 * The kernel moves data_head, we move data_tail; both only grow, and are
 * reduced modulo the size only to index. A record is handed out where it
 * lies; one that wraps is copied into ring->wrap. No system call after map.
 * Contract: kernel/events/ring_buffer.c, perf_output_put_handle():
 *
 *   kernel: write data, wmb, store data_head   us: load-acquire data_head, read
 *   kernel: load data_tail, then write data    us: read data, store-release data_tail
 */
#include "ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WRAP_BYTES 65536u /* header.size is a u16 */

int pev_ring_map(struct pev_ring *ring, const struct pev_sys *sys, int fd, size_t data_bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *addr;
	int rc;

	memset(ring, 0, sizeof(*ring));
	ring->sys = sys;
	ring->wrap = malloc(WRAP_BYTES);
	if (!ring->wrap)
		return -ENOMEM;
	rc = sys->mmap(sys->ctx, page + data_bytes, PROT_READ | PROT_WRITE, fd, 0, &addr);
	if (rc < 0) {
		free(ring->wrap);
		ring->wrap = NULL;
		return rc;
	}
	ring->page = addr;
	ring->mapped = page + data_bytes;
	/* Kernels before 4.1 leave data_offset and data_size at 0. */
	ring->data = (unsigned char *)addr +
		     (ring->page->data_offset ? ring->page->data_offset : page);
	ring->size = data_bytes;
	ring->tail = ring->published = ring->head =
		__atomic_load_n(&ring->page->data_tail, __ATOMIC_RELAXED);
	return 0;
}

void pev_ring_unmap(struct pev_ring *ring)
{
	if (ring->page)
		ring->sys->munmap(ring->sys->ctx, ring->page, ring->mapped);
	ring->page = NULL;
	free(ring->wrap);
	ring->wrap = NULL;
}

uint64_t pev_ring_refresh(struct pev_ring *ring)
{
	/* Acquire: the records before this head are seen as written. */
	ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	return ring->head - ring->tail;
}

static const unsigned char *resync(struct pev_ring *ring)
{
	ring->tail = ring->head;
	ring->corrupt++;
	return NULL;
}

const unsigned char *pev_ring_peek(struct pev_ring *ring, uint16_t *size)
{
	uint64_t unread = ring->head - ring->tail;
	uint64_t at = ring->tail & (ring->size - 1);
	const unsigned char *record = ring->data + at;
	uint64_t rest = ring->size - at;

	if (unread == 0)
		return NULL;
	/* Records are 8-aligned, so a header never straddles the ring's end. */
	if (unread < sizeof(struct perf_event_header) || unread > ring->size || at % 8)
		return resync(ring);
	memcpy(size, record + offsetof(struct perf_event_header, size), sizeof(*size));
	if (*size < sizeof(struct perf_event_header) || *size % 8 || *size > unread)
		return resync(ring);
	if (*size <= rest)
		return record;
	memcpy(ring->wrap, record, rest);
	memcpy(ring->wrap + rest, ring->data, *size - rest);
	return ring->wrap;
}

void pev_ring_pop(struct pev_ring *ring, uint16_t size)
{
	ring->tail += size;
}

void pev_ring_publish(struct pev_ring *ring)
{
	if (ring->published == ring->tail)
		return;
	/* Release: our reads are done before the kernel may write there. */
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
	ring->published = ring->tail;
}
