/*
 * ring.h - one mapped perf buffer, from the consumer's side.
 */
#ifndef PEV_RING_H
#define PEV_RING_H

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
	uint64_t head;                     /* the kernel's, as of the last refresh */
	uint64_t tail;                     /* ours: everything before it was read */
	uint64_t published;                /* the tail the kernel has been told */
	uint64_t corrupt;                  /* resynchronised so often */
	unsigned char *wrap;               /* a record that wraps, made whole: 64 KiB */
	/* What lies in one piece where tail stands: position at..end is at piece. */
	const unsigned char *piece;
	uint64_t at, end;
	/*
	 * What was taken out of the ring before it was read, so that the kernel has the room:
	 * position lifted_from..lifted_to is at lifted, all behind it in the ring.
	 */
	unsigned char *lifted;             /* NULL: nothing ever was */
	size_t lifted_cap;
	uint64_t lifted_from, lifted_to;
	/*
	 * A backward ring is overwritten from its end to its beginning, for ever: what
	 * was in it when it was last looked at, newest first. NULL in a normal ring.
	 */
	uint64_t *found;
	uint64_t nr_found;
	/* What a PMU traces into beside the ring; NULL when there is none. */
	unsigned char *aux;
	uint64_t aux_size;                 /* bytes, a power of two of pages */
	uint64_t aux_tail;                 /* ours: everything before it was given back */
};

/* Bytes of the AUX area: one piece, or two where they wrap. */
struct pev_aux {
	const unsigned char *p[2];
	size_t len[2];
};

/*
 * Map the ring of fd: data_bytes must be a power of two of pages.
 * On failure nothing stays mapped. -EPERM: over the mlock budget.
 */
int pev_ring_map(struct pev_ring *ring, const struct pev_sys *sys, int fd, size_t data_bytes);

/*
 * The same for an event with write_backward: mapped read-only, so that the
 * kernel overwrites what is oldest. Refresh while its output is paused
 * (PERF_EVENT_IOC_PAUSE_OUTPUT); then peek and pop go from the oldest record that is
 * whole to the newest.
 */
int pev_ring_map_backward(struct pev_ring *ring, const struct pev_sys *sys, int fd,
			  size_t data_bytes);

/* Safe on one that is not mapped. */
void pev_ring_unmap(struct pev_ring *ring);

/* See what the kernel has written by now; returns the unread bytes (backward: all there are). */
uint64_t pev_ring_refresh(struct pev_ring *ring);

/*
 * Next unread record as of the last refresh, or NULL when there is none.
 *
 * Borrowed: good until pev_ring_pop() or _unmap(). Its size, 8 <= size <= 65528
 * and a multiple of 8, is *size, read once. A header that breaks this cannot be
 * skipped: the ring is moved to head and ring->corrupt goes up by one.
 */
const unsigned char *pev_ring_peek_any(struct pev_ring *ring, uint16_t *size);

/* The same; what nearly all are, a record that lies in a piece that was looked at, at once. */
static inline const unsigned char *pev_ring_peek(struct pev_ring *ring, uint16_t *size)
{
	int64_t there = (int64_t)(ring->end - ring->tail);
	const unsigned char *bytes;

	if (there < (int64_t)sizeof(struct perf_event_header))
		return pev_ring_peek_any(ring, size);
	bytes = ring->piece + (ring->tail - ring->at);
	memcpy(size, bytes + offsetof(struct perf_event_header, size), sizeof(*size));
	if (*size < sizeof(struct perf_event_header) || *size % 8 || *size > there)
		return pev_ring_peek_any(ring, size);
	return bytes;
}

/* Done with the record of that size that peek gave. The kernel is not told yet. */
static inline void pev_ring_pop(struct pev_ring *ring, uint16_t size)
{
	if (ring->found)
		ring->nr_found--;
	else
		ring->tail += size;
}

/* Give what was read back to the kernel: one store a batch. */
void pev_ring_publish(struct pev_ring *ring);

/* Is there something unread that was lifted? */
static inline bool pev_ring_has_lifted(const struct pev_ring *ring)
{
	return (int64_t)(ring->lifted_to - ring->tail) > 0;
}

/* Bytes of unread records that are still in the ring, by its last refresh. */
static inline uint64_t pev_ring_fill(const struct pev_ring *ring)
{
	return ring->head - (pev_ring_has_lifted(ring) ? ring->lifted_to : ring->tail);
}

/*
 * Take all that is in the ring, as of now, out of it, and give the kernel its room: what is not
 * read yet waits in memory, of max bytes at most, and so does what is behind keep, a position
 * up to tail. What was peeked at is somewhere else then. -ENOMEM, -ENOSPC: nothing was moved.
 */
int pev_ring_lift(struct pev_ring *ring, uint64_t keep, size_t max);

/*
 * Where the bytes of position from..to are: at most PEV_RING_PIECES pieces, how many. For
 * those that were neither given back nor let go by a lift.
 */
#define PEV_RING_PIECES 3
int pev_ring_pieces(const struct pev_ring *ring, uint64_t from, uint64_t to,
		    struct iovec *pieces);
/* The same of the len bytes that a refresh has found in a backward ring, newest record first. */
int pev_ring_pieces_backward(const struct pev_ring *ring, uint64_t len, struct iovec *pieces);

/*
 * Map the AUX area of an event whose ring is mapped: bytes must be a power of two
 * of pages. Writable, so that the kernel stops where our tail stands. -EOPNOTSUPP: its
 * PMU has none. -EPERM: over the mlock budget. On failure the ring is as it was.
 */
int pev_ring_map_aux(struct pev_ring *ring, int fd, size_t bytes);

/*
 * The bytes that an AUX record tells of, as far as they are there: written, and
 * not given back yet. Borrowed until pev_ring_aux_pop() of what is before their end.
 */
void pev_ring_aux(const struct pev_ring *ring, uint64_t offset, uint64_t size,
		  struct pev_aux *aux);

/* Written and not given back, bytes; at most the area's size. */
uint64_t pev_ring_aux_unread(const struct pev_ring *ring);

/* Give all before end back to the kernel, as far as it was written; an end before that is none. */
void pev_ring_aux_pop(struct pev_ring *ring, uint64_t end);

/* How far the kernel has written. */
uint64_t pev_ring_aux_head(const struct pev_ring *ring);

#endif
