/* ring.h - a perf ring buffer mapped into memory, as its reader sees it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "base/sys.h"

struct pev_ring {
	const struct pev_sys *sys;        /* borrowed */
	struct perf_event_mmap_page *page; /* NULL when not mapped */
	const unsigned char *data;
	size_t mapped;                     /* bytes, the control page included */
	uint64_t size;                     /* data bytes, a power of two */
	uint64_t head;                     /* kernel's write position as of the last refresh */
	uint64_t tail;                     /* our read position */
	uint64_t published;                /* the tail that the kernel knows */
	uint64_t corrupt;                  /* number of resynchronisations */
	uint64_t peak;                     /* most bytes that waited to be published */
	unsigned char *wrap;               /* 64 KiB: a record that wraps, copied into one piece */
	/* The contiguous bytes at tail: positions piece_start..piece_end are at piece. */
	const unsigned char *piece;
	uint64_t piece_start, piece_end;
	/*
	 * Unread bytes that were moved to memory to free space for the kernel:
	 * positions up to lifted_to are in these chunks, all later ones in the ring. Those
	 * behind head are read after the next refresh.
	 */
	struct pev_lifted *lifted, *lifted_last; /* oldest first; NULL: none */
	uint64_t lifted_to;
	/*
	 * A backward ring is overwritten from its end to its beginning, again and again. found has
	 * the positions of its records as of the last refresh, newest first. NULL in a normal ring.
	 */
	uint64_t *found;
	uint64_t nr_found;
	/* The AUX area, where a PMU writes its trace, or NULL. */
	unsigned char *aux;
	uint64_t aux_size;                 /* bytes, a power of two of pages */
	uint64_t aux_tail;                 /* our read position */
};

/* Consecutive whole records that were moved from a ring to memory. */
struct pev_lifted {
	struct pev_lifted *next;
	uint64_t from, to;                 /* positions */
	size_t cap;
	unsigned char bytes[];
};

/* Bytes of the AUX area: one piece, or two if they wrap. */
struct pev_aux {
	const unsigned char *p[2];
	size_t len[2];
};

/*
 * Maps the ring of fd; data_bytes must be a power of two of pages. On
 * failure nothing stays mapped. -EPERM: the mlock budget is exceeded.
 */
int pev_ring_map(struct pev_ring *ring, const struct pev_sys *sys, int fd, size_t data_bytes);

/*
 * The same for an event with write_backward. It is mapped read-only, so the kernel overwrites
 * the oldest bytes. Refresh while its output is paused (PERF_EVENT_IOC_PAUSE_OUTPUT); peek and
 * pop then go from the oldest whole record to the newest.
 */
int pev_ring_map_backward(struct pev_ring *ring, const struct pev_sys *sys, int fd,
			  size_t data_bytes);

/* Does nothing if the ring is not mapped. */
void pev_ring_unmap(struct pev_ring *ring);

/*
 * Returns the position of the newest record of a backward ring whose output is paused, and in
 * *bytes the length of all whole records from there on. Changes nothing.
 */
uint64_t pev_ring_backward_records(const struct pev_ring *ring, uint64_t *bytes);

/* Reads the kernel's position. Returns the number of unread bytes (backward ring: of all bytes). */
uint64_t pev_ring_refresh(struct pev_ring *ring);

/*
 * Returns the next unread record as of the last refresh, or NULL.
 *
 * Borrowed: valid until pev_ring_pop() or _unmap(). Its size, 8 <= size <= 65528 and a
 * multiple of 8, is *size, read once. A record with another size cannot be skipped: the ring
 * is moved to head, and ring->corrupt is incremented.
 */
const unsigned char *pev_ring_peek_any(struct pev_ring *ring, uint16_t *size);

/* The same, with a fast path for a record in the current piece. */
static inline const unsigned char *pev_ring_peek(struct pev_ring *ring, uint16_t *size)
{
	int64_t there = (int64_t)(ring->piece_end - ring->tail);
	const unsigned char *bytes;

	if (there < (int64_t)sizeof(struct perf_event_header))
		return pev_ring_peek_any(ring, size);
	bytes = ring->piece + (ring->tail - ring->piece_start);
	memcpy(size, bytes + offsetof(struct perf_event_header, size), sizeof(*size));
	if (*size < sizeof(struct perf_event_header) || *size % 8 || *size > there)
		return pev_ring_peek_any(ring, size);
	return bytes;
}

/* Finishes the record of that size that peek returned. Does not update the kernel's tail. */
static inline void pev_ring_pop(struct pev_ring *ring, uint16_t size)
{
	if (ring->found)
		ring->nr_found--;
	else
		ring->tail += size;
}

/* Makes the record at this position, which was popped, the next one again. */
static inline void pev_ring_unpop(struct pev_ring *ring, uint64_t position)
{
	if (ring->found) {
		ring->nr_found++;
		return;
	}
	ring->tail = position;
	ring->piece_end = ring->piece_start = position;
}

/* Returns the read bytes to the kernel: one store for many records. */
void pev_ring_publish(struct pev_ring *ring);

/* True if lifted bytes are unread. */
static inline bool pev_ring_has_lifted(const struct pev_ring *ring)
{
	return (int64_t)(ring->lifted_to - ring->tail) > 0;
}

/* Returns the unread bytes that are in the ring now. */
static inline uint64_t pev_ring_fill(const struct pev_ring *ring)
{
	return __atomic_load_n(&ring->page->data_head, __ATOMIC_ACQUIRE) -
	       (pev_ring_has_lifted(ring) ? ring->lifted_to : ring->tail);
}

/*
 * Moves all bytes in the ring to memory and frees their space for the kernel, also bytes behind
 * head, which are read after the next refresh. Keeps the bytes from keep on, a position up to
 * tail. Subtracts their size from room. Peeked records move. -ENOMEM, -ENOSPC: nothing was moved.
 */
int pev_ring_lift(struct pev_ring *ring, uint64_t keep, size_t *room);
/* Frees the lifted bytes before keep, and adds their size to room. */
void pev_ring_free_lifted(struct pev_ring *ring, uint64_t keep, size_t *room);

/*
 * Returns the bytes from position from on, at most up to to, as far as they are in one piece.
 * The bytes must be in the ring or lifted.
 */
struct iovec pev_ring_piece(const struct pev_ring *ring, uint64_t from, uint64_t to);

/*
 * Maps the AUX area of an event whose ring is mapped; bytes must be a power of two of
 * pages. Writable, so that the kernel stops at our tail. -EOPNOTSUPP: the PMU has no
 * AUX area. -EPERM: the mlock budget is exceeded. On failure the ring is unchanged.
 */
int pev_ring_map_aux(struct pev_ring *ring, int fd, size_t bytes);

/*
 * Returns the bytes that an AUX record announces, as far as they are written
 * and not returned yet. Borrowed until pev_ring_aux_pop() of their end.
 */
void pev_ring_aux(const struct pev_ring *ring, uint64_t offset, uint64_t size,
		  struct pev_aux *aux);

/* Returns the number of bytes written and not returned; at most the area's size. */
uint64_t pev_ring_aux_unread(const struct pev_ring *ring);

/* Returns all written bytes before end to the kernel. Ignores an end that is before the tail. */
void pev_ring_aux_pop(struct pev_ring *ring, uint64_t end);

/* Returns the kernel's write position. */
uint64_t pev_ring_aux_head(const struct pev_ring *ring);
