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

#define WRAP_BYTES 65536u /* header.size is a u16 */

static int map(struct pev_ring *ring, const struct pev_sys *sys, int fd, size_t data_bytes,
	       int prot)
{
	size_t page = (size_t)sys->pagesize(sys->ctx);
	void *addr;
	int rc;

	*ring = (struct pev_ring){ .sys = sys, .wrap = malloc(WRAP_BYTES) };
	if (!ring->wrap)
		return -ENOMEM;
	rc = sys->mmap(sys->ctx, page + data_bytes, prot, fd, 0, &addr);
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

int pev_ring_map(struct pev_ring *ring, const struct pev_sys *sys, int fd, size_t data_bytes)
{
	return map(ring, sys, fd, data_bytes, PROT_READ | PROT_WRITE);
}

int pev_ring_map_backward(struct pev_ring *ring, const struct pev_sys *sys, int fd,
			  size_t data_bytes)
{
	int rc = map(ring, sys, fd, data_bytes, PROT_READ);

	if (rc < 0)
		return rc;
	/* As many as fit when each is a bare header. */
	ring->found = malloc(data_bytes);
	if (!ring->found) {
		pev_ring_unmap(ring);
		return -ENOMEM;
	}
	return 0;
}

void pev_ring_unmap(struct pev_ring *ring)
{
	if (ring->page)
		ring->sys->munmap(ring->sys->ctx, ring->page, ring->mapped);
	ring->page = NULL;
	free(ring->wrap);
	free(ring->found);
	ring->wrap = NULL;
	ring->found = NULL;
}

static uint16_t size_at(const struct pev_ring *ring, uint64_t pos)
{
	uint16_t size;

	memcpy(&size,
	       ring->data + (pos & (ring->size - 1)) + offsetof(struct perf_event_header, size),
	       sizeof(size));
	return size;
}

/*
 * The newest record stands at head, older ones behind it, up to one whose end
 * has been overwritten or to what was never written (size 0).
 */
static uint64_t find_backward(struct pev_ring *ring)
{
	uint64_t walked = 0;

	ring->nr_found = 0;
	/* Nothing yet: head counts down from 0. */
	while (ring->head != 0 && walked < ring->size) {
		uint16_t size = size_at(ring, ring->head + walked);

		if (size < sizeof(struct perf_event_header) || size % 8 ||
		    size > ring->size - walked || walked + size > -ring->head)
			break;
		ring->found[ring->nr_found++] = ring->head + walked;
		walked += size;
	}
	return walked;
}

uint64_t pev_ring_refresh(struct pev_ring *ring)
{
	/* Acquire: the records before this head are seen as written. */
	ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	return ring->found ? find_backward(ring) : ring->head - ring->tail;
}

static const unsigned char *resync(struct pev_ring *ring)
{
	ring->tail = ring->head;
	ring->corrupt++;
	return NULL;
}

/* The record at pos in one piece. */
static const unsigned char *whole(struct pev_ring *ring, uint64_t pos, uint16_t size)
{
	uint64_t at = pos & (ring->size - 1), rest = ring->size - at;

	if (size <= rest)
		return ring->data + at;
	memcpy(ring->wrap, ring->data + at, rest);
	memcpy(ring->wrap + rest, ring->data, size - rest);
	return ring->wrap;
}

const unsigned char *pev_ring_peek(struct pev_ring *ring, uint16_t *size)
{
	uint64_t unread = ring->head - ring->tail;

	if (ring->found) {
		if (!ring->nr_found)
			return NULL;
		*size = size_at(ring, ring->found[ring->nr_found - 1]);
		return whole(ring, ring->found[ring->nr_found - 1], *size);
	}
	if (unread == 0)
		return NULL;
	/* Records are 8-aligned, so a header never straddles the ring's end. */
	if (unread < sizeof(struct perf_event_header) || unread > ring->size || ring->tail % 8)
		return resync(ring);
	*size = size_at(ring, ring->tail);
	if (*size < sizeof(struct perf_event_header) || *size % 8 || *size > unread)
		return resync(ring);
	return whole(ring, ring->tail, *size);
}

void pev_ring_pop(struct pev_ring *ring, uint16_t size)
{
	if (ring->found)
		ring->nr_found--;
	else
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
