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
 *
 * The AUX area beside it is a second such buffer, without records: those in the
 * ring tell of its bytes. Contract: the same file, perf_aux_output_begin() and _end().
 */
#include "ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WRAP_BYTES 65536u /* header.size is a u16 */
#define AUX_PATIENCE 1000 /* looks at a head that is about to move */

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
	if (ring->page && ring->aux)
		ring->sys->munmap(ring->sys->ctx, ring->aux, (size_t)ring->aux_size);
	ring->aux = NULL;
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

/* ---- the AUX area ---- */

int pev_ring_map_aux(struct pev_ring *ring, int fd, size_t bytes)
{
	void *addr;
	int rc;

	/* perf_mmap_aux() reads both from the page and holds them against the call. */
	ring->page->aux_offset = ring->mapped;
	ring->page->aux_size = bytes;
	rc = ring->sys->mmap(ring->sys->ctx, bytes, PROT_READ | PROT_WRITE, fd, ring->mapped,
			     &addr);
	if (rc < 0) {
		ring->page->aux_offset = ring->page->aux_size = 0;
		return rc;
	}
	ring->aux = addr;
	ring->aux_size = bytes;
	ring->aux_tail = __atomic_load_n(&ring->page->aux_tail, __ATOMIC_RELAXED);
	return 0;
}

uint64_t pev_ring_aux_head(const struct pev_ring *ring)
{
	/* Acquire: the bytes before this head are seen as written. */
	return __atomic_load_n(&ring->page->aux_head, __ATOMIC_ACQUIRE);
}

static uint64_t aux_there(const struct pev_ring *ring, uint64_t head)
{
	uint64_t there = head - ring->aux_tail;

	return there < ring->aux_size ? there : ring->aux_size;
}

uint64_t pev_ring_aux_unread(const struct pev_ring *ring)
{
	return aux_there(ring, pev_ring_aux_head(ring));
}

void pev_ring_aux(const struct pev_ring *ring, uint64_t offset, uint64_t size,
		  struct pev_aux *aux)
{
	uint64_t head = pev_ring_aux_head(ring), there, to_head, at;

	/* perf_aux_output_end() writes the record first, and the head a moment later. */
	for (int i = 0; i < AUX_PATIENCE && (int64_t)(offset + size - head) > 0; i++)
		head = pev_ring_aux_head(ring);
	/* All in distances to head, so that no offset and no size leads outside. */
	there = aux_there(ring, head);
	to_head = head - offset;
	*aux = (struct pev_aux){ .p = { ring->aux, ring->aux } };
	if (to_head > there) {
		/* It begins before what is there; or after head, which is the longest way round. */
		uint64_t gone = to_head - there;

		if (gone >= size)
			return;
		size -= gone;
		to_head = there;
	}
	if (size > to_head)
		size = to_head;
	at = (head - to_head) & (ring->aux_size - 1);
	aux->p[0] = ring->aux + at;
	aux->len[0] = size < ring->aux_size - at ? size : ring->aux_size - at;
	aux->len[1] = size - aux->len[0];
}

void pev_ring_aux_pop(struct pev_ring *ring, uint64_t end)
{
	uint64_t written = pev_ring_aux_head(ring) - ring->aux_tail;
	uint64_t read = end - ring->aux_tail;

	if ((int64_t)read <= 0)
		return;
	ring->aux_tail += read < written ? read : written;
	/* Release: our reads are done before the kernel may write there. */
	__atomic_store_n(&ring->page->aux_tail, ring->aux_tail, __ATOMIC_RELEASE);
}
