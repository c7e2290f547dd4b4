/*
 * ring.c - a perf ring buffer, as its reader sees it.
 *
 * The kernel moves data_head, we move data_tail. Both only grow, and are reduced modulo the
 * size when used as an index. A record is returned in place; one that wraps is copied into
 * ring->wrap. No system call after map.
 * Contract: kernel/events/ring_buffer.c, perf_output_put_handle():
 *
 *   kernel: write data, wmb, store data_head   us: load-acquire data_head, read
 *   kernel: load data_tail, then write data    us: read data, store-release data_tail
 *
 * A reader that has to postpone records lifts them: positions stay the same, but the bytes move to
 * memory.
 *
 * The AUX area is a second such buffer without records: records in the ring announce its
 * bytes. Contract: the same file, perf_aux_output_begin() and _end().
 */
#include "live/ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WRAP_BYTES 65536u /* header.size is a u16 */
#define AUX_PATIENCE 1000 /* retries while a head is about to move */
#define LIFTED_MIN ((size_t)256 << 10) /* bytes of a chunk, so that little rings need few */

static int map_ring(struct pev_ring *ring, const struct pev_sys *sys, int fd, size_t data_bytes,
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
	ring->piece_start = ring->piece_end = ring->lifted_to = ring->tail;
	return 0;
}

int pev_ring_map(struct pev_ring *ring, const struct pev_sys *sys, int fd, size_t data_bytes)
{
	return map_ring(ring, sys, fd, data_bytes, PROT_READ | PROT_WRITE);
}

int pev_ring_map_backward(struct pev_ring *ring, const struct pev_sys *sys, int fd,
			  size_t data_bytes)
{
	int rc = map_ring(ring, sys, fd, data_bytes, PROT_READ);

	if (rc < 0)
		return rc;
	/* The maximum: records that are a bare header. */
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
	pev_ring_free_lifted(ring, ring->lifted_to, &(size_t){ 0 });
}

static uint16_t size_of(const unsigned char *header)
{
	uint16_t size;

	memcpy(&size, header + offsetof(struct perf_event_header, size), sizeof(size));
	return size;
}

static uint16_t size_at(const struct pev_ring *ring, uint64_t pos)
{
	return size_of(ring->data + (pos & (ring->size - 1)));
}

/*
 * The newest record is at head. Older ones follow, up to one whose end was overwritten, or to bytes
 * that were never written (size 0). Returns their length. Notes their positions if found is given.
 */
static uint64_t walk_backward(const struct pev_ring *ring, uint64_t head, uint64_t *found,
			      uint64_t *nr_found)
{
	uint64_t walked = 0, nr = 0;

	/* Empty: head counts down from 0. */
	while (head != 0 && walked < ring->size) {
		uint16_t size = size_at(ring, head + walked);

		if (size < sizeof(struct perf_event_header) || size % 8 ||
		    size > ring->size - walked || walked + size > -head)
			break;
		if (found)
			found[nr] = head + walked;
		nr++;
		walked += size;
	}
	*nr_found = nr;
	return walked;
}

uint64_t pev_ring_backward_records(const struct pev_ring *ring, uint64_t *bytes)
{
	/* Acquire: as in pev_ring_refresh(). */
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE), nr;

	*bytes = walk_backward(ring, head, NULL, &nr);
	return head;
}

uint64_t pev_ring_refresh(struct pev_ring *ring)
{
	/* Acquire: the records before this head are seen as written. */
	ring->head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	return ring->found ? walk_backward(ring, ring->head, ring->found, &ring->nr_found) :
			     ring->head - ring->tail;
}

static const unsigned char *resync(struct pev_ring *ring)
{
	ring->tail = ring->head;
	ring->corrupt++;
	return NULL;
}

/* Returns the record at pos in one piece. */
static const unsigned char *record_in_one_piece(struct pev_ring *ring, uint64_t pos, uint16_t size)
{
	uint64_t at = pos & (ring->size - 1), rest = ring->size - at;

	if (size <= rest)
		return ring->data + at;
	memcpy(ring->wrap, ring->data + at, rest);
	memcpy(ring->wrap + rest, ring->data, size - rest);
	return ring->wrap;
}

static const unsigned char *peek_backward(struct pev_ring *ring, uint16_t *size)
{
	if (!ring->nr_found)
		return NULL;
	*size = size_at(ring, ring->found[ring->nr_found - 1]);
	return record_in_one_piece(ring, ring->found[ring->nr_found - 1], *size);
}

/* True if pos is before that; positions wrap at 2^64. */
static bool is_before(uint64_t pos, uint64_t that)
{
	return (int64_t)(that - pos) > 0;
}

static struct iovec piece_of(const unsigned char *bytes, uint64_t there, uint64_t most)
{
	return (struct iovec){ (void *)(uintptr_t)bytes, (size_t)(there < most ? there : most) };
}

/* Returns the bytes from position from on that are in the ring in one piece. */
static struct iovec piece_in_ring(const struct pev_ring *ring, uint64_t from, uint64_t to)
{
	uint64_t at = from & (ring->size - 1);

	return piece_of(ring->data + at, ring->size - at, to - from);
}

struct iovec pev_ring_piece(const struct pev_ring *ring, uint64_t from, uint64_t to)
{
	const struct pev_lifted *chunk = ring->lifted;

	while (chunk && !is_before(from, chunk->to))
		chunk = chunk->next;
	return chunk ? piece_of(chunk->bytes + (from - chunk->from), chunk->to - from, to - from)
		     : piece_in_ring(ring, from, to);
}

/* Finds the contiguous bytes from tail on; false if head or tail is invalid. */
static bool find_piece(struct pev_ring *ring)
{
	uint64_t unread = ring->head - ring->tail;
	struct iovec piece;

	/* Records are 8-aligned, so a header never straddles the ring's end. */
	if (!pev_ring_has_lifted(ring) && (unread < sizeof(struct perf_event_header) ||
					   unread > ring->size || ring->tail % 8))
		return false;
	piece = pev_ring_piece(ring, ring->tail, ring->head);
	ring->piece = piece.iov_base;
	ring->piece_start = ring->tail;
	ring->piece_end = ring->tail + piece.iov_len;
	return true;
}

const unsigned char *pev_ring_peek_any(struct pev_ring *ring, uint16_t *size)
{
	uint64_t most;

	if (ring->found)
		return peek_backward(ring, size);
	if (ring->head == ring->tail)
		return NULL;
	if (!find_piece(ring))
		return resync(ring);
	/* Lifted records are whole; in the ring a record can wrap. */
	most = (pev_ring_has_lifted(ring) ? ring->piece_end : ring->head) - ring->tail;
	*size = size_of(ring->piece);
	if (*size < sizeof(struct perf_event_header) || *size % 8 || *size > most)
		return resync(ring);
	return *size <= ring->piece_end - ring->tail ? ring->piece
						     : record_in_one_piece(ring, ring->tail, *size);
}

void pev_ring_publish(struct pev_ring *ring)
{
	uint64_t free_to = pev_ring_has_lifted(ring) ? ring->lifted_to : ring->tail;
	uint64_t used;

	if (ring->published == free_to)
		return;
	used = __atomic_load_n(&ring->page->data_head, __ATOMIC_RELAXED) - ring->published;
	if (used > ring->peak && used <= ring->size)
		ring->peak = used;
	/* Release: our reads are done before the kernel may write there. */
	__atomic_store_n(&ring->page->data_tail, free_to, __ATOMIC_RELEASE);
	ring->published = free_to;
}

/* ---- lifting ---- */

void pev_ring_free_lifted(struct pev_ring *ring, uint64_t keep, size_t *room)
{
	while (ring->lifted && !is_before(keep, ring->lifted->to)) {
		struct pev_lifted *chunk = ring->lifted;

		ring->lifted = chunk->next;
		*room += chunk->cap;
		free(chunk);
	}
}

/* Returns a chunk that has space for this many bytes from lifted_to on. */
static struct pev_lifted *find_chunk(struct pev_ring *ring, size_t bytes, size_t *room, int *rc)
{
	struct pev_lifted *last = ring->lifted ? ring->lifted_last : NULL, *chunk;
	size_t cap = bytes > LIFTED_MIN || *room < LIFTED_MIN ? bytes : LIFTED_MIN;

	if (last && last->cap - (size_t)(last->to - last->from) >= bytes)
		return last;
	*rc = cap > *room ? -ENOSPC : -ENOMEM;
	chunk = cap > *room ? NULL : malloc(sizeof(*chunk) + cap);
	if (!chunk)
		return NULL;
	*chunk = (struct pev_lifted){ .from = ring->lifted_to, .to = ring->lifted_to, .cap = cap };
	*room -= cap;
	if (last)
		last->next = chunk;
	else
		ring->lifted = chunk;
	ring->lifted_last = chunk;
	return chunk;
}

int pev_ring_lift(struct pev_ring *ring, uint64_t keep, size_t *room)
{
	/* Acquire: as in pev_ring_refresh(). */
	uint64_t head = __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE);
	struct pev_lifted *chunk;
	int rc;

	pev_ring_free_lifted(ring, keep, room);
	if (!is_before(keep, ring->lifted_to))
		ring->lifted_to = keep;
	if (head == ring->lifted_to || head - ring->lifted_to > ring->size)
		return 0; /* peek resynchronises */
	chunk = find_chunk(ring, (size_t)(head - ring->lifted_to), room, &rc);
	if (!chunk)
		return rc;
	while (chunk->to != head) {
		struct iovec piece = piece_in_ring(ring, chunk->to, head);

		memcpy(chunk->bytes + (chunk->to - chunk->from), piece.iov_base, piece.iov_len);
		chunk->to += piece.iov_len;
	}
	ring->lifted_to = head;
	ring->piece_end = ring->piece_start = ring->tail;
	pev_ring_publish(ring);
	return 0;
}

/* ---- the AUX area ---- */

int pev_ring_map_aux(struct pev_ring *ring, int fd, size_t bytes)
{
	void *addr;
	int rc;

	/* perf_mmap_aux() reads both from the page and compares them with the call. */
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
	/* Computed as distances to head, so no offset or size leads outside. */
	there = aux_there(ring, head);
	to_head = head - offset;
	*aux = (struct pev_aux){ .p = { ring->aux, ring->aux } };
	if (to_head > there) {
		/*
		 * It begins before the available bytes, or after head,
		 * which is the longest distance.
		 */
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
